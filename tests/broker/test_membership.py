"""Members of a real group: what each gets, and when it is taken away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from headrace.admin import groups, membership, topics
from headrace.admin.client import Cluster
from headrace.admin.group_positions import GroupWriter
from headrace.admin.membership import Membership
from headrace.errors import GroupNotEmpty, KafkaRefused
from headrace.testing.fixtures import TopicMaker

QUICK = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "300",
    "topic.metadata.refresh.interval.ms": "300",
}
Join = Callable[..., Membership]


@pytest.fixture
def group() -> str:
    return f"team-{uuid4().hex[:8]}"


@pytest.fixture
def join(cluster: Cluster, group: str) -> Iterator[Join]:
    """Makes members of one group, which leave it at the end of the test."""
    with ExitStack() as stack:

        def member(name: str, *reads: str) -> Membership:
            made = stack.enter_context(Membership(cluster, group, name, QUICK))
            made.subscribe(reads)
            return made

        yield member


def await_(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def owned(member: Membership) -> set[tuple[str, int]]:
    with member.holding() as held:
        return set(held)


def test_partitions_move_only_after_they_are_let_go(
    cluster: Cluster, topic: TopicMaker, group: str, join: Join
) -> None:
    name = topic(partitions=4)
    first = join("first", name)
    await_(lambda: len(owned(first)) == 4)
    with first.holding() as held:
        second = join("second", name)
        await_(lambda: first._giving)
        assert owned(second) == set()
        # In the middle of it the positions can be written, by who still has the partitions.
        assert first.commit(dict.fromkeys(held, 7))
        assert first.still(held) == set(held)
    await_(lambda: len(owned(second)) == 2)
    assert not owned(first) & owned(second)
    assert len(owned(first)) == 2
    found = second.committed(owned(second))
    assert {(each.offset, each.sharer) for each in found.values()} == {(7, "first")}

    # Others cannot write there while there are members, and can tell whose it is.
    writer = GroupWriter(cluster, group)
    assert writer.sharer([(name, 0)]) == "first"
    with pytest.raises(GroupNotEmpty):
        writer.write({(name, 0): 1})
    writer.close()

    third = join("third", name)
    await_(lambda: bool(owned(third)))
    second.__exit__()
    await_(lambda: owned(first) | owned(third) == {(name, number) for number in range(4)})
    with pytest.raises(Exception, match="it has ended"):
        second.committed([(name, 0)])


def test_topics_and_partitions_that_are_added_come_to_a_member(
    cluster: Cluster, topic: TopicMaker, join: Join
) -> None:
    one, other = topic(), topic()
    member = join("one", one)
    spare = join("two", one)
    await_(lambda: member.assigned and spare.assigned)
    await_(lambda: len(owned(member)) + len(owned(spare)) == 1)
    topics.grow(cluster, one, 3)
    await_(lambda: len(owned(member)) + len(owned(spare)) == 3)
    for each in (member, spare):
        each.subscribe([one, other])
    await_(lambda: (other, 0) in owned(member) | owned(spare))


def test_a_group_of_other_rules_is_refused_and_strangers_are_named(
    cluster: Cluster, topic: TopicMaker, group: str, join: Join
) -> None:
    name = topic()
    settings = {"group.id": group, "client.id": "billing", "session.timeout.ms": 6000}
    stranger = Consumer({**cluster.client_config(), **settings})
    stranger.subscribe([name])
    await_(lambda: stranger.poll(0.1) is None and bool(stranger.assignment()))
    assert membership.strangers(cluster, group) == ["billing"]
    member = join("late", name)
    await_(lambda: member.ended)
    with pytest.raises(KafkaRefused, match="other rules") as refused, member.holding():
        pass
    assert refused.value.code == "INCONSISTENT_GROUP_PROTOCOL"
    assert "cooperative-sticky" in (refused.value.hint or "")
    stranger.close()
    assert groups.committed(cluster, group) == {}
