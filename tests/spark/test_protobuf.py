"""Protobuf by the real Spark, with Protobuf's own library on the other side."""

from __future__ import annotations

import datetime
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from tests import protobuf_samples as samples

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.admin.stores import RegistryAddress
from headrace.formats import reading
from headrace.formats.known import Known
from headrace.formats.options import Part, Wanted
from headrace.formats.protobuf import ProtobufFormat
from headrace.formats.reading import KeyReading
from headrace.model.schema import Schema, quote
from headrace.sources.reader import RAW

PROTOBUF = ProtobufFormat()
REGISTRY = RegistryAddress("confluent", "http://localhost:1", None, None)
AT = datetime.datetime(2026, 1, 1)


def raw(spark: SparkSession, *messages: tuple[bytes | None, bytes | None]) -> DataFrame:
    rows = [(key, value, "t", 0, number, AT, None) for number, (key, value) in enumerate(messages)]
    return spark.createDataFrame(rows, RAW)


def test_records_by_a_file_are_read_and_written_as_they_were(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "common.proto").write_text(samples.COMMON)
    (tmp_path / "order.proto").write_text(samples.ORDER)
    made = samples.messages(samples.order(), 2_500)
    for each in made:
        each.ClearField("extra")  # can be read, and not be written
    written = [each.SerializeToString(deterministic=True) for each in made]
    said = Wanted(Part.VALUE, "protobuf", tmp_path, schema_file="order.proto")
    columns = PROTOBUF.columns(said)
    assert columns is not None
    columns = Schema(tuple(each for each in columns.columns if each.name != "extra"))
    read = PROTOBUF.reading(said, "s", None)
    decoded = reading.decode(raw(spark, *((None, each) for each in written)), read)
    encoding = PROTOBUF.encoding(said, columns, None)
    encoding.register(spark)
    again = encoding.of_fields([(name, quote(name)) for name in columns.names])
    # Not all columns: Python has no word for some of the times.
    rows = decoded.selectExpr("i64", "extra", "__headrace.error", f"{again} AS written").collect()
    assert {row["error"] for row in rows} == {None}
    assert [row["i64"] for row in rows] == [each.i64 for each in made]  # type: ignore[attr-defined]
    assert [bytes(row["written"]) for row in rows] == written


ONE = 'syntax = "proto3"; package s; message A { int64 id = 1; string name = 2; }'
TWO = """
syntax = "proto3"; package s; import "google/protobuf/timestamp.proto";
message Other { bool flag = 1; }
message A { int64 id = 1; string name = 2; google.protobuf.Timestamp at = 3; B b = 4;
            message B { repeated string words = 1; map<string, double> rates = 2; } }
"""
KEY = 'syntax = "proto3"; message K { message In { int32 number = 1; } }'


def test_messages_of_many_schemas_become_one_set_of_columns(spark: SparkSession) -> None:
    wanted = Wanted(Part.VALUE, "confluent_protobuf", Path(), registry=REGISTRY, message="s.A")
    one = StoredSchema("7", SchemaType.PROTOBUF, ONE, subject="t-value", version=1)
    two = StoredSchema("300", SchemaType.PROTOBUF, TWO, subject="t-value", version=2)
    columns, scalar = PROTOBUF.columns_of(two, wanted)
    refused = {"8": "it cannot be read"}
    known = Known(Framing.CONFLUENT, columns, (one, two), two, refused, scalar)
    key_wanted = Wanted(Part.KEY, "protobuf", Path(), registry=REGISTRY, message="In", column="key")
    keys = StoredSchema("9", SchemaType.PROTOBUF, KEY)
    key_columns, _ = PROTOBUF.columns_of(keys, key_wanted)
    key_known = Known(Framing.CONFLUENT, key_columns, (keys,), keys)
    seven, three_hundred = b"\0\0\0\0\7", b"\0\0\0\1\x2c"
    body = b"\x08\x05\x12\x01x"
    whole = body + b"\x1a\x02\x08\x01" + b"\x22\x14\x0a\x01w\x12\x0f\x0a\x04rate\x11" + b"\0" * 8
    values = [
        seven + b"\0" + body,
        three_hundred + b"\2\2" + whole,
        three_hundred + b"\0" + body,
        seven + b"\0\x08",
        b"\0\0\0\0\x08\0" + body,
        b"\1\0\0\0\7\0" + body,
        b"\0\0",
        None,
    ]
    key = b"\0\0\0\0\x09\4\0\0\x08\x03"
    read = PROTOBUF.reading(wanted, "source", known)
    key_read = KeyReading("key", PROTOBUF.reading(key_wanted, "source", key_known))
    decoded = reading.decode(raw(spark, *((key, each) for each in values)), read, key=key_read)
    told = reading.reason(read, key_read)
    rows = decoded.selectExpr("*", f"{told} AS __reason").collect()
    assert [row["__headrace"]["error"] for row in rows] == [
        None,
        None,
        "BAD_MESSAGE_INDEX",
        "NOT_PROTOBUF",
        "INCOMPATIBLE_SCHEMA",
        "NOT_FRAMED",
        "TRUNCATED",
        "DELETION",
    ]
    first, second = rows[0], rows[1]
    assert (first["id"], first["name"], first["at"], first["b"]) == (5, "x", None, None)
    assert first["key"] == Row(number=3)
    assert second["at"] == datetime.datetime.fromtimestamp(1)
    assert second["b"] == Row(words=["w"], rates={"rate": 0.0})
    assert rows[3]["__reason"] == "the value is not a message s.A"
    assert "8: it cannot be read" in rows[4]["__reason"]


def test_rows_by_a_schema_that_was_made_for_them_come_back(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT 1L AS id, CAST(NULL AS STRING) AS name, "
        "TIMESTAMP'2026-01-02 03:04:05.678901' AS at, DATE'2024-02-29' AS day, "
        "array(struct(1 AS n), struct(2 AS n)) AS items, "
        "map('a', 1.5D) AS rates, X'00FF' AS raw, 0 AS zero, 12.50BD AS price"
    )
    rows = Schema.parse(
        "id BIGINT, name STRING, at TIMESTAMP, day DATE, items ARRAY<STRUCT<n: INT>>, "
        "rates MAP<STRING, DOUBLE>, raw BINARY, zero INT, price DECIMAL(4, 2)"
    )
    said = Wanted(Part.VALUE, "confluent_protobuf", Path(), registry=REGISTRY)
    stored = StoredSchema("12", SchemaType.PROTOBUF, PROTOBUF.made("headrace.Orders", rows))
    encoding = PROTOBUF.encoding(said, rows, stored)
    encoding.register(spark)
    sql = encoding.of_fields([(name, quote(name)) for name in rows.names])
    messages = frame.selectExpr(f"{sql} AS value").collect()
    assert bytes(messages[0]["value"]).startswith(b"\0\0\0\0\x0c\0\x08\x01")
    known = Known(Framing.CONFLUENT, rows, (stored,), stored, declared=True)
    read = PROTOBUF.reading(said, "source", known)
    decoded = reading.decode(raw(spark, (None, bytes(messages[0]["value"]))), read)
    assert decoded.drop("__headrace").collect() == frame.collect()
