"""`headrace groups` against a real Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from headrace.admin import groups, offset_deletion, times
from headrace.admin.client import Cluster
from headrace.cluster.process import wait_until
from headrace.errors import GroupNotEmpty, UnknownGroup, UnknownTopicOrPartition
from headrace.testing.fixtures import TopicMaker

Headrace = Callable[..., Any]
Unique = Callable[[str], str]
# Records that look old to a broker may be deleted at any time, so they are of a minute ago.
START_MS = int(time.time()) * 1000 - 60_000


@pytest.fixture
def ten(headrace: Headrace, topic: TopicMaker) -> str:
    """A topic of two partitions with ten records each, one a second."""
    name = topic("ten", partitions=2)
    rows = [
        {"value": f"{partition}/{n}", "partition": partition, "timestamp": START_MS + 1000 * n}
        for n in range(10)
        for partition in (0, 1)
    ]
    sent = headrace("produce", name, "-f", "json", stdin="\n".join(map(json.dumps, rows)))
    assert sent.code == 0
    return name


@pytest.fixture
def group(cluster: Cluster, ten: str, unique: Unique) -> str:
    """A group that nobody ever joined, in the middle of `ten`."""
    name = unique("group")
    groups.commit(cluster, name, {(ten, 0): 5, (ten, 1): 10})
    return name


@contextmanager
def member(cluster: Cluster, group: str, topic: str) -> Iterator[Consumer]:
    """A consumer that has joined the group and has its partitions."""
    consumer = Consumer(
        cluster.client_config(group_id=group, client_id="reader", auto_offset_reset="earliest")
    )
    consumer.subscribe([topic])

    def joined() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    try:
        assert wait_until(joined, 30)
        yield consumer
    finally:
        consumer.close()


def plan(answer: Any) -> dict[int, tuple[int | None, int]]:
    return {row["partition"]: (row["old"], row["new"]) for row in answer.value}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to-earliest"], {0: (5, 0), 1: (10, 0)}),
        (["--to-latest"], {0: (5, 10), 1: (10, 10)}),
        (["--to-offset", 7], {0: (5, 7), 1: (10, 7)}),
        (["--to-offset", 99], {0: (5, 10), 1: (10, 10)}),
        (["--by", -6], {0: (5, 0), 1: (10, 4)}),
        (["--by", 2], {0: (5, 7), 1: (10, 10)}),
        (["--to-time", START_MS + 2500], {0: (5, 3), 1: (10, 3)}),
        (["--to-time", times.show(START_MS + 4000)], {0: (5, 4), 1: (10, 4)}),
        (["--to-time", "now"], {0: (5, 10), 1: (10, 10)}),
    ],
)
def test_a_group_is_moved_to_where_it_is_told(
    headrace: Headrace,
    cluster: Cluster,
    ten: str,
    group: str,
    options: list[object],
    expected: dict[int, tuple[int, int]],
) -> None:
    """CO-15: the plan stays within what each partition holds."""
    dry = headrace("groups", "reset", group, *options, "--dry-run", "-o", "json")
    assert (dry.code, plan(dry)) == (0, expected)
    assert groups.committed(cluster, group) == {(ten, 0): 5, (ten, 1): 10}
    done = headrace("groups", "reset", group, *options, "--yes", "-o", "json")
    assert (done.code, plan(done)) == (0, expected)
    moved = {(ten, partition): new for partition, (_, new) in expected.items()}
    assert groups.committed(cluster, group) == moved


def test_a_reset_can_be_limited_to_a_partition(
    headrace: Headrace, cluster: Cluster, ten: str, group: str
) -> None:
    """CO-15"""
    options = ["--topic", f"{ten}:1", "--to-earliest", "--execute"]
    assert headrace("groups", "reset", group, *options).code == 0
    assert groups.committed(cluster, group) == {(ten, 0): 5, (ten, 1): 0}


def test_a_kept_plan_moves_a_group_back(
    headrace: Headrace, cluster: Cluster, ten: str, group: str, tmp_path: Path
) -> None:
    """CO-15"""
    kept = tmp_path / "plan.json"
    stay = headrace("groups", "reset", group, "--by", 0, "--dry-run", "-o", "json")
    kept.write_text(stay.out)
    headrace("groups", "reset", group, "--to-earliest", "--yes")
    assert headrace("groups", "reset", group, "--from-file", kept, "--yes").code == 0
    assert groups.committed(cluster, group) == {(ten, 0): 5, (ten, 1): 10}


def test_a_new_group_gets_its_first_positions_by_a_reset(
    headrace: Headrace, cluster: Cluster, ten: str, unique: Unique
) -> None:
    """CO-15"""
    name = unique("fresh")
    assert headrace("groups", "reset", name, "--to-earliest", "--yes").code == 4
    made = headrace("groups", "reset", name, "--to-latest", "-t", ten, "--yes")
    assert made.code == 0
    assert groups.committed(cluster, name) == {(ten, 0): 10, (ten, 1): 10}


def test_moving_asks_first_and_without_a_terminal_wants_a_yes(
    headrace: Headrace, cluster: Cluster, ten: str, group: str
) -> None:
    """CO-15"""
    asked = headrace("groups", "reset", group, "--to-earliest")
    assert asked.code == 2
    assert "--yes" in asked.err
    assert groups.committed(cluster, group)[ten, 0] == 5


def test_a_group_with_active_members_is_neither_moved_nor_deleted(
    headrace: Headrace, cluster: Cluster, ten: str, unique: Unique
) -> None:
    """CO-15"""
    name = unique("active")
    with member(cluster, name, ten):
        for arguments in (["reset", name, "--to-earliest", "--yes"], ["delete", name, "--yes"]):
            refused = headrace("groups", *arguments)
            assert refused.code == 4
            assert f"GroupNotEmpty group {name} has 1 active member(s)" in refused.err
        with pytest.raises(GroupNotEmpty):
            groups.commit(cluster, name, {(ten, 0): 0})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--to-earliest", "--to-latest"], "--to-earliest and --to-latest exclude each other"),
        ([], "--to-earliest"),
        (["--to-time", "yesterday"], "`yesterday` is not understood"),
        (["--to-time", "1700000000"], "looks like seconds"),
        (["--to-latest", "--topic", "t:x"], "`t:x`"),
        (["--to-offset", -1], "--to-offset"),
    ],
)
def test_a_reset_that_makes_no_sense_is_the_command_lines_fault(
    headrace: Headrace, group: str, options: list[object], said: str
) -> None:
    """CO-15"""
    refused = headrace("groups", "reset", group, *options)
    assert refused.code == 2
    assert said in refused.err


def test_a_partition_that_a_topic_does_not_have_is_refused(
    headrace: Headrace, ten: str, group: str
) -> None:
    """CO-15"""
    refused = headrace("groups", "reset", group, "--to-latest", "-t", f"{ten}:7")
    assert refused.code == 4
    assert "2 partition(s)" in refused.err


def test_a_group_that_nobody_joined_shows_its_lag(
    headrace: Headrace, cluster: Cluster, ten: str, group: str
) -> None:
    """CO-16: this is how pipelines show theirs."""
    shown = headrace("groups", "describe", group)
    assert shown.lines[0].split() == (
        ["TOPIC", "PARTITION", "CURRENT", "END", "LAG", "MEMBER", "HOST", "CLIENT"]
    )
    assert shown.lines[1].split() == [ten, "0", "5", "10", "5", "-", "-", "-"]
    assert "no active members" in shown.err
    assert groups.lag(cluster, group) == {(ten, 0): 5, (ten, 1): 0}


def test_a_member_is_shown_with_the_partitions_that_it_reads(
    headrace: Headrace, cluster: Cluster, ten: str, group: str
) -> None:
    """CO-16"""
    with member(cluster, group, ten):
        rows = headrace("groups", "describe", group, "-o", "json").value
        assert [(row["partition"], row["end"]) for row in rows] == [(0, 10), (1, 10)]
        for row in rows:
            assert row["client"] == "reader"
            assert row["host"] == "127.0.0.1"
            assert row["member"].startswith("reader")
        assert headrace("groups", "describe", group, "--state", "-o", "json").value[0] == {
            "group": group,
            "state": "stable",
            "type": "classic",
            "coordinator": 1,
            "members": 1,
        }


def test_groups_are_listed_with_state_and_coordinator(headrace: Headrace, group: str) -> None:
    """CO-17"""
    rows = [line.split() for line in headrace("groups", "list").lines]
    assert rows[0] == ["GROUP", "STATE", "TYPE", "COORDINATOR", "MEMBERS"]
    assert [group, "empty", "classic", "1", "0"] in rows


def test_a_deleted_group_is_gone(headrace: Headrace, group: str) -> None:
    """CO-17"""
    assert headrace("groups", "delete", group).code == 2
    assert headrace("groups", "delete", group, "--yes").code == 0
    gone = headrace("groups", "describe", group)
    assert gone.code == 4
    assert f"UnknownGroup group {group} does not exist" in gone.err


def test_single_positions_of_a_group_are_deleted(
    headrace: Headrace, cluster: Cluster, ten: str, group: str, topic: TopicMaker
) -> None:
    """CO-17"""
    other = topic("other")
    groups.commit(cluster, group, {(other, 0): 0})
    assert headrace("groups", "delete", group, "--topic", ten, "--yes").code == 0
    assert groups.committed(cluster, group) == {(other, 0): 0}


def test_positions_in_a_topic_that_a_member_reads_are_not_deleted(
    headrace: Headrace, cluster: Cluster, ten: str, group: str
) -> None:
    """CO-17"""
    with member(cluster, group, ten):
        refused = headrace("groups", "delete", group, "--topic", ten, "--yes")
        assert refused.code == 4
        assert f"GROUP_SUBSCRIBED_TO_TOPIC deleting offsets of group {group}" in refused.err
        assert groups.committed(cluster, group) == {(ten, 0): 5, (ten, 1): 10}


def test_positions_of_a_group_or_in_a_partition_that_is_not_there_cannot_be_deleted(
    cluster: Cluster, ten: str, group: str, unique: Unique
) -> None:
    """CO-17"""
    with pytest.raises(UnknownTopicOrPartition, match=r"\[9\]"):
        offset_deletion.delete_offsets(cluster, group, [(ten, 9)])
    assert groups.committed(cluster, group) == {(ten, 0): 5, (ten, 1): 10}
    with pytest.raises(UnknownGroup):
        offset_deletion.delete_offsets(cluster, unique("nobody"), [(ten, 0)])


def test_committing_twice_is_as_good_as_once_and_leaves_the_rest(
    cluster: Cluster, ten: str, group: str
) -> None:
    """CO-16"""
    for _ in range(2):
        groups.commit(cluster, group, {(ten, 0): 8}, metadata="batch 3")
    assert groups.committed(cluster, group) == {(ten, 0): 8, (ten, 1): 10}


def test_a_position_in_a_partition_that_is_not_there_is_refused(
    cluster: Cluster, ten: str, group: str
) -> None:
    """CO-16"""
    with pytest.raises(UnknownTopicOrPartition, match=r"\[9\]"):
        groups.commit(cluster, group, {(ten, 9): 1})
