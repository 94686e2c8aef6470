"""The SQL of a step, understood without Spark.

`Query.parse` reads one SELECT and reports what cannot be allowed; the front-end asks it for tables
and unknown columns, `model.stateful` for what a stream must remember, the planner whether it is
row-wise and how to carry a hidden column through it. The text that Spark gets is always the
author's own, never regenerated.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

from sqlglot import ErrorLevel, exp
from sqlglot.dialects import Databricks, Spark
from sqlglot.errors import OptimizeError, ParseError, TokenError
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from headrace.model import query_faults
from headrace.model.functions import (
    AGGREGATES,
    BUILT_IN_COLUMNS,
    FORBIDDEN,
    GENERATORS,
    TABLE_FUNCTIONS,
    TIME_WINDOWS,
)
from headrace.model.query_faults import Slip
from headrace.spans import Diagnostic, Severity, Span
from headrace.spec import unknown

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

Columns = Mapping[str, tuple[str, ...]]

# A definition is looked at from many sides, and every one of them asks for the same few queries.
_KEPT = 2_000


@dataclass(frozen=True)
class Query:
    """One SELECT; `own` is the part of its text that stands in the file at `span`."""

    text: str
    span: Span
    tree: exp.Query
    own: slice

    @classmethod
    def parse(
        cls, text: str, span: Span, lead: int = 0, length: int | None = None
    ) -> tuple[Query | None, list[Diagnostic]]:
        """The query, or None with the reason.

        `lead` and `length` say which part of the text its author wrote, if it is not all of it.
        """
        # Spans are equal by their place alone, and what is said depends on their text, too.
        query, faults = cls._parsed(text, span, (span.raw, span.edits), lead, length)
        return query, list(faults)

    @classmethod
    @lru_cache(_KEPT)
    def _parsed(
        cls, text: str, span: Span, _written: object, lead: int, length: int | None
    ) -> tuple[Query | None, tuple[Diagnostic, ...]]:
        own = slice(lead, None if length is None else lead + length)
        statements = _read(text)
        if isinstance(statements, Slip):
            return None, (_syntax(statements, text, span, own),)
        if len(statements) != 1:
            what = f"{len(statements)} statements" if statements else "nothing"
            message = f"one SELECT is needed here, not {what}"
            return None, (Diagnostic("NOT_A_QUERY", message, span),)
        tree = statements[0]
        if not isinstance(tree, exp.Query):
            first = _tokenize(text)[0]
            message = f"only SELECT can stand here, not {first.text.upper()}"
            where = place(text, first.start, span, own)
            return None, (Diagnostic("NOT_A_QUERY", message, where),)
        query = cls(text, span, tree, own)
        found = query_faults.slips(_tokenize(text))
        slips = (_syntax(slip, text, span, own) for slip in found)
        return query, (*query._forbidden(), *slips)

    @cached_property
    def tables(self) -> dict[str, Span]:
        """The tables it reads that are not its own CTEs, with the place of their first mention."""
        found: dict[str, Span] = {}
        for table in self.tree.find_all(exp.Table):
            if not isinstance(table.this, exp.Identifier) or _is_own(table):
                continue
            name = table.sql("spark", comments=False) if table.db else table.name
            found.setdefault(name, self.place_of(table))
        return found

    def output_columns(self, known: Columns) -> tuple[str, ...] | None:
        """The names of its columns, or None where they cannot be told without Spark."""
        names: list[str] = []
        for projection in self.tree.selects:
            if not projection.is_star and isinstance(projection, exp.Alias | exp.Column):
                names.append(projection.alias_or_name)
                continue
            table = self._only_table()
            if table is None or not _covers(projection, table):
                return None
            columns = _lower(known).get(table.name.lower())
            if columns is None or _except(projection):
                return None
            names.extend(columns)
        return tuple(names)

    def unknown_columns(
        self, known: Columns, where: str = "of this step's input"
    ) -> Iterator[Diagnostic]:
        """Columns that no table in reach has; silent where a table's columns are unknown."""
        try:
            scopes = traverse_scope(self.tree)
            found = [(scope, _columns_in_reach(scope, _lower(known))) for scope in scopes]
        except OptimizeError:  # what the parser's scopes cannot follow is left to Spark
            return
        for scope, reach in found:
            if reach is None:
                continue
            tables = {name.lower() for name in scope.sources}
            for column in scope.columns:
                part = _missing_part(column, reach, tables)
                if part is not None:
                    yield unknown("column", part.name, reach, self.place_of(part), where)

    def texts_like_columns(self, known: Columns) -> Iterator[Diagnostic]:
        """Warnings of texts that were surely meant as columns."""
        tables = _lower(known)
        names = {column.lower() for each in self.tables for column in tables.get(each.lower(), ())}
        for slip in query_faults.texts_like_columns(_tokenize(self.text), self.text, names):
            where = place(self.text, slip.offset, self.span, self.own)
            yield Diagnostic(
                "TEXT_NOT_COLUMN", slip.message, where, slip.hint, severity=Severity.WARNING
            )

    @cached_property
    def rowwise(self) -> bool:
        """Whether each output row comes from exactly one input row, and nothing but filters drops
        it.
        """
        if self._only_table() is None:
            return False
        if _tokenize(self.text)[0].token_type is not TokenType.SELECT:
            return False  # FROM first
        allowed = {"expressions", "from_", "where", "kind", "hint", "operation_modifiers"}
        if any(value for key, value in self.tree.args.items() if key not in allowed):
            return False
        return not any(self._not_rowwise(node) for node in self.tree.walk())

    def carrying(self, column: str, keep: str) -> str:
        """The author's row-wise SELECT with `column` added, and rows kept where `keep`."""
        table = self._only_table()
        assert table is not None  # asked only of a row-wise query
        tokens = _tokenize(self.text)
        # FROM is the word before the table: `a IS DISTINCT FROM b` has one too.
        first = next(i for i, t in enumerate(tokens) if t.start == table.this.meta["start"])
        start = tokens[first - 1].start
        rest = tokens[first:]
        ends = [token.start for token in rest if token.token_type is TokenType.SEMICOLON]
        end = ends[0] if ends else len(self.text)
        has_star = any(_covers(projection, table) for projection in self.tree.selects)
        head = self.text[:start] + ("" if has_star else f", {column} ")
        if self.tree.args.get("where") is None:
            return head + self.text[start:end]
        cut = next(token.end + 1 for token in rest if token.token_type is TokenType.WHERE)
        # The line break ends a comment that may stand last.
        return f"{head}{self.text[start:cut]} {keep} OR ({self.text[cut:end]}\n)"

    @property
    def distinct(self) -> bool:
        """Whether it is one SELECT DISTINCT as a whole, and not only inside."""
        return isinstance(self.tree, exp.Select) and self.tree.args.get("distinct") is not None

    def without_distinct(self) -> str:
        """The author's SELECT DISTINCT with its repeated rows."""
        depth = 0
        for token, following in pairwise(_tokenize(self.text)):
            depth += (token.token_type is TokenType.L_PAREN) - (
                token.token_type is TokenType.R_PAREN
            )
            if following.token_type is TokenType.DISTINCT and depth == 0:
                return self.text[: following.start] + self.text[following.end + 1 :]
        return self.text

    def place_of(self, node: exp.Expr) -> Span:
        """Where a part of the query stands in the file: the first of its words."""
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if not starts:
            return self.span
        return place(self.text, min(starts), self.span, self.own)

    def _only_table(self) -> exp.Table | None:
        """The table of a SELECT that reads one table as it is, with nothing beside it."""
        if not isinstance(self.tree, exp.Select):
            return None
        beside = ("joins", "laterals", "with_", "pivots")
        source = self.tree.args.get("from_")
        if source is None or any(self.tree.args.get(key) for key in beside):
            return None
        table = source.this
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            return None
        # A sample drops rows, a pivot makes others, and new names would miss the hidden column.
        plain = all(key in ("this", "alias") for key, value in table.args.items() if value)
        alias = table.args.get("alias")
        return table if plain and not (alias and alias.args.get("columns")) else None

    def _not_rowwise(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.AggFunc | exp.Window | exp.Subquery | exp.UDTF | exp.Lateral):
            return True
        if isinstance(node, exp.Select) and node is not self.tree:
            return True
        if isinstance(node, exp.Star):
            # Inside a function it would take the hidden column for one of the author's.
            top = node.parent if isinstance(node.parent, exp.Column) else node
            return top.parent is not self.tree
        if isinstance(node, exp.Any):
            return not isinstance(node.parent, exp.Binary)  # any(x), but not: LIKE ANY (…)
        return function_name(node) in AGGREGATES | GENERATORS | TIME_WINDOWS

    def _forbidden(self) -> Iterator[Diagnostic]:
        for call in self.tree.find_all(exp.Func):
            name = function_name(call)
            if name in FORBIDDEN:
                message = f"`{name}` reaches outside the data and is not allowed in a pipeline"
                yield Diagnostic("FORBIDDEN_FUNCTION", message, self.place_of(call))
            elif isinstance(call.parent, exp.Table) and name not in TABLE_FUNCTIONS:
                message = f"`{name}` is not a table function that a pipeline may read"
                known = "known: " + ", ".join(sorted(TABLE_FUNCTIONS))
                yield Diagnostic("FORBIDDEN_FUNCTION", message, self.place_of(call), known)
        for script in self.tree.find_all(exp.QueryTransform):
            message = "TRANSFORM … USING runs a program and is not allowed in a pipeline"
            yield Diagnostic("FORBIDDEN_FUNCTION", message, self.place_of(script))


