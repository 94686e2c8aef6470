"""Plain Protobuf by a class beside the pipeline, as its author would have it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import SparkSession

import headrace
from headrace.admin.letters import Letter
from headrace.formats import protobuf_schemas

from .conftest import Bench

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Refund { int64 id = 1; }
message Order {
  uint64 id = 1;
  Kind kind = 2;
  google.protobuf.Timestamp at = 3;
  repeated Line lines = 4;
  oneof payment { string card = 5; int64 cash = 6; }
  message Line { string sku = 1; int32 count = 2; }
  enum Kind { KIND_UNKNOWN = 0; SALE = 1; }
}
"""
PIPELINE = """
pipeline: NAME
mode: batch
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  dlq_topic: TOPIC.dlq
  serde_config:
    serialization_method: PROTOBUF
    schema_classpath: order_pb2.Order
transform:
  sql: |
    SELECT id, kind, cash, array(struct(map('a', card) AS cards)) AS tags
    FROM source WHERE at IS NULL OR lines[0].sku = 's'
sinks:
  json: {connector_type: kafka, topic: TOPIC.json}
  proto: {connector_type: kafka, topic: TOPIC.proto, format: protobuf, schema_file: small.proto}
"""
SMALL = """
syntax = "proto3";
message Small {
  uint64 id = 1;
  string kind = 2;
  optional int64 cash = 3;
  repeated Tag tags = 4;
  message Tag { map<string, string> cards = 1; }
}
"""


def test_records_of_a_class_become_rows_and_messages_of_another_schema(
    bench: Bench, spark: SparkSession
) -> None:
    order = bench.folder / "order.proto"
    order.write_text(ORDER)
    (bench.folder / "small.proto").write_text(SMALL)
    roots = [f"-I{bench.folder}", f"--python_out={bench.folder}", "order.proto"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *roots], check=True)
    kind: Any = GetMessageClass(protobuf_schemas.of_file(order).message("Order"))
    largest = 2**64 - 1
    line = {"sku": "s", "count": 2}
    sale = kind(id=largest, kind=1, lines=[line], card="c", at={"seconds": 1})
    cash = kind(id=2, kind=9, cash=0)  # and no card, of which the tags have NULL
    messages = [sale.SerializeToString(), cash.SerializeToString(), b"\x08", b"\x2a\0"]
    bench.produce(messages)
    summary = headrace.load(bench.write(PIPELINE)).run(spark=spark)
    assert (summary.written, summary.bad) == (2, 2)
    rows = sorted(bench.values(f"{bench.topic}.json"), key=lambda row: row["id"])
    assert [(row["id"], row["kind"], row["cash"], row["tags"][0]["cards"]) for row in rows] == [
        (0, "KIND_UNKNOWN", None, {"a": ""}),
        (largest, "SALE", None, {"a": "c"}),
    ]
    small: Any = GetMessageClass(protobuf_schemas.of_text(SMALL).message())
    made = [small.FromString(each.value or b"") for each in bench.read(f"{bench.topic}.proto")]
    assert {
        (each.id, each.kind, each.HasField("cash"), each.tags[0].cards["a"]) for each in made
    } == {
        (0, "KIND_UNKNOWN", False, ""),
        (largest, "SALE", False, "c"),
    }
    letters = {each.record.value: each for each in map(Letter.of, bench.read(f"{bench.topic}.dlq"))}
    assert {value: (each.error, each.message) for value, each in letters.items()} == {
        b"\x08": ("NOT_PROTOBUF", "the value is not a message shop.Order"),
        messages[1]: ("MISSING_FIELD", "its schema wants a value for: tags[].cards{}"),
    }
