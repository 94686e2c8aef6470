"""SHOW and DESCRIBE: what the catalog and the clusters hold, without Spark and without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.catalog import Catalog, Secret
from headrace.errors import OutsideError
from headrace.frontend.sql.definitions import Named
from headrace.frontend.sql.statements import (
    Broken,
    CreateConnection,
    CreatePipeline,
    CreateTable,
    CreateView,
    Describe,
    Fields,
    Kind,
    Show,
)
from headrace.model.query import Query
from headrace.project import Project
from headrace.runtime.state import PipelineState
from headrace.shell import registered, system
from headrace.shell.checking import Checker, everything_of
from headrace.shell.kept import Kept
from headrace.shell.processes import log_of
from headrace.shell.redaction import redacted, shown
from headrace.shell.result import Result
from headrace.shell.system_tables import TABLES
from headrace.spans import Node, Severity, Span
from headrace.spec import HIDDEN

# Each is a SELECT, and shows what can be told at once; the system tables have more.
_SHOWS = {
    "connections": "name, connector, type, address, topic FROM system.connections",
    "tables": "name, connection, connector, type, topic, columns FROM system.tables",
    "views": "name, query FROM system.views",
    "pipelines": "name, state, mode, sources, sinks, records, written, dead_letters, lag, error "
    "FROM system.pipelines",
    "secrets": "name, variable, known FROM system.secrets",
    "topics": "connection, topic, partitions, replication, records FROM system.kafka_topics",
    "groups": "connection, group_id, state, members, sum(lag) AS lag "
    "FROM system.kafka_consumer_groups GROUP BY connection, group_id, state, members",
    "brokers": "connection, broker_id, host, port, status, error FROM system.kafka_brokers",
    "dead_letters": "connection, topic, pipeline, source, error, letters, redriven, newest "
    "FROM system.dead_letters",
}
_COLUMNS = ("column", "type", "nullable", "generated")
_PROPERTIES = ("property", "value")


def select(sql: str, project: Project) -> Result:
    """Rows of system tables, by a SELECT of ours."""
    query, _ = Query.parse(sql, Span("system", 1, 1))
    assert query is not None
    answer = system.select(query, project)
    return Result(answer.columns, tuple(answer.rows), warnings=answer.warnings)


class Showing:
    def __init__(self, project: Project, catalog: Catalog, checker: Checker) -> None:
        self._project = project
        self._catalog = catalog
        self._checker = checker

    def show(self, statement: Show, kept: Kept) -> Result:
        if statement.name is None:
            return select(f"SELECT {_SHOWS[statement.what]}", self._project)
        if statement.kind is Kind.SECRET:
            known = self._known_secret(statement.name.text)
            given = f"FROM ENV '{known.variable}'" if known.variable else f"AS '{HIDDEN}'"
            return Result(text=f"CREATE SECRET {known.name} {given};")
        made = kept.find(statement.name.text)
        assert made is not None  # which was checked
        return Result(text=f"{redacted(made.text)};")

    def describe(self, statement: Describe, kept: Kept) -> Result:
        name = statement.name.text
        if statement.kind is Kind.SECRET:
            return self._secret(name)
        schema, _, table = name.rpartition(".")
        if schema:
            found = TABLES[table.lower()]
            rows = tuple((each.name, each.type, each.help) for each in found.columns)
            return Result(("column", "type", "help"), rows, note=found.summary)
        made = kept.find(name)
        assert made is not None  # which was checked
        return self._described(made, kept)

    def _described(self, made: Named, kept: Kept) -> Result:
        match made:
            case CreateConnection():
                options = [("connector", made.connector.text), *_options(made.options)]
                return Result(("option", "value"), tuple(options))
            case CreateTable():
                return self._table(made, kept)
            case CreateView():
                return _named_columns(made.name.text, kept)
            case CreatePipeline():
                return Result(_PROPERTIES, tuple(self._pipeline(made, kept)))
            case Broken():
                return Result(note=f"{made.name} was kept by another version of Headrace")

    def _table(self, made: CreateTable, kept: Kept) -> Result:
        if made.columns is None:
            return self._registered(made, kept) or _named_columns(made.name.text, kept)
        rows = tuple(
            (
                column.name.text,
                column.type,
                column.nullable,
                column.generated.sql if column.generated else None,
            )
            for column in made.columns
        )
        late = made.watermark
        note = f"watermark: {late.delay_ms} ms behind `{late.column}`" if late else None
        return Result(_COLUMNS, rows, note=note)

    def _registered(self, made: CreateTable, kept: Kept) -> Result | None:
        """The columns that a schema registry knows; None where it is not asked."""
        definition = self._checker.definition(everything_of(made.name), kept)
        if any(fault.severity is Severity.ERROR for fault in definition.check()):
            return None  # it is a sink, or what it lacks is told where it is read
        try:
            found = registered.columns(definition)
        except OutsideError as error:
            return Result(_COLUMNS, (), note="only the registry knows them", warnings=(str(error),))
        if found is None:
            return None
        rows = tuple((each.name, each.type, each.nullable, None) for each in found.columns)
        return Result(_COLUMNS, rows, note=f"by {found.origin}")

    def _pipeline(self, made: CreatePipeline, kept: Kept) -> Iterator[tuple[str, Any]]:
        name = made.name.text
        sql = f"SELECT * FROM system.pipelines WHERE name = '{name}'"
        for row in select(sql, self._project).records:
            yield from ((key, value) for key, value in row.items() if value is not None)
        yield from _options(made.options)
        yield "uses", ", ".join(sorted(kept.uses(made)))
        log = log_of(PipelineState(self._project.state(name)))
        if log.exists():
            yield "log", str(log)

    def _secret(self, name: str) -> Result:
        known = self._known_secret(name)
        rows: tuple[tuple[str, Any], ...] = (
            ("name", known.name),
            ("value", HIDDEN if known.variable is None else f"in the variable {known.variable}"),
            ("known", self._catalog.secret(name) is not None),
            ("changed", known.changed),
        )
        return Result(_PROPERTIES, rows)

    def _known_secret(self, name: str) -> Secret:
        return next(s for s in self._catalog.secrets() if s.name.lower() == name.lower())


def _named_columns(name: str, kept: Kept) -> Result:
    """The names of columns as far as they can be told without Spark."""
    columns = kept.compiler.queries.columns(name)
    if columns is None:
        note = f"only Spark can tell its columns: SELECT * FROM {name} LIMIT 1"
        return Result(_COLUMNS, (), note=note)
    rows = tuple((column, None, True, None) for column in columns)
    return Result(_COLUMNS, rows, note="Spark finds the types")


def _options(fields: Fields) -> Iterator[tuple[str, str]]:
    for name, field in fields.items():
        yield name, shown(name, _text(field.node))


def _text(node: Node) -> str:
    if isinstance(node.value, list):
        return ", ".join(_text(item) for item in node.value)
    if isinstance(node.value, dict):
        return ", ".join(f"{key} = {shown(key, _text(f.node))}" for key, f in node.value.items())
    return str(node.value).lower() if isinstance(node.value, bool) else node.text
