"""Topics: list, describe, create, grow and delete them, and read their offsets.

Every function takes a connected `Cluster`. What is asked for is checked before anything is made,
and a function returns only when the cluster shows the change, so that the next command can rely on
it. Settings of a topic are in `topic_settings`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import NewPartitions, NewTopic  # type: ignore[attr-defined]

from headrace.admin import offsets as partition_offsets
from headrace.admin import topic_names, topic_settings
from headrace.admin.client import REQUEST_SECONDS, Cluster
from headrace.errors import (
    BrokerTimeout,
    KafkaRefused,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

BROKER_DEFAULT = -1
SETTLE_SECONDS = 20.0
SETTLE_POLL_SECONDS = 0.05
ASKS = 4
ASK_AGAIN_SECONDS = 0.1


@dataclass(frozen=True)
class Partition:
    """`leader` is None while no replica can lead."""

    id: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True)
class Topic:
    name: str
    id: str
    internal: bool
    partitions: tuple[Partition, ...]

    @property
    def replication(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def under_replicated(self) -> int:
        return sum(len(partition.isr) < len(partition.replicas) for partition in self.partitions)

    @property
    def leaderless(self) -> int:
        return sum(partition.leader is None for partition in self.partitions)


def names(cluster: Cluster) -> list[str]:
    """All topics, Kafka's own included, sorted."""
    return sorted(cluster.metadata("listing topics").topics)


def list_all(cluster: Cluster, internal: bool = False) -> list[Topic]:
    """All topics, sorted by name; Kafka's own only when asked for."""
    topics = _describe(cluster, names(cluster))
    return [topic for topic in topics if internal or not topic.internal]


def describe(cluster: Cluster, name: str) -> Topic:
    """One topic; `UnknownTopicOrPartition`, with the nearest names as its hint, if missing."""
    found = _find(cluster, name)
    if found is None:
        raise unknown(cluster, name)
    return found


def exists(cluster: Cluster, name: str) -> bool:
    return _find(cluster, name) is not None


def unknown(cluster: Cluster, name: str) -> UnknownTopicOrPartition:
    """The error for a topic that is missing, which says what the user may have meant."""
    error = UnknownTopicOrPartition(name, cluster.bootstrap)
    near = get_close_matches(name, names(cluster), n=3)
    if near:
        listed = " or ".join(f"`{candidate}`" for candidate in near)
        error.hint = f"did you mean {listed}? Or make it: `headrace topics create {name}`"
    return error


def keys(
    cluster: Cluster, name: str, chosen: Sequence[int] = ()
) -> list[partition_offsets.TopicPartitionKey]:
    """The chosen partitions of a topic, or all; one that it does not have is refused."""
    count = len(describe(cluster, name).partitions)
    for number in chosen:
        if not 0 <= number < count:
            raise KafkaRefused(
                "UNKNOWN_TOPIC_OR_PARTITION",
                f"choosing partition {number} of topic {name}",
                f"it has {count} partition(s), counted from 0",
            )
    return [(name, number) for number in chosen or range(count)]


def offsets(cluster: Cluster, name: str, at: str | int = "latest") -> dict[int, int]:
    """One offset a partition: `earliest`, `latest` (the end), or the first since a time in ms.

    Where no record is as young as that time, the answer is the end.
    """
    wanted = keys(cluster, name)
    if at == "earliest":
        found = partition_offsets.earliest(cluster, wanted)
    elif at == "latest":
        found = partition_offsets.latest(cluster, wanted)
    else:
        found = partition_offsets.at_time(cluster, wanted, int(at))
    return {partition: offset for (_, partition), offset in sorted(found.items())}


def create(
    cluster: Cluster,
    name: str,
    partitions: int | None = None,
    replication: int | None = None,
    config: Mapping[str, str] | None = None,
) -> Topic:
    """Make a topic; a count that is None is the brokers' own default.

    Refused before anything is made: an existing name, one that differs from an existing one only
    by `.` and `_`, a replication factor above the number of brokers, an unknown setting or a value
    that it cannot have.
    """
    action = f"creating topic {name}"
    existing = names(cluster)
    if name in existing:
        raise TopicAlreadyExists(name)
    _check_name(action, name, existing)
    _check_counts(action, partitions, replication, len(cluster.metadata(action).brokers))
    _request(cluster, action, name, partitions, replication, config or {})
    _settle(action, lambda: exists(cluster, name) and not describe(cluster, name).leaderless)
    return describe(cluster, name)


def ensure(
    cluster: Cluster,
    name: str,
    partitions: int | None = None,
    replication: int | None = None,
    config: Mapping[str, str] | None = None,
) -> bool:
    """Make a topic unless it exists; whether it was made here.

    Safe to call from several processes at once: whoever is second finds it made. An existing topic
    is left as it is, whatever its counts.
    """
    if exists(cluster, name):
        return False
    try:
        create(cluster, name, partitions, replication, config)
    except TopicAlreadyExists:
        return False
    return True


