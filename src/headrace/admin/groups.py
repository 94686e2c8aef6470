"""Consumer groups: list and describe them, read and write their positions, measure their lag.

A pipeline never joins a group: it only writes its position there (`commit`), so that every Kafka
tool shows its lag. Such groups have offsets and no members, and all of this works for them too.
Moving a group to another place is in `resets`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)

from headrace.admin import offsets as partition_offsets
from headrace.admin.client import REQUEST_SECONDS, Cluster, new_client, translate
from headrace.admin.offsets import Offsets, TopicPartitionKey
from headrace.errors import BrokerTimeout, GroupNotEmpty, UnknownGroup

T = TypeVar("T")

COORDINATOR_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class Member:
    id: str
    client: str
    host: str
    partitions: tuple[TopicPartitionKey, ...]


@dataclass(frozen=True)
class Group:
    """`type` is `classic` or `consumer` (the newer protocol); `coordinator` is a broker's id."""

    name: str
    state: str
    type: str
    coordinator: int | None
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Position:
    """Where a group stands in one partition.

    `current` is None where it has never committed, `end` where the partition is gone, and `lag`
    where either is. The member is the one that reads the partition now, if any.
    """

    topic: str
    partition: int
    current: int | None
    end: int | None
    member: Member | None = None

    @property
    def lag(self) -> int | None:
        if self.current is None or self.end is None:
            return None
        return max(0, self.end - self.current)


def names(cluster: Cluster) -> list[str]:
    """All groups, sorted."""
    future = cluster.admin.list_consumer_groups(request_timeout=REQUEST_SECONDS)
    answer = cluster.wait(future, "listing groups")
    if answer.errors:
        # One broker's groups are missing; a list that looks whole would mislead.
        raise cluster.translated(answer.errors[0], "listing groups") from answer.errors[0]
    return sorted(listing.group_id for listing in answer.valid)


def list_all(cluster: Cluster) -> list[Group]:
    """All groups with their state, sorted by name."""
    return _describe(cluster, names(cluster))


def describe(cluster: Cluster, name: str) -> Group:
    """One group with its members; `UnknownGroup` when nobody has joined it or committed to it."""
    group = _describe(cluster, [name])
    if not group or group[0].state == "dead":
        raise unknown(cluster, name)
    return group[0]


def unknown(cluster: Cluster, name: str) -> UnknownGroup:
    """The error for a group that is missing, which says what the user may have meant."""
    error = UnknownGroup(name)
    near = get_close_matches(name, names(cluster), n=3)
    if near:
        error.hint = "did you mean " + " or ".join(f"`{candidate}`" for candidate in near) + "?"
    return error


def positions(cluster: Cluster, name: str) -> list[Position]:
    """Where a group stands in every partition that it has committed or that a member reads."""
    owners = {
        key: member for member in describe(cluster, name).members for key in member.partitions
    }
    current = committed(cluster, name)
    keys = sorted({*current, *owners})
    ends = partition_offsets.latest(cluster, keys)
    return [Position(*key, current.get(key), ends.get(key), owners.get(key)) for key in keys]


def committed(cluster: Cluster, group: str, stable: bool = False) -> Offsets:
    """The positions that a group has stored; empty for a group that does not exist.

    With `stable` the answer waits for open transactions that hold offsets of this group.
    """
    action = f"reading the offsets of group {group}"
    everything = [
        TopicPartition(name, partition)
        for name, topic in cluster.metadata(action).topics.items()
        for partition in topic.partitions
    ]
    # Not by the admin client: librdkafka's answer to a coordinator that moved, or is not up yet,
    # is to refresh that of its consumer, and an admin client has none: the process would crash.
    isolation = "read_committed" if stable else "read_uncommitted"
    settings = cluster.client_config(group_id=group, isolation_level=isolation)
    consumer = new_client(Consumer, settings)

    def ask() -> list[TopicPartition]:
        try:
            return consumer.committed(everything, timeout=REQUEST_SECONDS)
        except KafkaException as failure:
            raise cluster.translated(failure, action, group=group) from failure

    try:
        answer = _patiently(ask)
    finally:
        consumer.close()
    return {
        (each.topic, each.partition): each.offset
        for each in answer
        if each.error is None and each.offset >= 0
    }


