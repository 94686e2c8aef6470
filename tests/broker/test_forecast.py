"""When unread records will be deleted, by what a real Kafka says of its topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from headrace.admin import groups, topic_settings, topics
from headrace.admin.client import Cluster, connect
from headrace.admin.forecast import Forecast, forecasts
from headrace.admin.log_sizes import log_sizes
from headrace.admin.records import Record, produce
from headrace.cluster.dev import DevCluster
from headrace.cluster.process import wait_until
from headrace.project import Project
from headrace.runtime.state import PipelineState, Status
from headrace.testing.fixtures import TopicMaker

Headrace = Callable[..., Any]
MINUTE = 60.0
# What asking takes at most; a forecast is in seconds from then.
ASKING = 20.0


def write(cluster: Cluster, topic: str, partition: int, ages: Iterable[float]) -> None:
    """Records that are so many seconds old."""
    now = time.time()
    aged = [
        Record(b"x" * 100, partition=partition, timestamp=int((now - age) * 1000)) for age in ages
    ]
    produce(cluster, topic, aged).raise_if_rejected()


def left(found: list[Forecast]) -> dict[int, float | None]:
    return {each.partition: each.seconds for each in found}


def test_the_next_unread_record_is_lost_when_retention_has_passed(
    cluster: Cluster, topic: TopicMaker
) -> None:
    name = topic("kept", partitions=5)
    topic_settings.change(cluster, name, {"retention.ms": str(int(10 * MINUTE * 1000))})
    write(cluster, name, 0, [9 * MINUTE, 4 * MINUTE, 1.0])
    write(cluster, name, 1, [4 * MINUTE])
    write(cluster, name, 2, [30 * MINUTE, 4 * MINUTE])
    write(cluster, name, 3, [4 * MINUTE])
    positions = {(name, 0): 1, (name, 1): 0, (name, 2): 0, (name, 3): 1, (name, 4): 0}

    found = forecasts(cluster, positions)

    assert [each.partition for each in found] == [2, 0, 1]
    assert left(found)[2] == 0
    for partition in (0, 1):
        seconds = left(found)[partition]
        assert seconds is not None
        assert 6 * MINUTE - ASKING < seconds <= 6 * MINUTE
    assert {each.setting for each in found} == {"retention.ms"}
    assert [each.lag for each in found] == [2, 2, 1]

    # A reader that has passed them all within minutes loses none but what is due now.
    assert list(left(forecasts(cluster, positions, read=10.0))) == [2]
    # One that makes a record a minute has read one of partition 0 when the second is due.
    slow = forecasts(cluster, positions, read=1 / 600)
    assert [each.partition for each in slow] == [2, 0, 1]


def test_what_only_compacts_or_is_kept_for_ever_is_not_lost(
    cluster: Cluster, topic: TopicMaker
) -> None:
    for setting in ({"cleanup.policy": "compact"}, {"retention.ms": "-1"}):
        name = topic("kept")
        produce(cluster, name, [Record(b"v", b"k")]).raise_if_rejected()
        topic_settings.change(cluster, name, setting)
        assert forecasts(cluster, {(name, 0): 0}) == []


def test_size_is_reached_by_what_is_written_behind_the_next_record(
    cluster: Cluster, topic: TopicMaker
) -> None:
    name = topic("sized", partitions=2)
    limit = 10_000_000
    topic_settings.change(cluster, name, {"retention.bytes": str(limit), "retention.ms": "-1"})
    write(cluster, name, 0, [1.0] * 6000)
    write(cluster, name, 1, [1.0] * 6000)
    size = log_sizes(cluster, [(name, 0)])[name, 0]
    growth = 6000 / 600 * size / 6000

    found = forecasts(cluster, {(name, 0): 3000, (name, 1): 6000})

    assert [(each.partition, each.setting) for each in found] == [(0, "retention.bytes")]
    assert found[0].seconds == pytest.approx((limit - size / 2) / growth, rel=0.05)


def test_records_that_are_gone_are_counted(cluster: Cluster, topic: TopicMaker) -> None:
    name = topic("gone")
    write(cluster, name, 0, [1.0] * 10)
    cluster.admin.delete_records([TopicPartition(name, 0, 8)])[TopicPartition(name, 0)].result(30)
    (found,) = forecasts(cluster, {(name, 0): 3})
    assert (found.lost, found.lag) == (5, 2)
    assert str(found) == f"partition 0 of {name} has lost 5 unread records"


def test_a_partition_that_does_not_exist_has_no_forecast(
    cluster: Cluster, topic: TopicMaker
) -> None:
    name = topic()
    assert forecasts(cluster, {(name, 0): 0, (name, 7): 0}) == []
    assert forecasts(cluster, {}) == []


def test_the_position_of_a_group_can_be_forecast(cluster: Cluster, topic: TopicMaker) -> None:
    name = topic("kept")
    topic_settings.change(cluster, name, {"retention.ms": "600000"})
    write(cluster, name, 0, [8 * MINUTE, 2 * MINUTE])
    groups.commit(cluster, f"g-{name}", {(name, 0): 1})
    (found,) = forecasts(cluster, groups.committed(cluster, f"g-{name}"))
    assert found.seconds is not None
    assert 8 * MINUTE - ASKING < found.seconds <= 8 * MINUTE


def test_status_shows_what_will_be_lost(
    headrace: Headrace,
    cluster: Cluster,
    topic: TopicMaker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topic("kept", partitions=2)
    topic_settings.change(cluster, name, {"retention.ms": str(4 * 3600 * 1000)})
    write(cluster, name, 0, [80 * MINUTE])
    write(cluster, name, 1, [1.0])
    project = Project(tmp_path)
    place = {"bootstrap": cluster.bootstrap, "group": "g", "topic": name}
    keep_status(project, "late", [{**place, "partition": n, "offset": 0} for n in (0, 1)])
    keep_status(project, "read", [{**place, "partition": n, "offset": 1} for n in (0, 1)])
    nowhere = {"bootstrap": "127.0.0.1:1", "group": "g", "topic": name}
    keep_status(project, "unknown", [{**nowhere, "partition": 0, "offset": 0}])
    monkeypatch.chdir(tmp_path)

    rows = {row["pipeline"]: row for row in headrace("status", "-o", "json").value}
    assert [each["partition"] for each in rows["late"]["forecast"]] == [0, 1]
    seconds = rows["late"]["forecast"][0]["seconds"]
    assert 160 * MINUTE - ASKING < seconds <= 160 * MINUTE
    assert rows["late"]["loses_in"].startswith("2 h 39 m") or rows["late"]["loses_in"] == "2 h 40 m"
    assert (rows["read"]["lag"], rows["read"]["loses_in"], rows["read"]["forecast"]) == (
        0,
        None,
        [],
    )
    assert (rows["unknown"]["lag"], rows["unknown"]["forecast"]) == (None, [])

    shown = headrace("status")
    assert "LOSES_IN" in shown.lines[0]
    assert f"warning: late: partition 0 of {name} loses unread data in 2 h" in shown.err
    assert "warning: read" not in shown.err


def keep_status(project: Project, pipeline: str, positions: list[dict[str, Any]]) -> None:
    state = PipelineState(project.ensure(project.state(pipeline)))
    state.write_status(Status(pipeline, "stream", "p.yaml", "stopped", positions=positions))


def test_kafka_deletes_nothing_before_the_forecast_and_then_does(three_brokers: DevCluster) -> None:
    cluster = connect(three_brokers.bootstrap)
    config = {"retention.ms": str(int(MINUTE * 1000))}
    topics.create(cluster, "expiring", partitions=1, replication=1, config=config)
    write(cluster, "expiring", 0, [MINUTE - 5, MINUTE - 4])
    asked = time.monotonic()
    (found,) = forecasts(cluster, {("expiring", 0): 0})
    assert found.seconds is not None

    def deleted() -> bool:
        return topics.offsets(cluster, "expiring", "earliest")[0] > 0

    assert wait_until(deleted, 120)
    assert time.monotonic() - asked >= found.seconds
    (gone,) = forecasts(cluster, {("expiring", 0): 0})
    assert (gone.lost, gone.lag, gone.seconds) == (2, 0, None)
