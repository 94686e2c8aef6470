"""The SELECTs of a query as far as windows need them: what each reads, and its column of time.

Told from the words alone, so that a query is parsed only once, by `model.query`. `Scopes.time_at`
answers which column `tumble(…)` at some word of the query means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headrace.frontend.sql.tokens import Sort, Token, name, words
from headrace.model.schema import quote

CLAUSES = words("SELECT FROM WHERE GROUP HAVING ORDER LIMIT QUALIFY CLUSTER DISTRIBUTE SORT")
_SET_OPERATIONS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS"})
_BEFORE_BY = words("GROUP ORDER CLUSTER DISTRIBUTE SORT")
_BEFORE_TABLE = frozenset({"FROM", ",", "JOIN"})
# What can follow a table where no alias does.
NO_ALIAS = (
    CLAUSES
    | _SET_OPERATIONS
    | words(
        "JOIN INNER LEFT RIGHT FULL CROSS SEMI ANTI NATURAL OUTER ON USING LATERAL TABLESAMPLE "
        "PIVOT UNPIVOT END"
    )
)
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass
class Select:
    """One SELECT: the words of its list, and what stands in its FROM.

    A source is a table's name, or the SELECTs in its brackets, by the alias that columns call it.
    """

    outer: Frame
    listed: list[list[Token]] = field(default_factory=list)
    sources: dict[str, str | Frame] = field(default_factory=dict)


@dataclass
class Frame:
    """What stands in one pair of brackets, or in none: SELECTs, and the CTEs before them."""

    outer: Frame | None
    clause: str = ""
    selects: list[Select] = field(default_factory=list)
    named: dict[str, Frame] = field(default_factory=dict)

    def find(self, table: str) -> Frame | None:
        """The CTE of this name that can be seen from here."""
        frame: Frame | None = self
        inside = None
        while frame is not None:
            found = frame.named.get(table)
            if found is not None and found is not inside:
                return found
            frame, inside = frame.outer, frame
        return None


class Scopes:
    """`clauses[i]` is the clause that word i stands in; empty inside brackets without a SELECT."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.clauses: list[str] = []
        self.selects: list[Select | None] = []
        self._read()

    def _read(self) -> None:
        frame = Frame(None)
        stack = [frame]
        for at, token in enumerate(self.tokens):
            if token.key == ")" and len(stack) > 1:
                stack.pop()
                frame = stack[-1]
            self._enter(at, token, frame)
            self.clauses.append(frame.clause)
            self.selects.append(_innermost(frame))
            if token.key == "(":
                frame = self._opened(at, stack[-1])
                stack.append(frame)

    def _enter(self, at: int, token: Token, frame: Frame) -> None:
        """What a word changes: the clause, the list of a SELECT, the tables of a FROM."""
        before = self._key(at - 1)
        if token.key in _SET_OPERATIONS and frame.clause != "SELECT":
            frame.clause = ""
        elif token.key in CLAUSES and not self._is_name(at, frame):
            begins = token.key == "SELECT" or (token.key == "FROM" and not frame.clause)
            if begins and (token.key == "FROM" or frame.clause != "FROM" or _has_list(frame)):
                frame.selects.append(Select(frame))
            frame.clause = token.key
            if token.key == "SELECT" and frame.selects:
                frame.selects[-1].listed.append([])
        elif frame.clause == "SELECT" and frame.selects:
            if token.key == ",":
                frame.selects[-1].listed.append([])
            else:
                frame.selects[-1].listed[-1].append(token)
        elif frame.clause == "FROM" and before in _BEFORE_TABLE and token.key != "(":
            self._table(at, frame)

    def _is_name(self, at: int, frame: Frame) -> bool:
        """Whether a word that can begin a clause is only a name, or part of something else."""
        word, before = self._key(at), self._key(at - 1)
        if word in _BEFORE_BY:
            return self._key(at + 1) != "BY"
        if word == "FROM":
            # `IS DISTINCT FROM`, `extract(DAY FROM at)`.
            return before == "DISTINCT" or (not frame.selects and frame.outer is not None)
        return word != "SELECT" and before in (".", "AS")

    def _table(self, at: int, frame: Frame) -> None:
        token = self.tokens[at]
        if token.sort not in (Sort.WORD, Sort.QUOTED) or not frame.selects:
            return
        parts = [name(token)]
        while self._key(at + 1) == "." and at + 2 < len(self.tokens):
            parts.append(name(self.tokens[at + 2]))
            at += 2
        if self._key(at + 1) != "(" and token.key not in ("LATERAL", "TABLE"):
            alias = self._alias(at + 1) or parts[-1]
            frame.selects[-1].sources[alias] = ".".join(parts).lower()

    def _alias(self, at: int) -> str | None:
        if self._key(at) == "AS":
            at += 1
        token = self.tokens[min(at, len(self.tokens) - 1)]
        named = token.sort in (Sort.WORD, Sort.QUOTED) and token.key not in NO_ALIAS
        return name(token) if named else None

    def _key(self, at: int) -> str:
        return self.tokens[at].key if 0 <= at < len(self.tokens) else ""

    def _opened(self, at: int, outer: Frame) -> Frame:
        """The frame of brackets that begin here: a CTE, a subquery of FROM, or anything else."""
        frame = Frame(outer)
        before = self._key(at - 1)
        if before == "AS" and at > 1 and not outer.clause:
            outer.named[name(self.tokens[at - 2]).lower()] = frame
        elif outer.clause == "FROM" and outer.selects and before in _BEFORE_TABLE:
            closing = closing_bracket(self.tokens, at)
            alias = self._alias(closing + 1) if closing is not None else None
            outer.selects[-1].sources[alias or f"({at}"] = frame
        return frame

    def times_at(self, at: int, times: Mapping[str, str]) -> list[str]:
        """The columns of time that the SELECT around a word reads, as it may call them."""
        select = self.selects[at]
        return [] if select is None else list(_Times(times).of_select(select))

    def tables_at(self, at: int) -> list[str]:
        """The tables that the SELECT around a word reads."""
        select = self.selects[at]
        if select is None:
            return []
        names = [each for each in select.sources.values() if isinstance(each, str)]
        return [each for each in names if select.outer.find(each) is None]


