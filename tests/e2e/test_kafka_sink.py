"""The Kafka sink as a pipeline has it: what is written where, what is refused, what is promised."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.admin import records, topic_settings, topics
from headrace.errors import KafkaRefused, MessageSizeTooLarge, RowRefused, UnknownTopicOrPartition
from headrace.formats.deadletter import HEADER_PREFIX

from .conftest import Bench

SOURCE = """
pipeline: NAME
mode: batch
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  schema: "id BIGINT, name STRING, region STRING, at TIMESTAMP"
sink:
  connector_type: kafka
"""
ROW = {"id": 1, "name": "a", "region": "eu", "at": "2024-05-01T12:00:00.250Z"}


def rows(count: int, **values: Any) -> list[dict[str, Any]]:
    return [{**ROW, "id": number, **values} for number in range(count)]


def letters(bench: Bench) -> dict[int, dict[str, str]]:
    """The dead letters by the `id` in their record: error and message."""
    found = {}
    for letter in bench.read(f"{bench.topic}.dlq"):
        facts = {
            name.removeprefix(HEADER_PREFIX): (value or b"").decode()
            for name, value in letter.headers
        }
        found[json.loads(letter.value or b"{}").get("id")] = facts
    return found


def headers(record: records.Record) -> dict[str, bytes | None]:
    return dict(record.headers)


# Where keys land


KEYS = ["", "a", "k1", "customer-42", "ümlaut", "日本", *(f"key-{n}" for n in range(200))]


def test_a_key_lands_in_the_same_partition_whoever_writes_it(
    bench: Bench, spark: SparkSession
) -> None:
    bench.produce({**ROW, "id": number, "name": key} for number, key in enumerate(KEYS))
    landed = {}
    for writer in ("spark", "arrow"):
        target = f"{bench.topic}.{writer}"
        text = f"  topic: {target}\n  key: name\n  writer: {writer}\n"
        file = bench.write(
            SOURCE.replace("NAME", f"NAME-{writer}") + text + "  create_topic: {partitions: 7}\n"
        )
        summary = headrace.load(file).run(spark=spark)
        assert (summary.records, summary.written) == (len(KEYS), len(KEYS))
        landed[writer] = {record.key: record.partition for record in bench.read(target)}
    topics.create(bench.cluster, f"{bench.topic}.cli", partitions=7)
    sent = [records.Record(b"{}", key=key.encode()) for key in KEYS]
    records.produce(bench.cluster, f"{bench.topic}.cli", sent).raise_if_rejected()
    landed["cli"] = {record.key: record.partition for record in bench.read(f"{bench.topic}.cli")}
    assert len(landed["spark"]) == len(KEYS)
    assert landed["arrow"] == landed["spark"]
    assert landed["cli"] == landed["spark"]
    assert len(set(landed["spark"].values())) == 7


@pytest.mark.parametrize("writer", ["spark", "arrow"])
def test_rows_without_a_key_are_spread_over_all_partitions(
    bench: Bench, spark: SparkSession, writer: str
) -> None:
    bench.produce(rows(4000, name="x" * 300))
    text = f"  topic: TOPIC.out\n  writer: {writer}\n  create_topic: {{partitions: 4}}\n"
    headrace.load(bench.write(SOURCE + text)).run(spark=spark)
    found = Counter(record.partition for record in bench.read(f"{bench.topic}.out"))
    assert sum(found.values()) == 4000
    assert set(found) == {0, 1, 2, 3}
    assert min(found.values()) > 4000 / 4 / 4


# Messages


EVERYTHING = """
  topic: TOPIC.out
  writer: WRITER
  create_topic: {partitions: 3, config: {retention.ms: 86400000}}
  key: concat(region, '-', id)
  exclude: [region, at]
  headers: {tenant: region, number: id}
  partition: "CASE WHEN id < 3 THEN id END"
  envelope: {schema_version: 2, source: shop, type: order}
  acks: all
  compression: zstd
  linger_ms: 5
  batch_bytes: 50000
  delivery_timeout_ms: 20000
