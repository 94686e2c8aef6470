"""Offsets of partitions as the brokers know them: the earliest, the end, the first since a time.

All functions take `(topic, partition)` pairs, ask for all of them in one call, and return one
offset for each pair that exists; a partition that does not is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from headrace.admin.client import REQUEST_SECONDS, Cluster

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

TopicPartitionKey = tuple[str, int]
Offsets = dict[TopicPartitionKey, int]


def earliest(cluster: Cluster, partitions: Iterable[TopicPartitionKey]) -> Offsets:
    """The oldest offset still kept."""
    return _ask(cluster, partitions, _EARLIEST)


def latest(
    cluster: Cluster, partitions: Iterable[TopicPartitionKey], stable: bool = False
) -> Offsets:
    """The offset that the next record will get; with `stable`, the end of what is committed."""
    return _ask(cluster, partitions, _LATEST, stable)


def at_time(cluster: Cluster, partitions: Iterable[TopicPartitionKey], time_ms: int) -> Offsets:
    """The first offset whose record is not older than `time_ms`; the end where there is none."""
    wanted = list(partitions)
    found = _ask(cluster, wanted, OffsetSpec.for_timestamp(max(time_ms, 0)))
    past_end = [key for key, offset in found.items() if offset < 0]
    return {**found, **latest(cluster, past_end)}


def _ask(
    cluster: Cluster,
    partitions: Iterable[TopicPartitionKey],
    spec: OffsetSpec,
    stable: bool = False,
) -> Offsets:
    request = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    if not request:
        return {}
    isolation = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    futures = cluster.admin.list_offsets(
        request, isolation_level=isolation, request_timeout=REQUEST_SECONDS
    )
    answers: Offsets = {}
    for key, future in futures.items():
        try:
            answers[key.topic, key.partition] = future.result(REQUEST_SECONDS + 5).offset
        except KafkaException as failure:
            if failure.args[0].code() not in _GONE:
                action = f"reading offsets of {key.topic}"
                raise cluster.translated(failure, action, key.topic) from failure
    return answers


_GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
