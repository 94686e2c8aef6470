"""The SQL of a step, understood without Spark.

`Query.parse` reads one SELECT and reports what cannot be allowed; the front-end asks it for tables
and unknown columns, lint for what a stream cannot do, the planner whether it is row-wise and how to
carry a hidden column through it. The text that Spark gets is always the author's own, never
regenerated.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from headrace.spans import Diagnostic, Span
from headrace.spec import unknown

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

# What reaches classes, files or the network from inside an expression.
_FORBIDDEN = {"reflect", "java_method", "try_reflect", "read_files", "input_file_name"}
_GENERATORS = {
    "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack",
    "json_tuple", "variant_explode", "variant_explode_outer",
}  # fmt: skip


@dataclass(frozen=True)
class Query:
    text: str
    span: Span
    tree: exp.Query

    @classmethod
    def parse(cls, text: str, span: Span) -> tuple[Query | None, list[Diagnostic]]:
        """The query, or None with the reason."""
        try:
            statements = [tree for tree in sqlglot.parse(text, read="spark") if tree is not None]
        except (ParseError, TokenError) as error:
            return None, [_syntax(error, text, span)]
        if len(statements) != 1:
            what = f"{len(statements)} statements" if statements else "nothing"
            return None, [Diagnostic("NOT_A_QUERY", f"one SELECT is needed here, not {what}", span)]
        tree = statements[0]
        if not isinstance(tree, exp.Query):
            verb = (text.split() or [""])[0].upper()
            message = f"only SELECT can stand here, not {verb}"
            return None, [Diagnostic("NOT_A_QUERY", message, span)]
        query = cls(text, span, tree)
        return query, list(query._forbidden())

    @property
    def tables(self) -> dict[str, Span]:
        """The tables it reads that are not its own CTEs, with the place of their first mention."""
        own = {cte.alias_or_name.lower() for cte in self.tree.find_all(exp.CTE)}
        found: dict[str, Span] = {}
        for table in self.tree.find_all(exp.Table):
            name = table.sql("spark", comments=False) if table.db else table.name
            if name.lower() not in own:
                found.setdefault(name, self._place(table.this))
        return found

    def output_columns(self, known: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
        """The names of its columns, or None where they cannot be told without Spark."""
        names: list[str] = []
        for projection in self.tree.selects:
            if isinstance(projection, exp.Alias | exp.Column) and not projection.is_star:
                names.append(projection.alias_or_name)
                continue
            if not projection.is_star or isinstance(projection, exp.AggFunc):
                return None
            table = self._only_table()
            columns = known.get(table.name) if table is not None else None
            if columns is None or (
                isinstance(projection, exp.Star) and projection.args.get("except_")
            ):
                return None
            names.extend(columns)
        return tuple(names)

    def unknown_columns(self, known: Mapping[str, tuple[str, ...]]) -> Iterator[Diagnostic]:
        """Columns that no table in reach has; silent where a table's columns are unknown."""
        for scope in traverse_scope(self.tree):
            reach = _columns_in_reach(scope, known)
            if reach is None:
                continue
            for column in scope.columns:
                first = column.parts[0]
                names = reach | {name.lower() for name in scope.sources}
                if column.name and first.name.lower() not in names:
                    yield unknown(
                        "column",
                        first.name,
                        sorted(reach),
                        self._place(first),
                        "of this step's input",
                    )

    @property
    def rowwise(self) -> bool:
        """Whether each output row comes from exactly one input row, and nothing but filters drops
        it.
        """
        table = self._only_table()
        if table is None or not isinstance(self.tree, exp.Select):
            return False
        allowed = {"expressions", "from_", "where", "kind", "hint", "operation_modifiers"}
        if any(value for key, value in self.tree.args.items() if key not in allowed):
            return False
        return not any(self._not_rowwise(node) for node in self.tree.walk())

    def carrying(self, column: str, keep: str) -> str:
        """The author's row-wise SELECT with `column` added, and rows kept where `keep`."""
        tokens = Spark().tokenize(self.text)
        start = _at_top(tokens, TokenType.FROM).start
        has_star = any(projection.is_star for projection in self.tree.selects)
        head = self.text[:start] + ("" if has_star else f", {column} ")
        where = self.tree.args.get("where")
        body = self.text[start:].rstrip().removesuffix(";")
        if where is None:
            return head + body
        cut = _at_top(tokens, TokenType.WHERE).end + 1 - start
        # The line break ends a comment that may stand last.
        return f"{head}{body[:cut]} {keep} OR ({body[cut:]}\n)"

    def stateful_parts(self) -> Iterator[tuple[str, Span]]:
        """What a stream cannot do row by row, in words."""
        for node in self.tree.walk():
            words = _STREAM_REFUSED.get(type(node))
            if isinstance(node, exp.AggFunc) and not node.find_ancestor(exp.Window):
                words = f"the aggregate {node.sql_name()}"
            if words:
                yield words, self._place(node)

    @property
    def joins(self) -> bool:
        return any(True for _ in self.tree.find_all(exp.Join))

    def _only_table(self) -> exp.Table | None:
        tables = list(self.tree.find_all(exp.Table))
        return tables[0] if len(tables) == 1 else None

    def _not_rowwise(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.AggFunc | exp.Window | exp.Subquery | exp.UDTF | exp.Lateral):
            return True
        if isinstance(node, exp.Explode | exp.Inline | exp.Posexplode):
            return True
        if isinstance(node, exp.Select) and node is not self.tree:
            return True
        return isinstance(node, exp.Anonymous) and node.name.lower() in _GENERATORS

    def _forbidden(self) -> Iterator[Diagnostic]:
        for call in self.tree.find_all(exp.Anonymous):
            if call.name.lower() in _FORBIDDEN:
                message = f"`{call.name}` reaches outside the data and is not allowed in a pipeline"
                yield Diagnostic("FORBIDDEN_FUNCTION", message, self._place(call))

    def _place(self, node: exp.Expr) -> Span:
        """Where a part of the query stands in the file."""
        marked = next((part for part in node.walk() if "start" in part.meta), None)
        if marked is None:
            return self.span
        return place(self.text, marked.meta["start"], self.span)


