"""What Kafka sinks write by a format with types: the schema made, given or found, and the bytes."""

from __future__ import annotations

import datetime
import io
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import message_factory
from pyspark.sql import SparkSession

import headrace
from headrace.admin import registry, stores
from headrace.admin.letters import Letter
from headrace.admin.records import Record
from headrace.admin.registry_client import connect
from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import StoredSchema
from headrace.errors import IncompatibleSchema
from headrace.formats import protobuf_schemas
from headrace.formats.options import Part

from .conftest import Bench

SOURCE = """
pipeline: NAME
mode: batch
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  schema: "id BIGINT NOT NULL, customer STRING, amount DECIMAL(10, 2), at TIMESTAMP"
"""
ROW = {"id": 1, "customer": "ann", "amount": "12.50", "at": "2024-05-01T12:00:00.250Z"}


STREAM = """
pipeline: NAME
guarantee: exactly_once
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  batch_size: 2
  schema: "id BIGINT NOT NULL, customer STRING, amount DECIMAL(10, 2), at TIMESTAMP"
transform:
  sql: COLUMNS
sink:
  connector_type: kafka
  topic: TOPIC.clean
  format: confluent_avro
  schema_registry: {endpoint: 'REGISTRY'}
  key: id
  key_format: confluent_avro
"""
NAMED = {
    "type": "record",
    "name": "Named",
    "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": "string"}],
}
ORDER = """\
syntax = "proto2";
message Other { required string not_this = 1; }
message Order { required int64 id = 1; optional string customer = 2; }
"""
AT = datetime.datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=datetime.UTC)


def rows(*ids: int, **values: Any) -> list[dict[str, Any]]:
    return [{**ROW, "id": number, **values} for number in ids]


def test_lines_of_csv_with_keys_of_json_by_both_writers(bench: Bench, spark: SparkSession) -> None:
    bench.produce([*rows(1, customer='a "b", c'), *rows(2, customer=None)])
    sinks = """
sinks:
  lines:
    connector_type: kafka
    topic: TOPIC.lines
    format: csv
    delimiter: ";"
    exclude: [at]
    key: id
    key_format: json
  sent:
    connector_type: kafka
    topic: TOPIC.sent
    format: csv
    writer: arrow
    envelope: {as: fields, type: order}
    key: named_struct('id', id, 'who', customer)
    key_format: json
"""
    summary = headrace.load(bench.write(SOURCE + sinks)).run(spark=spark)
    assert summary.written == 2
    lines = bench.read(f"{bench.topic}.lines")
    assert {(each.key, each.value) for each in lines} == {
        (b"1", b'1;"a ""b"", c";12.50'),
        (b"2", b"2;;12.50"),
    }
    sent = {json.loads(each.key or b"")["id"]: each for each in bench.read(f"{bench.topic}.sent")}
    assert json.loads(sent[2].key or b"") == {"id": 2, "who": None}
    fields = (sent[1].value or b"").decode().split(",")
    assert fields[-2:] == [bench.name, "order"]


