"""Where a SELECT of a shell is answered: by a test, by SQLite, or by Spark.

`test_connection('name')` and queries over system tables alone need no JVM. Where system tables
stand beside tables of the catalog, their rows become part of the query, as a WITH before it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from headrace.frontend.sql.definitions import preview
from headrace.frontend.sql.statements import CreatePipeline, Fragment, Select
from headrace.frontend.sql.tokens import tokenize
from headrace.model.query import Query, function_name
from headrace.model.schema import literal, quote
from headrace.shell import system
from headrace.shell.kept import Kept
from headrace.shell.system_tables import TABLES, Table
from headrace.spans import Diagnostic, Edit, Field, Node, edited

TEST = "test_connection"
Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Route:
    """How a SELECT is answered: `tests` names a connection, `pipeline` is what Spark previews.

    With neither, and no faults, `query` reads nothing that is kept: system tables or nothing.
    """

    query: Query | None = None
    tests: str | None = None
    pipeline: CreatePipeline | None = None
    faults: tuple[Diagnostic, ...] = ()


def route(statement: Select, kept: Kept, contents: Mapping[str, Rows] | None = None) -> Route:
    """`contents` are the rows of system tables; without them, as while it is checked, none."""
    selected = kept.compiler.queries.select(_selecting(statement.query))
    query, faults = Query.parse(selected.fragment.sql, selected.fragment.span)
    faults = [*selected.faults, *faults]
    if query is None or faults:
        return Route(faults=tuple(faults))
    calls = [call for call in query.tree.find_all(exp.Func) if function_name(call) == TEST]
    if calls:
        return _test(query, calls[0])
    wrong = tuple(system.faults(query))
    if wrong or not query.tables or system.covers(query):
        return Route(query, faults=wrong)
    if system.named(query):
        fragment = with_rows(statement.query, query, contents or {})
        statement = replace(statement, query=fragment)
    return Route(query, pipeline=_preview(statement))


def _selecting(fragment: Fragment) -> Fragment:
    """VALUES by itself is all that it lists."""
    first = tokenize(fragment.sql)[0]
    if first.key != "VALUES":
        return fragment
    return Fragment(
        *fragment.span.inserting(fragment.sql, (Edit(first.start, first.start, "SELECT * FROM "),))
    )


def _preview(statement: Select) -> CreatePipeline:
    """As a batch: a SELECT ends, and may sort, limit and sum up what it likes."""
    made = preview(statement)
    mode = Field(statement.span, Node("batch", statement.span))
    return replace(made, options={"mode": mode})


def _test(query: Query, call: exp.Expr) -> Route:
    """The one form: SELECT test_connection('name')."""
    arguments = call.expressions
    alone = len(query.tree.selects) == 1 and query.tree.selects[0].unalias() is call
    if query.tables or not alone or len(arguments) != 1 or not arguments[0].is_string:
        message = f"`{TEST}` stands alone, with the name of a connection or a table"
        hint = f"SELECT {TEST}('name'); for all connections, SELECT * FROM system.connections"
        return Route(query, faults=(Diagnostic("BAD_VALUE", message, query.place_of(call), hint),))
    return Route(query, tests=arguments[0].name)


# System tables inside a query


def with_rows(fragment: Fragment, query: Query, contents: Mapping[str, Rows]) -> Fragment:
    """The author's query with the system tables that it names as a WITH before it."""
    others = {table.lower() for table in query.tables}
    names = {each: f"system_{each}" if each in others else each for each in system.named(query)}
    parts = ", ".join(
        f"{name} AS ({_select(TABLES[each], contents.get(each, ()))})"
        for each, name in sorted(names.items())
    )
    tokens = tokenize(fragment.sql)
    begin = tokens[0]
    if begin.key == "WITH":
        edits = [Edit(begin.start, begin.end, f"WITH {parts},")]
    else:
        edits = [Edit(begin.start, begin.start, f"WITH {parts} ")]
    for first, dot, last in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if first.key == "SYSTEM" and dot.key == "." and last.key.lower() in names:
            edits.append(Edit(first.start, last.end, names[last.key.lower()]))
    made = tuple(edits)
    return Fragment(edited(fragment.sql, made), replace(fragment.span, edits=made))


def _select(table: Table, rows: Rows) -> str:
    """The rows as a SELECT that needs no table; a row of NULLs that is left out gives the types."""
    nothing = tuple(None for _ in table.columns)
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows or [nothing])
    columns = ", ".join(
        f"CAST({quote(each.name)} AS {each.type}) AS {quote(each.name)}" for each in table.columns
    )
    names = ", ".join(quote(name) for name in table.names)
    condition = "" if rows else " WHERE false"
    return f"SELECT {columns} FROM VALUES {values} AS listed({names}){condition}"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP {literal(value.astimezone(datetime.UTC).isoformat())}"
    return literal(str(value))
