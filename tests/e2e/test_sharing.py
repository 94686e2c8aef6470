"""Pipelines on one consumer group: partitions are shared, move over, and no record is lost."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.admin import groups, places, resets, topics
from headrace.admin.client import connect
from headrace.admin.membership import Membership
from headrace.api import Run
from headrace.cluster.dev import DevCluster
from headrace.errors import GroupNotEmpty, NoOffsetForPartition, TooManyBadRecords
from headrace.formats.deadletter import HEADER_PREFIX
from headrace.project import Project
from headrace.runtime.progress import BatchDone, Event, Shared, Warned
from headrace.runtime.status import reports
from headrace.testing import crash_at, kafka
from headrace.testing.fixtures import TopicMaker

from .conftest import Bench
from .test_processes import Feeder, Running, run

__all__ = ["run"]

SHARED = """
pipeline: NAME-WHO
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  consumer_group: NAME
  share_partitions: true
  auto_offset_reset: earliest
  session_timeout_ms: 6000
  batch_size: 400
  schema: "id BIGINT NOT NULL, amount INT"
  properties: {heartbeat.interval.ms: 500, metadata.max.age.ms: 500}
transform:
  - sql: SELECT id FROM source WHERE amount > 0
sink:
  connector_type: kafka
  topic: TOPIC.out
"""
HELD = SHARED.replace(
    "- sql: SELECT id FROM source", "- python_rows: gate.hold\n  - sql: SELECT id FROM input"
)
GATE = """
import time
from pathlib import Path

def hold(messages):
    (Path(FOLDER) / "entered").touch()
    deadline = time.monotonic() + 120
    while not (Path(FOLDER) / "open").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return messages