"""


@pytest.mark.parametrize("writer", ["spark", "arrow"])
def test_a_message_has_what_its_options_say(bench: Bench, spark: SparkSession, writer: str) -> None:
    bench.produce(rows(3), partition=1)
    bench.produce([None], partition=0)
    text = EVERYTHING.replace("WRITER", writer)
    if writer == "arrow":
        text += "  timestamp: at\n"
    definition = headrace.load(bench.write(SOURCE + text))
    summary = definition.run(spark=spark)
    assert (summary.records, summary.written, summary.bad) == (4, 3, 1)
    out = f"{bench.topic}.out"
    found = {record.partition: record for record in bench.read(out)}
    assert {number: record.key for number, record in found.items()} == {
        0: b"eu-0",
        1: b"eu-1",
        2: b"eu-2",
    }
    record = found[1]
    assert json.loads(record.value or b"") == {"id": 1, "name": "a"}
    told = headers(record)
    assert told.pop("ce_time") is not None
    assert told == {
        "tenant": b"eu",
        "number": b"1",
        "ce_specversion": b"1.0",
        "ce_id": f"{bench.topic}-1-1".encode(),
        "ce_source": b"shop",
        "ce_type": b"order",
        "ce_schemaversion": b"2",
        "content-type": b"application/json",
    }
    if writer == "arrow":
        assert record.timestamp == 1_714_564_800_250
    assert len(topics.describe(bench.cluster, out).partitions) == 3
    assert topic_settings.value(bench.cluster, out, "retention.ms") == "86400000"


def test_an_envelope_of_fields_and_raw_values_are_the_same_when_written_again(
    bench: Bench, spark: SparkSession
) -> None:
    """Two sinks and two runs: ids come from the record, not from the moment."""
    bench.produce(rows(2), partition=0)
    text = SOURCE.replace("sink:\n  connector_type: kafka\n", "sinks:\n") + (
        "  enveloped: {connector_type: kafka, topic: TOPIC.out, exclude: [region, at, name],"
        " envelope: {as: fields, time: at}}\n"
        "  raw: {connector_type: kafka, topic: TOPIC.raw, value: name, headers_from:"
        " \"map_entries(map('n', id))\"}\n"
    )
    for number in (1, 2):
        file = bench.write(text.replace("NAME", f"NAME-{number}"))
        headrace.load(file).run(spark=spark)
    values = bench.values(f"{bench.topic}.out")
    assert len(values) == 4
    assert {json.dumps({**value, "event_source": ""}) for value in values} == {
        json.dumps(
            {
                "id": number,
                "event_id": f"{bench.topic}-0-{number}",
                "event_time": "2024-05-01T12:00:00.250Z",
                "event_source": "",
                "event_type": "enveloped",
            }
        )
        for number in (0, 1)
    }
    raw = bench.read(f"{bench.topic}.raw")
    assert {record.value for record in raw} == {b"a"}
    assert sorted(headers(record)["n"] or b"" for record in raw) == [b"0", b"0", b"1", b"1"]


# Topics of rows


PER_ROW = """
  topic: TOPIC.${region}
  allowed_topics: ALLOWED
  key: id
