"""Exactly once into Kafka: what crashes leave behind, and what the ledgers refuse."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

import headrace
from headrace.admin import groups, topics
from headrace.errors import (
    HeadraceError,
    KafkaRefused,
    LedgerInUse,
    LedgerMissing,
    TakenOver,
    TopicMadeAgain,
    TransactionTooLarge,
    WorkerLost,
)
from headrace.runtime import failpoints, ledgers, patience
from headrace.runtime.failpoints import IN_TASKS, Armed
from headrace.runtime.progress import BatchDone, Event, Retrying, Warned
from headrace.sinks import kafka_transactions
from headrace.sinks.kafka_transactions import Place, Work
from headrace.testing import Crash, crash_at

from .conftest import Bench

SOURCE = """
pipeline: NAME
guarantee: exactly_once
mode: MODE
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  schema: "id BIGINT NOT NULL, amount INT"
"""
LINEAGE = (
    SOURCE
    + """
transform:
  - sql: SELECT id, amount, _kafka_partition AS p, _kafka_offset AS o FROM source WHERE amount > 0
sinks:
  out:
    connector_type: kafka
    topic: TOPIC.out
    key: id
  copy:
    connector_type: kafka
    topic: TOPIC.copy
  table:
    connector_type: delta
    path: table
"""
).replace("auto_offset_reset", "include_metadata: true\n  auto_offset_reset")
BATCH = (
    SOURCE
    + """
transform:
  - sql: SELECT id, sum(amount) AS total, count(*) AS records FROM source GROUP BY id
sink:
  connector_type: kafka
  topic: TOPIC.out
  key: id