def grow(cluster: Cluster, name: str, partitions: int, validate_only: bool = False) -> int:
    """Raise the partition count and return what it was. It is never lowered: Kafka cannot."""
    before = len(describe(cluster, name).partitions)
    if partitions <= before:
        raise KafkaRefused(
            "INVALID_PARTITIONS",
            f"changing topic {name} to {partitions} partition(s)",
            f"it has {before}, and the count can only be raised",
            "to have fewer, make a new topic and copy the records over",
        )
    action = f"adding partitions to topic {name}"
    futures = cluster.admin.create_partitions(
        [NewPartitions(name, partitions)],
        validate_only=validate_only,
        request_timeout=REQUEST_SECONDS,
    )
    cluster.wait(futures[name], action, name)
    if not validate_only:
        _settle(action, lambda: len(describe(cluster, name).partitions) >= partitions)
    return before


def delete(cluster: Cluster, topics: Sequence[str]) -> None:
    """Delete topics with all their records. When one of them does not exist, none is deleted."""
    for name in topics:
        describe(cluster, name)
    futures = cluster.admin.delete_topics(list(topics), request_timeout=REQUEST_SECONDS)
    for name, future in futures.items():
        cluster.wait(future, f"deleting topic {name}", name)
    _settle("deleting topics", lambda: not set(topics) & set(names(cluster)))


def _find(cluster: Cluster, name: str) -> Topic | None:
    """A topic, or None when several askings did not find it.

    Each asking may go to another broker, and one that has not heard of a new topic yet must not
    make it unknown.
    """
    for _ in range(ASKS - 1):
        if found := _describe(cluster, [name]):
            return found[0]
        time.sleep(ASK_AGAIN_SECONDS)
    found = _describe(cluster, [name])
    return found[0] if found else None


def _describe(cluster: Cluster, wanted: Sequence[str]) -> list[Topic]:
    """Those of the wanted topics that exist."""
    if not wanted:
        return []
    futures = cluster.admin.describe_topics(
        TopicCollection(list(wanted)), request_timeout=REQUEST_SECONDS
    )
    found = []
    for name, future in futures.items():
        try:
            found.append(_topic(future.result(REQUEST_SECONDS + 5)))
        except KafkaException as failure:
            if failure.args[0].code() not in _MISSING:
                raise cluster.translated(failure, f"describing topic {name}", name) from failure
    return found


# A name that no topic can have is a topic that does not exist.
_MISSING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.TOPIC_EXCEPTION,
}


def _topic(answer: Any) -> Topic:
    # Kafka 4 also tells of eligible leader replicas; what is not asked for here is left aside.
    partitions = tuple(_partition(info) for info in answer.partitions)
    return Topic(answer.name, str(answer.topic_id), answer.is_internal, partitions)


def _partition(info: Any) -> Partition:
    leader = None if info.leader is None or info.leader.id < 0 else info.leader.id
    replicas = tuple(node.id for node in info.replicas)
    return Partition(info.id, leader, replicas, tuple(node.id for node in info.isr))


def _check_name(action: str, name: str, existing: Iterable[str]) -> None:
    fault = topic_names.fault(name)
    if fault:
        raise KafkaRefused("INVALID_TOPIC_EXCEPTION", action, f"the name is not valid: {fault}")
    clash = topic_names.clash(name, existing)
    if clash:
        raise KafkaRefused(
            "INVALID_TOPIC_EXCEPTION",
            action,
            f"the name collides with the existing topic {clash}: they differ only in `.` and `_`",
            "choose another name",
        )


def _check_counts(
    action: str, partitions: int | None, replication: int | None, brokers: int
) -> None:
    if partitions is not None and partitions < 1:
        raise KafkaRefused(
            "INVALID_PARTITIONS", action, f"a topic needs 1 partition or more, not {partitions}"
        )
    if replication is None or 1 <= replication <= brokers:
        return
    raise KafkaRefused(
        "INVALID_REPLICATION_FACTOR",
        action,
        f"replication factor {replication} is not possible with {brokers} broker(s)",
        f"choose one from 1 to {brokers}" if brokers > 1 else "choose 1",
    )


def _request(
    cluster: Cluster,
    action: str,
    name: str,
    partitions: int | None,
    replication: int | None,
    config: Mapping[str, str],
) -> None:
    new = NewTopic(
        name,
        num_partitions=BROKER_DEFAULT if partitions is None else partitions,
        replication_factor=BROKER_DEFAULT if replication is None else replication,
        config=dict(config),
    )
    futures = cluster.admin.create_topics([new], request_timeout=REQUEST_SECONDS)
    try:
        cluster.wait(futures[name], action, name)
    except KafkaRefused as error:
        topic_settings.suggest(error, config, _known_settings(cluster))
        raise


def _known_settings(cluster: Cluster) -> list[str]:
    """The names that any topic of the cluster has; none while it has no topic to ask about."""
    existing = names(cluster)
    return (
        [setting.name for setting in topic_settings.read(cluster, existing[0])] if existing else []
    )


def _settle(action: str, settled: Callable[[], bool]) -> None:
    """Wait until the brokers show what the controller has promised."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not settled():
        if time.monotonic() > deadline:
            raise BrokerTimeout(action, "it was accepted, and does not show yet")
        time.sleep(SETTLE_POLL_SECONDS)
