"""Tables that follow a table of PostgreSQL by the changes that Debezium would tell of it.

The same changes are made in a real PostgreSQL and sent as messages; what comes out must be equal.
"""

from __future__ import annotations

import datetime
import io
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyspark.sql import SparkSession
from tests.debezium import Field, Log, envelope_schema

from headrace import load
from headrace.admin import records
from headrace.admin.letters import Letter
from headrace.testing.postgres import Database

from .conftest import Bench

COLUMNS = {
    "id": "BIGINT PRIMARY KEY",
    "customer": "TEXT",
    "born": "DATE",
    "placed": "TIMESTAMP",
    "seen": "TIMESTAMPTZ",
    "amount": "NUMERIC(12, 2)",
}
FIELDS = {
    "id": Field("int64"),
    "customer": Field("string"),
    "born": Field("int32", "io.debezium.time.Date"),
    "placed": Field("int64", "io.debezium.time.MicroTimestamp"),
    "seen": Field("string", "io.debezium.time.ZonedTimestamp"),
    "amount": Field("bytes", "org.apache.kafka.connect.data.Decimal", 2),
}

FOLLOWING = """\
pipeline: NAME
mode: stream
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  batch_size: 200
  dlq_topic: TOPIC.dlq
  format: debezium
  schema: "id BIGINT NOT NULL, customer STRING, born DATE, placed TIMESTAMP, seen TIMESTAMP,
    amount DECIMAL(12, 2)"
  debezium: {change_columns: true}
transform:
  - sql: >
      SELECT id AS number, concat(customer, '!') AS customer, born, placed, seen, amount,
      _change_position AS position FROM source WHERE amount >= 0
sinks:
  table: {connector_type: delta, path: table, mode: upsert, key: number, order_by: position}
  database: {connector_type: jdbc, url: 'URL', user: USER, password: 'PASSWORD', table: followed,
    mode: upsert, key: number}
  topic: {connector_type: kafka, topic: TOPIC-rows, key: number}
"""
HISTORY = """\
pipeline: NAME-history
mode: batch
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  format: debezium
  schema: "id BIGINT, amount DECIMAL(12, 2)"
  debezium: {change_columns: true, deletes: rows}
  bad_data: skip
sink: {connector_type: delta, path: history}
"""
AVRO: dict[str, Any] = {
    "id": "long",
    "customer": ["null", "string"],
    "born": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}],
    "placed": ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}],
    "seen": ["null", {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}],
    "amount": [
        "null",
        {
            "type": "bytes",
            "connect.name": "org.apache.kafka.connect.data.Decimal",
            "logicalType": "decimal",
            "precision": 12,
            "scale": 2,
        },
    ],
}
BY_REGISTRY = """\
pipeline: NAME
mode: batch
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  dlq_topic: TOPIC.dlq
  format: debezium
  schema_registry: {endpoint: 'REGISTRY'}
  key_format: avro
  key_column: record_key
transform:
  - sql: SELECT * EXCEPT (record_key) FROM source
sink: {connector_type: delta, path: table, mode: upsert, key: id, merge_schema: true}
"""