"""
)


def _rows(*ids: int) -> list[dict[str, int]]:
    return [{"id": number, "amount": 1} for number in ids]


def _read(bench: Bench, topic: str) -> list[Any]:
    """What a reader of committed records sees."""
    return [json.loads(record.value or b"null") for record in bench.read(topic)]


def _ids(bench: Bench, topic: str = "out") -> list[int]:
    return sorted(value["id"] for value in _read(bench, f"{bench.topic}.{topic}"))


def _group(bench: Bench, sink: str = "out") -> str:
    return f"__headrace.eos.{bench.name}.{sink}"


@pytest.fixture(autouse=True)
def _disarmed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(patience, "LONGEST_PAUSE", 0.1)
    yield
    failpoints.arm(None)


def _arm(point: str) -> None:
    failpoints.arm(Armed(point, 1, lambda: None, worker_only=True))


@pytest.mark.parametrize("text", [LINEAGE, BATCH])
def test_a_worker_that_dies_at_any_step_leaves_nothing_half_done(
    bench: Bench, spark: SparkSession, text: str
) -> None:
    """At each step of a task in turn its worker dies, and the stream does the batch again."""
    wanted = text.replace("MODE", "stream").replace("earliest", "earliest\n  batch_size: 100")
    bench.produce([*_rows(*range(200)), *["broken"] * 5])
    left = list(IN_TASKS)
    reasons: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Retrying):
            reasons.append(event.reason)
            failpoints.arm(None)
            if left:
                _arm(left.pop(0))

    _arm(left.pop(0))
    headrace.load(bench.write(wanted)).run(spark=spark, once=True, on_event=listen)
    assert len(reasons) == len(IN_TASKS)
    assert all(reason.startswith("WorkerLost") for reason in reasons)
    _assert_each_once(bench, spark, text, range(200), bad=5)


@pytest.mark.parametrize("text", [LINEAGE, BATCH])
def test_a_batch_run_that_is_cut_off_is_finished_by_the_next(
    bench: Bench, spark: SparkSession, text: str
) -> None:
    definition = headrace.load(bench.write(text.replace("MODE", "batch")))
    for number, point in enumerate(("eos.producing", "eos.committed")):
        bench.produce([*_rows(*range(number * 10, number * 10 + 10)), "broken"])
        _arm(point)
        with pytest.raises(WorkerLost):
            definition.run(spark=spark)
        failpoints.arm(None)
        definition.run(spark=spark)
    bench.produce(_rows(20))
    with crash_at("write.done"), pytest.raises(Crash):
        definition.run(spark=spark)
    told: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Warned):
            told.append(event.text)

    definition.run(spark=spark, on_event=listen)
    # The Delta sink is last and has the run, so that there is nothing left to do.
    known = "all of it was written" if text is LINEAGE else "nothing is twice"
    assert any(known in each for each in told)
    _assert_each_once(bench, spark, text, range(21), bad=2)


def _assert_each_once(
    bench: Bench, spark: SparkSession, text: str, ids: Iterable[int], bad: int
) -> None:
    assert _ids(bench) == list(ids)
    assert len(bench.read(f"{bench.topic}.dlq")) == bad
    if text is LINEAGE:
        assert _ids(bench, "copy") == list(ids)
        table = spark.read.format("delta").load(str(bench.folder / "table"))
        assert sorted(row["id"] for row in table.collect()) == list(ids)
        _assert_in_order(_read(bench, f"{bench.topic}.copy"))


def _assert_in_order(values: list[dict[str, int]]) -> None:
    """Rows without a key may be anywhere, and within one partition they are in their order."""
    for partition in {value["p"] for value in values}:
        offsets = [value["o"] for value in values if value["p"] == partition]
        assert len(offsets) == len(set(offsets))


@pytest.mark.parametrize("text", [LINEAGE, BATCH])
@pytest.mark.parametrize("point", ["write.sink", "write.done"])
def test_a_batch_that_is_written_and_not_committed_is_not_written_again(
    bench: Bench, spark: SparkSession, text: str, point: str
) -> None:
    definition = headrace.load(bench.write(text.replace("MODE", "stream")))
    bench.produce([*_rows(1, 2, 3), "broken"])
    with crash_at(point), pytest.raises(Crash):
        definition.run(spark=spark, once=True)
    before = len(bench.read(f"{bench.topic}.out"))
    assert before == 3
    bench.produce(_rows(4))
    definition.run(spark=spark, once=True)
    assert _ids(bench) == [1, 2, 3, 4]
    assert len(bench.read(f"{bench.topic}.dlq")) == 1


def test_a_partition_whose_rows_are_all_filtered_is_noted_too(
    bench: Bench, spark: SparkSession
) -> None:
    definition = headrace.load(bench.write(LINEAGE.replace("MODE", "stream")))
    bench.produce([{"id": 1, "amount": 0}, {"id": 2, "amount": 0}], partition=0)
    bench.produce(_rows(3), partition=1)
    definition.run(spark=spark, once=True)
    assert _ids(bench) == [3]
    expected = {(bench.topic, 0): 2, (bench.topic, 1): 1}
    assert groups.committed(bench.cluster, _group(bench)) == expected
    assert groups.committed(bench.cluster, _group(bench, "copy")) == expected


def test_a_state_that_is_gone_goes_on_from_its_ledger(bench: Bench, spark: SparkSession) -> None:
    text = LINEAGE[: LINEAGE.index("  table:")].replace("MODE", "stream")
    definition = headrace.load(bench.write(text))
    bench.produce(_rows(1, 2, 3))
    definition.run(spark=spark, once=True)
    shutil.rmtree(bench.folder / ".headrace")
    bench.produce(_rows(4))
    warned: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Warned):
            warned.append(event.text)

    definition.run(spark=spark, once=True, on_event=listen)
    assert _ids(bench) == [1, 2, 3, 4]
    assert any("by its ledgers" in text for text in warned)


def test_a_missing_entry_is_refused_only_when_a_batch_was_cut_off(
    bench: Bench, spark: SparkSession
) -> None:
    definition = headrace.load(bench.write(LINEAGE.replace("MODE", "stream")))
    bench.produce(_rows(1, 2))
    definition.run(spark=spark, once=True)
    groups.delete(bench.cluster, [_group(bench)])
    bench.produce(_rows(3))
    definition.run(spark=spark, once=True)  # nothing was in doubt
    assert _ids(bench) == [1, 2, 3]
    bench.produce(_rows(4))
    with crash_at("write.done"), pytest.raises(Crash):
        definition.run(spark=spark, once=True)
    groups.delete(bench.cluster, [_group(bench)])
    with pytest.raises(LedgerMissing):
        definition.run(spark=spark, once=True)
    assert _ids(bench) == [1, 2, 3, 4]


def test_a_group_that_somebody_else_uses_is_refused(bench: Bench, spark: SparkSession) -> None:
    definition = headrace.load(bench.write(LINEAGE.replace("MODE", "stream")))
    bench.produce(_rows(1, 2))
    definition.run(spark=spark, once=True)
    config = {"bootstrap.servers": bench.cluster.bootstrap, "group.id": _group(bench)}
    consumer = Consumer(config)
    consumer.commit(offsets=[TopicPartition(bench.topic, 0, 0)], asynchronous=False)
    consumer.close()
    with pytest.raises(LedgerInUse):
        definition.run(spark=spark, once=True)


@pytest.mark.parametrize("which", ["", ".out"])
def test_a_topic_that_was_made_again_is_refused(
    bench: Bench, spark: SparkSession, which: str
) -> None:
    definition = headrace.load(bench.write(LINEAGE.replace("MODE", "stream")))
    bench.produce(_rows(1, 2))
    definition.run(spark=spark, once=True)
    topics.delete(bench.cluster, [bench.topic + which])
    topics.ensure(bench.cluster, bench.topic + which, 2)
    bench.produce(_rows(*range(10, 40)))
    with pytest.raises(TopicMadeAgain):
        definition.run(spark=spark, once=True)


def test_of_two_runs_at_once_the_newer_wins(bench: Bench, spark: SparkSession) -> None:
    """The same pipeline in two folders: one state each, one ledger for both."""
    text = LINEAGE[: LINEAGE.index("  table:")].replace("MODE", "stream")
    old = headrace.load(bench.write(text))
    other = bench.folder / "other"
    other.mkdir()
    shutil.copy(bench.folder / "pipeline.yaml", other / "pipeline.yaml")
    new = headrace.load(other / "pipeline.yaml")
    bench.produce(_rows(1, 2))
    begun = threading.Event()
    ended: list[BaseException] = []

    def listen(event: Event) -> None:
        if isinstance(event, BatchDone):
            begun.set()

    def run() -> None:
        try:
            old.run(spark=spark, on_event=listen)
        except HeadraceError as error:
            ended.append(error)

    first = threading.Thread(target=run)
    first.start()
    assert begun.wait(120)
    new.run(spark=spark, once=True)
    bench.produce(_rows(*range(3, 20)))
    first.join(120)
    assert [type(error) for error in ended] == [TakenOver]
    new.run(spark=spark, once=True)
    assert _ids(bench) == list(range(1, 20))
    assert _ids(bench, "copy") == list(range(1, 20))


def test_a_reset_writes_again_what_it_goes_back_to(bench: Bench, spark: SparkSession) -> None:
    text = LINEAGE[: LINEAGE.index("  table:")].replace("MODE", "stream")
    bench.produce(_rows(1, 2), partition=0)
    headrace.load(bench.write(text)).run(spark=spark, once=True)
    offset = f"offset: {{type: beginning, partitions: [{{topic: {bench.topic}, partition: 0}}]}}"
    again = text.replace("  auto_offset_reset", f"  {offset}\n  auto_offset_reset")
    headrace.load(bench.write(again)).run(spark=spark, once=True)
    assert _ids(bench) == [1, 1, 2, 2]
    headrace.load(bench.write(again)).run(spark=spark, once=True)
    assert _ids(bench) == [1, 1, 2, 2]


def test_a_transaction_that_would_take_too_long_is_refused_before_it_begins(
    bench: Bench, spark: SparkSession
) -> None:
    text = BATCH.replace("MODE", "batch").replace("  key: id", "  transaction_timeout_ms: 1000")
    bench.produce(_rows(*range(20_100)))
    with pytest.raises(TransactionTooLarge):
        headrace.load(bench.write(text)).run(spark=spark)
    assert bench.read(f"{bench.topic}.out") == []


def test_a_long_range_is_several_transactions(bench: Bench, spark: SparkSession) -> None:
    """By lineage a transaction ends in the middle of a range when it grows old."""
    text = LINEAGE[: LINEAGE.index("  table:")].replace("MODE", "stream")
    text = text.replace("topic: TOPIC.out", "topic: TOPIC.out\n    transaction_timeout_ms: 1000")
    bench.produce(_rows(*range(30_000)))
    headrace.load(bench.write(text)).run(spark=spark, once=True)
    assert _ids(bench) == list(range(30_000))


def test_records_of_an_aborted_transaction_are_not_read(bench: Bench, spark: SparkSession) -> None:
    definition = headrace.load(bench.write(LINEAGE.replace("MODE", "stream")))
    producer = Producer(
        {"bootstrap.servers": bench.cluster.bootstrap, "transactional.id": bench.name}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(3):
        producer.produce(bench.topic, json.dumps({"id": number, "amount": 1}))
    producer.flush()
    producer.abort_transaction(30)
    bench.produce(_rows(7))
    definition.run(spark=spark, once=True)
    assert _ids(bench) == [7]


def test_a_transaction_that_expires_is_done_again(
    bench: Bench, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that is slow once: the broker ends the transaction, and nothing of it counts."""
    monkeypatch.syspath_prepend(str(bench.folder))
    marker = bench.folder / "was_slow"
    (bench.folder / "slow_once.py").write_text(SLOW.replace("MARKER", str(marker)))
    text = LINEAGE[: LINEAGE.index("  copy:")].replace("MODE", "stream")
    text = text.replace("topic: TOPIC.out", "topic: TOPIC.out\n    transaction_timeout_ms: 1000")
    text = text.replace("sinks:", "  - python_rows: slow_once.pass_on\nsinks:")
    bench.produce(_rows(*range(25_000)), partition=0)
    reasons: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Retrying):
            reasons.append(event.reason)

    headrace.load(bench.write(text)).run(spark=spark, once=True, on_event=listen)
    assert marker.exists()
    assert [reason.split()[0] for reason in reasons] == ["TransactionExpired"]
    assert _ids(bench) == list(range(25_000))