@lru_cache(_KEPT)
def _read(text: str) -> tuple[exp.Expr, ...] | Slip:
    """The statements in a text, or what is wrong with it. Nobody may change the trees."""
    tokens: list[Token] = []
    try:
        tokens = _tokenize(text)
        return tuple(_parse(tokens, text))
    except ParseError as error:
        return query_faults.syntax(error, text, tokens)
    except TokenError:
        return query_faults.not_closed()
    except RecursionError:
        return Slip("this is nested too deeply")


@lru_cache(_KEPT)
def _tokenize(text: str) -> list[Token]:
    """The words, less those that the parser misreads: `window` as a name, and `X '1F'`."""
    tokens: list[Token] = []
    for token in Spark().tokenize(text):
        last = tokens[-1] if tokens else token
        kind, before = token.token_type, last.token_type
        if kind is TokenType.STRING and last.text in ("x", "X") and before is TokenType.VAR:
            tokens.pop()
        tokens.append(token)
    for at, token in enumerate(tokens):
        # The clause is `WINDOW name AS (…)`.
        is_clause = len(tokens) > at + 2 and tokens[at + 2].token_type is TokenType.ALIAS
        if token.token_type is TokenType.WINDOW and not is_clause:
            token.token_type = TokenType.VAR
    return tokens


