"""What may stand at a place of a statement that is being typed: keywords, names, options, columns.

`suggest` takes the text and the place of the cursor, and gives what fits there. Only words are
looked at, so that it works in statements that are not finished or wrong. Nothing is asked over the
network; the catalog is the only source of names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from headrace.formats.options import REGISTRY
from headrace.frontend.options import PIPELINE
from headrace.frontend.sql.options import CONNECTOR, LOGIN, ROLE, Role, roles
from headrace.frontend.sql.statements import SHOWN, Kind
from headrace.frontend.sql.tokens import Sort, Token, begins_block, name, tokenize
from headrace.frontend.sql.types import NAMES as TYPES
from headrace.model.functions import AGGREGATES, GENERATORS, TIME_WINDOWS
from headrace.shell.names import Names
from headrace.shell.settings import SETTINGS
from headrace.shell.system import SCHEMA
from headrace.shell.system_tables import TABLES
from headrace.sinks import SINKS
from headrace.sources import SOURCES
from headrace.spec import Option, Type

_STATEMENTS = {
    "CREATE": "a connection, table, view, pipeline or secret",
    "SELECT": "look at data; nothing moves",
    "WITH": "look at data, by parts",
    "INSERT": "keep and start a pipeline into a table",
    "SHOW": "what is there",
    "DESCRIBE": "one thing in detail",
    "EXPLAIN": "what a pipeline will do and promises",
    "START": "run a pipeline in the background",
    "STOP": "end it after its batch",
    "PAUSE": "stop it until RESUME",
    "RESUME": "go on after PAUSE",
    "DROP": "remove a definition",
    "SET": "how much a SELECT reads and shows",
}
_KINDS = [kind.upper() for kind in Kind]
_AFTER_NAME = {
    "CONNECTION": ["TO"],
    "TABLE": ["WITH"],
    "VIEW": ["AS", "WITH"],
    "PIPELINE": ["AS", "WITH"],
    "SECRET": ["AS", "FROM ENV"],
}
_CLAUSES = (
    *("SELECT", "DISTINCT", "FROM", "WHERE", "AND", "OR", "NOT", "NULL", "IN", "LIKE", "BETWEEN"),
    *("IS", "AS", "CASE", "WHEN", "THEN", "ELSE", "END", "JOIN", "LEFT", "RIGHT", "FULL", "INNER"),
    *("CROSS", "ON", "USING", "ORDER", "GROUP", "BY", "HAVING", "LIMIT", "UNION", "ALL", "EXCEPT"),
    *("INTERVAL", "CAST", "WITH", "OVER", "PARTITION", "TRUE", "FALSE", "ASC", "DESC", "LATERAL"),
    *("VIEW", "EXISTS"),
)
_FUNCTIONS = sorted(
    {
        *(each for each in AGGREGATES if not each.startswith(("hll_", "kll_", "theta_", "tuple_"))),
        *GENERATORS,
        *TIME_WINDOWS,
        *("coalesce", "concat", "date_trunc", "from_json", "hash", "if", "length", "lower"),
        *("now", "round", "split", "to_json", "trim", "try_variant_get", "upper", "variant_get"),
        *("tumble", "hop", "session", "unnest", "test_connection"),
    }
)
_VERBS = ("START", "STOP", "PAUSE", "RESUME")
_FLAGS = ("true", "false")
_SECRET = "${secret:"

# The options of a list that are set already; those that it takes, or the texts that they may be.
Given = Mapping[str, str]
Accepted = dict[str, Option | Iterable[str]]


@dataclass(frozen=True)
class Suggestion:
    """`text` takes the place of the `typed` letters before the cursor."""

    text: str
    help: str = ""
    typed: int = field(default=0, compare=False)


def suggest(text: str, cursor: int, names: Names) -> list[Suggestion]:
    """What may come at the cursor, the likeliest first."""
    place = _Place(text, cursor, names)
    found = [each for each in place.candidates() if _fits(each.text, place.typed)]
    return [_placed(each, place) for each in dict.fromkeys(found)]


def _fits(candidate: str, typed: str) -> bool:
    """A name that must be quoted is found without its quote, too."""
    matched = candidate if typed.startswith("'") else candidate.lstrip("'")
    return matched.lower().startswith(typed.lower()) and candidate != typed


def _placed(suggestion: Suggestion, place: _Place) -> Suggestion:
    text = suggestion.text
    if text.isupper() and place.typed.islower() and place.quote is None:
        text = text.lower()  # keywords as their author writes them
    return Suggestion(text, suggestion.help, len(place.typed))


def _words(*words: str) -> Iterator[Suggestion]:
    return (Suggestion(word) for word in words)


def _listed(told: Mapping[str, str]) -> Iterator[Suggestion]:
    return (Suggestion(word, help) for word, help in told.items())


class _Place:
    """A cursor in a statement: what was typed of the word there, and the words before it."""

    def __init__(self, text: str, cursor: int, names: Names) -> None:
        self.names = names
        before = tokenize(text[:cursor])[:-1]
        self.typed, self.quote = "", None
        if before and before[-1].end == cursor:
            last = before[-1]
            if last.sort is Sort.OPEN and last.key in ("'", '"', "`"):
                self.typed, self.quote = last.text[1:], last.key
                before.pop()
            elif last.sort is Sort.WORD:
                self.typed = before.pop().text
        self.words = _statement(before)
        gap = text[before[-1].end if before else 0 : cursor]
        rest = tokenize(text[cursor:])
        end = next((at for at, each in enumerate(rest) if each.key == ";"), -1)
        self.after = rest[:end]
        in_comment = "--" in gap.rpartition("\n")[2]
        self.nothing = in_comment or any(each.sort is Sort.OPEN for each in before)

    @cached_property
    def keys(self) -> list[str]:
        return [word.key for word in self.words]

    @property
    def kind(self) -> str:
        """What a CREATE creates, else empty."""
        head = (
            [key for key in self.keys[1:5] if key in _KINDS] if self.keys[:1] == ["CREATE"] else []
        )
        return head[0] if head else ""

    def candidates(self) -> Iterator[Suggestion]:
        if self.nothing:
            return
        if _SECRET in self.typed and self.quote:
            start = self.typed[: self.typed.rfind(_SECRET)]
            yield from _words(*(f"{start}{_SECRET}{each}}}" for each in self.names.secrets))
        elif (listed := self._option_list()) is not None:
            yield from listed
        elif self._is_called("TEST_CONNECTION"):
            yield from self._quoted([*self.names.of(Kind.CONNECTION), *self.names.of(Kind.TABLE)])
        elif self.quote is None:
            yield from self._outside()

    # Options

    def _option_list(self) -> Iterator[Suggestion] | None:
        """None where the cursor is not in one."""
        opened = _innermost(self.words)
        if opened is None or opened == 0:
            return None
        before = self.keys[opened - 1]
        if self.kind == "CONNECTION" and self.keys[opened - 2] == "TO":
            connector = name(self.words[opened - 1]).lower()
            return self._options(opened, lambda _given: _component(connector, _given))
        if before != "WITH":
            return None
        if self.kind == "TABLE":
            return self._options(opened, self._of_table)
        if self.kind == "PIPELINE":
            return self._options(opened, self._of_pipeline)
        if self.keys[0] == "START":
            return self._options(opened, lambda _given: {"once": _FLAGS})
        return iter(())

    def _options(
        self,
        opened: int,
        known: Callable[[Mapping[str, str]], Mapping[str, Option | Iterable[str]]],
    ) -> Iterator[Suggestion]:
        entries = _entries(self.words[opened + 1 :])
        given = {name(entry[0]).lower(): name(entry[2]) for entry in entries[:-1] if len(entry) > 2}
        current = entries[-1]
        options = known(given)
        if not current:
            for option, about in options.items():
                if option not in given:
                    yield self._option_name(option, about)
        elif len(current) == 2 and current[1].key == "=":
            yield from self._values(options.get(name(current[0]).lower()))

    def _option_name(self, option: str, about: Option | Iterable[str]) -> Suggestion:
        help = about.help.partition(". ")[0] if isinstance(about, Option) else ""
        if self.quote is not None:
            return Suggestion(f"{option}{self.quote} = ", help)
        return Suggestion(f"'{option}' = " if "." in option else f"{option} = ", help)

    def _values(self, about: Option | Iterable[str] | None) -> Iterator[Suggestion]:
        if isinstance(about, Option):
            if about.type is Type.FLAG:
                yield from _words(*_FLAGS)
            elif about.secret:
                yield from self._quoted(f"{_SECRET}{each}}}" for each in self.names.secrets)
            else:
                yield from self._quoted(about.choices)
        elif about is _FLAGS:
            yield from _words(*_FLAGS)
        elif about is not None:
            yield from self._quoted(about)

    def _quoted(self, texts: Iterable[str]) -> Iterator[Suggestion]:
        """Texts in the quote that is open, or in one of their own."""
        if self.quote is not None:
            return _words(*(f"{each}{self.quote}" for each in texts))
        return _words(*(f"'{each}'" for each in texts))

    def _of_table(self, given: Given) -> Accepted:
        kinds = [*self.names.known.connections, *{**SOURCES, **SINKS}]
        named = given.get(CONNECTOR)
        own = _component(self.names.connector(named), given) if named else {}
        return {CONNECTOR: kinds, **own}

    def _of_pipeline(self, _given: Given) -> Accepted:
        sinks = [*self.names.known.tables, *self.names.known.connections]
        own: Accepted = {each.name: each for each in PIPELINE.options}
        own.pop("pipeline", None)
        return {"sink": sinks, **own}

    # Words and names

    def _outside(self) -> Iterator[Suggestion]:
        if self._after_dot():
            yield from self._of_qualifier(self.words[-2])
            return
        if not self.words:
            yield from _listed(_STATEMENTS)
            return
        if self.keys[0] in _QUERYING or "SELECT" in self.keys:
            yield from self._in_query()
            return
        yield from self._in_statement()

    def _in_statement(self) -> Iterator[Suggestion]:
        first, last = self.keys[0], self.keys[-1]
        if first == "CREATE":
            yield from self._in_create(last)
        elif first == "INSERT":
            yield from self._in_insert(last)
        elif first in _VERBS:
            known = _words(*self.names.of(Kind.PIPELINE)) if last == "PIPELINE" else None
            yield from known or (_words("PIPELINE") if last == first else iter(()))
        elif first == "DROP":
            yield from self._in_drop(last)
        elif first == "SHOW":
            yield from self._in_show(last)
        elif first in ("DESCRIBE", "DESC"):
            yield from self._named(last, [*_KINDS])
        elif first == "EXPLAIN":
            words = ["PIPELINE", "SELECT", "INSERT", "CREATE", *(["CODE"] if last == first else [])]
            yield from self._named(last, words, "EXPLAIN", "CODE")
        elif first == "SET":
            if last == "SET":
                yield from _listed({each: about.help for each, about in SETTINGS.items()})
            elif last == "=":
                yield from _words("all")

    def _named(self, last: str, words: Sequence[str], *starts: str) -> Iterator[Suggestion]:
        """All names after the first word, those of a kind after its word."""
        if last in (starts or self.keys[:1]):
            yield from _listed(self.names.all)
            yield from _words(*words)
        elif last in _KINDS:
            yield from _words(*self.names.of(Kind(last.lower())))

    def _in_create(self, last: str) -> Iterator[Suggestion]:
        opened = _innermost(self.words)
        if opened is not None:
            yield from self._in_columns(opened)
        elif last in ("CREATE", "REPLACE"):
            yield from _words(*_KINDS, *(["OR REPLACE"] if last == "CREATE" else []))
        elif last == "OR":
            yield from _words("REPLACE")
        elif last in _KINDS:
            yield from _words("IF NOT EXISTS")
        elif last == "TO":
            yield from _words(*{**SOURCES, **SINKS})
        elif last == "AS" and self.kind in ("VIEW", "PIPELINE"):
            yield from _words("SELECT", *(["BEGIN", "INSERT INTO"] * (self.kind == "PIPELINE")))
        elif last == ")" or self._names_thing():
            yield from _words(*_AFTER_NAME.get(self.kind, ()))

    def _in_columns(self, opened: int) -> Iterator[Suggestion]:
        """`name TYPE NOT NULL`, one after the other."""
        current = _entries(self.words[opened + 1 :])[-1]
        if not current:
            yield from _words("WATERMARK FOR")
        elif len(current) == 1:
            yield from _words(*sorted(TYPES))
        else:
            yield from _words("NOT NULL", "GENERATED ALWAYS AS")

    def _names_thing(self) -> bool:
        """Whether the word before the cursor is the name of what is created."""
        if not self.kind:
            return False
        return self.words[-1].sort is not Sort.SYMBOL and self.keys[-2] in (self.kind, "EXISTS")

    def _in_insert(self, last: str) -> Iterator[Suggestion]:
        if last == "INSERT":
            yield from _words("INTO")
        elif last == "INTO":
            yield from _words(*self.names.of(Kind.TABLE))
        else:
            yield from _words("SELECT")

    def _in_drop(self, last: str) -> Iterator[Suggestion]:
        if last == "DROP":
            yield from _words(*_KINDS)
        elif last in _KINDS:
            yield from _words(*self.names.of(Kind(last.lower())), "IF EXISTS")
        elif last == "EXISTS":
            yield from _words(*self.names.of(Kind(self.keys[1].lower())))
        else:
            yield from _words("CASCADE", *(["PURGE"] * (self.keys[1] == "PIPELINE")))

    def _in_show(self, last: str) -> Iterator[Suggestion]:
        if last == "SHOW":
            yield from _words(*(each.upper() for each in SHOWN), "CREATE")
        elif last == "CREATE":
            yield from _listed(self.names.all)

    def _in_query(self) -> Iterator[Suggestion]:
        last = self.keys[-1]
        if last in ("FROM", "JOIN"):
            yield from _listed(self.names.readable)
        elif last == "INTO":
            yield from _words(*self.names.of(Kind.TABLE))
        else:
            for table in dict.fromkeys(self._tables().values()):
                yield from _listed(self.names.columns(table))
            yield from _words(*_CLAUSES)
            yield from _words(*(f"{each}(" for each in _FUNCTIONS))

    def _after_dot(self) -> bool:
        return len(self.words) > 1 and self.keys[-1] == "."

    def _of_qualifier(self, word: Token) -> Iterator[Suggestion]:
        qualifier = name(word).lower()
        if qualifier == SCHEMA:
            yield from _listed({each: table.summary for each, table in TABLES.items()})
        else:
            yield from _listed(self.names.columns(self._tables().get(qualifier, qualifier)))

    def _tables(self) -> dict[str, str]:
        """The tables that the statement reads, by the names that they have in it."""
        words = [*self.words, *self.after]
        found: dict[str, str] = {}
        for at, word in enumerate(words):
            if word.key not in ("FROM", "JOIN"):
                continue
            parts = words[at + 1 : at + 6]
            size = 3 if len(parts) > 2 and parts[1].key == "." else 1
            table = ".".join(name(each) for each in parts[:size:2] if each.sort in _NAMED)
            rest = [each for each in parts[size:] if each.key != "AS"]
            alias = rest[0] if rest and rest[0].sort in _NAMED else None
            aliased = alias is not None and alias.key not in _CLAUSES
            found[name(alias).lower() if aliased and alias else table.split(".")[-1].lower()] = (
                table
            )
        return found

    def _is_called(self, function: str) -> bool:
        return self.keys[-2:] == [function, "("]


_NAMED = (Sort.WORD, Sort.QUOTED)
_QUERYING = ("SELECT", "WITH", "FROM", "VALUES")


def _statement(words: list[Token]) -> list[Token]:
    """The words of the last statement; one inside `BEGIN … END` is a statement, too."""
    start = 0
    for at, word in enumerate(words):
        if word.key == ";" or begins_block(words, at):
            start = at + 1
    return words[start:]


def _innermost(words: list[Token]) -> int | None:
    """Where the parenthesis stands that the cursor is in, if it is in one."""
    opened: list[int] = []
    for at, word in enumerate(words):
        if word.key == "(":
            opened.append(at)
        elif word.key == ")" and opened:
            opened.pop()
    return opened[-1] if opened else None


def _entries(words: Sequence[Token]) -> list[list[Token]]:
    """What stands between the commas of a list; the last is the one that is being typed."""
    entries: list[list[Token]] = [[]]
    depth = 0
    for word in words:
        depth += (word.key == "(") - (word.key == ")")
        if word.key == "," and depth == 0:
            entries.append([])
        else:
            entries[-1].append(word)
    return entries


def _component(connector: str, given: Given) -> Accepted:
    """The options of a connector in the role that is given, or in all that it can have."""
    possible = roles(connector)
    chosen = [role for role in possible if given.get(ROLE, role) == role]
    found: Accepted = {ROLE: [str(role) for role in Role]}
    for role in chosen:
        for spec in (role.spec(connector), role.common):
            for option in spec.options:
                found.setdefault(_spelt(option), option)
    if connector == "kafka":
        found |= {option.name: option for option in LOGIN.options}
        found |= {f"{REGISTRY.name}.{option.name}": option for option in REGISTRY.fields}
    return found


def _spelt(option: Option) -> str:
    """As SQL usually has it."""
    return _USUAL.get(option.name, option.name)


_USUAL = {"bootstrap_server": "bootstrap_servers", "consumer_group": "group_id"}
