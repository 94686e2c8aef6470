"""What Kafka sinks write by a format with types: the schema made, given or found, and the bytes."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

import headrace

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
