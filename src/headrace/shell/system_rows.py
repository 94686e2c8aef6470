"""The rows of the system tables, computed when a query asks for them.

Clusters are asked side by side, each once however many connections name it. One that does not
answer gives a warning, and rows that say so where a table has a column for it; the rows of all
others are there.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.admin import brokers, groups, letters_reading, topics
from headrace.admin import offsets as partition_offsets
from headrace.admin.client import Cluster
from headrace.catalog import Catalog, Entry
from headrace.errors import HeadraceError, UnknownGroup, UnknownTopicOrPartition
from headrace.frontend.options import PIPELINE
from headrace.frontend.sql.statements import CreatePipeline, CreateTable
from headrace.model.query import Query
from headrace.project import Project
from headrace.runtime import status
from headrace.shell import connections
from headrace.shell.known import Connection, Known
from headrace.shell.system_tables import TABLES
from headrace.shell.threads import side_by_side

CONNECT_SECONDS = 5.0
TEST_SECONDS = 15.0
# So many clusters, or groups of one cluster, are asked at a time.
SIDE_BY_SIDE = 8

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Asked:
    """What a query can be seen to ask for; rows that it leaves out need not be made.

    `values` are texts that a column must be one of. `columns` are those that it may read, or None
    for all of them.
    """

    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    columns: frozenset[str] | None = None

    def admits(self, column: str, value: str) -> bool:
        return column not in self.values or value in self.values[column]

    def reads(self, *columns: str) -> bool:
        return self.columns is None or not self.columns.isdisjoint(columns)


@dataclass(frozen=True)
class Found:
    """In the order of the table's columns."""

    rows: list[tuple[Any, ...]]
    warnings: list[str]


@dataclass
class _Context:
    known: Known
    catalog: Catalog
    project: Project
    asked: Asked
    warnings: list[str] = field(default_factory=list)


def rows(name: str, known: Known, project: Project, asked: Asked) -> Found:
    """Of one system table."""
    context = _Context(known, Catalog.of(project), project, asked)
    made = list(_MAKERS[name](context))
    names = TABLES[name].names
    return Found([tuple(row.get(column) for column in names) for row in made], context.warnings)


# The catalog and the state folders


def _connections(context: _Context) -> Iterator[Row]:
    wanted = [
        each
        for each in context.known.connections.values()
        if context.asked.admits("name", each.name)
    ]
    tested: Iterable[connections.Report | None] = [None] * len(wanted)
    if context.asked.reads("status", "error"):
        folder = context.project.root
        tested = side_by_side(
            lambda each: connections.examine(each, folder, TEST_SECONDS), wanted, SIDE_BY_SIDE
        )
    for connection, report in zip(wanted, tested, strict=True):
        failure = report.failure if report else None
        yield {
            **_described(connection),
            "name": connection.name,
            "address": _seen(connection, connection.address),
            "group_id": _seen(connection, connection.group),
            "status": report and ("ok" if report.ok else "failed"),
            "error": failure and f"{failure.check}: {failure.detail}",
            "changed": _changed(context, connection.name),
        }


def _described(connection: Connection) -> Row:
    named = connection.options.get
    subscribed = str(connection.subscription)
    return {
        "connector": connection.connector,
        "type": connection.role,
        "format": named("format"),
        "topic": _seen(connection, subscribed or named("table") or named("path")),
    }


def _seen(connection: Connection, value: str | None) -> str | None:
    return value and connection.hide(value)


def _tables(context: _Context) -> Iterator[Row]:
    for statement in context.known.definitions.each(CreateTable):
        table = context.known.tables[statement.name.text]
        yield {
            **_described(table),
            "name": table.name,
            "connection": table.over,
            "columns": _columns(statement),
            "watermark": statement.watermark and statement.watermark.column.text,
            "changed": _changed(context, table.name),
        }


def _columns(statement: CreateTable) -> str | None:
    if statement.columns is None:
        return None
    return ", ".join(
        f"{column.name} {column.type or ''}".strip() + ("" if column.nullable else " NOT NULL")
        for column in statement.columns
    )