@dataclass
class Origin:
    """A table of PostgreSQL, and the changes that were made in it, as messages."""

    database: Database
    log: Log
    random: random.Random
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        self.database.execute(f"CREATE TABLE orders ({columns})")

    def snapshot(self, count: int) -> Iterator[tuple[bytes, bytes | None]]:
        for number in range(count):
            row = self.row(number)
            self._insert(row)
            yield self.log.change("r", None, row)

    def changes(self, count: int) -> Iterator[tuple[bytes, bytes | None]]:
        for _ in range(count):
            number = self.random.randrange(40)
            there = self.rows.get(number)
            if there is None:
                row = self.row(number)
                self._insert(row)
                yield from self.log.insert(row)
            elif self.random.random() < 0.3:
                yield from self.remove(number)
            else:
                free = [each for each in range(40) if each not in self.rows]
                moved = self.random.choice(free) if free and self.random.random() < 0.2 else number
                row = self.row(moved)
                self._delete(number)
                self._insert(row)
                yield from self.log.update(there, row)

    def now(self, customer: str = "customer || '!'") -> list[tuple[Any, ...]]:
        """The table as the database has it."""
        sql = f"SELECT id, {customer}, born, placed, seen, amount FROM orders ORDER BY id"
        return [_plain(row) for row in self.database.execute(sql)]

    def row(self, number: int) -> dict[str, Any]:
        moment = datetime.datetime(1975, 1, 1, tzinfo=datetime.UTC)
        seconds = datetime.timedelta(seconds=self.random.randrange(2**31), microseconds=123_456)
        return {
            "id": number,
            "customer": self.random.choice([None, "a", "zoë", "O'Neil", '"']),
            "born": datetime.date(1900, 1, 1) + datetime.timedelta(self.random.randrange(40_000)),
            "placed": moment + seconds,
            "seen": moment - seconds,
            "amount": Decimal(self.random.randrange(10**11)).scaleb(-2),
        }

    def _insert(self, row: dict[str, Any]) -> None:
        self.rows[row["id"]] = row
        values = row | {"placed": row["placed"].replace(tzinfo=None)}
        places = ", ".join(["%s"] * len(row))
        self.database.execute(f"INSERT INTO orders VALUES ({places})", *values.values())

    def remove(self, number: int) -> list[tuple[bytes, bytes | None]]:
        row = self.rows[number]
        self._delete(number)
        return list(self.log.delete(row))

    def _delete(self, number: int) -> None:
        del self.rows[number]
        self.database.execute("DELETE FROM orders WHERE id = %s", number)


def _plain(row: Iterable[Any]) -> tuple[Any, ...]:
    """With times of UTC, and without their zone."""
    return tuple(
        each.astimezone(datetime.UTC).replace(tzinfo=None)
        if isinstance(each, datetime.datetime) and each.tzinfo is not None
        else each
        for each in row
    )


def send(
    bench: Bench,
    messages: Iterable[tuple[bytes | None, bytes | None]],
    place: Callable[[bytes | None], int | None] = lambda _key: None,
) -> None:
    made = [records.Record(value, key=key, partition=place(key)) for key, value in messages]
    records.produce(bench.cluster, bench.topic, made).raise_if_rejected()


def by_id(key: bytes | None) -> int:
    """The partition of a key, which stays the same however it is written."""
    told = json.loads(key or b"{}")
    return int(told.get("payload", told).get("id", 0)) % 2


def table(spark: SparkSession, bench: Bench, *columns: str) -> list[tuple[Any, ...]]:
    rows = spark.read.format("delta").load(str(bench.folder / "table"))
    return [tuple(row) for row in rows.selectExpr(*columns).orderBy(columns[0]).collect()]


