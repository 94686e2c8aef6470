"""The options of connections and tables, as SQL names them, turned into those of the option specs.

SQL has the names of the YAML files and some more: the words of other SQL engines for the same
things, and Kafka's own properties in quotes. `Reading.fields` gives what stands under a source or a
sink of the tree. Called by `compile`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from headrace.frontend.options import SINK, SOURCE
from headrace.frontend.sql.statements import Fields
from headrace.sinks import SINKS
from headrace.sources import SOURCES
from headrace.spans import Diagnostic, Field, Node, Severity, Span
from headrace.spec import Option, Options, Spec, Type, folded, unknown

CONNECTOR, ROLE = "connector", "type"
# What a sink is called in the pipeline, where that is the name of something else in SQL.
NAME = "name"


class Role(StrEnum):
    SOURCE = "source"
    SINK = "sink"

    @property
    def other(self) -> Role:
        return Role.SINK if self is Role.SOURCE else Role.SOURCE

    @property
    def connectors(self) -> Iterable[str]:
        return SOURCES if self is Role.SOURCE else SINKS

    def spec(self, connector: str) -> Spec:
        return (SOURCES[connector] if self is Role.SOURCE else SINKS[connector]).SPEC

    @property
    def common(self) -> Spec:
        """What every component of the role takes."""
        return SOURCE if self is Role.SOURCE else SINK


# Kafka's names for what is an option of ours, and other engines' words.
_SAME = {
    "auto.offset.reset": "auto_offset_reset",
    "bootstrap.servers": "bootstrap_server",
    "group.id": "group_id",
}
# What other clients need and Headrace does by itself.
_COMMITS = "positions are stored after each finished batch"
_NO_EFFECT = {
    "enable.auto.commit": _COMMITS,
    "commit.interval.ms": _COMMITS,
    "auto.commit.interval.ms": _COMMITS,
}
# Of each group only one can stand: what a table says replaces what its connection says.
_INSTEAD = (
    {"topic", "topics", "topic_pattern"},
    {"offset", "timestamp", "auto_offset_reset"},
    {"format", "serde_config"},
    {"avro_schema", "schema_classpath", "schema_file"},
)
_REGISTRY = "schema_registry"
# What goes by no registry: of a table in such a format, that of its connection is not meant.
_UNREGISTERED = {"json", "raw", "csv"}
# A registry of its own, beside which the login of another says nothing.
_OWN_REGISTRY = {"type", "endpoint", "url"}

# Logins: names and values are checked; what makes them run replaces this.
LOGIN = Spec(
    "login",
    "login",
    "How a cluster is logged into.",
    (
        Option("auth.type", Type.CHOICE, "", choices=("none", "sasl", "aws_msk_iam")),
        Option(
            "auth.mechanism",
            Type.CHOICE,
            "",
            choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"),
        ),
        Option("auth.protocol", Type.CHOICE, "", choices=("SASL_SSL", "SASL_PLAINTEXT")),
        Option("auth.username", Type.TEXT, ""),
        Option("auth.password", Type.TEXT, "", secret=True),
        Option("auth.region", Type.TEXT, ""),
        Option(
            "security.protocol",
            Type.CHOICE,
            "",
            choices=("PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT"),
        ),
        Option("ssl.ca.location", Type.TEXT, ""),
        Option("ssl.certificate.location", Type.TEXT, ""),
        Option("ssl.key.location", Type.TEXT, ""),
        Option("ssl.key.password", Type.TEXT, "", secret=True),
    ),
)
_LOGIN_PREFIXES = ("auth.", "sasl.", "ssl.", "security.")
_PLAIN = {"auth.type": "none", "security.protocol": "PLAINTEXT"}


@dataclass(frozen=True)
class Reading:
    """The options of one component: a connection's, overlaid by a table's own.

    `decided` says that the author gave the role; otherwise options that only the other one has are
    left out without a word.
    """

    connector: str
    role: Role
    decided: bool
    span: Span

    def fields(self, given: Fields) -> tuple[dict[str, Field], list[Diagnostic]]:
        """What a source or sink of the tree has; what no spec knows stays, to be reported."""
        others = (CONNECTOR, ROLE, NAME) if self.role is Role.SINK else (CONNECTOR, ROLE)
        rest = {key: field for key, field in given.items() if key not in others}
        faults: list[Diagnostic] = []
        if self.connector == "kafka":
            rest = folded(_KAFKA, rest)
            faults += _take_login(rest)
            faults += self._kafka(rest)
        found: dict[str, Field] = {}
        for key, field in rest.items():
            name = self._canonical(key)
            if name is None:
                continue
            if name in found:
                spec = self.role.spec(self.connector)
                names = " and ".join(f"`{each}`" for each in spec.option(name).names)
                message = f"{names} are the same option"
                faults.append(Diagnostic("OPTION_TWICE", message, field.key, "keep one of them"))
            else:
                found[name] = field
        return found, faults

    def read(self, fields: Fields) -> tuple[Options, list[Diagnostic]]:
        """The component's own options, without those that are common to all of its role."""
        own = {key: each for key, each in fields.items() if key not in self.role.common.names}
        return self.role.spec(self.connector).read(own, self.span, self.role.common.names)

    def _canonical(self, key: str) -> str | None:
        """The option's first name; None for one that only the other role has."""
        for spec in (self.role.spec(self.connector), self.role.common):
            if key in spec.names:
                return spec.option(key).name
        return key if self.decided or key not in _names(self.connector, self.role.other) else None

    def _kafka(self, rest: dict[str, Field]) -> Iterator[Diagnostic]:
        for key in [key for key in rest if key in _SAME]:
            same, field = _SAME[key], rest.pop(key)
            if same in rest:
                message = f"`{key}` and `{same}` are the same option"
                yield Diagnostic("OPTION_TWICE", message, field.key, "keep one of them")
            elif same in _names("kafka", self.role) or self.decided:
                rest[same] = field
        for key in [key for key in rest if key in _NO_EFFECT]:
            message = f"`{key}` has no effect: {_NO_EFFECT[key]}"
            yield _warning("NO_EFFECT", message, rest.pop(key).key)
        yield from self._properties(rest)
        if self.role is Role.SOURCE:
            yield from _take_offset(rest, self.span)
        else:
            _take_raw(rest)

    def _properties(self, rest: dict[str, Field]) -> Iterator[Diagnostic]:
        """Names with dots that are no option: each is checked where it stands."""
        option = self.role.spec("kafka").option("properties")
        found: dict[str, Field] = {}
        for key in [key for key in rest if _is_property(key)]:
            field = rest.pop(key)
            if isinstance(field.node.value, list | dict):
                message = f"`{key}` must be a single value, and is {field.node.shape}"
                yield Diagnostic("BAD_VALUE", message, field.node.span)
                continue
            problem = option.validate({key: field.node.text}) if option.validate else None
            if problem is None:
                found[key] = field
            elif self.decided or _is_unknown(key, self.role.other):
                yield Diagnostic("UNKNOWN_OPTION", problem, field.key)
        there = rest.get("properties")
        if not found or (there is not None and not isinstance(there.node.value, dict)):
            return  # what is no mapping is reported as that
        first = next(iter(found.values())).key
        if there is not None and isinstance(there.node.value, dict):
            found = there.node.value | found
        rest["properties"] = Field(first, Node(found, first))


