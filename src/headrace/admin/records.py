"""Records of a topic: what one is, and how some are sent. How they are read is in `reading`.

A `Record` is plain bytes, the same for both directions, so that what was read can be sent again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.admin import topic_settings, topics
from headrace.admin.client import Cluster, Trouble, new_client, plain
from headrace.errors import HeadraceError, RecordRejected

KEPT_REJECTIONS = 100
DEFAULT_BATCH_BYTES = 1_000_000

# Keys land where the Java client would put them; nothing is written twice by a retry.
PRODUCER_SETTINGS = {
    "partitioner": "murmur2_random",
    "acks": "all",
    "enable_idempotence": True,
    "delivery_timeout_ms": 60_000,
    # How long a topic may be unknown before its records are given up: brokers that make missing
    # topics do so within milliseconds, others never.
    "topic_metadata_propagation_max_ms": 5_000,
}

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Record:
    """A record read, or to be sent; for sending `topic` and `offset` mean nothing.

    `value` None is a tombstone. A `partition` or `timestamp` (ms) of None is left to the producer.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None
    offset: int | None = None
    topic: str = ""


@dataclass(frozen=True)
class Unreadable:
    """Stands for an input that is no record: it is rejected and counted like one."""

    reason: str


@dataclass(frozen=True)
class Rejection:
    """A record that was not written; `number` counts the records given, from 1."""

    number: int
    reason: str


@dataclass(frozen=True)
class Delivery:
    """What became of the records given: how many were written, how many not, the first of those."""

    written: int
    rejected: int
    rejections: tuple[Rejection, ...]

    def raise_if_rejected(self) -> None:
        if self.rejected:
            first = self.rejections[0]
            raise RecordRejected(
                self.rejected, self.written + self.rejected, f"#{first.number}: {first.reason}"
            )


def produce(cluster: Cluster, topic: str, records: Iterable[Record | Unreadable]) -> Delivery:
    """Send records and wait until each one is written or refused.

    One bad record takes no other along: when the brokers refuse a batch, its records are sent again
    one by one, after the rest. Raises only when nothing could be written at all, because the topic
    is missing and the brokers do not make it, or no broker is left.
    """
    outbox = _Outbox(cluster, topic)
    try:
        for number, record in enumerate(records, 1):
            if isinstance(record, Unreadable):
                outbox.reject(number, record.reason)
            else:
                outbox.send(number, record)
    finally:
        outbox.drain()
    if outbox.rejections and not outbox.written:
        _raise_hopeless(cluster, topic, outbox)
    kept = sorted(outbox.rejections, key=lambda rejection: rejection.number)
    return Delivery(outbox.written, outbox.rejected, tuple(kept))


class _Outbox:
    """The fate of each record given to it; two producers at most, one after the other."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.topic = topic
        self.trouble = Trouble()
        self.written = 0
        self.rejected = 0
        self.rejections: list[Rejection] = []
        self._suspects: list[tuple[int, Record]] = []
        self._alone = False
        config = cluster.client_config(**PRODUCER_SETTINGS, **_batch_limit(cluster, topic))
        self._config = {**config, "error_cb": self.trouble.note}
        self._producer = new_client(Producer, self._config)

    def send(self, number: int, record: Record) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            self._settle(number, record, error)

        while True:
            try:
                self._producer.produce(
                    self.topic,
                    record.value,
                    record.key,
                    partition=-1 if record.partition is None else record.partition,
                    timestamp=record.timestamp or 0,
                    headers=list(record.headers),
                    on_delivery=delivered,
                )
            except BufferError:
                self._producer.poll(0.5)
                continue
            except KafkaException as failure:
                self.reject(number, _reason(record, failure.args[0]))
            self._producer.poll(0)
            return

    def drain(self) -> None:
        """Wait for every report; send again, each alone, what may only have had bad company."""
        self._flush()
        if not self._suspects:
            return
        self._alone = True
        self._producer = new_client(Producer, {**self._config, "batch.num.messages": 1})
        for number, record in sorted(self._suspects, key=lambda suspect: suspect[0]):
            self.send(number, record)
        self._flush()

    def _flush(self) -> None:
        while self._producer.flush(0.5):
            pass

    def _settle(self, number: int, record: Record, error: KafkaError | None) -> None:
        if error is None:
            self.written += 1
        elif error.code() in _REFUSED_WITH_BATCH and not self._alone:
            self._suspects.append((number, record))
        else:
            self.reject(number, _reason(record, error))

    def reject(self, number: int, reason: str) -> None:
        self.rejected += 1
        if len(self.rejections) < KEPT_REJECTIONS:
            self.rejections.append(Rejection(number, reason))


# The brokers refuse a batch whole, and do not always say by whose fault.
_REFUSED_WITH_BATCH = {
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_DIFFERENT_RECORD,
    KafkaError.MSG_SIZE_TOO_LARGE,
}


def _batch_limit(cluster: Cluster, topic: str) -> dict[str, int]:
    """Batches as large as the topic takes, if it is known and smaller than the client's default."""
    try:
        settings = {each.name: each.value for each in topic_settings.read(cluster, topic)}
    except HeadraceError:
        return {}
    limit = int(settings.get("max.message.bytes") or DEFAULT_BATCH_BYTES)
    return {"batch_size": max(1, min(limit, DEFAULT_BATCH_BYTES))}


def _reason(record: Record, error: KafkaError) -> str:
    reason = f"{error.name()} {plain(error.str())}"
    if error.code() == KafkaError.INVALID_RECORD and record.key is None:
        reason += "; it has no key, which a compacted topic wants"
    return reason


def _raise_hopeless(cluster: Cluster, topic: str, outbox: _Outbox) -> None:
    """Name what was wrong with all of them, when it was not the records."""
    if outbox.trouble.hopeless():
        raise outbox.trouble.error(cluster.bootstrap)
    if not topics.exists(cluster, topic):
        raise topics.unknown(cluster, topic)
