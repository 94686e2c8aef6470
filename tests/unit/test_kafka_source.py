"""What the Kafka source makes of its options, without a cluster and without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.definitions import CONSOLE, SINK, below, codes, faults, kafka, planned, write

from headrace.api import load
from headrace.errors import NoOffsetForPartition
from headrace.model.pipeline import Mode
from headrace.sources.kafka import KafkaSource
from headrace.sources.kafka_offsets import Extent, beyond, fill, loss_in_words, lost, without
from headrace.spans import Severity

CLUSTER = "connector_type: kafka\nbootstrap_server: localhost:9092\n"
RAW = CLUSTER + "topic: photos\nformat: raw\n"


def _source(folder: Path, options: str, sink: str = CONSOLE) -> KafkaSource:
    (source,) = planned(folder, "pipeline: shop\n", below("source", options), sink).sources
    assert isinstance(source, KafkaSource)
    return source


def _settings(source: KafkaSource, mode: Mode = Mode.STREAM) -> dict[str, str]:
    return {setting.name: setting.value for setting in source.settings(mode)}


# Topics


@pytest.mark.parametrize(
    "said", ["topic: 'orders, returns'", "topics: [orders, returns]", "topics: orders,returns"]
)
def test_several_topics_are_said_in_three_ways(tmp_path: Path, said: str) -> None:
    source = _source(tmp_path, f"{CLUSTER}{said}\nschema: id BIGINT\n")
    assert source.topics == ("orders", "returns")
    assert _settings(source)["subscribe"] == "orders,returns"
    assert source.dead_letter_topic == "shop.dlq"
    assert source.reads("returns")
    assert not source.reads("orders, returns")


def test_a_pattern_matches_whole_names_in_spark_too(tmp_path: Path) -> None:
    source = _source(tmp_path, f"{CLUSTER}topic_pattern: orders-\\d+|returns\nschema: id BIGINT\n")
    assert _settings(source)["subscribePattern"] == r"^(?:orders-\d+|returns)$"
    assert source.reads("orders-1")
    assert source.reads("returns")
    assert not source.reads("all-orders-1")
    assert not source.reads("returns.dlq")
    assert source.topics == ()
    assert source.dead_letter_topic == "shop.dlq"
    assert "topics that match" in source.origin


def test_the_group_is_the_pipelines_name_unless_one_is_named(tmp_path: Path) -> None:
    assert _source(tmp_path, kafka()).group == "shop"
    assert _source(tmp_path, kafka(group_id="mine")).group == "mine"


# Client settings


def test_fetch_sizes_agree_with_each_other(tmp_path: Path) -> None:
    assert "kafka.max.partition.fetch.bytes" not in _settings(_source(tmp_path, kafka()))
    small = _settings(_source(tmp_path, kafka(max_partition_fetch_bytes=5242880)))
    assert small["kafka.max.partition.fetch.bytes"] == "5242880"
    assert "kafka.fetch.max.bytes" not in small
    large = _settings(_source(tmp_path, kafka(max_partition_fetch_bytes=104857600)))
    assert large["kafka.fetch.max.bytes"] == "104857600"

    less = kafka(max_partition_fetch_bytes=2000, properties="{fetch.max.bytes: 1000}")
    assert codes(tmp_path, below("source", less), CONSOLE) == ["6:30 NO_EFFECT"]
    assert _settings(_source(tmp_path, less))["kafka.fetch.max.bytes"] == "1000"


def test_a_session_timeout_is_passed_on_and_explained(tmp_path: Path) -> None:
    short = kafka(session_timeout_ms=1500)
    settings = _settings(_source(tmp_path, short))
    assert settings["kafka.session.timeout.ms"] == "1500"
    # Kafka's own heartbeat of three seconds would be refused beside it.
    assert settings["kafka.heartbeat.interval.ms"] == "500"
    (found,) = faults(tmp_path, below("source", short), CONSOLE)
    assert (found.code, found.severity) == ("NO_EFFECT", Severity.WARNING)
    assert "join no group" in found.message


@pytest.mark.parametrize("version", ['"0.10.2"', "2.6", "[2, 6, 0]", '"(2, 6, 0)"', '"2,6,0"'])
def test_a_version_is_taken_in_every_form_and_has_no_effect(tmp_path: Path, version: str) -> None:
    text = below("source", kafka(api_version=version))
    (found,) = faults(tmp_path, text, CONSOLE)
    assert (found.code, found.severity) == ("NO_EFFECT", Severity.WARNING)
    assert _settings(_source(tmp_path, kafka(api_version=version))) == _settings(
        _source(tmp_path, kafka())
    )


# Columns


def test_metadata_adds_columns_and_the_record_as_two_values(tmp_path: Path) -> None:
    options = _source(tmp_path, kafka(include_metadata="true")).options
    assert KafkaSource.columns(options) == (
        *("id", "name", "amount"),
        *("_kafka_topic", "_kafka_partition", "_kafka_offset"),
        *("_kafka_timestamp", "_kafka_key", "_kafka_headers"),
        *("data", "metadata"),
    )


def test_a_column_of_the_schema_comes_before_one_of_the_metadata(tmp_path: Path) -> None:
    text = f"{CLUSTER}topic: orders\ninclude_metadata: true\nschema: Metadata STRING, id INT\n"
    found = faults(tmp_path, below("source", text), CONSOLE)
    assert [(fault.code, fault.severity) for fault in found] == [
        ("COLUMN_HIDDEN", Severity.WARNING)
    ]
    columns = KafkaSource.columns(_source(tmp_path, text).options) or ()
    assert columns.count("Metadata") == 1
    assert "metadata" not in columns
    assert columns[-1] == "data"


@pytest.mark.parametrize("said", ["format: raw", "serde_config: {serialization_method: RAW_VALUE}"])
def test_raw_bytes_need_no_schema(tmp_path: Path, said: str) -> None:
    source = _source(tmp_path, f"{CLUSTER}topic: photos\n{said}\n")
    assert source.wanted.format == "raw"
    assert KafkaSource.columns(source.options) == (
        *("key", "value", "timestamp", "partition", "offset", "topic", "headers"),
    )
    assert "bytes" in source.shape


def test_every_column_of_raw_bytes_can_be_read_by_sql(tmp_path: Path) -> None:
    sql = "SELECT key, value, timestamp, partition, offset, topic, headers FROM source"
    step = f"transform:\n  - sql: {sql} WHERE partition = 0 AND offset > 3\n"
    assert faults(tmp_path, below("source", RAW), step, SINK) == []


def test_a_warning_does_not_make_columns_doubtful(tmp_path: Path) -> None:
    step = "transform:\n  - sql: SELECT id, _kafka_offset FROM source\n"
    text = below("source", kafka(auto_offset_reset="smallest"))
    assert [each.split()[1] for each in codes(tmp_path, text, step, CONSOLE)] == [
        "OLD_WORD",
        "UNKNOWN_COLUMN",
    ]


# Positions


EXTENT = Extent(
    begins={("a", 0): 10, ("a", 1): 0, ("b", 0): 3_000_000_000},
    ends={("a", 0): 90, ("a", 1): 5, ("b", 0): 3_000_000_009},
    tops={("a", 0): 100, ("a", 1): 5, ("b", 0): 3_000_000_009},
)


def test_a_first_run_begins_everywhere_as_it_is_told() -> None:
    assert fill("s", "earliest", {}, EXTENT) == EXTENT.begins
    assert fill("s", "latest", {}, EXTENT) == EXTENT.ends


def test_a_partition_that_came_later_is_read_from_its_beginning() -> None:
    stored = {("a", 0): 42, ("b", 0): 3_000_000_001}
    assert fill("s", "latest", stored, EXTENT) == {**stored, ("a", 1): 0}


def test_none_names_every_partition_without_a_position() -> None:
    with pytest.raises(NoOffsetForPartition) as refused:
        fill("s", "none", {("a", 1): 2}, EXTENT)
    assert "a[0], b[0]" in str(refused.value)
    rest = without(EXTENT, [("a", 0), ("b", 0)])
    assert fill("s", "none", {("a", 1): 2}, rest) == {("a", 1): 2}


def test_what_is_lost_is_named_and_counted_also_beyond_32_bits() -> None:
    stands = {("a", 0): 4, ("a", 1): 0, ("b", 0): 2_999_999_000, ("gone", 0): 1}
    assert loss_in_words(lost(stands, EXTENT)) == (
        "a[0] offsets 4 to 9 (6 records), b[0] offsets 2999999000 to 2999999999 (1000 records)"
    )
    assert loss_in_words({}) is None


def test_an_open_transaction_is_not_taken_for_a_topic_that_was_made_anew() -> None:
    assert beyond({("a", 0): 95}, EXTENT) is None
    assert beyond({("a", 0): 101, ("a", 1): 5}, EXTENT) == "a[0] ends at 100, not 101"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("{type: end, partitions: [{topic: orders, partition: 1}, {topic: orders, partition: 0}]}",
         "{type: end, partitions: [{topic: orders, partition: 0}, {topic: orders, partition: 1}]}",
         True),
        ("{type: int, value: 3000000000, partitions: {topic: orders, partition: 0}}",
         "{type: int, value: 3000000001, partitions: {topic: orders, partition: 0}}",
         False),
        ("{type: end, value: null, partitions: {topic: orders, partition: 0}}",
         "{type: beginning, partitions: {topic: orders, partition: 0}}",
         False),
    ],
)  # fmt: skip
def test_the_same_wish_is_the_same_however_it_is_written(
    tmp_path: Path, one: str, other: str, same: bool
) -> None:
    first, second = (_source(tmp_path, kafka(offset=each)).reset for each in (one, other))
    assert (first == second) is same
    assert _source(tmp_path, kafka()).reset is None


def test_where_it_begins_is_explained(tmp_path: Path) -> None:
    asked = "{type: int, value: 1000, partitions: [{topic: orders, partition: 1}]}"
    text = below("source", kafka(auto_offset_reset="none", offset=asked))
    told = load(write(tmp_path, text + CONSOLE)).explain()["position"]
    assert any("`source`: every partition must have a stored position" in line for line in told)
    assert any("orders[1] begin once at int 1000 when it is next started" in line for line in told)