def _views(context: _Context) -> Iterator[Row]:
    for view in context.known.views:
        yield {
            "name": view.name.text,
            "query": view.query and view.query.sql,
            "changed": _changed(context, view.name.text),
        }


def _secrets(context: _Context) -> Iterator[Row]:
    for secret in context.catalog.secrets():
        yield {
            "name": secret.name,
            "variable": secret.variable,
            "known": context.catalog.secret(secret.name) is not None,
            "changed": _time(secret.changed),
        }


def _pipelines(context: _Context) -> Iterator[Row]:
    reported = {report.pipeline: report for report in status.reports(context.project)}
    made = {name: context.known.entries[name] for name in context.known.pipelines}
    for name in sorted({*reported, *made}):
        report, entry = reported.get(name), made.get(name)
        yield {
            **(_made(context.known.pipelines[name]) if entry else {}),
            **(_ran(report) if report else {}),
            "name": name,
            "state": _state(report, entry),
            "origin": "catalog" if entry else report and report.file,
            "changed": _time(entry.changed) if entry else None,
        }


def _ran(report: status.PipelineReport) -> dict[str, Any]:
    same = ("mode", "records", "written", "dead_letters", "late", "lag", "rate", "loses_in", "pid")
    return {
        **{name: getattr(report, name) for name in same},
        "error": report.error,
        "last_batch": _time(report.last_batch),
    }


def _state(report: status.PipelineReport | None, entry: Entry | None) -> str:
    if report is not None and report.pid is not None:
        return report.state
    if entry is not None and entry.state == "paused":
        return "paused"
    return report.state if report else "created"


def _made(pipeline: CreatePipeline) -> Row:
    """What its statement says by itself."""
    queries = [pipeline.query] if pipeline.query else [each.query for each in pipeline.inserts]
    read = [Query.parse(each.sql, each.span)[0] for each in queries]
    sources = dict.fromkeys(table for query in read if query for table in query.tables)
    named = pipeline.options.get("sink")
    sinks = [each.table.text for each in pipeline.inserts]
    sinks += [part.strip() for part in named.node.text.split(",")] if named else []
    mode = pipeline.options.get("mode")
    return {
        "mode": mode.node.text if mode else PIPELINE.option("mode").default,
        "sources": ", ".join(sources),
        "sinks": ", ".join(dict.fromkeys(sinks)) or None,
    }


def _changed(context: _Context, name: str) -> datetime.datetime | None:
    return _time(context.known.entries[name].changed)


def _time(text: str | None) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text) if text else None


# The clusters


def _consumer_groups(context: _Context) -> Iterator[Row]:
    def standing(cluster: Cluster) -> list[Row]:
        names = [n for n in groups.names(cluster) if context.asked.admits("group_id", n)]
        found = side_by_side(lambda name: _group(cluster, name), names, SIDE_BY_SIDE)
        return [row for group in found for row in group]

    yield from _of_clusters(context, standing)


def _group(cluster: Cluster, name: str) -> list[Row]:
    try:
        group = groups.describe(cluster, name)
        positions = groups.positions(cluster, name)
    except UnknownGroup:  # deleted since it was listed
        return []
    whole = {"group_id": name, "state": group.state, "members": len(group.members)}
    return [{**whole, **_position(each)} for each in positions] or [whole]


def _position(position: groups.Position) -> Row:
    member = position.member
    return {
        "topic": position.topic,
        "partition": position.partition,
        "current_offset": position.current,
        "log_end_offset": position.end,
        "lag": position.lag,
        "member": member and member.id,
        "host": member and member.host,
        "client_id": member and member.client,
    }


def _brokers(context: _Context) -> Iterator[Row]:
    def up(cluster: Cluster) -> list[Row]:
        return [
            {
                "broker_id": each.id,
                "host": each.host,
                "port": each.port,
                "rack": each.rack,
                "status": "up",
            }
            for each in brokers.list_all(cluster)
        ]

    def down(connection: Connection, error: HeadraceError) -> Iterator[Row]:
        for server in (connection.servers or "").split(","):
            host, _, port = server.strip().rpartition(":")
            yield {
                "host": connection.hide(host),
                "port": int(port),
                "status": "unreachable",
                "error": connection.hide(f"{error.code}: {error}"),
            }

    yield from _of_clusters(context, up, down)


