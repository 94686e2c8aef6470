"""What is worth changing, from plain numbers: when, why, and the line that mends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.admin import quantities
from headrace.admin.forecast import Forecast
from headrace.admin.limits import BrokerLimits
from headrace.admin.records import Record
from headrace.admin.sampling import Sizes, size_of
from headrace.errors import DefinitionError
from headrace.model.pipeline import Mode
from headrace.runtime import tuning
from headrace.runtime.tuning import (
    Chosen,
    Facts,
    Finding,
    Memory,
    Missing,
    SourceFacts,
    TargetFacts,
    TopicFacts,
    findings,
)
from headrace.sources.kafka_settings import DEFAULT_BATCH_SIZE
from headrace.spans import Severity, Span

MIB = 1024 * 1024
GIB = 1024 * MIB
LIMITS = BrokerLimits(1048588, 1048576, 55 * MIB)


def at(line: int) -> Span:
    return Span("p.yaml", line, 1)


def sizes(average: float, largest: int | None = None) -> Sizes:
    return Sizes(100, 1, average, int(average), int(largest or average))


def topic(**changes: Any) -> TopicFacts:
    fine = TopicFacts("orders", 4, 1, 1000, 10.0, sizes(100), 1048588)
    return replace(fine, **changes)


def source(*topics: TopicFacts, **changes: Any) -> SourceFacts:
    fine = SourceFacts(
        name="source",
        span=at(2),
        topics=topics or (topic(),),
        batch_size=Chosen(DEFAULT_BATCH_SIZE, "the default of batch_size", at(2)),
        fetch=Chosen(MIB, "Kafka's default", at(2)),
        fetch_max=50 * MIB,
        limits=LIMITS,
        started=True,
        begins_at="latest",
        waiting=0,
        read=0.0,
        group="g",
        members=0,
        forecast=(),
    )
    return replace(fine, **changes)


def facts(*sources: SourceFacts, **changes: Any) -> Facts:
    memory = Memory(GIB, "spark.driver.memory", "Spark's default", 1, 16 * GIB, at(1))
    fine = Facts("p", Mode.STREAM, sources or (source(),), (), (), memory, 4, None, at(1))
    return replace(fine, **changes)


def only(judged: Facts) -> Finding:
    (found,) = findings(judged)
    return found


def set_to(value: int, line: int = 9) -> Chosen:
    return Chosen(value, "p.yaml", at(line))


def test_what_suits_its_topics_needs_no_change() -> None:
    assert findings(facts()) == []


def test_a_topic_without_records_gives_no_advice() -> None:
    empty = topic(records=0, rate=0.0, sizes=Sizes())
    assert findings(facts(source(empty, batch_size=set_to(1)))) == []


# Fetches


def test_a_fetch_that_holds_little_of_a_batch_is_too_small() -> None:
    """500 messages of 5 KB in a batch, and 1 MB in a fetch: about 200."""
    small = source(topic(partitions=1, sizes=sizes(5 * 1024)), batch_size=set_to(500))
    found = only(facts(small))
    assert (found.code, found.line) == ("FETCH_TOO_SMALL", "max_partition_fetch_bytes: 5242880")
    assert found.message == (
        "a fetch of 1 MiB (Kafka's default) holds about 204 records of 5 KiB, so a partition's "
        "share of a batch, 500 records, takes 3 fetches"
    )


def test_with_more_partitions_the_same_fetch_holds_a_share() -> None:
    small = source(topic(partitions=3, sizes=sizes(5 * 1024)), batch_size=set_to(500))
    assert findings(facts(small)) == []


def test_a_record_larger_than_a_fetch_is_told_and_the_fetch_is_raised_above_it() -> None:
    found = only(facts(source(topic(sizes=sizes(200, 3 * MIB), limit=4 * MIB))))
    assert (found.code, found.line) == (
        "FETCH_TOO_SMALL",
        f"max_partition_fetch_bytes: {3 * MIB}",
    )
    assert "the largest record seen is 3 MiB, and a fetch is 1 MiB" in found.message


@pytest.mark.parametrize(
    ("average", "share", "expected"),
    [
        (100, 10**6, 1),
        (1000, 10**6, 1),
        (2 * 1024, 10**6, 5),
        (9 * 1024, 10**6, 9),
        (50 * 1024, 10**6, 49),
        (50 * 1024, 10, 10),
        (90 * 1024, 10**6, 50),
        (10**6, 10**6, 100),
        (10**6, 1, 50),
    ],
)
def test_a_fetch_is_worth_what_suits_the_size_of_records(
    average: float, share: int, expected: int
) -> None:
    assert tuning.wanted_fetch(average, int(average), share) == expected * MIB


def test_a_fetch_is_never_advised_beyond_the_memory() -> None:
    large = source(topic(partitions=30, sizes=sizes(50 * 1024)))
    found = only(facts(large))
    assert found.line == f"max_partition_fetch_bytes: {11 * MIB}"
    tight = Memory(64 * MIB, "spark.driver.memory", "spark", 1, GIB, at(1))
    codes = {each.code for each in findings(facts(large, memory=tight))}
    assert codes == {"MEMORY_SHORT"}


# Batches


def test_batches_that_are_too_small_for_what_is_written_let_the_lag_grow() -> None:
    found = only(facts(source(topic(rate=5000.0), batch_size=set_to(100))))
    assert (found.code, found.span.line) == ("BATCH_TOO_SMALL", 9)
    assert found.line == "batch_size: 1000000"
    assert found.message == (
        "a batch of 100 records every 0.5 s is 200 records/s, and 5,000 records/s are written: the "
        "lag grows"
    )


def test_a_trigger_makes_batches_rarer() -> None:
    one = source(topic(rate=150.0), batch_size=set_to(100))
    assert findings(facts(one)) == []
    assert only(facts(one, trigger_seconds=10.0)).code == "BATCH_TOO_SMALL"


def test_a_small_batch_is_right_where_little_is_written() -> None:
    assert findings(facts(source(topic(rate=1.0), batch_size=set_to(10)))) == []


def test_a_backlog_of_large_records_is_not_read_in_one_batch() -> None:
    waiting = source(topic(sizes=sizes(50 * 1024)), waiting=10**7, fetch=set_to(50 * MIB))
    found = only(facts(waiting))
    assert (found.code, found.line) == ("BATCH_TOO_LARGE", "batch_size: 10000")
    assert "1,000,000 records of 50 KiB, 47.7 GiB in all" in found.message
    assert findings(facts(replace(waiting, waiting=100))) == []


def test_batches_are_no_matter_of_a_batch_pipeline() -> None:
    waiting = source(topic(rate=5000.0), batch_size=set_to(100), waiting=10**9)
    assert findings(facts(waiting, mode=Mode.BATCH)) == []


# Memory


def test_memory_is_what_fetches_of_all_partitions_may_take() -> None:
    greedy = source(topic(partitions=20, sizes=sizes(10**6)), fetch=set_to(50 * MIB))
    found = only(facts(greedy))
    assert (found.code, found.line) == ("MEMORY_SHORT", "spark: {spark.driver.memory: 3g}")
    assert found.message == (
        "fetched records may take 1.5 GiB (50 MiB × 20 partitions × 1.5), and half of "
        "spark.driver.memory (Spark's default) is 512 MiB"
    )


def test_a_fetch_that_is_larger_than_it_need_be_is_lowered_before_memory_is_raised() -> None:
    found = only(facts(source(topic(partitions=20), fetch=set_to(50 * MIB))))
    assert (found.code, found.line) == ("MEMORY_SHORT", f"max_partition_fetch_bytes: {MIB}")


def test_executors_share_the_partitions() -> None:
    greedy = source(topic(partitions=20, sizes=sizes(10**6)), fetch=set_to(50 * MIB))
    many = Memory(GIB, "spark.executor.memory", "Spark's default", 10, None, at(1))
    assert findings(facts(greedy, memory=many)) == []
    few = replace(many, processes=3)
    assert only(facts(greedy, memory=few)).line == "spark: {spark.executor.memory: 2g}"


def test_more_heap_than_the_machine_has_is_told() -> None:
    memory = Memory(32 * GIB, "spark.driver.memory", "spark", 1, 16 * GIB, at(5))
    found = only(facts(memory=memory))
    assert (found.code, found.span.line) == ("MEMORY_SHORT", 5)
    assert found.line == "spark: {spark.driver.memory: 8g}"


# Tasks


def test_more_tasks_than_partitions_find_nothing_to_do() -> None:
    found = only(facts(executor_count=set_to(8, 1), tasks=8))
    assert (found.code, found.line) == ("MORE_TASKS_THAN_PARTITIONS", "executor_count: 4")
    assert "4 find nothing to do" in found.message
    assert findings(facts(executor_count=set_to(4, 1), tasks=4)) == []
    assert findings(facts(source(), source(name="b"), executor_count=set_to(8, 1))) == []


# Limits


def test_the_smaller_of_two_limits_on_a_fetch_wins() -> None:
    large = topic(partitions=1, sizes=sizes(10**6))
    heap = Memory(8 * GIB, "spark.driver.memory", "spark", 1, 16 * GIB, at(1))
    found = only(facts(source(large, fetch=set_to(60 * MIB)), memory=heap))
    assert (found.code, found.line) == (
        "LIMITS_DISAGREE",
        f"max_partition_fetch_bytes: {50 * MIB}",
    )
    found = only(facts(source(large, fetch=set_to(60 * MIB), fetch_max=60 * MIB), memory=heap))
    assert "fetch.max.bytes of the brokers is 55 MiB" in found.message


def test_a_topic_that_takes_more_than_a_fetch_is_told() -> None:
    found = only(facts(source(topic(limit=5 * MIB))))
    assert (found.code, found.line) == ("LIMITS_DISAGREE", f"max_partition_fetch_bytes: {5 * MIB}")


def test_followers_that_fetch_less_than_a_topic_takes_are_told_where_there_are_any() -> None:
    raised = topic(limit=5 * MIB, replication=3)
    found = only(facts(source(raised, fetch=set_to(5 * MIB))))
    assert found.code == "LIMITS_DISAGREE"
    assert found.hint == f"set replica.fetch.max.bytes={5 * MIB} on the brokers"
    alone = source(replace(raised, replication=1), fetch=set_to(5 * MIB))
    assert findings(facts(alone)) == []
    # By default a message may be as large as a fetch and the frame around it.
    assert findings(facts(source(topic(replication=3)))) == []


def target(**changes: Any) -> TargetFacts:
    return replace(TargetFacts("out", "written by `sink`", at(7), MIB, 1048588), **changes)


@pytest.mark.parametrize(
    ("changes", "line", "hint"),
    [
        ({"limit": 8 * MIB}, f"properties: {{max.request.size: {4 * MIB}}}", None),
        (
            {"request": 8 * MIB},
            None,
            f"`headrace topics alter out --config max.message.bytes={4 * MIB}`",
        ),
        (
            {"request": 8 * MIB, "exists": False},
            None,
            f"`headrace topics create out --config max.message.bytes={4 * MIB}`",
        ),
    ],
)
def test_a_target_must_take_what_is_read(
    changes: dict[str, Any], line: str | None, hint: str | None
) -> None:
    large = source(topic(sizes=sizes(200, 3 * MIB)), fetch=set_to(5 * MIB))
    found = only(facts(large, targets=(target(**changes),)))
    assert (found.code, found.line, found.hint) == ("LIMITS_DISAGREE", line, hint)
    assert "the largest record read is 3 MiB" in found.message


def test_a_sink_that_sends_more_than_its_topic_takes_is_told() -> None:
    found = only(facts(targets=(target(request=5 * MIB),)))
    assert (found.code, found.span.line) == ("LIMITS_DISAGREE", 7)
    assert "it refuses what is between" in found.message


def test_the_dead_letters_of_a_topic_may_be_as_large_as_its_records() -> None:
    large = source(topic(limit=5 * MIB), fetch=set_to(5 * MIB))
    letters = target(topic="orders.dlq", dead_letters_of="source", request=8 * MIB)
    found = only(facts(large, targets=(letters,)))
    assert found.message.startswith("a bad record may be 5 MiB")
    assert findings(facts(targets=(letters,))) == []
    assert findings(facts(targets=(replace(letters, request=MIB),))) == []


# Positions, groups, runs


def test_data_that_will_be_lost_soon_is_told() -> None:
    near = Forecast("orders", 3, 12, 0, 9600.0, "retention.ms")
    far = Forecast("orders", 1, 12, 0, 9e6, "retention.ms")
    found = only(facts(source(forecast=(near, replace(near, partition=0), far))))
    assert (found.code, found.severity) == ("LOSES_DATA_SOON", Severity.WARNING)
    assert found.message == (
        "partition 3 of orders loses unread data in 2 h 40 m, and 1 more partition(s) soon: "
        "12 records wait there"
    )
    assert "headrace topics alter orders --config retention.ms=…" in (found.hint or "")
    gone = only(facts(source(forecast=(replace(near, lost=5),))))
    assert "on_data_loss" in (gone.hint or "")
    assert findings(facts(source(forecast=(far,)))) == []


def test_a_lag_that_grows_is_told_with_what_makes_it_faster() -> None:
    slow = source(topic(rate=800.0), read=500.0, waiting=10_000)
    found = only(facts(slow, tasks=2))
    assert (found.code, found.line) == ("LAG_GROWS", "executor_count: 4")
    assert "it reads 500 records/s and 800 records/s are written" in found.message
    assert only(facts(slow, tasks=4)).line is None
    assert findings(facts(replace(slow, read=900.0))) == []
    assert findings(facts(replace(slow, waiting=0))) == []


def test_a_group_that_others_have_joined_is_told() -> None:
    found = only(facts(source(members=2)))
    assert (found.code, found.line) == ("GROUP_IN_USE", "consumer_group: g.headrace")


def test_a_topic_that_is_missing_is_an_error() -> None:
    missing = Missing("ordrs", "h:9092", "read by `source`", at(3), "did you mean `orders`?")
    found = only(facts(missing=(missing,)))
    assert (found.code, found.severity) == ("UNKNOWN_TOPIC", Severity.ERROR)
    assert str(found.diagnostic) == (
        "p.yaml:3:1 UNKNOWN_TOPIC topic ordrs does not exist at h:9092 (read by `source`) "
        "(did you mean `orders`?)"
    )


def test_a_file_that_was_changed_needs_a_new_run() -> None:
    found = only(facts(changed="2026-03-01T12:00:00+00:00"))
    assert found.code == "CHANGED_SINCE_START"
    assert "run it again" in (found.hint or "")


def test_findings_are_in_order_of_place_and_name_the_line_to_write() -> None:
    judged = facts(source(topic(rate=5000.0), batch_size=set_to(1)), executor_count=set_to(9, 1))
    found = findings(judged)
    assert [each.code for each in found] == ["MORE_TASKS_THAN_PARTITIONS", "BATCH_TOO_SMALL"]
    assert found[0].diagnostic.hint == "write `executor_count: 4`"


def follow(judged: Facts, found: Finding) -> Facts:
    """The facts after the advised line was written."""
    name, _, value = (found.line or "").partition(": ")
    (one,) = judged.sources
    if name == "batch_size":
        return replace(judged, sources=(replace(one, batch_size=set_to(int(value))),))
    if name == "max_partition_fetch_bytes":
        return replace(judged, sources=(replace(one, fetch=set_to(int(value))),))
    if name == "executor_count":
        return replace(judged, executor_count=set_to(int(value), 1))
    heap = quantities.parse_size(value.strip("{}").partition(": ")[2])
    return replace(judged, memory=replace(judged.memory, heap=heap))


@given(
    average=st.integers(1, 5 * MIB),
    spread=st.integers(1, 4),
    partitions=st.integers(1, 200),
    rate=st.integers(0, 100_000),
    waiting=st.integers(0, 10**8),
    batch=st.integers(1, DEFAULT_BATCH_SIZE),
    fetch=st.integers(1, 200 * MIB),
)
def test_whoever_follows_the_advice_gets_no_other(
    average: int, spread: int, partitions: int, rate: int, waiting: int, batch: int, fetch: int
) -> None:
    one = topic(
        partitions=partitions,
        rate=float(rate),
        sizes=sizes(average, average * spread),
        limit=1048588,
    )
    judged = facts(
        source(one, batch_size=set_to(batch), fetch=set_to(fetch), waiting=waiting),
        executor_count=set_to(partitions + 1, 1),
        memory=Memory(GIB, "spark.driver.memory", "spark", 1, 1 << 50, at(1)),
    )
    for _ in range(6):
        advised = [each for each in findings(judged) if each.line is not None]
        if not advised:
            return
        for each in advised:
            judged = follow(judged, each)
    assert advised == []


# Reading numbers


def test_sizes_are_told_from_a_sample() -> None:
    found = Sizes.of([*range(1, 100), 1000])
    assert (found.count, found.smallest, found.p95, found.largest) == (100, 1, 95, 1000)
    assert found.average == pytest.approx(59.5)
    assert Sizes.of([]) == Sizes()


def test_the_size_of_a_record_is_of_key_value_and_headers() -> None:
    assert size_of(Record(b"12345", b"678", (("ab", b"c"), ("d", None)))) == 12
    assert size_of(Record(None)) == 0


@pytest.mark.parametrize(
    ("text", "count"),
    [("1g", GIB), ("512m", 512 * MIB), ("2G", 2 * GIB), ("64kb", 65536), ("1024", GIB)],
)
def test_memory_is_written_as_spark_has_it(text: str, count: int) -> None:
    assert quantities.parse_size(text) == count


def test_what_is_no_size_is_refused() -> None:
    with pytest.raises(DefinitionError):
        quantities.parse_size("much")
