"""The Kafka source against a real cluster: patterns, explicit offsets, losses."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.admin import groups, records, topics
from headrace.errors import (
    DataLoss,
    DefinitionError,
    KafkaRefused,
    NoOffsetForPartition,
    PositionBeyondEnd,
)
from headrace.runtime.progress import BatchDone, Event, Warned
from headrace.testing import Crash, crash_at

from .conftest import Bench

SOURCE = """
pipeline: NAME
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  schema: "id BIGINT NOT NULL"
"""
DELTA = """
sink:
  connector_type: delta
  path: table
"""
KAFKA = """
sink:
  connector_type: kafka
  topic: out-TOPIC
"""


class Told:
    """What a run tells, and the moment when it has read enough."""

    def __init__(self, enough: int = 1) -> None:
        self.events: list[Event] = []
        self.enough = threading.Event()
        self._wanted = enough

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if self.records >= self._wanted:
            self.enough.set()

    @property
    def records(self) -> int:
        return sum(event.records for event in self.events if isinstance(event, BatchDone))

    @property
    def warnings(self) -> str:
        return "\n".join(event.text for event in self.events if isinstance(event, Warned))


def _rows(*ids: int) -> list[dict[str, int]]:
    return [{"id": number} for number in ids]


def _ids(spark: SparkSession, bench: Bench, table: str = "table") -> list[int]:
    rows = spark.read.format("delta").load(str(bench.folder / table))
    return sorted(row.id for row in rows.collect())


def _offset(
    kind: str, partitions: str = "[{topic: TOPIC, partition: 0}]", value: Any = None
) -> str:
    told = "" if value is None else f"\n    value: {value}"
    return f"\n  offset:\n    type: {kind}{told}\n    partitions: {partitions}\n"


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _dead_port() -> int:
    """One that nobody listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_topic_that_is_made_while_the_stream_runs_is_read_from_its_beginning(
    bench: Bench,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Also: the first of two addresses is dead, nothing matches at first, an odd api_version.

    And no log tells what is in the records.
    """
    text = SOURCE.replace("topic: TOPIC", "topic_pattern: TOPIC-[a-z]+\n  api_version: 0.10.2")
    text = text.replace("SERVERS", f"127.0.0.1:{_dead_port()},SERVERS")
    definition = headrace.load(bench.write(text.replace("earliest", "latest") + KAFKA))
    told = Told(enough=4)
    run = definition.prepare(spark=spark, on_event=told).start()
    # From here on whatever comes is new to Spark.
    _await((definition.state.checkpoint("main") / "sources" / "0" / "0").exists)
    for name in ("new", "er", "9"):
        topics.create(bench.cluster, f"{bench.topic}-{name}", 1)
        batch = [
            records.Record(b'{"id": 1, "card": "4012-8888"}', b"key-4012-8888"),
            records.Record(b"4012-8888"),
        ]
        records.produce(bench.cluster, f"{bench.topic}-{name}", batch).raise_if_rejected()
    assert told.enough.wait(120)
    run.stop()
    summary = run.wait()
    assert (summary.written, summary.bad) == (2, 2)
    assert "no topic matches" in told.warnings
    assert "api_version is 0.10.2, and the brokers speak 4." in told.warnings
    assert groups.committed(bench.cluster, bench.name) == {
        (f"{bench.topic}-new", 0): 2,
        (f"{bench.topic}-er", 0): 2,
    }
    assert len(bench.read(f"{bench.name}.dlq")) == 2
    (log,) = tmp_path_factory.getbasetemp().glob("spark[0-9]*/log")
    assert "WARN" in log.read_text()
    for said in (log.read_text(), "".join(capfd.readouterr()), str(told.events)):
        assert "4012-8888" not in said


def test_a_pattern_in_a_batch_is_what_matches_at_its_start(
    bench: Bench, spark: SparkSession
) -> None:
    text = SOURCE.replace("topic: TOPIC", "topic_pattern: TOPIC-.*")
    definition = headrace.load(bench.write("mode: batch" + text + DELTA))
    told = Told()
    assert definition.run(spark=spark, on_event=told).records == 0
    assert "no topic matches" in told.warnings
    for number, name in enumerate(("a", "b")):
        topics.create(bench.cluster, f"{bench.topic}-{name}", 1)
        batch = [records.Record(b'{"id": %d}' % number)]
        records.produce(bench.cluster, f"{bench.topic}-{name}", batch).raise_if_rejected()
        assert definition.run(spark=spark).records == 1
    assert _ids(spark, bench) == [0, 1]


def test_an_offset_is_followed_once_and_again_when_it_changes(
    bench: Bench, spark: SparkSession
) -> None:
    """Two queries with a checkpoint each; the target knows batches by their ids."""
    steps = """
transform:
  - name: even
    sql: SELECT id FROM source WHERE id % 2 = 0
sinks:
  all:
    connector_type: delta
    path: table
    from: source
  even:
    connector_type: delta
    path: even
"""
    bench.produce(_rows(0, 1, 2, 3, 4), partition=0)
    bench.produce(_rows(10, 11), partition=1)

    def run(offset: str, **options: Any) -> Told:
        told = Told()
        file = bench.write(SOURCE.rstrip() + offset + steps)
        headrace.load(file).run(spark=spark, once=True, on_event=told, **options)
        return told

    second = _offset("int", value=2)
    run(second)
    assert _ids(spark, bench) == [2, 3, 4, 10, 11]
    bench.produce(_rows(5), partition=0)
    run(second)
    seen = [2, 3, 4, 5, 10, 11]
    assert _ids(spark, bench) == seen

    beginning = _offset("beginning")
    with crash_at("reset.noted"), pytest.raises(Crash):
        run(beginning)
    assert _ids(spark, bench) == seen
    with crash_at("write.done"), pytest.raises(Crash):
        run(beginning)
    told = run(beginning)
    assert told.warnings == ""
    seen += [0, 1, 2, 3, 4, 5]
    assert _ids(spark, bench) == sorted(seen)
    assert run(beginning).records == 0
    assert bench.lag(bench.name) == 0

    # Once more on purpose, with an offset that the partition does not have.
    far = _offset("int", value=3_000_000_000)
    assert "orders" in (warned := run(far).warnings)
    assert "has no offset 3000000000: it begins at the end, 6" in warned
    run(second, reset_offsets=True)
    seen += [2, 3, 4, 5]
    assert _ids(spark, bench) == sorted(seen)
    assert _ids(spark, bench, "even") == sorted(number for number in seen if number % 2 == 0)
    # Without partitions it holds for all of them.
    told = run("\n  offset: {type: int, value: 5}\n")
    assert {*re.findall(r"(\S+) has no offset 5", told.warnings)} == {f"{bench.topic}[1]"}
    assert _ids(spark, bench) == sorted([*seen, 5])

    with pytest.raises(KafkaRefused, match=r"partition 7 of topic .*it has 2 partition"):
        run(_offset("end", "[{topic: TOPIC, partition: 7}]"))
    with pytest.raises(DefinitionError, match="no source has an `offset`"):
        run("", reset_offsets=True)


def test_an_offset_taken_out_and_put_in_again_is_followed_again_in_batches_too(
    bench: Bench, spark: SparkSession
) -> None:
    bench.produce(_rows(1, 2), partition=0)
    bench.produce(_rows(3), partition=1)

    def run(offset: str) -> int:
        file = bench.write("mode: batch" + SOURCE.rstrip() + offset + KAFKA)
        return headrace.load(file).run(spark=spark).records

    # A time past the end is the end; a partition that is not named begins as a first run does.
    assert run(_offset("timestamp", value="2100-01-01T00:00:00Z")) == 1
    since = _offset("timestamp", value=1609459200000)
    for point in ("reset.noted", "reset.stored"):
        with crash_at(point), pytest.raises(Crash):
            run(since)
    assert run(since) == 2
    assert run(since) == 0
    assert run("") == 0
    assert run(since) == 2
    copied = [value["id"] for value in bench.values(f"out-{bench.topic}")]
    assert sorted(copied) == [1, 1, 2, 2, 3]


@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_none_wants_a_position_for_every_partition(
    bench: Bench, spark: SparkSession, mode: str
) -> None:
    text = f"mode: {mode}" + SOURCE.replace("earliest", "none").rstrip()
    bench.produce(_rows(1), partition=0)
    with pytest.raises(NoOffsetForPartition) as refused:
        headrace.load(bench.write(text + DELTA)).run(spark=spark, once=True)
    assert f"{bench.topic}[0], {bench.topic}[1]" in str(refused.value)
    begun = bench.write(text + "\n  offset: {type: beginning}\n" + DELTA)
    assert headrace.load(begun).run(spark=spark, once=True).records == 1
    bench.produce(_rows(2), partition=1)
    assert headrace.load(bench.write(text + DELTA)).run(spark=spark, once=True).records == 1


def _singly(bench: Bench, count: int) -> None:
    """Each a batch of its own in the log, so that little is fetched ahead."""
    for number in range(count):
        bench.produce(_rows(number), partition=0)


FEW = "earliest\n  batch_size: 1\n  max_partition_fetch_bytes: 1"


def test_records_that_go_while_a_stream_runs_stop_it_by_their_numbers(
    bench: Bench, spark: SparkSession, delete_records: Callable[[str, dict[int, int]], None]
) -> None:
    _singly(bench, 30)
    definition = headrace.load(bench.write(SOURCE.replace("earliest", FEW) + KAFKA))
    gone = threading.Event()

    def listen(event: Event) -> None:
        if isinstance(event, BatchDone) and not gone.is_set():
            delete_records(bench.topic, {0: 28})
            gone.set()

    with pytest.raises(DataLoss) as lost:
        definition.run(spark=spark, once=True, on_event=listen)
    assert re.search(rf"{bench.topic}\[0\] offsets \d+ to 27 \(\d+ records\)", str(lost.value))


def test_a_stream_that_may_go_on_tells_what_it_has_lost(
    bench: Bench, spark: SparkSession, delete_records: Callable[[str, dict[int, int]], None]
) -> None:
    """Before it is started again, and while it runs."""
    passing = SOURCE.replace("earliest", FEW + "\n  on_data_loss: reset")
    definition = headrace.load(bench.write(passing + KAFKA))
    _singly(bench, 3)
    definition.run(spark=spark, once=True)
    _singly(bench, 30)
    delete_records(bench.topic, {0: 5})
    told = Told()
    deleted = threading.Event()

    def listen(event: Event) -> None:
        told(event)
        if isinstance(event, BatchDone) and not deleted.is_set():
            delete_records(bench.topic, {0: 30})
            deleted.set()

    definition.run(spark=spark, once=True, on_event=listen)
    at_start, meanwhile = told.warnings.splitlines()
    assert at_start.endswith(f"passed over: {bench.topic}[0] offsets 3 to 4 (2 records)")
    assert re.search(r"maybe lost .* to 29 \(\d+ records\)$", meanwhile)
    assert [value["id"] for value in bench.values(f"out-{bench.topic}")][-3:] == [27, 28, 29]
    noted = (definition.state.folder / "losses.jsonl").read_text().splitlines()
    assert len(noted) == 2


def test_transactions_and_topics_that_come_and_go_are_no_losses(
    bench: Bench, spark: SparkSession, delete_records: Callable[[str, dict[int, int]], None]
) -> None:
    """Markers and aborted records leave holes; a topic may join that has lost its first records."""
    _transactions(bench)
    old = f"{bench.topic}.old"
    topics.create(bench.cluster, old, 1)
    records.produce(bench.cluster, old, 4 * [records.Record(b'{"id": 7}')]).raise_if_rejected()
    delete_records(old, {0: 3})

    def run(read: str) -> int:
        file = bench.write(SOURCE.replace("topic: TOPIC", f"topic: {read}") + DELTA)
        return headrace.load(file).run(spark=spark, once=True).records

    assert run("TOPIC") == 3
    assert run("TOPIC") == 0
    assert run("TOPIC,TOPIC.old") == 1
    _transactions(bench)
    assert run("TOPIC.old") == 0
    assert run("TOPIC.old") == 0
    assert _ids(spark, bench) == [1, 2, 3, 7]

    topics.delete(bench.cluster, [old])
    topics.create(bench.cluster, old, 1)
    with pytest.raises(PositionBeyondEnd, match=r"old\[0\] ends at 0, not 4"):
        run("TOPIC.old")


def _transactions(bench: Bench) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        bench.cluster.client_config(transactional_id=f"{bench.topic}.writer", linger_ms=0)
    )
    producer.init_transactions()
    for ids, kept in (([1, 2], True), ([8, 9], False), ([3], True)):
        producer.begin_transaction()
        for number in ids:
            producer.produce(bench.topic, b'{"id": %d}' % number, partition=0)
        if kept:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()


def test_bytes_pass_through_unchanged(bench: Bench, spark: SparkSession) -> None:
    """Prophecy's gem makes text of every key and value; these are none."""
    text = """
pipeline: NAME
mode: batch
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  serde_config: {serialization_method: RAW_VALUE}
sink:
  connector_type: kafka
  topic: copy-TOPIC
  key: key
  value: value
  partition: partition
  timestamp: timestamp
  headers_from: headers
  create_topic: {partitions: 2}
"""
    sent = [
        records.Record(b"\x00\xff\xfe", b"\xc3\x28", (("trace", b"\x80"),), partition=0),
        records.Record(b"", b"empty", partition=1),
        records.Record(None, b"gone", partition=1),
        records.Record(b'{"id": 1}', None, partition=0),
    ]
    records.produce(bench.cluster, bench.topic, sent).raise_if_rejected()
    assert headrace.load(bench.write(text)).run(spark=spark).written == 4

    def facts(topic: str) -> list[tuple[Any, ...]]:
        read = bench.read(topic)
        return sorted((r.partition, r.offset, r.key, r.value, r.headers, r.timestamp) for r in read)

    assert facts(f"copy-{bench.topic}") == facts(bench.topic)


def test_sources_of_mage_are_previewed_as_they_stand(bench: Bench, spark: SparkSession) -> None:
    """With two addresses of which the first is dead, several topics, metadata and bytes."""
    other = f"{bench.topic}.other"
    topics.create(bench.cluster, other, 1)
    bench.produce([{"bees": 23}])
    records.produce(bench.cluster, other, [records.Record(b'{"bees": 5}')]).raise_if_rejected()
    source = f"""
connector_type: kafka
bootstrap_server: "127.0.0.1:{_dead_port()},SERVERS"
topics: ['TOPIC', 'TOPIC.other']
consumer_group: bee_counters
batch_size: 100
max_partition_fetch_bytes: 52428800
timeout_ms: 2000
auto_offset_reset: earliest
"""
    counted = headrace.load(
        bench.write(source + 'include_metadata: true\nschema: "bees INT"\n')
    ).preview(spark=spark)
    found = {row["metadata"]["topic"]: row["data"]["bees"] for row in counted.rows}
    assert found == {bench.topic: 23, other: 5}
    raw = source + "serde_config:\n  serialization_method: RAW_VALUE\n"
    assert headrace.load(bench.write(raw)).preview(spark=spark).scanned == 2


ANY = """
pipeline: NAME
mode: batch
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  json_unstructured: true
  include_metadata: true
  metadata_headers: json
  columns:
    at: timestamp_millis(try_variant_get(value, '$.ms', 'bigint'))
    event: value
    trace: _kafka_headers:trace::string
    headers: _kafka_headers
transform:
  - name: hours
    sql: SELECT window.start AS hour, count(*) AS n FROM source GROUP BY window(at, '1 hour')
sinks:
  events:
    connector_type: delta
    path: table
    from: source
  copies:
    connector_type: kafka
    topic: out-TOPIC
    key: trace
    from: source
"""


def test_json_of_any_shape_is_read_by_its_paths_with_its_headers(
    bench: Bench, spark: SparkSession
) -> None:
    """In a batch, into Delta and Kafka; a preview sums up windows of a column that is made."""
    noon = 1_772_452_800_000
    batch = [
        records.Record(b'{"ms": %d, "tags": ["a", null]}' % noon, headers=(("trace", b"t-1"),)),
        records.Record(b'[1, {"ms": 5}]'),
        records.Record(b'{"ms": %d}' % (noon + 60_000), headers=(("trace", b"x"), ("trace", b"y"))),
        records.Record(b'{"ms": 1} {"ms": 2}'),
    ]
    records.produce(bench.cluster, bench.topic, batch).raise_if_rejected()
    definition = headrace.load(bench.write(ANY))
    seen = definition.preview(spark=spark)
    assert seen.rows == ({"hour": "2026-03-02T12:00:00.000Z", "n": 2},)
    assert [bad.error for bad in seen.bad] == ["NOT_JSON"]

    summary = definition.run(spark=spark)
    assert (summary.records, summary.bad) == (4, 1)
    values: list[Any] = [{"ms": noon, "tags": ["a", None]}, [1, {"ms": 5}], {"ms": noon + 60_000}]
    table = spark.read.format("delta").load(str(bench.folder / "table"))
    kept = {
        row.trace: (row.event.toPython(), row.headers and row.headers.toPython())
        for row in table.collect()
    }
    assert kept == {
        "t-1": (values[0], {"trace": "t-1"}),
        None: (values[1], None),
        "y": (values[2], {"trace": "y"}),
    }
    copies = {
        record.key: json.loads(record.value or b"") for record in bench.read(f"out-{bench.topic}")
    }
    assert [copies[key]["event"] for key in (b"t-1", None, b"y")] == values
    assert copies[None]["at"] is None
    assert definition.run(spark=spark).records == 0
