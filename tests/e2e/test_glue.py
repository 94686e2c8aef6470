"""Messages with schemas of AWS Glue, read and written on a real Kafka; Glue is moto's stand-in."""

from __future__ import annotations

import io
import json
import uuid
import zlib
from typing import Any

import fastavro
from pyspark.sql import SparkSession

import headrace
from headrace.admin import records
from headrace.admin.glue_store import GlueStore
from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import StoredSchema
from headrace.formats import single
from headrace.formats.deadletter import HEADER_PREFIX
from headrace.project import Project
from headrace.shell.session import Session
from headrace.testing.fixtures import TopicMaker
from headrace.testing.glue import GlueServer

from .conftest import Bench

FIELDS = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
COUNT = 50

PIPELINE = """
pipeline: NAME
mode: batch
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  format: avro
  schema_registry: REGISTRY
  dlq_topic: TOPIC.dlq
sinks:
  plain:
    connector_type: kafka
    topic: TOPIC-plain
    create_topic: true
    key: id
    format: avro
    schema_registry: REGISTRY
  packed:
    connector_type: kafka
    topic: TOPIC-packed
    create_topic: true
    key: id
    format: avro
    schema_registry: PACKED
"""


def avro(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def encoded(schema: str, row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(schema), row)
    return out.getvalue()


def framed(id: str, payload: bytes, packed: bool) -> bytes:
    head = b"\x03" + (b"\x05" if packed else b"\x00") + uuid.UUID(id).bytes
    return head + (zlib.compress(payload) if packed else payload)


def unframed(store: GlueStore, message: bytes, packed: bool) -> tuple[StoredSchema, Any]:
    """The schema of a message and what it says, read as AWS's clients read it."""
    assert message[:2] == (b"\x03\x05" if packed else b"\x03\x00")
    schema = store.by_id(str(uuid.UUID(bytes=message[2:18])))
    payload = zlib.decompress(message[18:]) if packed else message[18:]
    return schema, fastavro.schemaless_reader(io.BytesIO(payload), json.loads(schema.text), None)


def _by_id(written: list[tuple[StoredSchema, Any]]) -> dict[int, Any]:
    return {row["id"]: row for _, row in written}


def letters(bench: Bench) -> dict[bytes | None, tuple[str, str]]:
    """Code and sentence of each dead letter, by its key."""
    found = {}
    for letter in bench.read(f"{bench.topic}.dlq"):
        facts = {name.removeprefix(HEADER_PREFIX): value or b"" for name, value in letter.headers}
        found[letter.key] = facts["error"].decode(), facts["message"].decode()
    return found


def test_messages_of_glue_are_read_and_written_packed_and_plain(
    bench: Bench, spark: SparkSession, glue_server: GlueServer
) -> None:
    store = glue_server.store()
    old = store.register(bench.topic, SchemaType.AVRO, avro(*FIELDS))
    new = store.register(bench.topic, SchemaType.AVRO, avro(*FIELDS, NOTE))
    sent, expected = [], []
    for number in range(COUNT):
        schema = (old, new)[number % 2]
        row = {"id": number, "name": f"n{number}" * 10, "note": f"note {number}"}
        expected.append({**row, "note": row["note"] if schema is new else None})
        payload = encoded(schema.text, row)
        sent.append(records.Record(framed(schema.id, payload, packed=number % 4 < 2)))
    good = sent[0].value or b""
    assert good[1] == 5
    unknown = str(uuid.uuid4())
    bad = {
        b"broken": good[:-3],
        b"empty": good[:18],
        b"gzip": good[:1] + b"\x01" + good[2:],
        b"unknown": framed(unknown, b"", packed=True),
        b"unframed": b"{}",
        b"short": good[:10],
        b"not avro": framed(old.id, b"\x02", packed=True),
    }
    sent += [records.Record(value, key) for key, value in bad.items()]
    records.produce(bench.cluster, bench.topic, sent).raise_if_rejected()

    registry = glue_server.yaml()
    packed = registry.replace("}", ", compression: zlib}")
    text = PIPELINE.replace("REGISTRY", registry).replace("PACKED", packed)
    headrace.load(bench.write(text)).run(spark=spark)

    for topic, is_packed in ((f"{bench.topic}-plain", False), (f"{bench.topic}-packed", True)):
        written = [unframed(store, each.value or b"", is_packed) for each in bench.read(topic)]
        # Those beside the unknown schema may be written twice, as it stops the first attempt.
        assert [row for _, row in sorted(_by_id(written).items())] == expected
        newest = store.newest(topic)
        assert newest is not None
        assert {schema.id for schema, _ in written} == {newest.id}
        assert newest.version == 1
    found = letters(bench)
    assert {key: code for key, (code, _) in found.items()} == {
        b"broken": "BAD_COMPRESSION",
        b"empty": "BAD_COMPRESSION",
        b"gzip": "BAD_COMPRESSION",
        b"unknown": "UNKNOWN_SCHEMA",
        b"unframed": "NOT_FRAMED",
        b"short": "TRUNCATED",
        b"not avro": "NOT_AVRO",
    }
    assert "what is packed is broken" in found[b"broken"][1]
    assert found[b"gzip"][1].endswith("not known: 01")
    assert unknown in found[b"unknown"][1]


# Tables without columns, of the other formats

ITEM = json.dumps(
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["id"],
    }
)
EVENT = """syntax = "proto3";
message Zone { string name = 1; }
message Event { int64 id = 1; map<string, double> sums = 2; }
"""
TABLES = """
CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'SERVERS', 'schema_registry.type' = 'glue',
    'schema_registry.endpoint' = 'ENDPOINT', 'schema_registry.region' = 'eu-central-1',
    'schema_registry.api_key' = 'not-a-key', 'schema_registry.api_secret' = 'not-a-secret'
);
CREATE TABLE items WITH ( connector = 'shop', topic = 'TOPIC', format = 'json_schema' );
CREATE TABLE events WITH (
    connector = 'shop', topic = 'EVENTS', format = 'protobuf', message = 'Event'
);
"""
RUN = """
CREATE TABLE joined WITH (
    connector = 'shop', topic = 'TOPIC-joined', create_topic = 'true', format = 'protobuf',
    'schema_registry.compression' = 'zlib'
);
CREATE PIPELINE `NAME` WITH ( mode = 'batch' ) AS
INSERT INTO joined SELECT i.id, i.tags, e.sums FROM items i JOIN events e ON i.id = e.id;
"""


