"""What is in a topic, told from a sample: how large records are, how old, how fast they come.

Nobody's position is moved. Sizes are of key, value and headers before any compression.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headrace.admin import offsets, places, reading, topics
from headrace.admin.client import Cluster, new_client
from headrace.admin.offsets import TopicPartitionKey
from headrace.admin.records import Record

# Over how long the rate of writing is measured.
RATE_SECONDS = 600
# A sample of large records ends here, however many were asked for.
SAMPLE_BYTES = 64 * 1024 * 1024
FIRST_BYTES = 16 * 1024
# How long the brokers may take to give the first records of all partitions.
FIRST_SECONDS = 10.0


@dataclass(frozen=True)
class Sizes:
    """Bytes of the records of a sample; all zero when there were none."""

    count: int = 0
    smallest: int = 0
    average: float = 0.0
    p95: int = 0
    largest: int = 0

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Sizes:
        if not sizes:
            return cls()
        ordered = sorted(sizes)
        at = math.ceil(0.95 * len(ordered)) - 1
        average = sum(ordered) / len(ordered)
        return cls(len(ordered), ordered[0], average, ordered[at], ordered[-1])


def size_of(record: Record) -> int:
    """Bytes of a record as its author made it."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def sizes(cluster: Cluster, topic: str, each: int) -> Sizes:
    """Of the newest records of every partition, about `each` of them."""
    ends = offsets.latest(cluster, topics.keys(cluster, topic), stable=True)
    newest = places.Listed({key: end - each for key, end in ends.items()})
    found: list[int] = []
    seen = 0
    for record in reading.consume(cluster, topic, newest, reading.Until(end=True)):
        found.append(size_of(record))
        seen += found[-1]
        if seen > SAMPLE_BYTES:
            break
    return Sizes.of(found)


def write_rates(
    cluster: Cluster, partitions: Iterable[TopicPartitionKey], now_ms: int
) -> dict[TopicPartitionKey, float]:
    """Records a second that were written to each partition in the last ten minutes."""
    keys = list(partitions)
    ends = offsets.latest(cluster, keys)
    before = offsets.at_time(cluster, keys, now_ms - RATE_SECONDS * 1000)
    return {key: (ends[key] - before[key]) / RATE_SECONDS for key in before if key in ends}


def timestamps(
    cluster: Cluster, positions: Mapping[TopicPartitionKey, int]
) -> dict[TopicPartitionKey, int]:
    """When the first record at or after each position was made, in ms since 1970.

    A partition without such a record, or whose records have no time, is left out.
    """
    if not positions:
        return {}
    settings = cluster.client_config(
        group_id="headrace-sampling",
        enable_auto_commit=False,
        enable_partition_eof=True,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        # Little of each partition is enough; too little, and each would take a fetch of its own.
        fetch_message_max_bytes=FIRST_BYTES,
    )
    consumer = new_client(Consumer, settings)
    try:
        return _first_times(consumer, positions)
    finally:
        consumer.close()


def _first_times(
    consumer: Consumer, positions: Mapping[TopicPartitionKey, int]
) -> dict[TopicPartitionKey, int]:
    consumer.assign([TopicPartition(*key, at) for key, at in positions.items()])
    waiting = set(positions)
    found: dict[TopicPartitionKey, int] = {}
    deadline = time.monotonic() + FIRST_SECONDS
    while waiting and time.monotonic() < deadline:
        message = consumer.poll(reading.POLL_SECONDS)
        if message is None:
            continue
        key = (str(message.topic()), message.partition() or 0)
        error = message.error()
        if key not in waiting or (error and error.code() != KafkaError._PARTITION_EOF):
            continue
        waiting.discard(key)
        consumer.pause([TopicPartition(*key)])
        kind, timestamp = message.timestamp()
        if error is None and kind:
            found[key] = timestamp
    return found