_ARGUMENTS = "The number of provided arguments"


def _parse(tokens: list[Token], text: str) -> list[exp.Expr]:
    """Spark's SQL, and what only the parser's Databricks dialect knows of it (`json:a.b`).

    How many arguments a function takes is left to Spark, which knows more forms of some.
    """
    attempts = ((Spark(), tokens), (Databricks(), tokens), (Spark(), _without_shifts(tokens)))
    faults: list[ParseError] = []
    for dialect, words in attempts:
        try:
            return _statements(dialect, words, text)
        except ParseError as error:
            faults.append(error)
    raise faults[0]


def _without_shifts(tokens: list[Token]) -> list[Token]:
    """`a >>> b` as `a >> b`, which is all that the parser knows; to us they are alike."""
    kept: list[Token] = []
    for token in tokens:
        last = "".join(each.text for each in kept[-2:])
        if token.text == ">" and last == ">>" and kept[-2].end + 2 == token.start:
            continue
        kept.append(token)
    return kept


def _statements(dialect: Spark, tokens: list[Token], text: str) -> list[exp.Expr]:
    try:
        trees = dialect.parser().parse(tokens, text)
    except ParseError as error:
        if not error.errors or not error.errors[0]["description"].startswith(_ARGUMENTS):
            raise
        parser = dialect.parser(error_level=ErrorLevel.WARN)
        trees = parser.parse(tokens, text)
        for other in parser.errors:
            if not other.errors[0]["description"].startswith(_ARGUMENTS):
                raise other from None
    # A comment after the last semicolon is a statement to the parser.
    return [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]


