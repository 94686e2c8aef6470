"""Offsets of partitions as the brokers know them: the earliest, the end, the first since a time.

All functions take `(topic, partition)` pairs, ask for all of them in one call, and return one
offset for each pair that exists; a partition that does not is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from headrace.admin.client import REQUEST_SECONDS, Cluster

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

SETTLE_SECONDS = 10.0
RETRY_SECONDS = 0.1

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
    """Ask until all partitions have answered: a leader may be moving, or known wrongly here."""
    answers: Offsets = {}
    missing = list(partitions)
    deadline = time.monotonic() + SETTLE_SECONDS
    while missing:
        found, failed = _ask_once(cluster, missing, spec, stable)
        answers |= found
        missing = list(failed)
        if missing and time.monotonic() > deadline:
            (topic, _), failure = next(iter(failed.items()))
            raise cluster.translated(failure, f"reading offsets of {topic}", topic) from failure
        if missing:
            cluster.metadata("looking for leaders")
            time.sleep(RETRY_SECONDS)
    return answers


def _ask_once(
    cluster: Cluster, partitions: Iterable[TopicPartitionKey], spec: OffsetSpec, stable: bool
) -> tuple[Offsets, dict[TopicPartitionKey, KafkaException]]:
    """The answers, and the failures that may pass."""
    request = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    isolation = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    futures = cluster.admin.list_offsets(
        request, isolation_level=isolation, request_timeout=REQUEST_SECONDS
    )
    answers: Offsets = {}
    failed: dict[TopicPartitionKey, KafkaException] = {}
    for key, future in futures.items():
        try:
            answers[key.topic, key.partition] = future.result(REQUEST_SECONDS + 5).offset
        except KafkaException as failure:
            code = failure.args[0].code()
            if code in _PASSING:
                failed[key.topic, key.partition] = failure
            elif code not in _GONE:
                action = f"reading offsets of {key.topic}"
                raise cluster.translated(failure, action, key.topic) from failure
    return answers, failed


_GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
_PASSING = {
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
}