def test_tables_follow_the_table_whose_changes_they_get(
    bench: Bench, database: Database, spark: SparkSession
) -> None:
    origin = Origin(database, Log(FIELDS), random.Random(7))
    text = FOLLOWING.replace("URL", database.url).replace("USER", database.user)
    file = bench.write(text.replace("PASSWORD", database.password))
    columns = ("number", "customer", "born", "placed", "seen", "amount")
    before = [*origin.snapshot(20), *origin.changes(60)]
    send(bench, before, by_id)
    load(file).run(spark=spark, once=True)
    assert table(spark, bench, *columns) == origin.now()

    # A connector that was killed tells its last changes again; messages may also carry schemas.
    origin.log.wrapped = True
    after = [*before[-30:], *origin.changes(120)]
    others = [(None, b'{"op": "x"}'), (b'{"id": 1}', b'{"op": "t"}'), (b'{"id": 2}', b"{}")]
    send(bench, [*after, *others], by_id)
    summary = load(file).run(spark=spark, once=True)
    assert table(spark, bench, *columns) == origin.now()
    followed = f"SELECT {', '.join(columns)} FROM followed ORDER BY number"
    assert [_plain(row) for row in database.execute(followed)] == origin.now()
    newest = {record.key: record.value for record in bench.read(f"{bench.topic}-rows")}
    kept = {int(key or b""): json.loads(value) for key, value in newest.items() if value}
    assert [(row["number"], row["customer"]) for _, row in sorted(kept.items())] == [
        row[:2] for row in origin.now()
    ]
    letters = [Letter.of(record) for record in bench.read(f"{bench.topic}.dlq")]
    assert sorted(str(each.error) for each in letters) == ["NOT_A_CHANGE", "TRUNCATE", "UNKNOWN_OP"]
    assert (summary.records, summary.bad) == (len(after) + 3, 3)

    load(bench.write(HISTORY, "history.yaml")).run(spark=spark)
    history = spark.read.format("delta").load(str(bench.folder / "history"))
    told = [json.loads(value) for _, value in [*before, *after] if value is not None]
    ops = Counter(value.get("payload", value)["op"] for value in told)
    found = history.groupBy("_change_op").count().collect()
    assert {row[0]: row[1] for row in found} == ops
    assert ops["d"] > 10


class Number(Field):
    """Avro's encoder makes the bytes of a number itself."""

    def encoded(self, value: Any) -> Any:
        return value


@dataclass
class AvroLog(Log):
    """The same changes in Avro, with the ids that a registry gives to their schemas."""

    registry: SchemaRegistryClient = field(kw_only=True)
    topic: str = field(kw_only=True)
    columns: dict[str, Any] = field(default_factory=lambda: dict(AVRO))

    def encoded(self, key: Any, value: Any) -> tuple[bytes, bytes]:
        keys = [{"name": name, "type": self.columns[name]} for name in self.keys]
        of_keys = {"type": "record", "name": "Key", "fields": keys}
        value = self._framed("value", envelope_schema(self.columns), value)
        return self._framed("key", of_keys, key), value

    def _framed(self, part: str, schema: dict[str, Any], value: Any) -> bytes:
        id = self.registry.register_schema(f"{self.topic}-{part}", Schema(json.dumps(schema)))
        written = io.BytesIO(b"\0" + id.to_bytes(4, "big"))
        written.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(written, schema, value)
        return written.getvalue()


def test_a_table_follows_by_the_schemas_of_a_registry_as_columns_are_added(
    bench: Bench, database: Database, spark: SparkSession, registry_url: str
) -> None:
    registry = SchemaRegistryClient({"url": registry_url})
    fields = {**FIELDS, "amount": Number("bytes")}
    log = AvroLog(fields, registry=registry, topic=bench.topic)
    origin = Origin(database, log, random.Random(8))
    file = bench.write(BY_REGISTRY.replace("REGISTRY", registry_url))
    send(bench, [*origin.snapshot(10), *origin.changes(30), (b"?", b"no frame")])
    load(file).run(spark=spark)
    assert table(spark, bench, *FIELDS) == origin.now("customer")

    log.columns["note"] = ["null", "string"]
    log.fields["note"] = Field("string")
    send(bench, origin.changes(40))
    noted = {**origin.row(50), "note": "added"}
    send(bench, log.insert(noted))
    # Kafka's compaction may leave nothing of a deletion but its tombstone.
    gone = next(iter(origin.rows))
    *_, (key, _) = origin.remove(gone)
    send(bench, [(key, None)])
    load(file).run(spark=spark)
    *followed, added = table(spark, bench, *FIELDS, "note")
    assert [row[:-1] for row in followed] == origin.now("customer")
    assert added == (*_plain(noted.values()),)
    (letter,) = [Letter.of(record) for record in bench.read(f"{bench.topic}.dlq")]
    assert letter.error == "NOT_FRAMED"
