"""Options: what a component accepts, described once.

An `Option` has a name, a type, a default and a sentence of help. A `Spec` is the list of them that
one source, sink or step takes; `Spec.read` turns the nodes of a definition into `Options` and
reports every fault. The option reference, the JSON Schema, `explain` and redaction are made from
the same objects.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headrace.spans import Diagnostic, Field, Node, Severity, Span, short

HIDDEN = "(hidden)"  # stands for the value of a secret wherever values are shown


class Type(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    FLAG = "true or false"
    CHOICE = "choice"
    LIST = "list of text"
    PROPERTIES = "mapping of text"
    EXPRESSIONS = "mapping of SQL, or list of names"
    DURATION = "duration"
    MAPPING = "mapping"
    MAPPINGS = "list of mappings"


@dataclass(frozen=True)
class Option:
    """One option. `validate` returns what is wrong with a value of the right type, or None.

    `fields` are the options inside one that is a mapping or a list of mappings, whose value is an
    `Options` or a tuple of them; with `flag` a mapping may also be just true or false. `renamed`
    are old words for choices, taken with a warning.
    """

    name: str
    type: Type
    help: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[Option, ...] = ()
    flag: bool = False
    aliases: tuple[str, ...] = ()
    minimum: int | None = None
    example: str | None = None
    secret: bool = False
    nullable: bool = False
    validate: Callable[[Any], str | None] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def inside(self) -> Spec:
        """What a mapping under this option is read by."""
        return Spec("option", self.name, self.help, self.fields)


@dataclass(frozen=True, repr=False)
class Options:
    """The values that a definition sets, completed by the defaults of their spec.

    Two are equal when they set the same values, wherever they stand.
    """

    spec: Spec = field(compare=False)
    values: Mapping[str, Any]
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False)
    span: Span = field(default=Span("", 1, 1), compare=False)
    # Options that a misspelt name may stand for.
    meant: frozenset[str] = field(default=frozenset(), compare=False)
    # Options whose value came from a secret.
    hidden: frozenset[str] = field(default=frozenset(), compare=False)

    def __repr__(self) -> str:
        shown = {
            name: HIDDEN if name in self.hidden else self._shown(name, value)
            for name, value in self.values.items()
        }
        return f"Options({shown})"

    def __getitem__(self, name: str) -> Any:
        return self.values[name] if name in self.values else self.spec.option(name).default

    def __contains__(self, name: str) -> bool:
        """Whether the definition sets it; a default does not count."""
        return name in self.values

    def at(self, name: str) -> Span:
        """Where it is set, or where the component begins."""
        return self.spans.get(name, self.span)

    @property
    def secrets(self) -> Iterator[tuple[str, str]]:
        """The texts that must not be shown, each with the option that it stands under."""
        for option in self.spec.options:
            value = self[option.name]
            if isinstance(value, Options):
                yield from ((option.name, text) for _, text in value.secrets)
            elif option.secret or option.name in self.hidden:
                yield from ((option.name, text) for text in _texts(value))

    def setting(self, name: str, option: str, value: object | None = None) -> Setting:
        """The property `name`, whose value is that of `option` or follows from it."""
        origin = f"{option} ({self.at(option)})" if option in self else f"{option} (default)"
        shown = self._shown(option, self[option] if value is None else value)
        return Setting(name, str(shown), origin)

    def _shown(self, option: str, value: object) -> object:
        return HIDDEN if self.spec.option(option).secret else value


def _texts(value: object) -> Iterator[str]:
    """All text in a value."""
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, dict):
        yield from (text for each in value.values() for text in _texts(each))
    elif isinstance(value, tuple):
        yield from (text for each in value for text in _texts(each))


def hide(value: Any, secrets: Collection[str]) -> Any:
    """A plain value without the texts that must not be shown, wherever they stand in it.

    A text of fewer than four letters is too likely to be part of others that are no secret.
    """
    if isinstance(value, str):
        for secret in sorted(secrets, key=len, reverse=True):
            value = value.replace(secret, HIDDEN) if len(secret) >= 4 else value
        return value
    if isinstance(value, dict):
        return {key: hide(each, secrets) for key, each in value.items()}
    return [hide(each, secrets) for each in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Expression:
    """What stands under a name: SQL, or in a list of names nothing more than the name."""

    name: str
    sql: str | None
    span: Span = field(compare=False)


@dataclass(frozen=True)
class Setting:
    """A property that Spark or Kafka gets, and why it has the value it has."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True)