"""
QUICK = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "300"}
Key = tuple[str, int]


@pytest.fixture
def six(kafka_cluster: DevCluster, topic: TopicMaker, tmp_path: Path) -> Bench:
    """A topic of six partitions, to be shared."""
    return Bench(connect(kafka_cluster.bootstrap), topic("orders", partitions=6), tmp_path)


def _rows(count: int, start: int = 0) -> list[dict[str, int]]:
    return [{"id": number, "amount": 1} for number in range(start, start + count)]


def _produce(bench: Bench, values: list[Any]) -> None:
    """Evenly, so that every partition has some."""
    for partition in range(6):
        bench.produce(values[partition::6], partition)


def _written(bench: Bench) -> list[int]:
    if not topics.exists(bench.cluster, f"{bench.topic}.out"):
        return []
    return [value["id"] for value in bench.values(f"{bench.topic}.out")]


def _write(bench: Bench, who: str, text: str = SHARED, **replaced: str) -> Path:
    for old, new in replaced.items():
        text = text.replace(old, new)
    return bench.write(text.replace("WHO", who), f"{who}.yaml")


# Processes


def _partitions(*running: Running) -> list[set[Key]]:
    """What each has been given last."""
    told = [each.of("Shared") for each in running]
    return [{(t, p) for t, p in each[-1]["partitions"]} if each else set() for each in told]


def _shared_out(bench: Bench, *running: Running) -> bool:
    """Whether they have all partitions, each one of them and evenly."""
    parts = _partitions(*running)
    whole = {(bench.topic, number) for number in range(6)}
    even = all(len(part) == 6 // len(running) for part in parts)
    return even and set().union(*parts) == whole


def test_processes_share_partitions_and_take_over_from_one_that_is_killed(
    six: Bench, run: Callable[..., Running]
) -> None:
    waiting = _rows(600, start=1_000_000)
    _produce(six, [*waiting, *(["bad"] * 6)])
    # The first has a session that would outlast the test: whoever follows it must not wait for it.
    first = run(_write(six, "first", **{"session_timeout_ms: 6000": "session_timeout_ms: 300000"}))
    second = run(_write(six, "second"))
    first.await_(lambda: _shared_out(six, first, second))
    feeder = Feeder(six)
    first.await_(lambda: first.records > 0)
    second.await_(lambda: second.records > 0)

    third = run(_write(six, "third"))
    third.await_(lambda: _shared_out(six, first, second, third))
    before = third.records
    third.await_(lambda: third.records > before)
    with pytest.raises(GroupNotEmpty):
        resets.plan(six.cluster, six.name, places.Earliest())

    own = {each.pipeline: each for each in reports(Project(six.folder))}[f"{six.name}-third"]
    assert own.shares == six.name
    assert {(each["topic"], each["partition"]) for each in own.positions} == _partitions(third)[0]

    # One that stands still is left out, and takes part again when it goes on.
    second.process.send_signal(signal.SIGSTOP)
    third.await_(lambda: _shared_out(six, first, third))
    second.process.send_signal(signal.SIGCONT)
    third.await_(lambda: _shared_out(six, first, second, third))

    assert second.end(signal.SIGKILL) == -signal.SIGKILL
    third.await_(lambda: _shared_out(six, first, third))
    assert first.end(signal.SIGTERM) == 0
    third.await_(lambda: _shared_out(six, third))
    sent = feeder.finish()
    third.await_(lambda: six.lag(six.name) == 0)
    assert third.end(signal.SIGTERM) == 0

    assert set(_written(six)) == {*range(sent), *(row["id"] for row in waiting)}
    letters = six.read(f"{six.topic}.dlq")
    assert len({dict(each.headers)[f"{HEADER_PREFIX}partition"] for each in letters}) == 6
    for each in (first, third):
        (summary,) = each.of("Summary")
        assert summary["records"] == each.records > 0


# One process, with members of the test's own beside it


@contextmanager
def _running(file: Path, spark: SparkSession, **options: Any) -> Iterator[tuple[Run, list[Event]]]:
    """A run beside the test, which is ended whatever happens."""
    events: list[Event] = []
    started = headrace.load(file).prepare(spark=spark, on_event=events.append, **options).start()
    try:
        yield started, events
    finally:
        started.stop()
        started.wait()


def _await(condition: Callable[[], bool], started: Run | None = None) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        if started is not None and not started.active:
            started.wait()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _has(events: list[Event]) -> set[Key]:
    told = [event for event in list(events) if isinstance(event, Shared)]
    return set(told[-1].partitions) if told else set()


def _warnings(events: list[Event]) -> str:
    return "\n".join(event.text for event in list(events) if isinstance(event, Warned))


def _owned(member: Membership) -> set[Key]:
    with member.holding() as held:
        return set(held)


@contextmanager
def _member(bench: Bench, name: str, **settings: str) -> Iterator[Membership]:
    """One of the group that reads nothing."""
    with Membership(bench.cluster, bench.name, name, {**QUICK, **settings}) as member:
        member.subscribe([bench.topic])
        yield member


@pytest.fixture
def gate(six: Bench) -> Path:
    (six.folder / "gate.py").write_text(GATE.replace("FOLDER", repr(str(six.folder))))
    return six.folder


def test_a_batch_in_hand_is_written_and_committed_before_partitions_move(
    six: Bench, gate: Path, spark: SparkSession
) -> None:
    _produce(six, _rows(60))
    with ExitStack() as stack:
        started, events = stack.enter_context(_running(_write(six, "held", HELD), spark))
        stack.callback((gate / "open").touch)
        _await((gate / "entered").exists, started)
        other = stack.enter_context(_member(six, "other"))
        _await(lambda: other.assigned)
        assert _owned(other) == set()
        assert set(groups.committed(six.cluster, six.name).values()) == {0}

        (gate / "open").touch()
        _await(lambda: len(_owned(other)) == 3, started)
        assert {each.offset for each in other.committed(_owned(other)).values()} == {10}
        _await(lambda: len(_has(events)) == 3, started)
        assert not _has(events) & _owned(other)
        assert sorted(_written(six)) == list(range(60))
        assert "taken back" not in _warnings(events)


def test_a_batch_that_takes_longer_than_the_group_waits_is_written_again_by_others(
    six: Bench, gate: Path, spark: SparkSession
) -> None:
    """A member that does not come to an assignment for `max.poll.interval.ms` is shut out."""
    _produce(six, _rows(60))
    # A group waits as long as the most patient of its members says.
    impatient = {"properties: {": "properties: {max.poll.interval.ms: 6000, "}
    settings = {"max.poll.interval.ms": "6000"}
    with ExitStack() as stack:
        file = _write(six, "slow", HELD, **impatient)
        started, events = stack.enter_context(_running(file, spark))
        stack.callback((gate / "open").touch)
        _await((gate / "entered").exists, started)
        with ExitStack() as others:
            members: list[Membership] = []

            def taken_over() -> bool:
                """Those that join next make the group wait for the one that holds all."""
                if all(member.assigned for member in members):
                    members.append(others.enter_context(_member(six, "other", **settings)))
                return sum(len(_owned(member)) for member in members) == 6

            _await(taken_over, started)
            assert set(groups.committed(six.cluster, six.name).values()) == {0}
            (gate / "open").touch()
            _await(lambda: "taken back" in _warnings(events), started)
            # What was written without a commit is not to be passed over by who has it now.
            assert set(groups.committed(six.cluster, six.name).values()) == {0}
        _await(lambda: len(_has(events)) == 6 and six.lag(six.name) == 0, started)
        assert sorted(_written(six)) == sorted(2 * [*range(60)])


def test_a_crash_between_write_and_commit_leaves_the_batch_to_the_next_owner(
    six: Bench, spark: SparkSession
) -> None:
    _produce(six, _rows(60))
    strict = _write(six, "strict", **{"auto_offset_reset: earliest": "auto_offset_reset: none"})
    with pytest.raises(NoOffsetForPartition) as refused:
        headrace.load(strict).run(spark=spark)
    assert f"headrace groups reset {six.name}" in (refused.value.hint or "")

    first, second = (headrace.load(_write(six, who)) for who in ("first", "second"))
    with crash_at("write.done"), pytest.raises(Exception, match="crashed on purpose"):
        first.run(spark=spark, once=True)
    assert sorted(_written(six)) == list(range(60))
    assert second.run(spark=spark, once=True).records == 60
    assert sorted(_written(six)) == sorted(2 * [*range(60)])
    _produce(six, _rows(6, start=60))
    with crash_at("share.committed"), pytest.raises(Exception, match="crashed on purpose"):
        first.run(spark=spark, once=True)
    assert second.run(spark=spark, once=True).records == 0
    assert sorted(_written(six))[-6:] == list(range(60, 66))


def test_new_topics_and_partitions_are_read_from_their_beginning(
    six: Bench, spark: SparkSession
) -> None:
    latest = {
        "topic: TOPIC\n": "topic_pattern: 'TOPIC(|-new)'\n",
        "auto_offset_reset: earliest": "auto_offset_reset: latest",
    }
    _produce(six, _rows(12))
    with _running(_write(six, "wide", **latest), spark) as (started, events):
        _await(lambda: len(_has(events)) == 6, started)
        # The group stands at the end from now on, so that nothing that comes is passed over.
        assert six.lag(six.name) == 0
        assert len(groups.committed(six.cluster, six.name)) == 6
        six.produce(_rows(6, start=100), partition=0)
        topics.grow(six.cluster, six.topic, 7)
        six.produce(_rows(6, start=200), partition=6)
        new = Bench(six.cluster, f"{six.topic}-new", six.folder)
        topics.create(six.cluster, new.topic)
        new.produce(_rows(6, start=300))
        _await(lambda: len(_written(six)) >= 18, started)
        assert len(_has(events)) == 8
    assert sorted(_written(six)) == [*range(100, 106), *range(200, 206), *range(300, 306)]


def test_too_many_bad_records_stop_the_run_and_give_the_partitions_to_others(
    six: Bench, spark: SparkSession
) -> None:
    _produce(six, [*_rows(6), *(["bad"] * 6)])
    limited = {"batch_size: 400": "max_errors_per_batch: 5", "6000": "300000"}
    with pytest.raises(TooManyBadRecords):
        headrace.load(_write(six, "strict", **limited)).run(spark=spark)
    with _member(six, "other") as other:
        _await(lambda: len(_owned(other)) == 6)
    assert set(groups.committed(six.cluster, six.name).values()) == {0}
    assert _written(six) == []


def test_a_group_that_was_moved_is_followed_and_told_of_and_others_do_not_move_it(
    six: Bench, spark: SparkSession
) -> None:
    _produce(six, _rows(12))
    file = _write(six, "one")
    with _running(file, spark) as (started, events):
        _await(lambda: len(_written(six)) == 12 and six.lag(six.name) == 0, started)
        status = json.loads((headrace.load(file).state.folder / "status.json").read_text())
        assert status["shares"] == six.name
        assert {each["offset"] for each in status["positions"]} == {2}
    assert "no pipeline that shares it" not in _warnings(events)

    # Another pipeline on the group that does not share leaves the position alone, and says so.
    alone = {"  share_partitions: true\n": "", "TOPIC.out": "TOPIC.alone"}
    with _running(_write(six, "alone", **alone), spark, once=True) as (started, events):
        started.wait()
    assert "share partitions, as" in _warnings(events)
    before = groups.committed(six.cluster, six.name)
    assert set(before.values()) == {2}

    moves = resets.plan(six.cluster, six.name, places.Earliest())
    resets.execute(six.cluster, six.name, moves)
    with _running(file, spark, once=True) as (started, events):
        assert started.wait().records == 12
    assert "by a reset or another program" in _warnings(events)
    assert sorted(_written(six)) == sorted(2 * [*range(12)])


def test_a_run_goes_on_by_itself_after_the_broker_was_killed_and_started_again(
    tmp_path: Path, spark: SparkSession
) -> None:
    with kafka() as cluster:
        handle = connect(cluster.bootstrap)
        topics.create(handle, "orders", partitions=6)
        bench = Bench(handle, "orders", tmp_path)
        _produce(bench, _rows(60))
        with _running(_write(bench, "one"), spark) as (started, events):
            _await(lambda: any(isinstance(event, BatchDone) for event in list(events)), started)
            cluster.kill(1)
            cluster.start(1)
            _produce(bench, _rows(60, start=60))
            _await(lambda: set(_written(bench)) == set(range(120)), started)
            _await(lambda: bench.lag(bench.name) == 0, started)