def merged(connection: Fields, own: Fields) -> Fields:
    """A connection's options with those of a table over them."""
    connection, own = folded(_KAFKA, connection), folded(_KAFKA, own)
    said = {_first_name(key) for key in own}
    said |= {name for group in _INSTEAD if said & group for name in group}
    if text_of(own, "format", "") in _UNREGISTERED:
        said |= {_REGISTRY, "value_subject"}
    kept = {key: field for key, field in connection.items() if _first_name(key) not in said}
    return _with_login(connection, {**kept, **own})


def _with_login(connection: Fields, whole: Fields) -> Fields:
    """A table's own words about a registry, over those of its connection about the same one."""
    theirs, ours = connection.get(_REGISTRY), whole.get(_REGISTRY)
    if theirs is None or ours is None:
        return whole
    shared, own = theirs.node.value, ours.node.value
    if not isinstance(shared, dict) or not isinstance(own, dict) or own.keys() & _OWN_REGISTRY:
        return whole
    both = Node({**shared, **own}, ours.node.span)
    return {**whole, _REGISTRY: Field(ours.key, both)}


def role_of(fields: Fields) -> tuple[Role | None, list[Diagnostic]]:
    """What `type` says; None where the use decides."""
    field = fields.get(ROLE)
    if field is None:
        return None, []
    text = field.node.text.lower()
    if text in (Role.SOURCE, Role.SINK):
        return Role(text), []
    message = f"`type` must be one of source, sink, and is `{field.node.text}`"
    return None, [Diagnostic("BAD_CHOICE", message, field.node.span)]


def roles(connector: str) -> list[Role]:
    """The roles that a connector can have."""
    return [role for role in Role if connector in role.connectors]


def unknown_connector(name: str, span: Span, connections: Iterable[str] = ()) -> Diagnostic:
    known = {*SOURCES, *SINKS, *connections}
    where = "or a connection that there is" if connections else ""
    return unknown("connector", name, known, span, where)


def flag(fields: Fields, name: str) -> bool:
    """Whether an option is there and true, however it is written."""
    return name in fields and fields[name].node.text.lower() == "true"


def text_of(fields: Fields, name: str, default: str) -> str:
    return fields[name].node.text if name in fields else default


