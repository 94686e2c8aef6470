"""Producers that change their schema while a pipeline runs, with Confluent's own serializer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

import headrace
from headrace.admin import records
from headrace.api import Run
from headrace.cli.main import main
from headrace.errors import IncompatibleChange
from headrace.formats.deadletter import HEADER_PREFIX
from headrace.runtime.progress import BatchDone, Event, SchemaChanged, Started, Warned
from headrace.testing import Crash, crash_at

from .conftest import Bench

PIPELINE = """\
pipeline: NAME
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  format: confluent_avro
  schema_registry: {endpoint: 'REGISTRY'}
  schema_evolution: widen
  SOURCE
transform:
  sql: SELECT * FROM source
sinks:
  copy:
    connector_type: kafka
    topic: TOPIC.copy
    format: confluent_avro
    schema_registry: {endpoint: 'REGISTRY'}
"""
TABLE = """\
  table:
    connector_type: delta
    path: orders
    merge_schema: true
    widen_types: true
"""
ID = {"name": "id", "type": "long"}
AMOUNT = {"name": "amount", "type": "int"}
WIDE = {"name": "amount", "type": "long"}
# The registry takes it for compatible; but not every BIGINT is a DOUBLE.
DOUBLE = {"name": "amount", "type": "double"}
CURRENCY = {"name": "currency", "type": ["null", "string"], "default": None}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


def schema(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


@dataclass
class Shop:
    """Orders by schemas that change, the pipeline on them, and what it has made of them."""

    bench: Bench
    url: str
    spark: SparkSession
    client: SchemaRegistryClient
    events: list[Event] = field(default_factory=list)
    told: threading.Event = field(default_factory=threading.Event)

    def send(self, text: str, *orders: dict[str, Any], subject: str | None = None) -> None:
        """As a producer does: the schema is registered, and then messages are sent with it."""
        conf = {"subject.name.strategy": lambda *_: subject} if subject else {}
        serialize = AvroSerializer(self.client, text, conf=conf)
        context = SerializationContext(self.bench.topic, MessageField.VALUE)
        made = [
            records.Record(serialize(order, context), partition=number % 2)
            for number, order in enumerate(orders)
        ]
        records.produce(self.bench.cluster, self.bench.topic, made).raise_if_rejected()

    def write(self, text: str, source: str = "batch_size: 1000") -> Path:
        words = text.replace("REGISTRY", self.url).replace("SOURCE", source)
        return self.bench.write(words)

    @contextmanager
    def running(self, file: Path) -> Iterator[Run]:
        """A run in a thread of its own, from when its registry has been asked."""

        def listen(event: Event) -> None:
            self.events.append(event)
            self.told.set()

        before = len(self.events)
        run = headrace.load(file).prepare(spark=self.spark, on_event=listen).start()
        try:
            self.await_(lambda: Started in map(type, self.events[before:]))
            yield run
        finally:
            run.stop()

    def until(self, written: int) -> None:
        """Waits until so many rows are written by the runs of this test."""
        self.await_(lambda: self.written >= written)

    def await_(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert self.told.wait(120), f"{self.written} rows are written; {self.events}"
            self.told.clear()

    @property
    def written(self) -> int:
        return sum(each.written for each in self.events if isinstance(each, BatchDone))

    @property
    def changes(self) -> list[str]:
        found = (each for each in self.events if isinstance(each, SchemaChanged))
        return [line for each in found for line in each.changes]

    def rows(self) -> list[dict[str, Any]]:
        table = self.spark.read.format("delta").load(str(self.bench.folder / "orders"))
        return [row.asDict() for row in table.orderBy("id").collect()]

    def copies(self) -> list[dict[str, Any]]:
        """What a consumer with Confluent's deserializer gets, each as often as it is there."""
        topic = f"{self.bench.topic}.copy"
        read = AvroDeserializer(self.client)
        context = SerializationContext(topic, MessageField.VALUE)
        found = [read(record.value, context) for record in self.bench.read(topic)]
        return sorted(found, key=lambda row: row["id"])


@pytest.fixture
def shop(bench: Bench, registry_url: str, spark: SparkSession) -> Shop:
    return Shop(bench, registry_url, spark, SchemaRegistryClient({"url": registry_url}))


