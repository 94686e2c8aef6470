"""The system tables: what the catalog, the state folders and the clusters know, read by SQL.

`select` answers a SELECT over `system.…` alone: it computes the tables that the query names, puts
them into an SQLite database in memory and asks that, so that no JVM is needed. What SQLite does not
know raises `NotInSqlite`; Spark can then be asked over `contents`. Rows are made in `system_rows`.
"""

from __future__ import annotations

import datetime
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from headrace.catalog import Catalog
from headrace.errors import DefinitionError
from headrace.model.query import Query
from headrace.project import Project
from headrace.shell import system_rows
from headrace.shell.known import Known
from headrace.shell.system_rows import Asked, Found
from headrace.shell.system_tables import TABLES, Table
from headrace.spans import Diagnostic
from headrace.spec import unknown

SCHEMA = "system"


@dataclass(frozen=True)
class Answer:
    """`warnings` tell of clusters that did not answer and the like."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    warnings: tuple[str, ...] = field(default=())


class NotInSqlite(Exception):
    """A query that is right, as far as can be told, and needs more SQL than SQLite has."""


def named(query: Query) -> set[str]:
    """The system tables that a query reads, in lower case and without `system.`."""
    return {table.name.lower() for table in _mentions(query)}


def covers(query: Query) -> bool:
    """Whether a query reads system tables and nothing else."""
    return bool(query.tables) and all(map(_is_system, query.tables))


def faults(query: Query) -> Iterator[Diagnostic]:
    """System tables that there are not."""
    for table in _mentions(query):
        if table.name.lower() not in TABLES:
            names = [f"{SCHEMA}.{name}" for name in TABLES]
            where = query.place_of(table)
            yield unknown("table", f"{SCHEMA}.{table.name}", names, where)


def select(query: Query, project: Project) -> Answer:
    """The answer to a query that `covers`; DefinitionError where it names what is not there."""
    wrong = list(faults(query))
    if wrong:
        raise DefinitionError("unknown table", wrong)
    found = contents(query, project)
    with _database(found) as database:
        try:
            cursor = database.execute(_sqlite(query.tree))
            rows = cursor.fetchall()
        except sqlite3.Error as failure:
            raise _refusal(query, failure) from failure
    columns = tuple(column[0] for column in cursor.description)
    return Answer(columns, rows, tuple(w for each in found.values() for w in each.warnings))


def contents(query: Query, project: Project) -> dict[str, Found]:
    """The rows of the tables that a query names; the types of their columns are in `TABLES`.

    Where a query asks for one connection, group or topic only, other rows may be missing.
    """
    known = Known.of(Catalog.of(project))
    return {
        name: system_rows.rows(name, known, project, _asked(query.tree, name))
        for name in sorted(named(query) & TABLES.keys())
    }


def _mentions(query: Query) -> list[exp.Table]:
    return [table for table in query.tree.find_all(exp.Table) if table.db.lower() == SCHEMA]


def _is_system(name: str) -> bool:
    return name.lower().replace("`", "").startswith(f"{SCHEMA}.")


# What a query asks for, so that no cluster is asked in vain.


def _asked(tree: exp.Query, name: str) -> Asked:
    """The values that a query compares columns of a table with, and the columns it may read.

    Only where the table is mentioned once, and its SELECT reads nothing else: everything that is
    left out is then left out by the query, too.
    """
    mentions = [
        table
        for table in tree.find_all(exp.Table)
        if table.db.lower() == SCHEMA and table.name.lower() == name
    ]
    if len(mentions) != 1:
        return Asked()
    reader = mentions[0].find_ancestor(exp.Select)
    if reader is None or reader.args.get("joins") or reader.args.get("laterals"):
        return Asked()
    columns = None if any(reader.find_all(exp.Star)) else _names(reader)
    where = reader.args.get("where")
    return Asked(dict(_equalities(where.this)) if where else {}, columns)


def _names(reader: exp.Select) -> frozenset[str]:
    return frozenset(column.name.lower() for column in reader.find_all(exp.Column))


def _equalities(condition: exp.Expr) -> Iterator[tuple[str, frozenset[str]]]:
    """Of a chain of ANDs: the columns that must equal a text, and the texts they may be."""
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    for part in parts:
        if isinstance(part, exp.EQ):
            column, values = part.this, [part.expression]
        elif isinstance(part, exp.In) and part.expressions:
            column, values = part.this, part.expressions
        else:
            continue
        if isinstance(column, exp.Literal) and len(values) == 1:
            column, values = values[0], [column]
        texts = [each for each in values if isinstance(each, exp.Literal) and each.is_string]
        if isinstance(column, exp.Column) and len(texts) == len(values):
            yield column.name.lower(), frozenset(text.name for text in texts)


# SQLite


@contextmanager
def _database(found: Mapping[str, Found]) -> Iterator[sqlite3.Connection]:
    """The tables in memory, for the length of the block."""
    with closing(sqlite3.connect(":memory:", detect_types=sqlite3.PARSE_DECLTYPES)) as database:
        database.execute("PRAGMA case_sensitive_like = ON")  # as Spark compares
        database.create_function("regexp", 2, _matches, deterministic=True)
        for name, each in found.items():
            _fill(database, TABLES[name], each.rows)
        yield database


def _fill(database: sqlite3.Connection, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    columns = ", ".join(f'"{each.name}" {_AFFINITIES[each.type]}' for each in table.columns)
    database.execute(f'CREATE TABLE "{table.name}" ({columns})')
    marks = ", ".join("?" * len(table.columns))
    database.executemany(
        f'INSERT INTO "{table.name}" VALUES ({marks})',
        ([_stored(value) for value in row] for row in rows),
    )


_AFFINITIES = {
    "STRING": "TEXT",
    "BIGINT": "INTEGER",
    "INT": "INTEGER",
    "DOUBLE": "REAL",
    "BOOLEAN": "BOOLEAN",
    "TIMESTAMP": "HEADRACE_TIME",
}


def _stored(value: Any) -> Any:
    """Times as the text by which SQLite compares and computes them."""
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return value


sqlite3.register_converter("BOOLEAN", lambda stored: stored == b"1")
sqlite3.register_converter(
    "HEADRACE_TIME",
    lambda stored: datetime.datetime.fromisoformat(stored.decode()).replace(tzinfo=datetime.UTC),
)


def _matches(pattern: str, text: str | None) -> bool | None:
    return None if text is None else re.search(pattern, text) is not None


def _sqlite(tree: exp.Query) -> str:
    copy = tree.copy()
    for part in copy.find_all(exp.Table, exp.Column):
        if part.text("db").lower() == SCHEMA:
            part.set("db", None)
    return copy.sql(dialect="sqlite")


def _refusal(query: Query, failure: sqlite3.Error) -> Exception:
    """What SQLite does not know is a column that is not there, or something for Spark."""
    _, _, name = str(failure).rpartition("no such column: ")
    name = name.rpartition(".")[2]
    written = next((each for each in query.tree.find_all(exp.Column) if each.name == name), None)
    if written is None:
        return NotInSqlite(str(failure))
    columns = [each.name for table in named(query) for each in TABLES[table].columns]
    fault = unknown("column", name, columns, query.place_of(written))
    return DefinitionError("unknown column", [fault])