def _names(connector: str, role: Role) -> set[str]:
    """All names that the role knows, those that only SQL has included."""
    if connector not in role.connectors:
        return set()
    own = role.spec(connector).names | role.common.names
    if connector != "kafka":
        return own
    return own | ({"timestamp"} if role is Role.SOURCE else set())


def _is_unknown(key: str, role: Role) -> bool:
    validate = role.spec("kafka").option("properties").validate
    return validate is not None and validate({key: ""}) is not None


def _first_name(key: str) -> str:
    """The name under which an option of Kafka's components is the same as by its other ones."""
    key = _SAME.get(key, key)
    return _ALIASES.get(key, key)


# The options of Kafka's components in both roles.
_KAFKA = tuple(option for role in Role for option in role.spec("kafka").options)
_ALIASES = {alias: option.name for option in _KAFKA for alias in option.aliases}
_MAPPINGS = {name for option in _KAFKA if option.type is Type.MAPPING for name in option.names}


def _is_property(key: str) -> bool:
    """Whether a name with dots in it can only be one of Kafka's client."""
    return "." in key and key not in _ALIASES and key.partition(".")[0] not in _MAPPINGS


def _take_login(rest: dict[str, Field]) -> Iterator[Diagnostic]:
    """Checks and takes out the options of logins, which come later."""
    login = {
        key: rest.pop(key)
        for key in list(rest)
        if key in LOGIN.names or key.startswith(_LOGIN_PREFIXES)
    }
    first = next(iter(login.values()), None)
    if first is not None:
        options, faults = LOGIN.read(login, first.key)
        yield from faults
        login = {key: login[key] for key in options.values if _PLAIN.get(key) != options[key]}
    if login:
        names = ", ".join(f"`{name}`" for name in login)
        message = f"{names}: understood, and nothing runs with it yet"
        place = next(iter(login.values())).key
        yield Diagnostic("NOT_YET", message, place, "logins of Kafka come next")


_BEGINNINGS = {"earliest": "earliest", "latest": "latest", "none": "none"}


def _take_offset(rest: dict[str, Field], span: Span) -> Iterator[Diagnostic]:
    """`offset = 'earliest'`, or `'timestamp'` with a `timestamp`, as the options that say so.

    Without a word a table is read from its beginning; `auto_offset_reset = 'default'` leaves it to
    the mode, as a YAML file does.
    """
    asked, time = rest.get("offset"), rest.pop("timestamp", None)
    by_mode = text_of(rest, "auto_offset_reset", "").lower() == "default"
    if by_mode:
        del rest["auto_offset_reset"]
    if asked is None or isinstance(asked.node.value, dict):
        if time is not None:
            message = "`timestamp` goes with `offset = 'timestamp'`"
            yield Diagnostic("CONFLICT", message, time.key, "add it, or remove `timestamp`")
        if "auto_offset_reset" not in rest and not by_mode:
            rest["auto_offset_reset"] = Field(span, Node("earliest", span))
        return
    del rest["offset"]
    word = asked.node.text.lower()
    if word == "timestamp" and time is None:
        message = "`offset = 'timestamp'` needs a `timestamp`"
        hint = "add `timestamp = '2026-03-01T12:00:00Z'`"
        yield Diagnostic("MISSING_OPTION", message, asked.node.span, hint)
    elif word == "timestamp" and time is not None:
        kind = Field(asked.key, Node("timestamp", asked.node.span))
        value = {"type": kind, "value": time}
        rest["offset"] = Field(asked.key, Node(value, time.node.span))
        rest.setdefault("auto_offset_reset", Field(asked.key, Node("earliest", asked.node.span)))
    elif word in _BEGINNINGS:
        if "auto_offset_reset" in rest:
            message = "`offset` and `auto_offset_reset` say the same"
            yield Diagnostic("OPTION_TWICE", message, asked.key, "keep one of them")
        rest["auto_offset_reset"] = Field(asked.key, Node(word, asked.node.span))
    else:
        message = f"`offset` must be earliest, latest or timestamp, and is `{asked.node.text}`"
        hint = "a number is written `offset = ( type = 'int', value = 1000 )`"
        yield Diagnostic("BAD_CHOICE", message, asked.node.span, hint)
        rest.setdefault("auto_offset_reset", Field(asked.key, Node("earliest", asked.node.span)))
    if word != "timestamp" and time is not None:
        message = f"`timestamp` has no effect with `offset = '{asked.node.text}'`"
        yield Diagnostic("CONFLICT", message, time.key, "write `offset = 'timestamp'`")


def _take_raw(rest: dict[str, Field]) -> None:
    """Of a Kafka sink that writes bytes as they are, these are the column `value`."""
    if text_of(rest, "format", "") == "raw":
        form = rest["format"]
        rest.setdefault("value", Field(form.key, Node("value", form.node.span)))


def _warning(code: str, message: str, span: Span) -> Diagnostic:
    return Diagnostic(code, message, span, severity=Severity.WARNING)