def _innermost(frame: Frame) -> Select | None:
    """The SELECT of a frame or, in the brackets of a function, of the one around it."""
    here: Frame | None = frame
    while here is not None:
        if here.selects:
            return here.selects[-1]
        here = here.outer
    return None


def _has_list(frame: Frame) -> bool:
    return bool(frame.selects and frame.selects[-1].listed)


class _Times:
    """Columns of time of what stands in FROM; each CTE is looked at once."""

    def __init__(self, times: Mapping[str, str]) -> None:
        self.times = times
        self.known: dict[int, str | None] = {}

    def of_select(self, select: Select) -> Iterator[str]:
        """As the columns of a SELECT may call them."""
        for alias, source in select.sources.items():
            column = self.of_source(source, select.outer)
            if column is not None:
                several = len(select.sources) > 1
                yield f"{_written(alias)}.{_written(column)}" if several else _written(column)

    def of_source(self, source: str | Frame, frame: Frame) -> str | None:
        """Of a table, or of a CTE or subquery that passes it on."""
        inner = source if isinstance(source, Frame) else frame.find(source)
        if inner is None:
            return self.times.get(source) if isinstance(source, str) else None
        if id(inner) not in self.known:
            self.known[id(inner)] = None  # one that reads itself has none
            self.known[id(inner)] = self._of_frame(inner)
        return self.known[id(inner)]

    def _of_frame(self, frame: Frame) -> str | None:
        if not frame.selects:
            return None
        select = frame.selects[0]
        found = [self.of_source(source, frame) for source in select.sources.values()]
        known = [column for column in found if column is not None]
        return _projected(select, known[0]) if len(known) == 1 else None


def _written(name: str) -> str:
    return name if _BARE.fullmatch(name) else quote(name)


def _projected(select: Select, column: str) -> str | None:
    """What a column of a SELECT's input is called in its output, if it is there."""
    for listed in select.listed:
        item = [token for token in listed if token.key not in ("ALL", "DISTINCT")]
        if item and item[-1].key == "*":
            return column
        while len(item) > 2 and item[1].key == ".":
            item = item[2:]
        if not item or name(item[0]).lower() != column.lower():
            continue
        if len(item) == 1:
            return name(item[0])
        if len(item) == 2 or (len(item) == 3 and item[1].key == "AS"):
            return name(item[-1])
    return None


def closing_bracket(tokens: list[Token], opening: int) -> int | None:
    """Where the bracket that opens at a word is closed."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at].key in ("(", "[")) - (tokens[at].key in (")", "]"))
        if depth == 0:
            return at
    return None
