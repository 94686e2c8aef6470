"""Avro by the real Spark, with fastavro on the other side."""

from __future__ import annotations

import datetime
import io
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
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
from headrace.formats.row_types import schema_of
from headrace.model.schema import Column, Schema, quote
from headrace.sources.reader import RAW
from headrace.testing import Message, outcome

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


@pytest.mark.parametrize("seed", range(2))
def test_random_records_are_read_as_written_and_written_as_read(
    seed: int, spark: SparkSession
) -> None:
    """5,000 records each of two schemas of thirty fields, byte for byte."""
    made = random_avro.sample(seed, fields=30, records=5_000)
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


def array_of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_of(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


BOX = {"b": "b"}
PIPELINE = """
source:
  connector_type: kafka
  bootstrap_server: unused:9092
  topic: orders
  format: avro
  schema_file: order.avsc
  key_format: avro
  key_schema_file: key.avsc
  key_column: order_id
transform:
  - sql: SELECT id + 1 AS id, CAST(at AS DATE) AS day, order_id FROM source
sink:
  connector_type: console
"""
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


ROWS = """
    SELECT
      7 AS id, 'RED' AS color, X'0102' AS pair, DATE'1500-02-28' AS day,
      TIMESTAMP'2026-11-15 12:30:00.123456Z' AS at, TIMESTAMP_NTZ'0001-01-01 00:00:00' AS local,
      CAST('12.3' AS DECIMAL(5, 2)) AS price, true AS yes, CAST(3 AS TINYINT) AS small, 0.25D AS d,
      CAST(0.5 AS FLOAT) AS f, X'' AS bin, map('k', named_struct('n', 1)) AS m,
      named_struct('b', array(1, CAST(NULL AS INT)), 'a', 'x') AS inner,
      named_struct('long', CAST(NULL AS BIGINT), 'string', 's') AS either,
      CAST(5 AS BIGINT) AS number, CAST(NULL AS STRING) AS gone
"""
GIVEN = record(
    ("pair", {"type": "fixed", "name": "P", "size": 2}),
    ("ID", "long"),
    ("color", COLOR),
    ("added", ["null", "string"]),
    ("note", "string", {"default": "é"}),
    ("tags", array_of("Color"), {"default": ["RED"]}),
    ("fallback", ["long", "null", "string"], {"default": 3}),
    (
        "inner",
        record(("a", "string"), ("b", {"type": "array", "items": ["null", "long"]}), name="I"),
    ),
    ("either", ["null", "string", "long", "Color"]),
    ("number", ["string", "null", "double", "long", "boolean"]),
    ("at", ["null", time("timestamp-millis")]),
    ("price", decimal({"type": "fixed", "name": "D", "size": 5}, 10, 4)),
    ("m", map_of(["null", record(("n", "int"), ("next", ["null", "Order"]), name="N")])),
)
GIVEN_NAMES = {"pair", "id", "color", "inner", "either", "number", "at", "price", "m"}


def test_rows_are_written_by_any_schema_that_they_fit(spark: SparkSession) -> None:
    """By one that was given, with another order, wider types, defaults and unions; and by one that
    was made of the rows; both with a key of one value.
    """
    frame = spark.sql(ROWS)
    rows = schema_of(frame.schema)
    made = json.loads(AVRO.made("shop.orders", rows))
    some = Schema(tuple(each for each in rows.columns if each.name in GIVEN_NAMES))
    key = Schema((Column("", "BIGINT"),))
    registered = wanted(registry=REGISTRY)
    encodings = {
        "given": AVRO.encoding(registered, some, stored("9", GIVEN)).of_fields(
            [(name, quote(name)) for name in some.names]
        ),
        "made": AVRO.encoding(registered, rows, stored("10", made)).of_fields(
            [(name, quote(name)) for name in rows.names]
        ),
        "whole": AVRO.encoding(registered, some, stored("9", GIVEN)).of_value(
            f"struct({', '.join(some.names)})"
        ),
        "key": AVRO.encoding(registered, key, stored("11", "long")).of_value("id + 1L"),
        "no_key": AVRO.encoding(registered, key, stored("11", "long")).of_value("id + NULL"),
        "plain": AVRO.encoding(wanted(), rows, None).of_fields([("id", "id")]),
    }
    (row,) = frame.selectExpr(*(f"{sql} AS {name}" for name, sql in encodings.items())).collect()
    assert bytes(row["given"][:5]) == b"\x00\x00\x00\x00\x09"
    assert fastavro.schemaless_reader(io.BytesIO(row["given"][5:]), GIVEN, None) == {
        "pair": b"\x01\x02",
        "ID": 7,
        "color": "RED",
        "added": None,
        "note": "é",
        "tags": ["RED"],
        "fallback": 3,
        "inner": {"a": "x", "b": [1, None]},
        "either": "s",
        "number": 5,
        "at": AT.replace(microsecond=123_000),
        "price": Decimal("12.3"),
        "m": {"k": {"n": 1, "next": None}},
    }
    assert fastavro.schemaless_reader(io.BytesIO(row["made"][5:]), made, None) == {
        "id": 7,
        "color": "RED",
        "pair": b"\x01\x02",
        "day": datetime.date(1500, 2, 28),
        "at": AT.replace(microsecond=123_456),
        "price": Decimal("12.3"),
        "yes": True,
        "small": 3,
        "d": 0.25,
        "f": 0.5,
        "bin": b"",
        "m": {"k": {"n": 1}},
        "inner": {"b": [1, None], "a": "x"},
        "either": {"long": None, "string": "s"},
        "number": 5,
        "gone": None,
        "local": datetime.datetime(1, 1, 1),
    }
    assert bytes(row["key"]) == b"\x00\x00\x00\x00\x0b\x10"
    assert row["no_key"] is None
    assert row["whole"] == row["given"]
    for bad, words in (
        ("'PINK' AS color, pair", "`color` is no symbol of Color: PINK"),
        ("color, X'010203' AS pair", "`pair` is not of 2 bytes, as P is"),
    ):
        others = [name for name in some.names if name not in ("color", "pair")]
        rows_of_one = frame.selectExpr(*bad.split(", "), *others)
        with pytest.raises(Exception, match="HEADRACE_ROW_REFUSED") as failure:
            rows_of_one.selectExpr(encodings["given"]).collect()
        assert words in str(failure.value)


def test_plain_messages_go_by_the_schema_of_a_definition(
    tmp_path: Path, spark: SparkSession
) -> None:
    """As a user writes it: a file for the values, and one for keys that are one number."""
    schema = record(("id", "long"), ("at", time("timestamp-millis")), name="shop.Order")
    (tmp_path / "order.avsc").write_text(json.dumps(schema))
    (tmp_path / "key.avsc").write_text("long")
    file = tmp_path / "p.yaml"
    file.write_text(PIPELINE)
    good = random_avro.encoded(schema, {"id": 3, "at": AT})
    messages = [
        Message(good, key=b"\x0c"),
        Message(good + b"!", key=b"\x0c"),
        Message(good, key=b""),
    ]
    found = outcome(file, messages, spark)
    assert found.rows["sink"] == [{"id": 4, "day": AT.date(), "order_id": 6}]
    assert [bad["error"] for bad in found.bad["source"]] == ["NOT_AVRO", "KEY_NOT_AVRO"]