class Spec:
    """The options of one component; `kind` is source or sink, `name` its connector_type."""

    kind: str
    name: str
    summary: str
    options: tuple[Option, ...]

    def option(self, name: str) -> Option:
        return next(option for option in self.options if name in option.names)

    @property
    def names(self) -> set[str]:
        """Every name that an option of it may have."""
        return {name for option in self.options for name in option.names}

    def read(
        self, fields: Mapping[str, Field], span: Span, others: Iterable[str] = ()
    ) -> tuple[Options, list[Diagnostic]]:
        """The options set in `fields`, and all that is wrong with them.

        `others` are keys that may stand beside them and are read elsewhere: only for suggestions.
        """
        values: dict[str, Any] = {}
        spans: dict[str, Span] = {}
        faults: list[Diagnostic] = []
        meant: set[str] = set()
        hidden: set[str] = set()
        by_name = {name: option for option in self.options for name in option.names}
        for key, entry in folded(self.options, fields).items():
            option = by_name.get(key)
            head, _, inner = key.partition(".")
            outer = by_name.get(head) if inner else None
            if option is None and outer is not None and outer.type is Type.MAPPING:
                message = f"`{key}` is said by `{outer.name}`, too"
                faults.append(Diagnostic("OPTION_TWICE", message, entry.key, "keep one of them"))
            elif option is None:
                known = {*by_name, *others}
                faults.append(unknown("option", key, known, entry.key, f"of {self.title}"))
                meant.update(by_name[name].name for name in nearest(key, by_name))
            elif option.name in values:
                faults.append(_set_twice(option, entry.key))
            else:
                value, wrong = _convert(option, entry.node)
                faults.extend(wrong)
                values[option.name] = value
                spans[option.name] = entry.node.span
                hidden |= {option.name} if entry.node.has_secret else set()
        # A misspelt option is one fault, not also a missing one.
        faults.extend(self._missing({*values, *meant}, span))
        read = Options(self, values, spans, span, frozenset(meant), frozenset(hidden))
        return read, faults

    @property
    def title(self) -> str:
        if self.kind == "option":
            return f"`{self.name}`"
        return f"the {self.name} {self.kind}" if self.name != self.kind else f"a {self.kind}"

    def _missing(self, known: set[str], span: Span) -> Iterator[Diagnostic]:
        for option in self.options:
            if option.required and option.name not in known:
                example = f"add `{option.name}: {option.example or '…'}`"
                yield Diagnostic(
                    "MISSING_OPTION", f"{self.title} needs `{option.name}`", span, example
                )


def folded(options: Iterable[Option], fields: Mapping[str, Field]) -> dict[str, Field]:
    """`a.b`, where the option `a` is a mapping, as what stands under `b` in it.

    What is said in the mapping already stays as it is; `Spec.read` reports it.
    """
    mappings = [option for option in options if option.type is Type.MAPPING]
    by_name = {name: option for option in mappings for name in option.names}
    found: dict[str, Field] = {}
    for key, entry in fields.items():
        head, _, name = key.partition(".")
        if not name or head not in by_name:
            found.setdefault(key, entry)
            continue
        outer = next((each for each in by_name[head].names if each in fields), head)
        empty = Field(entry.key, Node({}, entry.key))
        there = found.get(outer) or fields.get(outer) or empty
        inside = there.node.value
        if isinstance(inside, dict) and name not in inside:
            found[outer] = Field(there.key, Node({**inside, name: entry}, there.node.span))
        else:
            found[key] = entry
    return found


