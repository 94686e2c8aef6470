"""The system tables by name: their columns with Spark's types, and what each column says.

The reference in `docs/system-tables.md`, completion, and `DESCRIBE system.…` are made of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    help: str


@dataclass(frozen=True)
class Table:
    name: str
    summary: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def schema(self) -> str:
        """As Spark declares it."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)


def _table(name: str, summary: str, *columns: tuple[str, str, str]) -> Table:
    return Table(name, summary, tuple(Column(*column) for column in columns))


_CHANGED = ("changed", "TIMESTAMP", "When it was created or replaced.")
_CONNECTION = ("connection", "STRING", "The connection, or table, whose cluster was asked.")

TABLES = {
    table.name: table
    for table in (
        _table(
            "connections",
            "The connections of the catalog, each tested as `test_connection` does.",
            ("name", "STRING", "Its name."),
            ("connector", "STRING", "`kafka`, `jdbc`, `delta`, `files` and so on."),
            ("type", "STRING", "`source` or `sink`; NULL where its use decides."),
            ("format", "STRING", "The format of its records, where it names one."),
            ("address", "STRING", "Its servers, URL or path."),
            ("topic", "STRING", "Its topics or pattern, or its database table."),
            ("group_id", "STRING", "The consumer group that it names."),
            ("status", "STRING", "`ok`, or `failed`."),
            ("error", "STRING", "The first check that failed, and why."),
            _CHANGED,
        ),
        _table(
            "tables",
            "The tables of the catalog.",
            ("name", "STRING", "Its name."),
            ("connection", "STRING", "The connection that it is made over; NULL for none."),
            ("connector", "STRING", "What it reads from or writes to."),
            ("type", "STRING", "`source` or `sink`; NULL where its use decides."),
            ("format", "STRING", "The format of its records, where it names one."),
            ("topic", "STRING", "Its topics, path or database table."),
            ("columns", "STRING", "Its declared columns; NULL where it declares none."),
            ("watermark", "STRING", "The column of its watermark."),
            _CHANGED,
        ),
        _table(
            "views",
            "The views of the catalog.",
            ("name", "STRING", "Its name."),
            ("query", "STRING", "Its SELECT."),
            _CHANGED,
        ),
        _table(
            "pipelines",
            "The pipelines of the catalog, and all that were ever run in this folder.",
            ("name", "STRING", "Its name."),
            ("state", "STRING", "`created`, `starting`, `running`, `stopped`, `paused`, …"),
            ("mode", "STRING", "`stream` or `batch`."),
            ("origin", "STRING", "`catalog`, or the file that it was run from."),
            ("sources", "STRING", "The tables that it reads."),
            ("sinks", "STRING", "The tables that it writes."),
            ("records", "BIGINT", "Records that its latest run has read."),
            ("written", "BIGINT", "Rows that its latest run has written."),
            ("dead_letters", "BIGINT", "Bad records that its latest run has set aside."),
            ("late", "BIGINT", "Rows that came too late for their window."),
            ("lag", "BIGINT", "Records that wait to be read; NULL where nobody can tell."),
            ("rate", "DOUBLE", "Records a second of its latest batch."),
            ("loses_in", "STRING", "How long until unread records may be gone."),
            ("last_batch", "TIMESTAMP", "When its latest batch ended."),
            ("pid", "BIGINT", "The process that runs it."),
            ("error", "STRING", "What ended its latest run, if it failed."),
            _CHANGED,
        ),
        _table(
            "secrets",
            "The names of secrets; never their values.",
            ("name", "STRING", "Its name."),
            ("variable", "STRING", "The environment variable that holds it, if one does."),
            ("known", "BOOLEAN", "Whether there is a value now."),
            _CHANGED,
        ),
        _table(
            "kafka_consumer_groups",
            "Where the consumer groups of each cluster stand, a row for each partition.",
            _CONNECTION,
            ("group_id", "STRING", "The group."),
            ("state", "STRING", "`stable`, `empty`, `rebalancing`, `dead`."),
            ("members", "BIGINT", "How many consumers are in it."),
            ("topic", "STRING", "NULL for a group without positions."),
            ("partition", "INT", "The partition."),
            ("current_offset", "BIGINT", "The offset that it reads next."),
            ("log_end_offset", "BIGINT", "The offset that the next record will get."),
            ("lag", "BIGINT", "How many offsets lie between them."),
            ("member", "STRING", "The consumer that reads the partition now."),
            ("host", "STRING", "Where that consumer is."),
            ("client_id", "STRING", "What it calls itself."),
        ),
        _table(
            "kafka_brokers",
            "The brokers of each cluster; those of one that does not answer as they are named.",
            _CONNECTION,
            ("broker_id", "BIGINT", "NULL where the cluster does not answer."),
            ("host", "STRING", "Where clients are told to find it."),
            ("port", "INT", "Its port."),
            ("rack", "STRING", "Its rack, if it has one."),
            ("status", "STRING", "`up`, or `unreachable`."),
            ("error", "STRING", "Why it cannot be reached."),
        ),
        _table(
            "kafka_topics",
            "The topics of each cluster, without Kafka's own.",
            _CONNECTION,
            ("topic", "STRING", "Its name."),
            ("partitions", "BIGINT", "How many partitions."),
            ("replication", "BIGINT", "How many brokers hold each."),
            ("under_replicated", "BIGINT", "Partitions of which a replica is behind."),
            ("leaderless", "BIGINT", "Partitions that nobody can read or write now."),
            ("records", "BIGINT", "Offsets between its oldest record and its end."),
        ),
        _table(
            "dead_letters",
            "The letters of each dead-letter topic, by pipeline, source and reason.",
            _CONNECTION,
            ("topic", "STRING", "The dead-letter topic."),
            ("pipeline", "STRING", "Who set them aside."),
            ("source", "STRING", "The topic of the bad records."),
            ("error", "STRING", "The code of what is wrong with them."),
            ("letters", "BIGINT", "How many."),
            ("redriven", "BIGINT", "How many of them were sent again."),
            ("oldest", "TIMESTAMP", "When the first of them was written."),
            ("newest", "TIMESTAMP", "When the last of them was written."),
        ),
    )
}