"""


def test_rows_name_their_topic_and_what_is_not_allowed_is_a_dead_letter(
    bench: Bench, spark: SparkSession
) -> None:
    names = {1: "eu", 2: "us", 3: "other", 4: None, 5: "a b", 6: "eu"}
    bench.produce({**ROW, "id": number, "region": name} for number, name in names.items())
    gone = [records.Record(None, key=b"7")]
    records.produce(bench.cluster, bench.topic, gone).raise_if_rejected()
    text = PER_ROW.replace("ALLOWED", "[TOPIC.e*, TOPIC.us]") + "  create_topics: {partitions: 2}\n"
    definition = headrace.load(bench.write(SOURCE + text))
    summary = definition.run(spark=spark)
    assert (summary.records, summary.written, summary.bad) == (7, 3, 4)
    assert sorted(value["id"] for value in bench.values(f"{bench.topic}.eu")) == [1, 6]
    assert [value["id"] for value in bench.values(f"{bench.topic}.us")] == [2]
    assert not topics.exists(bench.cluster, f"{bench.topic}.other")
    assert len(topics.describe(bench.cluster, f"{bench.topic}.eu").partitions) == 2
    found = letters(bench)
    assert {number: facts["error"] for number, facts in found.items()} == {
        3: "TOPIC_NOT_ALLOWED",
        4: "NO_TOPIC",
        5: "BAD_TOPIC",
        None: "NULL_VALUE",
    }
    assert f"{bench.topic}.other is not in allowed_topics" in found[3]["message"]
    assert any(record.key == b"7" for record in bench.read(f"{bench.topic}.dlq"))


def test_a_row_that_cannot_be_set_aside_stops_the_pipeline_by_its_name(
    bench: Bench, spark: SparkSession
) -> None:
    fail = SOURCE.replace("topic: TOPIC\n", "topic: TOPIC\n  bad_data: fail\n")
    bench.produce(rows(1, region="no"), partition=1)
    listed = PER_ROW.replace("ALLOWED", "[TOPIC.eu]")
    with pytest.raises(RowRefused) as refused:
        headrace.load(bench.write(fail + listed)).run(spark=spark)
    assert refused.value.code == "TOPIC_NOT_ALLOWED"
    assert f"{bench.topic}[1]@0" in str(refused.value)
    assert refused.value.exit_code == 4
    # On the list, and not to be made.
    known = PER_ROW.replace("ALLOWED", "[TOPIC.*]") + "  create_topic: false\n"
    with pytest.raises(UnknownTopicOrPartition) as missing:
        headrace.load(bench.write(fail + known)).run(spark=spark)
    assert f"{bench.topic}.no" in str(missing.value)


def test_partitions_and_times_that_do_not_exist_are_dead_letters(
    bench: Bench, spark: SparkSession
) -> None:
    bench.produce(
        {**ROW, "id": number, "region": where, "name": time}
        for number, where, time in [
            (1, "1", "1700000000000"),
            (2, "9", "1700000000000"),
            (3, "-1", "1700000000000"),
            (4, "x", "1700000000000"),
            (5, "0", "yesterday"),
            (6, "0", "-5"),
            (7, None, None),
        ]
    )
    text = (
        "  topic: TOPIC.out\n  create_topic: {partitions: 2}\n  partition: region\n"
        "  timestamp: name\n"
    )
    summary = headrace.load(bench.write(SOURCE + text)).run(spark=spark)
    assert (summary.written, summary.bad) == (2, 5)
    assert {number: facts["error"] for number, facts in letters(bench).items()} == {
        2: "BAD_PARTITION",
        3: "BAD_PARTITION",
        4: "BAD_PARTITION",
        5: "BAD_TIMESTAMP",
        6: "BAD_TIMESTAMP",
    }
    found = {json.loads(each.value or b"")["id"]: each for each in bench.read(f"{bench.topic}.out")}
    assert (found[1].partition, found[1].timestamp) == (1, 1_700_000_000_000)
    assert 7 in found


# Sizes


MB5 = 5_000_000
ROOMY = {"max.message.bytes": "6000000"}


@pytest.fixture
def big(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A topic that holds a good record of 5 MB, a bad one, and a small one."""
    topic_settings.change(bench.cluster, bench.topic, ROOMY)
    wanted = {**records.PRODUCER_SETTINGS, "message_max_bytes": 6_000_000}
    monkeypatch.setattr(records, "PRODUCER_SETTINGS", wanted)
    good = json.dumps({**ROW, "id": 1, "name": "x" * MB5})
    sent = [
        records.Record(good.encode(), key=b"big", headers=(("h", b"1"),), partition=0),
        records.Record(b"y" * MB5, partition=0),
        records.Record(json.dumps({**ROW, "id": 2}).encode(), partition=0),
    ]
    records.produce(bench.cluster, bench.topic, sent).raise_if_rejected()
    return bench


@pytest.mark.parametrize("writer", ["spark", "arrow"])
def test_a_message_of_5_mb_passes_where_the_limits_are_raised(
    big: Bench, spark: SparkSession, writer: str
) -> None:
    raised = f"""
  topic: TOPIC.out
  writer: {writer}
  max_request_bytes: 6000000
  create_topic: {{config: {{max.message.bytes: 6000000}}}}
"""
    summary = headrace.load(big.write(SOURCE + raised)).run(spark=spark)
    assert (summary.records, summary.written, summary.bad) == (3, 2, 1)
    assert sorted(len(value["name"]) for value in big.values(f"{big.topic}.out")) == [1, MB5]
    # Its dead letter is as large as the record, and that topic was made to take it.
    (letter,) = big.read(f"{big.topic}.dlq")
    assert letter.value == b"y" * MB5


