"""Avro by the real Spark, with fastavro on the other side."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.spark import random_avro

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.admin.stores import RegistryAddress
from headrace.formats import reading
from headrace.formats.avro import AvroFormat
from headrace.formats.known import NOT_KNOWN, Known
from headrace.formats.options import Part, Wanted
from headrace.model.schema import Schema, quote
from headrace.sources.reader import RAW

AVRO = AvroFormat()
REGISTRY = RegistryAddress("confluent", "http://unused:8081", None, None)


def wanted(avro_schema: str | None = None, **rest: Any) -> Wanted:
    return Wanted(Part.VALUE, "avro", Path(), avro_schema=avro_schema, **rest)


def raw(spark: SparkSession, *messages: tuple[bytes | None, bytes | None]) -> DataFrame:
    """Records of Kafka with these keys and values."""
    at = datetime.datetime(2026, 1, 1)
    rows = [(key, value, "t", 0, number, at, None) for number, (key, value) in enumerate(messages)]
    return spark.createDataFrame(rows, RAW)


def plain(value: Any) -> Any:
    match value:
        case Row():
            return {name: plain(each) for name, each in value.asDict().items()}
        case list():
            return [plain(each) for each in value]
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case bytearray():
            return bytes(value)
    return value


@pytest.mark.parametrize("seed", range(4))
def test_random_records_are_read_as_written_and_written_as_read(
    seed: int, spark: SparkSession
) -> None:
    """2,500 records each of four schemas of forty fields, byte for byte."""
    made = random_avro.sample(seed, fields=40, records=2_500)
    said = wanted(made.schema)
    read = AVRO.reading(said, "s", None)
    decoded = reading.decode(raw(spark, *((None, message) for message in made.messages)), read)
    fields = [(name, quote(name)) for name in read.schema.names]
    written = AVRO.encoding(said, read.schema, None).of_fields(fields)
    rows = decoded.selectExpr("*", f"{written} AS __written").collect()
    assert {row["__headrace"]["error"] for row in rows} == {None}
    found = [plain(row) for row in rows]
    for row, expected, message in zip(found, made.rows, made.messages, strict=True):
        assert {name: row[name] for name in expected} == expected
        assert row["__written"] == message


def record(*fields: Any, name: str = "Order", **rest: Any) -> dict[str, Any]:
    named = [
        {"name": each[0], "type": each[1], **(each[2] if len(each) > 2 else {})} for each in fields
    ]
    return {"type": "record", "name": name, "fields": named, **rest}


def stored(id: str, schema: Any, *references: tuple[str, str]) -> StoredSchema:
    return StoredSchema(
        id, SchemaType.AVRO, json.dumps(schema), references, "orders-value", int(id)
    )


def framed(id: int, schema: Any, value: Any) -> bytes:
    return b"\x00" + id.to_bytes(4, "big") + random_avro.encoded(schema, value)


def decimal(kind: Any, precision: int, scale: int) -> dict[str, Any]:
    named = kind if isinstance(kind, dict) else {"type": kind}
    return {**named, "logicalType": "decimal", "precision": precision, "scale": scale}


def time(kind: str) -> dict[str, str]:
    return {"type": "long", "logicalType": kind}


def map_of(values: str) -> dict[str, str]:
    return {"type": "map", "values": values}


BOX = {"b": "b"}
COLOR = {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}
OLDEST = record(
    ("id", "int"),
    ("client", "string"),
    ("Total", decimal("bytes", 10, 2)),
    ("at", time("timestamp-millis")),
    ("color", COLOR),
    (
        "address",
        record(("street", "string"), ("gone", {"type": "map", "values": "long"}), name="A"),
    ),
    ("lines", {"type": "array", "items": record(("sku", "string"), ("n", "int"), name="L")}),
    ("what", ["null", "string"]),
)
NODE = record(("id", "long"), ("next", ["null", "Node"]), name="Node")
NEWER = record(
    # A record within itself, and a long list of fields that nobody wants, are passed over.
    ("tree", NODE),
    ("id", ["null", "long"]),
    ("customer", ["null", "string"], {"aliases": ["client"]}),
    ("total", decimal({"type": "fixed", "name": "F", "size": 12}, 20, 4)),
    ("at", time("timestamp-micros")),
    ("color", {**COLOR, "symbols": ["GREEN", "RED", "BLUE"]}),
    (
        "address",
        ["null", record(("zip", "string", {"default": "?"}), ("street", "string"), name="A")],
    ),
    (
        "lines",
        {
            "type": "array",
            "items": record(
                ("sku", "string"),
                ("n", "long"),
                ("tags", {"type": "array", "items": "string"}, {"default": ["none"]}),
                name="L",
            ),
        },
    ),
    ("what", ["null", "string", record(("x", "int"), name="X"), "long"]),
    ("note", "string", {"default": "no note"}),
    (
        "box",
        record(("a", "int", {"default": 7}), ("b", "string"), name="B"),
        {"default": {"b": "b"}},
    ),
    ("maybe", ["null", "double"], {"default": None}),
)
COLUMNS = Schema.parse(
    "id BIGINT NOT NULL, customer STRING, total DECIMAL(20, 4), at TIMESTAMP, color STRING, "
    "address STRUCT<street: STRING, zip: STRING>, "
    "lines ARRAY<STRUCT<sku: STRING, n: BIGINT, tags: ARRAY<STRING>>>, "
    "what STRUCT<string: STRING, X: STRUCT<x: INT>, long: BIGINT>, note STRING, "
    "box STRUCT<a: INT, b: STRING>, maybe DOUBLE, `never there` STRUCT<`a b`: SMALLINT>"
)
AT = datetime.datetime(2026, 11, 15, 12, 30, tzinfo=datetime.UTC)
OLD_VALUE = {
    "id": 1,
    "client": "ann",
    "Total": Decimal("12.34"),
    "at": AT,
    "color": "BLUE",
    "address": {"street": "Main", "gone": {"a": 1, "b": 2}},
    "lines": [{"sku": "s", "n": 3}],
    "what": "text",
}
NEW_VALUE = {
    "tree": {"id": 1, "next": {"id": 2, "next": None}},
    "id": 2**40,
    "customer": None,
    "total": Decimal("-1.2345"),
    "at": AT,
    "color": "GREEN",
    "address": None,
    "lines": [{"sku": "s", "n": 2**40, "tags": []}],
    "what": ("X", {"x": 5}),
    "note": "n",
    "box": {"a": 1, "b": ""},
    "maybe": 0.5,
}
KNOWN = Known(
    Framing.CONFLUENT,
    COLUMNS,
    (stored("1", OLDEST), stored("2", NEWER)),
    stored("2", NEWER),
    {"8": NOT_KNOWN, "9": "`id` is STRING in the messages, and BIGINT in the columns"},
)


def test_messages_of_many_schemas_are_read_into_the_same_columns(spark: SparkSession) -> None:
    """Fields come, go, grow and are renamed, nested ones too; what is broken says so."""
    old, new = framed(1, OLDEST, OLD_VALUE), framed(2, NEWER, NEW_VALUE)
    nothing = framed(2, NEWER, {**NEW_VALUE, "id": None})
    key = b"\x00\x00\x00\x00\x05"
    messages: list[tuple[bytes | None, bytes | None]] = [
        (key + b"\x06", old),
        (None, new),
        (None, nothing),
        (None, old[:-3]),
        (None, old + b"\x00"),
        (None, new[:5] + b"\xff" * 30),
        (None, new[:5]),
        (None, b"\x00\x00\x00\x00\x08\x02"),
        (None, b"\x00\x00\x00\x00\x09\x02"),
        (None, b"\x01" + old[1:]),
        (None, old[:4]),
        (None, b""),
        (key + b"\x08", None),
        (key, old),
        (b"\x07\x00\x00\x00\x05\x06", old),
    ]
    said = wanted(schema=COLUMNS, registry=REGISTRY)
    value = AVRO.reading(said, "s", KNOWN)
    key_schema = StoredSchema("5", SchemaType.AVRO, '"long"')
    of_key = replace(said, part=Part.KEY, schema=None, column="k")
    columns, scalar = AVRO.columns_of(key_schema, of_key)
    keys = Known(Framing.CONFLUENT, columns, (key_schema,), key_schema, scalar=scalar)
    key_reading = reading.KeyReading("k", AVRO.reading(of_key, "s", keys))
    decoded = reading.decode(raw(spark, *messages), value, key=key_reading)
    why = reading.reason(value, key_reading)
    rows = [plain(row) for row in decoded.selectExpr("*", f"{why} AS __why").collect()]
    at = AT.astimezone().replace(tzinfo=None)
    first, second = ({name: row[name] for name in (*COLUMNS.names, "k")} for row in rows[:2])
    assert first == {
        "id": 1,
        "customer": "ann",
        "total": Decimal("12.34"),
        "at": at,
        "color": "BLUE",
        "address": {"street": "Main", "zip": "?"},
        "lines": [{"sku": "s", "n": 3, "tags": ["none"]}],
        "what": {"string": "text", "X": None, "long": None},
        "note": "no note",
        "box": {"a": 7, "b": "b"},
        "maybe": None,
        "never there": None,
        "k": 3,
    }
    assert second == {
        "id": 2**40,
        "customer": None,
        "total": Decimal("-1.2345"),
        "at": at,
        "color": "GREEN",
        "address": None,
        "lines": [{"sku": "s", "n": 2**40, "tags": []}],
        "what": {"string": None, "X": {"x": 5}, "long": None},
        "note": "n",
        "box": {"a": 1, "b": ""},
        "maybe": 0.5,
        "never there": None,
        "k": None,
    }
    first_schema = "the value is not one message of Avro by schema 1, version 1 of orders-value"
    second_schema = first_schema.replace("1", "2")
    assert [(row["__headrace"]["error"], row["__why"]) for row in rows[2:]] == [
        ("MISSING_FIELD", "without a value for: id"),
        ("NOT_AVRO", first_schema),
        ("NOT_AVRO", first_schema),
        ("NOT_AVRO", second_schema),
        ("NOT_AVRO", second_schema),
        ("UNKNOWN_SCHEMA", "the value was written with schema 8: the registry does not know it"),
        (
            "INCOMPATIBLE_SCHEMA",
            "the value was written with schema 9: "
            "`id` is STRING in the messages, and BIGINT in the columns",
        ),
        (
            "NOT_FRAMED",
            "the value begins with the byte 01 and not with 00, as one with the id of a schema "
            "does",
        ),
        ("TRUNCATED", "the value ends after 4 bytes, within the 5 that name its schema"),
        ("TRUNCATED", "the value ends after 0 bytes, within the 5 that name its schema"),
        ("DELETION", None),
        (
            "KEY_NOT_AVRO",
            "in the key: the key is not one message of Avro by schema 5",
        ),
        (
            "KEY_NOT_FRAMED",
            "in the key: the key begins with the byte 07 and not with 00, as one with the id of a "
            "schema does",
        ),
    ]


def test_a_schema_that_is_not_known_yet_ends_the_query(spark: SparkSession) -> None:
    read = AVRO.reading(wanted(schema=COLUMNS, registry=REGISTRY), "src", KNOWN)
    frame = reading.decode(raw(spark, (None, b"\x00\x00\x01\x00\x03\x02")), read)
    with pytest.raises(Exception, match="HEADRACE_NEW_SCHEMA") as failure:
        frame.collect()
    assert '{"source":"src","part":"value","id":"65539"}' in str(failure.value)