def test_a_stream_takes_up_new_fields_and_wider_types_and_stops_at_what_does_not_fit(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is doubled, lost or NULL, though the process dies between the schema and its query;
    the operator then sets messages aside, or takes the new schema.
    """
    file = shop.write(PIPELINE + TABLE)
    first = [{"id": n, "amount": n} for n in range(10)]
    shop.send(schema(ID, AMOUNT), *first)
    second = [{"id": n, "amount": n, "currency": "EUR"} for n in range(10, 20)]
    with crash_at("schema.kept"), shop.running(file) as run:
        shop.until(10)
        shop.send(schema(ID, AMOUNT, CURRENCY), *second)
        with pytest.raises(Crash):
            run.wait()
    with shop.running(file) as run:
        shop.until(20)
        # Old and new producers side by side, while it runs.
        third = [{"id": n, "amount": 2**40 + n, "currency": "USD"} for n in range(20, 30)]
        shop.send(schema(ID, WIDE, CURRENCY), *third)
        shop.send(schema(ID, AMOUNT), *({"id": n, "amount": n} for n in range(30, 35)))
        shop.until(35)
        run.stop()
        run.wait()
    last = [{"id": n, "amount": n, "currency": None} for n in range(30, 35)]
    expected = [*({**order, "currency": None} for order in first), *second, *third, *last]
    assert shop.rows() == expected
    assert shop.copies() == [*first, *second, *third, *last]
    assert shop.changes == ["+ currency STRING", "~ amount INT → BIGINT"]
    copied = f"{shop.bench.topic}.copy-value"
    assert len(shop.client.get_versions(copied)) == 3

    # 2. What does not fit stops it before anything is written, now and at the next start.
    with shop.running(file) as run:
        shop.send(schema(ID, DOUBLE, CURRENCY), {"id": 35, "amount": 35.5, "currency": None})
        with pytest.raises(IncompatibleChange) as stopped:
            run.wait()
    assert stopped.value.differences == ("~ amount BIGINT → DOUBLE",)
    with pytest.raises(SystemExit, match="4"):
        main(["run", str(file)])
    assert "~ amount BIGINT → DOUBLE" in capsys.readouterr().err
    assert shop.rows() == expected

    # 3. Messages that do not fit are set aside, and others of that time read.
    shop.send(schema(ID, WIDE, CURRENCY), {"id": 36, "amount": 36, "currency": "CHF"})
    aside = "on_incompatible_schema: dlq"
    summary = headrace.load(shop.write(PIPELINE + TABLE, aside)).run(spark=shop.spark, once=True)
    assert (summary.written, summary.bad) == (1, 1)
    (letter,) = shop.bench.read(f"{shop.bench.topic}.dlq")
    headers = {name: (value or b"").decode() for name, value in letter.headers}
    assert headers[f"{HEADER_PREFIX}error"] == "INCOMPATIBLE_SCHEMA"
    assert "~ amount BIGINT → DOUBLE" in headers[f"{HEADER_PREFIX}message"]

    # 4. The operator takes the schema, and has changed the step so that the table stays as it is.
    shop.send(schema(ID, DOUBLE, CURRENCY), {"id": 37, "amount": 37.0, "currency": None})
    step = "SELECT id, CAST(amount AS BIGINT) AS amount, currency FROM source"
    taken = headrace.load(shop.write((PIPELINE + TABLE).replace("SELECT * FROM source", step)))
    assert taken.run(spark=shop.spark, once=True, accept_schema=True).written == 1
    assert shop.rows()[-2:] == [
        {"id": 36, "amount": 36, "currency": "CHF"},
        {"id": 37, "amount": 37, "currency": None},
    ]


def test_a_shared_stream_takes_up_new_fields_and_schemas_of_other_subjects(shop: Shop) -> None:
    file = shop.write(PIPELINE, "share_partitions: true\n  consumer_group: NAME")
    first = [{"id": n, "amount": n} for n in range(6)]
    second = [{"id": n, "amount": n, "currency": "EUR"} for n in range(6, 12)]
    shop.send(schema(ID, AMOUNT), *first)
    with shop.running(file) as run:
        shop.until(6)
        shop.send(schema(ID, AMOUNT, CURRENCY), *second)
        shop.until(12)
        other = {"id": 12, "amount": 12, "currency": None, "note": "other"}
        shop.send(schema(ID, AMOUNT, CURRENCY, NOTE), other, subject=f"{shop.bench.topic}-other")
        shop.until(13)
        run.stop()
        run.wait()
    assert shop.copies() == [*first, *second, other]
    assert shop.changes == ["+ currency STRING", "+ note STRING"]


def test_a_batch_that_meets_a_schema_of_another_subject_is_done_again_exactly_once(
    shop: Shop,
) -> None:
    text = "mode: batch\nguarantee: exactly_once\n" + PIPELINE
    first = [{"id": n, "amount": n} for n in range(20)]
    other = {"id": 20, "amount": 20, "note": "other"}
    shop.send(schema(ID, AMOUNT), *first)
    shop.send(schema(ID, AMOUNT, NOTE), other, subject=f"{shop.bench.topic}-other")
    summary = headrace.load(shop.write(text)).run(spark=shop.spark, on_event=shop.events.append)
    assert summary.written == 21
    # Transactions that were committed before it was met have messages of the schema until then.
    copies = [{"note": None, **copy} for copy in shop.copies()]
    assert copies == [*({**order, "note": None} for order in first), other]
    (warning,) = (each.text for each in shop.events if isinstance(each, Warned))
    assert "it is done again, and nothing is twice" in warning