SLOW = """
import pathlib
import time

MARK = pathlib.Path("MARKER")


def pass_on(messages):
    if messages[-1]["id"] > 15_000 and not MARK.exists():
        MARK.touch()
        time.sleep(15)
    return messages
"""


def test_a_timeout_that_the_brokers_do_not_allow_is_told(bench: Bench, spark: SparkSession) -> None:
    text = LINEAGE.replace("MODE", "stream").replace(
        "key: id", "key: id\n    transaction_timeout_ms: 99000000"
    )
    with pytest.raises(KafkaRefused) as raised:
        headrace.load(bench.write(text)).run(spark=spark, once=True)
    assert "transaction.max.timeout.ms" in str(raised.value.hint)


def test_entries_are_renewed_while_a_stream_rests(
    bench: Bench, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers forget positions that nobody writes; renewing moves nothing and shuts nobody out."""
    monkeypatch.setattr(ledgers, "RENEW_SECONDS", 0.0)
    renewed: list[tuple[str, int]] = []
    enough = threading.Event()
    really = kafka_transactions.renew

    def renew(work: Work, place: Place, of: Place | None) -> None:
        really(work, place, of)
        renewed.append(place)
        if len(renewed) >= 8:
            enough.set()

    monkeypatch.setattr(kafka_transactions, "renew", renew)
    text = LINEAGE[: LINEAGE.index("  copy:")].replace("MODE", "stream")
    bench.produce(_rows(1, 2))
    written: list[int] = []
    all_written = threading.Event()

    def listen(event: Event) -> None:
        if isinstance(event, BatchDone):
            written.append(event.written)
            if sum(written) == 4:
                all_written.set()

    run = headrace.load(bench.write(text)).prepare(spark=spark, on_event=listen).start()
    assert enough.wait(120)
    bench.produce(_rows(3, 4))
    assert all_written.wait(120)
    run.stop()
    run.wait()
    assert {partition for _, partition in renewed} == {0, 1}
    assert _ids(bench) == [1, 2, 3, 4]