def commit(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartitionKey, int],
    metadata: str = "",
) -> None:
    """Store positions for a group that has no members; `GroupNotEmpty` when it has.

    An offset is the next one to read. Positions that are not named stay as they are. Calling it
    again with the same offsets changes nothing. A coordinator that is new to its work, as in the
    first seconds of a cluster, is waited for.
    """
    wanted = [
        TopicPartition(topic, partition, offset, metadata)
        for (topic, partition), offset in offsets.items()
    ]
    if wanted:
        _patiently(lambda: _commit(cluster, group, wanted))


def _patiently(call: Callable[[], T]) -> T:
    """Wait for a coordinator that is not up yet, or has moved."""
    deadline = time.monotonic() + REQUEST_SECONDS
    while True:
        try:
            return call()
        except BrokerTimeout:
            if time.monotonic() > deadline:
                raise
            time.sleep(COORDINATOR_PAUSE_SECONDS)


def _commit(cluster: Cluster, group: str, wanted: list[TopicPartition]) -> None:
    futures = cluster.admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=REQUEST_SECONDS
    )
    try:
        answer = cluster.wait(futures[group], f"writing the offsets of group {group}", group=group)
    except GroupNotEmpty as error:
        raise GroupNotEmpty(group, len(describe(cluster, group).members)) from error
    _raise_first(cluster, group, answer.topic_partitions)


def lag(cluster: Cluster, group: str) -> Offsets:
    """How many records each partition holds beyond the group's position."""
    current = committed(cluster, group)
    ends = partition_offsets.latest(cluster, current)
    return {key: max(0, ends[key] - offset) for key, offset in current.items() if key in ends}


def refuse_active(group: Group) -> None:
    """Raise `GroupNotEmpty` when the group has members, who would overwrite or miss any change."""
    if group.members:
        raise GroupNotEmpty(group.name, len(group.members))


def delete(cluster: Cluster, groups: Sequence[str]) -> None:
    """Delete groups with all their positions. When one is unknown or active, none is deleted."""
    for name in groups:
        refuse_active(describe(cluster, name))
    futures = cluster.admin.delete_consumer_groups(list(groups), request_timeout=REQUEST_SECONDS)
    for name, future in futures.items():
        cluster.wait(future, f"deleting group {name}", group=name)


def _describe(cluster: Cluster, names: Sequence[str]) -> list[Group]:
    """Those of the groups that exist."""
    if not names:
        return []
    futures = cluster.admin.describe_consumer_groups(list(names), request_timeout=REQUEST_SECONDS)
    found = []
    for name, future in futures.items():
        try:
            found.append(_group(cluster.wait(future, f"describing group {name}", group=name)))
        except UnknownGroup:
            continue
    return found


def _group(answer: Any) -> Group:
    coordinator = answer.coordinator.id if answer.coordinator else None
    members = tuple(map(_member, answer.members))
    return Group(
        answer.group_id, _STATES[answer.state], answer.type.name.lower(), coordinator, members
    )


def _member(answer: Any) -> Member:
    assigned = sorted((each.topic, each.partition) for each in answer.assignment.topic_partitions)
    return Member(answer.member_id, answer.client_id, answer.host.lstrip("/"), tuple(assigned))


_STATES = {
    ConsumerGroupState.UNKNOWN: "unknown",
    ConsumerGroupState.PREPARING_REBALANCING: "rebalancing",
    ConsumerGroupState.COMPLETING_REBALANCING: "rebalancing",
    ConsumerGroupState.STABLE: "stable",
    ConsumerGroupState.DEAD: "dead",
    ConsumerGroupState.EMPTY: "empty",
}


def _raise_first(cluster: Cluster, group: str, answers: Iterable[TopicPartition]) -> None:
    """Raise for the first partition that was refused; the request as a whole was not."""
    for each in answers:
        if each.error:
            action = f"writing the offset of group {group} in {each.topic}[{each.partition}]"
            partition = f"{each.topic}[{each.partition}]"
            raise translate(each.error, action, cluster.bootstrap, partition, group)
