"""An SQL expression over the columns of one row, as options take it; understood without Spark.

Who calls it: the checks of sources whose options hold expressions, and the front-end for the
`columns` of a source. Spark gets the author's own text (`projection`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp
from sqlglot.dialects import Spark

from headrace.model.functions import BUILT_IN_COLUMNS
from headrace.model.query import Query
from headrace.model.schema import Schema, quote
from headrace.spans import Diagnostic, Span
from headrace.spec import Expression

_TABLE = "row"
_LEAD = "SELECT ("
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def faults(
    name: str, sql: str, span: Span, columns: tuple[str, ...] | None, over: str
) -> Iterator[Diagnostic]:
    """What is wrong with the expression of an option; `over` says in words what it may use.

    Columns are looked for where it is known which ones there are.
    """
    if columns is not None and sql in columns and _is_plain(sql):
        return
    query, found = _parse(sql, span)
    for fault in found:
        yield Diagnostic(fault.code, f"`{name}`: {fault.message}", fault.span, fault.hint)
    if query is None:
        return
    if not query.rowwise or len(query.tree.selects) != 1:
        yield Diagnostic("BAD_VALUE", f"`{name}` must be an expression over {over}", span)
    elif columns is not None:
        yield from query.unknown_columns({_TABLE: columns}, f"that `{name}` can use")


def _is_plain(name: str) -> bool:
    """Whether it is a name without quotes that no word of SQL is mistaken for."""
    return bool(_BARE.fullmatch(name)) and name.upper() not in Spark.Tokenizer.KEYWORDS


def simplified(expression: Expression) -> Expression:
    """`id: id` means what `id` in a list of names does."""
    name, sql = expression.name, (expression.sql or "").strip()
    bare = _BARE.fullmatch(name) and name.lower() not in BUILT_IN_COLUMNS
    itself = sql == quote(name) or (bare and sql == name)
    return replace(expression, sql=None) if itself else expression


def projection(expression: Expression) -> str:
    """The column for Spark, under its name."""
    name = quote(expression.name)
    if expression.sql is None:
        return name
    # The line break ends a comment that may stand last.
    end = "\n" if "--" in expression.sql else ""
    return f"({expression.sql}{end}) AS {name}"


def type_of(expression: Expression, schema: Schema | None) -> str | None:
    """The type that a cast gives it, or that the column has which it is; None for all else."""
    if expression.sql is None:
        return _declared(expression.name, schema)
    query, _ = _parse(expression.sql, expression.span)
    if query is None:
        return None
    tree = query.tree.selects[0].unnest()
    if isinstance(tree, exp.Cast | exp.TryCast):
        return tree.to.sql("spark")
    if isinstance(tree, exp.Column) and len(tree.parts) == 1:
        return _declared(tree.name, schema)
    return None


def _declared(name: str, schema: Schema | None) -> str | None:
    columns = schema.columns if schema is not None else ()
    return next((each.type for each in columns if each.name.lower() == name.lower()), None)


def _parse(sql: str, span: Span) -> tuple[Query | None, list[Diagnostic]]:
    return Query.parse(f"{_LEAD}{sql}\n) FROM {_TABLE}", span, len(_LEAD), len(sql))