def test_a_batch_writes_protobuf_and_by_a_schema_that_is_given(
    bench: Bench, spark: SparkSession, registry_url: str
) -> None:
    """A row without a value that one of the schemas wants is a dead letter, and goes nowhere."""
    (bench.folder / "named.avsc").write_text(json.dumps(NAMED))
    (bench.folder / "order.proto").write_text(ORDER)
    sinks = """
sinks:
  made:
    connector_type: kafka
    topic: TOPIC.made
    format: confluent_protobuf
    schema_registry: {endpoint: 'REGISTRY'}
    key: customer
    key_format: confluent_protobuf
  registered:
    connector_type: kafka
    topic: TOPIC.${region}
    allowed_topics: [TOPIC.eu, TOPIC.us]
    value_subject: TOPIC-all
    format: avro
    schema_file: named.avsc
    schema_registry: {endpoint: 'REGISTRY'}
    exclude: [at, amount, region]
    writer: arrow
  plain:
    connector_type: kafka
    topic: TOPIC.plain
    format: protobuf
    schema_file: order.proto
    message: Order
    exclude: [at, amount, region]
"""
    regions = "transform:\n  sql: SELECT *, IF(id = 2, 'us', 'eu') AS region FROM source"
    text = SOURCE + "  dlq_topic: TOPIC.dlq\n" + regions + sinks.replace("REGISTRY", registry_url)
    bench.produce([*rows(1, 2), *rows(3, customer=None), *rows(4, amount=None)])
    summary = headrace.load(bench.write(text)).run(spark=spark)
    assert (summary.written, summary.bad) == (3, 1)
    (letter,) = map(Letter.of, bench.read(f"{bench.topic}.dlq"))
    assert letter.error == "MISSING_FIELD"
    assert letter.message == "its schema wants a value for: customer"
    assert json.loads(letter.record.value or b"")["id"] == 3

    store = stores.opened(stores.RegistryAddress("confluent", registry_url, None, None))
    keyed, made = (message_of(store.newest(f"{bench.topic}.made-{part}")) for part in Part)
    messages = bench.read(f"{bench.topic}.made")
    found = {each.id: each for each in decoded(made, messages, frame=6)}
    assert sorted(found) == [1, 2, 4]
    assert (found[1].customer, found[1].amount, found[1].at.ToDatetime()) == (
        "ann", "12.50", AT.replace(tzinfo=None),
    )  # fmt: skip
    assert not found[4].HasField("amount")
    (field,) = keyed.DESCRIPTOR.fields
    keys = {getattr(keyed.FromString((each.key or b"")[6:]), field.name) for each in messages}
    assert keys == {"ann"}

    named = store.newest(f"{bench.topic}-all")
    assert named is not None
    assert json.loads(named.text) == NAMED
    for region, ids in (("eu", [1, 4]), ("us", [2])):
        values = [each.value or b"" for each in bench.read(f"{bench.topic}.{region}")]
        assert {each[:5] for each in values} == {b"\0" + int(named.id).to_bytes(4, "big")}
        read = [fastavro.schemaless_reader(io.BytesIO(each[5:]), NAMED, None) for each in values]
        assert sorted(read, key=str) == [{"id": id, "customer": "ann"} for id in ids]

    own = message_of(StoredSchema("0", SchemaType.PROTOBUF, ORDER), "Order")
    plain = decoded(own, bench.read(f"{bench.topic}.plain"), frame=0)
    assert sorted(each.id for each in plain) == [1, 2, 4]


def message_of(schema: StoredSchema | None, name: str | None = None) -> Any:
    """A class of messages that were written with a schema."""
    assert schema is not None
    descriptor = protobuf_schemas.of_text(schema.text, schema.references).message(name)
    return message_factory.GetMessageClass(descriptor)


def decoded(message: Any, found: list[Record], frame: int) -> list[Any]:
    return [message.FromString((each.value or b"")[frame:]) for each in found]


def test_a_stream_writes_avro_exactly_once_by_a_schema_that_is_registered_once(
    bench: Bench, spark: SparkSession, registry_url: str
) -> None:
    """Over several batches and a restart; a schema that its subject does not take is refused."""
    target, stream = f"{bench.topic}.clean", STREAM.replace("REGISTRY", registry_url)
    file = bench.write(stream.replace("COLUMNS", "SELECT * FROM source"))
    bench.produce([*rows(1, 2, 3, 4, 5), *rows(6, customer=None)])
    first = headrace.load(file).run(spark=spark, once=True)
    assert (first.written, first.batches > 1) == (6, True)
    bench.produce(rows(7))
    assert headrace.load(file).run(spark=spark, once=True).written == 1

    client = SchemaRegistryClient({"url": registry_url})
    for part in MessageField.KEY, MessageField.VALUE:
        assert client.get_versions(f"{target}-{part}") == [1]
    read = AvroDeserializer(client)
    found = {
        read(each.key, SerializationContext(target, MessageField.KEY)): read(
            each.value, SerializationContext(target, MessageField.VALUE)
        )
        for each in bench.read(target)
    }
    order = {"id": 7, "customer": "ann", "amount": Decimal("12.50"), "at": AT}
    assert found[7] == order
    assert found[6] == {**order, "id": 6, "customer": None}
    assert sorted(found) == list(range(1, 8))

    registry.set_level(connect(registry_url), "BACKWARD", f"{target}-value")
    wider = bench.write(stream.replace("COLUMNS", "SELECT *, 1 AS one FROM source"), "wider.yaml")
    value, key = headrace.load(wider).sink_schemas(spark)
    assert (value.version, value.refusal, key.version) == (None, None, 1)
    assert [str(each) for each in value.differences] == ["+ one: null | int, default null"]

    columns = "SELECT id, id AS customer, amount, at FROM source"
    other = bench.write(stream.replace("COLUMNS", columns))
    bench.produce(rows(8))
    with pytest.raises(IncompatibleSchema, match="customer") as refused:
        headrace.load(other).run(spark=spark, once=True)
    assert "\n  ~ customer: null | string, default null → null | long" in str(refused.value)
    assert len(bench.read(target)) == 7
    asked = checked_online(other)
    assert asked.returncode == 4
    assert f"{target}-value would not accept it" in asked.stderr
    assert "IncompatibleSchema" in asked.stderr
    assert client.get_versions(f"{target}-value") == [1]


def checked_online(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace.cli.main", "check", file.name, "--online"]
    return subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False)
