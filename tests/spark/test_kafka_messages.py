"""The SQL of the Kafka sink, evaluated by Spark: sizes as Kafka's own client counts them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.model.pipeline import Sink
from headrace.sinks import kafka_sizes
from headrace.sinks.kafka import KafkaSink
from headrace.sinks.kafka_options import SPEC
from headrace.sinks.kafka_refusals import TopicFacts
from headrace.sinks.writer import SinkContext
from headrace.spans import Span
from headrace.spec import Options

HERE = Span("p.yaml", 1, 1)
# Around every place where Kafka writes a length with one byte more.
SIZES = [0, 1, 63, 64, 8191, 8192, 1_048_400, 1_048_575, 1_048_576]


def sink(tmp_path: Any, facts: dict[str, TopicFacts] | None = None, **values: Any) -> KafkaSink:
    options = Options(SPEC, {"topic": "out", **values}, {}, HERE)
    context = SinkContext("p", tmp_path, "localhost:9092")
    return KafkaSink(Sink("sink", "kafka", "source", options, HERE), context, facts=facts or {})


def estimate(spark: SparkSession, key: bytes | None, value: bytes, headers: int) -> int:
    """What the Java client says of a message before it sends it."""
    jvm: Any = spark._jvm
    common = jvm.org.apache.kafka.common
    gateway: Any = spark.sparkContext._gateway
    listed = gateway.new_array(common.header.Header, headers)
    for number in range(headers):
        listed[number] = common.header.internals.RecordHeader(f"h{number}", b"x" * 70)
    none = common.record.CompressionType.NONE
    records = common.record.AbstractRecords
    return int(records.estimateSizeInBytesUpperBound(2, none, key, value, listed))


def rows_of(spark: SparkSession, sizes: list[int]) -> DataFrame:
    listed = spark.createDataFrame([(size,) for size in sizes], "size INT")
    return listed.selectExpr("size", "repeat('x', size) AS text", "repeat('k', size % 100) AS k")


@pytest.mark.parametrize("headers", [0, 1, 70])
def test_a_size_is_what_kafkas_client_counts(spark: SparkSession, headers: int) -> None:
    parts = ", ".join(
        f"named_struct('key', 'h{n}', 'value', CAST(repeat('x', 70) AS BINARY))"
        for n in range(headers)
    )
    size = kafka_sizes.counted(
        "octet_length(k)", "octet_length(text)", f"array({parts})" if headers else None
    )
    counted = rows_of(spark, SIZES).selectExpr("size", f"{size} AS counted").collect()
    fixed = kafka_sizes.largest(10**9, None)
    for row in counted:
        key, value = b"k" * (row["size"] % 100), b"x" * row["size"]
        expected = estimate(spark, key, value, headers)
        assert row["counted"] == expected - (10**9 - fixed), row["size"]


def test_a_bound_is_never_below_the_size(spark: SparkSession, tmp_path: Any) -> None:
    """Else a message that is too large would pass for one that cannot be."""
    rows = spark.sql(
        """
        SELECT * FROM VALUES
          (1Y, 1.5D, '', X'00FF', DATE'-9999-01-01', TIMESTAMP'2024-01-01 00:00:00.123456', true),
          (-128Y, -1.7976931348623157E308D, '\\u0001"\\\\\\n', X'', DATE'2024-01-01', NULL, NULL),
          (NULL, NULL, NULL, NULL, NULL, NULL, NULL)
        AS t(`tiny "quoted"`, d, s, b, day, at, flag)
        """
    ).selectExpr("*", "CAST(-1e37 AS DECIMAL(38, 0)) AS dec", "CAST('NaN' AS FLOAT) AS f")
    written = sink(tmp_path, key="s")
    messages = written.messages(rows.columns)
    kinds = {each.name: each.dataType for each in rows.schema.fields}
    bound = kafka_sizes.at_most(
        [messages.key], [(name, sql, kinds[name]) for name, sql in messages.body], None
    )
    assert bound is not None
    parts = f"octet_length({messages.key})", f"octet_length({messages.value})", None
    size, near = kafka_sizes.counted(*parts), kafka_sizes.nearly(*parts)
    found = rows.selectExpr(f"{bound} AS bound", f"{size} AS size", f"{near} AS near").collect()
    for row in found:
        assert row["bound"] >= row["size"]
        assert row["near"] >= row["size"]


def test_a_key_counts_with_its_value(spark: SparkSession, tmp_path: Any) -> None:
    """To the byte: the largest pair of them that fits is written, and one more is refused."""
    limit = 1000 + 61 + 21  # and what Kafka adds
    written = sink(tmp_path, key="k", value="v", max_request_bytes=limit)

    def sent(size: int) -> DataFrame:
        rows = spark.sql(f"SELECT repeat('k', {size}) AS k, repeat('v', 500) AS v")
        guarded, made = written.guarded(rows)
        return guarded.selectExpr(*(f"{sql} AS {name}" for name, sql in made.items()))

    fits = 1000 - 500 - 2 - 2 - 1  # the lengths of value and key, and that of no headers
    (row,) = sent(fits).collect()
    assert (len(row["key"]), len(row["value"])) == (fits, 500)
    with pytest.raises(Exception, match="key, value and headers have 1001 bytes, and 1000 fit"):
        sent(fits + 1).collect()


def test_messages_of_a_row_with_everything(spark: SparkSession, tmp_path: Any) -> None:
    rows = spark.sql(
        "SELECT 1 AS id, X'00FF80' AS raw, 'eu' AS region, map('a', 1, 'b', 2) AS labels, "
        "TIMESTAMP'2024-05-01 12:00:00.25' AS at, 1700000000000 AS ms"
    )
    written = sink(
        tmp_path,
        topic="orders.${region}",
        allowed_topics=("orders.*",),
        key="raw",
        exclude=("raw", "region", "labels", "at", "ms"),
        headers={"tenant": "region", "raw": "raw", "none": "CAST(NULL AS STRING)"},
        headers_from="map_entries(labels)",
        partition="id + 1",
        timestamp="at",
    )
    sql = written.expressions(rows.columns)
    (row,) = rows.selectExpr(*(f"{text} AS {name}" for name, text in sql.items())).collect()
    assert row["topic"] == "orders.eu"
    assert bytes(row["key"]) == b"\x00\xff\x80"
    assert json.loads(bytes(row["value"])) == {"id": 1}
    assert [(each["key"], each["value"]) for each in row["headers"]] == [
        ("tenant", b"eu"),
        ("raw", b"\x00\xff\x80"),
        ("none", None),
        ("a", b"1"),
        ("b", b"2"),
    ]
    assert (row["partition"], row["timestamp"]) == (2, 1_714_564_800_250)
    ms = sink(tmp_path, timestamp="ms", value="raw").expressions(rows.columns)
    (row,) = rows.selectExpr(f"{ms['timestamp']} AS time", f"{ms['value']} AS value").collect()
    assert (row["time"], bytes(row["value"])) == (1_700_000_000_000, b"\x00\xff\x80")