def unknown(what: str, name: str, known: Iterable[str], span: Span, where: str = "") -> Diagnostic:
    """`name` is not one of `known`; the hint is the nearest, or all when they are few."""
    names = sorted(known)
    close = nearest(name, names)
    if close:
        hint = f"did you mean `{close[0]}`?"
    elif names and len(names) <= 12:
        hint = "known: " + ", ".join(names)
    else:
        hint = None
    code = f"UNKNOWN_{what.upper().replace(' ', '_')}"
    text = f"`{name}` is not {_article(what)} {what}" + (f" {where}" if where else "")
    return Diagnostic(code, text, span, hint)


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The one that `name` may be a misspelling of, if any."""
    return difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _set_twice(option: Option, span: Span) -> Diagnostic:
    names = " and ".join(f"`{name}`" for name in option.names)
    return Diagnostic("OPTION_TWICE", f"{names} are the same option", span, "keep one of them")


def _convert(option: Option, node: Node) -> tuple[Any, list[Diagnostic]]:
    """The node's value in the option's type; on a fault the default stands in for it."""
    if option.nullable and node.value is None:
        return option.default, []
    if option.type in (Type.MAPPING, Type.MAPPINGS):
        return _nested(option, node)
    warnings = list(_renamed(option, node))
    try:
        value = _CONVERTERS[option.type](option, node)
        problem = option.validate(value) if option.validate else None
    except ValueError as error:
        problem = str(error)
    if problem and (option.secret or node.has_secret):
        problem = f"is not {_article(option.type)} {option.type} that may stand here"
    if problem:
        code = "BAD_CHOICE" if option.type is Type.CHOICE else "BAD_VALUE"
        hint = f"for example `{option.name}: {option.example}`" if option.example else None
        return option.default, [Diagnostic(code, f"`{option.name}` {problem}", node.span, hint)]
    return value, warnings


def _nested(option: Option, node: Node) -> tuple[Any, list[Diagnostic]]:
    """A mapping, or a list of them, read by the options inside."""
    if option.flag and str(node.value).lower() in ("true", "false"):
        return _flag(option, node), []
    several = option.type is Type.MAPPINGS
    items = node.value if several and isinstance(node.value, list) else [node]
    faults: list[Diagnostic] = []
    read: list[Options] = []
    for item in items:
        if isinstance(item.value, dict):
            options, wrong = option.inside.read(item.value, item.span)
            faults.extend(wrong)
            read.append(options)
        else:
            wanted = "a list of mappings" if several else "a mapping"
            message = f"`{option.name}` must be {wanted}, and is {item.shape}"
            hint = f"for example `{option.name}: {option.example}`" if option.example else None
            faults.append(Diagnostic("BAD_VALUE", message, item.span, hint))
    whole = tuple(read) if several else next(iter(read), None)
    if any(fault.severity is Severity.ERROR for fault in faults) or whole is None:
        return option.default, faults
    problem = option.validate(whole) if option.validate else None
    if problem:
        faults.append(Diagnostic("BAD_VALUE", f"`{option.name}` {problem}", node.span))
        return option.default, faults
    return whole, faults


def _renamed(option: Option, node: Node) -> Iterator[Diagnostic]:
    if isinstance(node.value, str) and node.value in option.renamed:
        message = f"`{option.name}: {node.value}` is an old word for `{option.renamed[node.value]}`"
        hint = f"write `{option.name}: {option.renamed[node.value]}`"
        yield Diagnostic("OLD_WORD", message, node.span, hint, Severity.WARNING)


def _text(_option: Option, node: Node) -> str:
    # YAML reads `topic: 2024` as a number; what was written is what was meant.
    if isinstance(node.value, bool) or not isinstance(node.value, str | int | float):
        raise ValueError(f"must be text, and is {node.shape}")  # noqa: TRY004
    if not node.text.strip():
        raise ValueError("is empty")
    return node.text


_WHOLE = re.compile(r"[-+]?[0-9]{1,30}")
_LARGEST = 2**63 - 1  # of a number in Spark and Kafka


def _integer(option: Option, node: Node) -> int:
    value = node.value
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        shape = f"`{short(node.text)}`" if isinstance(value, str | float) else node.shape
        raise ValueError(f"must be a whole number, and is {shape}")  # noqa: TRY004
    if abs(value) > _LARGEST:
        raise ValueError(f"must be at most {_LARGEST}, and is {value}")
    if option.minimum is not None and value < option.minimum:
        raise ValueError(f"must be at least {option.minimum}, and is {value}")
    return value


def _flag(_option: Option, node: Node) -> bool:
    if isinstance(node.value, bool):
        return node.value
    if isinstance(node.value, str) and node.value.lower() in ("true", "false"):
        return node.value.lower() == "true"
    raise ValueError(f"must be true or false, and is {node.shape}")


def _choice(option: Option, node: Node) -> str:
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool):
        value = node.text
    if isinstance(value, str):
        value = option.renamed.get(value, value)
    if isinstance(value, str) and value in option.choices:
        return value
    close = nearest(value, option.choices) if isinstance(value, str) else []
    guess = f"; did you mean `{close[0]}`?" if close else ""
    shown = node.shape if isinstance(value, list | dict | None) else f"`{short(node.text)}`"
    raise ValueError(f"must be one of {', '.join(option.choices)}, and is {shown}{guess}")


def _list(_option: Option, node: Node) -> tuple[str, ...]:
    """A list, or text with commas, which is how the same thing is said in SQL."""
    if isinstance(node.value, str | int | float) and not isinstance(node.value, bool):
        items = [item.strip() for item in node.text.split(",")]
    elif isinstance(node.value, list):
        wrong = [item for item in node.value if not isinstance(item.value, str | int | float)]
        if wrong:
            raise ValueError(f"must be a list of text, and holds {wrong[0].shape}")
        items = [item.text.strip() for item in node.value]
    else:
        raise ValueError(f"must be a list of text, and is {node.shape}")  # noqa: TRY004
    if not items or not all(items):
        raise ValueError("has an empty entry" if any(items) else "is empty")
    return tuple(items)


def _properties(_option: Option, node: Node) -> dict[str, str]:
    if not isinstance(node.value, dict):
        raise ValueError(f"must be a mapping of names to values, and is {node.shape}")  # noqa: TRY004
    result = {}
    for key, entry in node.value.items():
        if isinstance(entry.node.value, list | dict) or entry.node.value is None:
            raise ValueError(f"`{key}` must be a single value, and is {entry.node.shape}")
        value = entry.node.value
        result[key] = str(value).lower() if isinstance(value, bool) else entry.node.text
    return result


def _expressions(_option: Option, node: Node) -> tuple[Expression, ...]:
    """SQL by name, with the place of each; or names alone."""
    if isinstance(node.value, dict):
        found = [_expression(name, entry.node) for name, entry in node.value.items()]
    elif isinstance(node.value, list):
        wrong = [item for item in node.value if not isinstance(item.value, str)]
        if wrong:
            raise ValueError(f"must be a list of names, and holds {wrong[0].shape}")
        found = [Expression(item.text.strip(), None, item.span) for item in node.value]
    else:
        wanted = "a mapping of names to SQL, or a list of names"
        raise ValueError(f"must be {wanted}, and is {node.shape}")  # noqa: TRY004
    names = [each.name.lower() for each in found]
    if not names or not all(names):
        raise ValueError("has an empty name" if names else "is empty")
    twice = next((each.name for each in found if names.count(each.name.lower()) > 1), None)
    if twice is not None:
        raise ValueError(f"names `{twice}` twice")
    return tuple(found)


def _expression(name: str, node: Node) -> Expression:
    if isinstance(node.value, list | dict | None) or not node.text.strip():
        raise ValueError(f"`{name}` must be SQL, and is {node.shape}")
    return Expression(name.strip(), node.text, node.span)


_UNITS = {
    "ms": 1,
    **dict.fromkeys(("s", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_DURATION = re.compile(r"([0-9]{1,12}) *([a-z]+)")


def _duration(_option: Option, node: Node) -> int:
    """Milliseconds, from `500ms`, `2 s`, `5m`, `1 hour` or `2 days`."""
    shown = node.shape if isinstance(node.value, list | dict | None) else f"`{short(node.text)}`"
    match = _DURATION.fullmatch(node.text.strip().lower()) if shown.startswith("`") else None
    if match is None or match.group(2) not in _UNITS:
        raise ValueError(f"must be a duration such as 500ms, 2s or 5m, and is {shown}")
    return int(match.group(1)) * _UNITS[match.group(2)]


_CONVERTERS: dict[Type, Callable[[Option, Node], Any]] = {
    Type.TEXT: _text,
    Type.INTEGER: _integer,
    Type.FLAG: _flag,
    Type.CHOICE: _choice,
    Type.LIST: _list,
    Type.PROPERTIES: _properties,
    Type.EXPRESSIONS: _expressions,
    Type.DURATION: _duration,
}