_STREAM_REFUSED: dict[type[exp.Expr], str] = {
    exp.Group: "GROUP BY",
    exp.Distinct: "DISTINCT",
    exp.Order: "ORDER BY",
    exp.Limit: "LIMIT",
    exp.Window: "a window function",
}


def place(text: str, offset: int, span: Span) -> Span:
    """The place of a character of `text`, whose lines all begin at the column of `span`."""
    before = text[:offset]
    line = before.count("\n")
    column = offset - (before.rfind("\n") + 1)
    return Span(span.file, span.line + line, span.column + column)


def _syntax(error: Exception, text: str, span: Span) -> Diagnostic:
    details = getattr(error, "errors", None)
    if not details:
        return Diagnostic("SQL_SYNTAX", str(error).splitlines()[0], span)
    first = details[0]
    offset = len("".join(text.splitlines(keepends=True)[: first["line"] - 1]))
    # sqlglot counts the column of a token's last character.
    offset += max(first["col"] - len(first["highlight"]), 0)
    problem = first["description"].rstrip(".")
    if problem.startswith("Required keyword"):
        problem = "something is missing"
    message = f"{problem}, near `{first['highlight']}`"
    return Diagnostic("SQL_SYNTAX", message, place(text, offset, span))


def _at_top(tokens: Iterable[Token], kind: TokenType) -> Token:
    """The first token of its kind outside all brackets."""
    depth = 0
    for token in tokens:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.token_type is kind:
            return token
    raise LookupError(kind)


def _columns_in_reach(scope: Scope, known: Mapping[str, tuple[str, ...]]) -> set[str] | None:
    """Lower-case names that a column of this scope may have; None when one of its inputs is
    unknown.
    """
    if scope.parent is not None or len(scope.sources) != len(scope.selected_sources):
        return None
    names: set[str] = set()
    for source in scope.sources.values():
        columns = known.get(source.name) if isinstance(source, exp.Table) else None
        if columns is None:
            return None
        names.update(column.lower() for column in columns)
    # Spark lets an expression use an alias defined to its left, and lambdas name their own.
    names.update(alias.alias.lower() for alias in scope.expression.find_all(exp.Alias))
    for function in scope.expression.find_all(exp.Lambda):
        names.update(variable.name.lower() for variable in function.expressions)
    return names