def _topics(context: _Context) -> Iterator[Row]:
    def listed(cluster: Cluster) -> list[Row]:
        found = [t for t in topics.list_all(cluster) if context.asked.admits("topic", t.name)]
        counts = _records(cluster, found) if context.asked.reads("records") else {}
        return [
            {
                "topic": each.name,
                "partitions": len(each.partitions),
                "replication": each.replication,
                "under_replicated": each.under_replicated,
                "leaderless": each.leaderless,
                "records": counts.get(each.name),
            }
            for each in found
        ]

    yield from _of_clusters(context, listed)


def _records(cluster: Cluster, found: Sequence[topics.Topic]) -> dict[str, int]:
    keys = [
        (topic.name, partition.id)
        for topic in found
        for partition in topic.partitions
        if partition.leader is not None
    ]
    first, end = partition_offsets.earliest(cluster, keys), partition_offsets.latest(cluster, keys)
    counts: dict[str, int] = {}
    for key in first.keys() & end.keys():
        counts[key[0]] = counts.get(key[0], 0) + end[key] - first[key]
    return counts


def _dead_letters(context: _Context) -> Iterator[Row]:
    everything = (*context.known.connections.values(), *context.known.tables.values())
    named = {topic for each in everything if (topic := each.options.get("dlq_topic"))}

    def counted(cluster: Cluster) -> list[Row]:
        there = [name for name in topics.names(cluster) if name in named]
        wanted = sorted({*there, *letters_reading.candidates(cluster)})
        wanted = [name for name in wanted if context.asked.admits("topic", name)]
        return [
            {
                "topic": each.topic,
                "pipeline": each.pipeline,
                "source": each.source,
                "error": each.error,
                "letters": each.letters,
                "redriven": each.redriven,
                "oldest": _moment(each.oldest),
                "newest": _moment(each.newest),
            }
            for name in wanted
            for each in _tallies(cluster, name, name in named)
        ]

    yield from _of_clusters(context, counted)


def _tallies(cluster: Cluster, topic: str, named: bool) -> list[letters_reading.Tally]:
    try:
        return letters_reading.tallies(cluster, topic, named)
    except UnknownTopicOrPartition:  # deleted since it was listed
        return []


def _moment(time_ms: int | None) -> datetime.datetime | None:
    return (
        None if time_ms is None else datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    )


def _no_rows(_connection: Connection, _error: HeadraceError) -> Iterator[Row]:
    return iter(())


def _of_clusters(
    context: _Context,
    ask: Callable[[Cluster], list[Row]],
    unanswered: Callable[[Connection, HeadraceError], Iterable[Row]] = _no_rows,
) -> Iterator[Row]:
    """What each cluster answers, once for every connection that names it."""
    by_cluster: dict[tuple[Any, ...], list[Connection]] = {}
    for name, each in context.known.kafka.items():
        if context.asked.admits("connection", name):
            by_cluster.setdefault((each.servers, *sorted(each.login.items())), []).append(each)

    def answer(sharing: list[Connection]) -> list[Row] | HeadraceError:
        try:
            return ask(sharing[0].cluster(CONNECT_SECONDS))
        except HeadraceError as error:
            return error

    answers = side_by_side(answer, by_cluster.values(), SIDE_BY_SIDE)
    for sharing, found in zip(by_cluster.values(), answers, strict=True):
        names = ", ".join(each.name for each in sharing)
        if isinstance(found, HeadraceError):
            context.warnings.append(sharing[0].hide(f"{names}: {found}"))
        for each in sharing:
            made = unanswered(each, found) if isinstance(found, HeadraceError) else found
            yield from ({"connection": each.name, **row} for row in made)


_MAKERS: dict[str, Callable[[_Context], Iterator[Row]]] = {
    "connections": _connections,
    "tables": _tables,
    "views": _views,
    "pipelines": _pipelines,
    "secrets": _secrets,
    "kafka_consumer_groups": _consumer_groups,
    "kafka_brokers": _brokers,
    "kafka_topics": _topics,
    "dead_letters": _dead_letters,
}
