"""The Kafka sink without a cluster: its topics, settings and words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.definitions import SINK, SOURCE, planned

from headrace.codeview.view import script
from headrace.errors import InternalError
from headrace.plan.explain import words
from headrace.sinks import kafka_sizes, kafka_topics
from headrace.sinks.kafka import KafkaSink
from headrace.sinks.writer import NotScripted
from headrace.spec import Setting


def sink(folder: Path, options: str = "") -> KafkaSink:
    (found,) = planned(folder, SOURCE, SINK, options).sinks
    assert isinstance(found, KafkaSink)
    return found


def settings(folder: Path, options: str = "") -> dict[str, Setting]:
    return {each.name.removeprefix("kafka."): each for each in sink(folder, options).settings()}


@pytest.mark.parametrize(
    ("topic", "sql"),
    [
        ("orders", "'orders'"),
        ("${region}", "concat(CAST(region AS STRING))"),
        ("a.${region}.b", "concat('a.', CAST(region AS STRING), '.b')"),
        ("${concat('a.', x)}", "concat(CAST(concat('a.', x) AS STRING))"),
    ],
)
def test_a_topic_is_text_or_made_of_a_row(topic: str, sql: str) -> None:
    assert kafka_topics.topic_fault(topic) is None
    assert kafka_topics.sql(topic) == sql


@pytest.mark.parametrize(
    ("topic", "allowed"),
    [
        ("orders.eu", True),
        ("orders.", True),
        ("ordersXeu", False),
        ("returns", True),
        ("returns.eu", False),
        ("my.returns", False),
        ("orders.eu\n", False),
        ("", False),
    ],
)
def test_the_allow_list_is_taken_word_for_word_but_for_its_stars(topic: str, allowed: bool) -> None:
    assert kafka_topics.allows(("orders.*", "returns"), topic) == allowed


def test_kafkas_own_topics_are_never_allowed() -> None:
    assert not kafka_topics.allows(("*",), "__consumer_offsets")
    assert kafka_topics.allows(("*",), "_mine")


@pytest.mark.parametrize("topic", [200, 8_000, 100_000, 1_048_588, 2_000_000, 200_000_000])
def test_the_largest_message_of_a_topic_fills_a_batch_of_one(topic: int) -> None:
    """61 bytes of a batch, a length, three bytes of the record, and what is counted."""
    body = kafka_sizes.largest(10**9, topic)
    record = body + 3

    def length(number: int) -> int:
        bits = max((number << 1).bit_length(), 1)
        return -(-bits // 7)

    assert 61 + length(record) + record <= topic
    assert 61 + length(record + 1) + record + 1 > topic


def test_every_producer_option_is_a_setting_with_its_origin(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        "  acks: 1\n  idempotence: false\n  compression: zstd\n  linger_ms: 20\n"
        "  batch_bytes: 65536\n  retries: 3\n  delivery_timeout_ms: 10000\n"
        "  max_request_bytes: 2000000\n  properties: {buffer.memory: 1000000}\n",
    )
    assert {name: each.value for name, each in found.items()} == {
        "bootstrap.servers": "localhost:9092",
        "acks": "1",
        "enable.idempotence": "false",
        "compression.type": "zstd",
        "linger.ms": "20",
        "batch.size": "65536",
        "retries": "3",
        "delivery.timeout.ms": "10000",
        "max.request.size": "2000000",
        # The client wants a record to have more time than one request.
        "request.timeout.ms": "9980",
        "buffer.memory": "1000000",
    }
    assert found["acks"].origin.startswith("acks (")
    assert found["buffer.memory"].origin.startswith("properties (")


def test_all_replicas_and_no_doubles_are_the_default(tmp_path: Path) -> None:
    found = settings(tmp_path)
    assert {name: each.value for name, each in found.items() if name != "bootstrap.servers"} == {
        "acks": "all",
        "enable.idempotence": "true",
    }
    assert found["acks"].origin == "acks (default)"
    own = settings(tmp_path, "  properties: {acks: all}\n")
    assert own["acks"].origin.startswith("properties (")


@pytest.mark.parametrize(
    ("options", "by"),
    [
        ("", "by Spark's writer"),
        ("  writer: arrow\n", "by Headrace's writer"),
        ("  timestamp: id\n", "by Headrace's writer, which sets times"),
    ],
)
def test_explain_says_which_writer_writes(tmp_path: Path, options: str, by: str) -> None:
    plan = planned(tmp_path, SOURCE, SINK, options)
    (write,) = plan.queries[0].writes
    assert words(write) == f"`sink` to Kafka topic out at localhost:9092, {by}"


def test_the_other_tools_name_of_the_key_is_taken(tmp_path: Path) -> None:
    """A form of Prophecy's asks for a `Message Unique Key`, and its code drops it."""
    made = sink(tmp_path, "  message_unique_key: name\n")
    assert made.expressions(["id", "name"])["key"] == "CAST(CAST(name AS STRING) AS BINARY)"


REGISTRY = "  schema_registry: {endpoint: 'http://localhost:8081'}\n"


@pytest.mark.parametrize(
    ("options", "typed"),
    [
        ("", {}),
        ("  value: id\n  format: raw\n", {}),
        ("  key: id\n  key_format: text\n", {}),
        ("  format: csv\n", {"value": "csv"}),
        ("  key: id\n  key_format: json\n", {"key": "json"}),
        ("  format: avro\n  key: id\n  key_format: json_schema\n" + REGISTRY,
         {"value": "avro", "key": "json_schema"}),
    ],
)  # fmt: skip
def test_what_goes_by_types_waits_for_them(
    tmp_path: Path, options: str, typed: dict[str, str]
) -> None:
    found = sink(tmp_path, options)
    assert {part: wanted.format for part, wanted in found.typed.items()} == typed
    assert found.unbound == set(typed)
    if typed:
        with pytest.raises(InternalError, match="before it has a schema"):
            found.expressions(["id"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("  format: avro\n" + REGISTRY, "the schema of its values is registered when Headrace"),
        ("  format: protobuf\n  schema_file: o.proto\n", "only Headrace writes Protobuf"),
    ],
)
def test_a_script_has_no_schema_of_a_sink(tmp_path: Path, options: str, reason: str) -> None:
    (tmp_path / "o.proto").write_text('syntax = "proto3"; message O { int64 id = 1; }')
    nothing = cast(Any, None)  # it is refused before Spark is asked for anything
    with pytest.raises(NotScripted, match=reason):
        script(planned(tmp_path, SOURCE, SINK, options), nothing, (), ())