def _is_own(table: exp.Table) -> bool:
    """Whether it is a CTE of the query; one may have the name of the table that it reads."""
    if table.db:
        return False
    inside: exp.Expr | None = None
    node: exp.Expr = table
    while node.parent is not None:
        inside = node if isinstance(node, exp.CTE) else inside
        node = node.parent
        clause = node.args.get("with_")
        if clause is None:
            continue
        for cte in clause.expressions:
            if cte is inside and not clause.args.get("recursive"):
                break
            if cte.alias_or_name.lower() == table.name.lower():
                return True
    return False


def _covers(projection: exp.Expr, table: exp.Table) -> bool:
    """Whether it is all columns of the table: `*`, `t.*`, and not a struct's `s.*`."""
    if isinstance(projection, exp.Star):
        return True
    if not isinstance(projection, exp.Column) or not projection.is_star:
        return False
    return [part.name.lower() for part in projection.parts[:-1]] == [table.alias_or_name.lower()]


def _except(projection: exp.Expr) -> bool:
    star = projection.this if isinstance(projection, exp.Column) else projection
    return any(value for value in star.args.values())


def function_name(node: exp.Expr) -> str:
    """The name of a function call, in lower case; empty for anything else."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def _lower(known: Columns) -> Columns:
    return {table.lower(): columns for table, columns in known.items()}


def place(text: str, offset: int, span: Span, own: slice = slice(None)) -> Span:
    """The place of a character of `text`, whose part `own` stands at `span`."""
    return span.within(text[own], offset - (own.start or 0))


def _syntax(slip: Slip, text: str, span: Span, own: slice) -> Diagnostic:
    return Diagnostic("SQL_SYNTAX", slip.message, place(text, slip.offset, span, own), slip.hint)


def _missing_part(
    column: exp.Column, reach: set[str], tables: set[str]
) -> exp.Identifier | exp.Star | None:
    """The part of `a`, `t.a` or `t.a.field` that names no column."""
    first, *others = column.parts
    if first.name.lower() in reach | BUILT_IN_COLUMNS:
        return None
    if first.name.lower() not in tables:
        return first if isinstance(first, exp.Identifier) else None
    second = others[0] if others and isinstance(others[0], exp.Identifier) else None
    if len(tables) > 1 or second is None or second.name.lower() in reach:
        return None
    return second


def _columns_in_reach(scope: Scope, known: Columns) -> set[str] | None:
    """Lower-case names that a column of this scope may have; None when one of its inputs is
    unknown.
    """
    if scope.parent is not None or len(scope.sources) != len(scope.selected_sources):
        return None
    names: set[str] = set()
    for source in scope.sources.values():
        columns = known.get(source.name.lower()) if isinstance(source, exp.Table) else None
        if columns is None or not isinstance(source, exp.Table) or _renamed(source):
            return None
        names.update(column.lower() for column in columns)
    # Spark lets an expression use an alias defined to its left, and lambdas name their own.
    names.update(alias.alias.lower() for alias in scope.expression.find_all(exp.Alias))
    for function in scope.expression.find_all(exp.Lambda):
        names.update(variable.name.lower() for variable in function.expressions)
    return names


def _renamed(table: exp.Table) -> bool:
    alias = table.args.get("alias")
    return bool(table.args.get("pivots") or table.db or (alias and alias.args.get("columns")))