@pytest.mark.parametrize("writer", ["spark", "arrow"])
def test_a_message_that_is_too_large_is_a_dead_letter_with_its_record_as_it_was(
    big: Bench, spark: SparkSession, writer: str
) -> None:
    text = f"  topic: TOPIC.out\n  writer: {writer}\n"
    summary = headrace.load(big.write(SOURCE + text)).run(spark=spark)
    assert (summary.records, summary.written, summary.bad) == (3, 1, 2)
    assert [value["id"] for value in big.values(f"{big.topic}.out")] == [2]
    found = {headers(each)[f"{HEADER_PREFIX}error"]: each for each in big.read(f"{big.topic}.dlq")}
    assert set(found) == {b"MessageSizeTooLarge", b"NOT_JSON"}
    letter = found[b"MessageSizeTooLarge"]
    assert (letter.key, len(letter.value or b"")) == (b"big", len(json.dumps(ROW)) + MB5 - 1)
    assert headers(letter)["h"] == b"1"


def test_a_message_that_is_too_large_is_an_error_by_name_where_nothing_is_set_aside(
    big: Bench, spark: SparkSession
) -> None:
    fail = SOURCE.replace("topic: TOPIC\n", "topic: TOPIC\n  bad_data: fail\n")
    limited = "  topic: TOPIC.out\n"
    steps = "transform:\n  sql: SELECT id, repeat('x', 2000000) AS name FROM source\n"
    grown = SOURCE.replace("sink:\n", steps + "sink:\n")
    for text, place in (
        (fail + limited, f"{big.topic}[0]@0"),
        (grown + limited, f"{big.topic}[0]@"),
    ):
        with pytest.raises(MessageSizeTooLarge) as refused:
            headrace.load(big.write(text)).run(spark=spark)
        assert place in str(refused.value)
        assert "max_request_bytes" in (refused.value.hint or "")


def test_a_message_fits_to_the_byte(bench: Bench, spark: SparkSession) -> None:
    """What the client and the broker would refuse, and nothing else, is a dead letter."""
    sizes = range(99_820, 100_000)
    bench.produce({**ROW, "id": 100_000 + size, "name": "x" * size} for size in sizes)
    by_client = "  topic: TOPIC.client\n  value: name\n  max_request_bytes: 100000\n"
    made = "{config: {max.message.bytes: 100000}}"
    by_topic = f"  topic: TOPIC.topic\n  value: name\n  create_topic: {made}\n"
    largest = {}
    for name, text in (("client", by_client), ("topic", by_topic)):
        file = bench.write((SOURCE + text).replace("NAME", f"NAME-{name}"))
        summary = headrace.load(file).run(spark=spark)
        assert summary.written + summary.bad == len(sizes)
        assert summary.bad > 0
        largest[name] = max(len(r.value or b"") for r in bench.read(f"{bench.topic}.{name}"))
    assert largest["client"] == 100_000 - 61 - 21 - 1 - 3 - 1
    # The next larger one would have been refused by the broker.
    beyond = records.Record(b"x" * (largest["topic"] + 1))
    assert records.produce(bench.cluster, f"{bench.topic}.topic", [beyond]).rejected == 1


# Failures


def test_nothing_counts_as_written_before_it_is_acknowledged(
    bench: Bench, spark: SparkSession
) -> None:
    """Mage 1: a compacted topic refuses what has no key; the position stays where it was."""
    out = f"{bench.topic}.out"
    topics.create(bench.cluster, out, config={"cleanup.policy": "compact"})
    bench.produce(rows(3))
    for writer in ("spark", "arrow"):
        text = f"  topic: TOPIC.out\n  writer: {writer}\n"
        definition = headrace.load(bench.write(SOURCE + text))
        with pytest.raises(KafkaRefused) as refused:
            definition.run(spark=spark)
        assert refused.value.code == "INVALID_RECORD"
        assert "set `key`" in (refused.value.hint or "")
    assert bench.read(out) == []
    topic_settings.change(bench.cluster, out, {"cleanup.policy": "delete"})
    assert definition.run(spark=spark).written == 3
    assert len(bench.read(out)) == 3