def test_tables_of_sql_take_their_columns_from_glue(
    bench: Bench, spark: SparkSession, glue_server: GlueServer, topic: TopicMaker
) -> None:
    store, events = glue_server.store(), topic("events")
    item = store.register(bench.topic, SchemaType.JSON, ITEM)
    event = store.register(events, SchemaType.PROTOBUF, EVENT)
    items = [json.dumps({"id": number, "tags": ["a"] * number}).encode() for number in (1, 2)]
    # Event is the first of all names; its payload has id, and one sum.
    made = [b"\0\x08" + bytes([number]) + b"\x12\x0c\x0a\x01s\x11" + bytes(8) for number in (1, 2)]
    for name, schema, payloads in ((bench.topic, item, items), (events, event, made)):
        sent = [
            records.Record(framed(schema.id, payload, packed=number == 0))
            for number, payload in enumerate(payloads)
        ]
        records.produce(bench.cluster, name, sent).raise_if_rejected()
    tables = TABLES.replace("ENDPOINT", glue_server.endpoint).replace("EVENTS", events)
    file = bench.write(tables + RUN, "run.sql")

    (bench.folder / ".headrace").mkdir()
    session = Session(Project(bench.folder), spark=spark)
    list(session.run(bench.write(tables, "tables.sql").read_text()))
    select = "SELECT i.*, e.sums FROM items i JOIN events e ON i.id = e.id ORDER BY i.id"
    described, shown = session.run(f"DESCRIBE items; {select}")
    assert [(row[0], row[1]) for row in described.rows] == [
        ("id", "BIGINT"),
        ("tags", "ARRAY<STRING>"),
    ]
    assert shown.columns == ("id", "tags", "sums")
    assert shown.rows == ((1, ["a"], {"s": 0.0}), (2, ["a", "a"], {"s": 0.0}))
    session.close()

    headrace.load(file).run(spark=spark)
    written = [each.value or b"" for each in bench.read(f"{bench.topic}-joined")]
    assert {message[:2] for message in written} == {b"\x03\x05"}
    messages = single.Messages(store)
    found = [json.loads(messages.decoded(message) or b"") for message in written]
    assert sorted(found, key=lambda row: row["id"]) == [
        {"id": "1", "tags": ["a"], "sums": {"s": 0.0}},
        {"id": "2", "tags": ["a", "a"], "sums": {"s": 0.0}},
    ]
