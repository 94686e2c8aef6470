"""Headrace's own Kafka writer: messages made in the JVM, sent by librdkafka in Python workers.

It can do what Spark's writer cannot: set the time of a record, and name what the broker refused.
`send` runs on the driver; `Outbox` on the executors, one for each task. Rows cross over as Arrow
batches. A task ends when the broker has acknowledged all of its messages, or fails.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import KafkaError, Message, Producer
    from pyspark.sql import DataFrame

# What a task fails with when a message was not delivered; the rest of the text is JSON.
NOT_DELIVERED = "HEADRACE_NOT_DELIVERED "

# Keys land where the Java client would put them. Without a key each message is given a partition
# of its own: kept to one for a while, the few of a short task would all be in the same. Success is
# silence: what has left the queue without a report was acknowledged.
FIXED: dict[str, Any] = {
    "partitioner": "murmur2_random",
    "sticky.partitioning.linger.ms": 0,
    "delivery.report.only.error": True,
    "log_level": 0,
}

_COLUMNS = ("topic", "key", "value", "headers", "partition", "timestamp")
_CHUNK = 1000
_MOST_WAITING = 50_000
_MOST_BYTES = 64 * 1024 * 1024
_POLL_SECONDS = 0.05


def send(rows: DataFrame, expressions: Mapping[str, str], config: Mapping[str, str]) -> int:
    """Write what `expressions` make of `rows`; how many, when all of them are acknowledged.

    `config` are librdkafka's properties. A task that Spark runs again writes its messages again.
    """
    from pyspark import cloudpickle

    messages = rows.selectExpr(*(f"{sql} AS {name}" for name, sql in expressions.items()))
    settings = {**config, **FIXED}
    # Workers need no Headrace; nothing here may use other parts of it.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

    def deliver(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        outbox = Outbox(settings)
        for batch in batches:
            outbox.send(batch)
        yield pa.RecordBatch.from_pydict({"written": [outbox.finish()]})

    sent = messages.mapInArrow(deliver, "written BIGINT").collect()
    return sum(row["written"] for row in sent)


class NotDelivered(Exception):
    """A message that the broker did not take; the text is what the driver makes an error of."""

    def __init__(self, topic: str, error: KafkaError) -> None:
        facts = {"topic": topic, "code": error.code(), "reason": error.str()}
        super().__init__(NOT_DELIVERED + json.dumps(facts))
        self.error = error


class Outbox:
    """The messages of one task, from the first to the last acknowledgement, in their order.

    `send` may return before anything is written; only `finish` says that all is.
    """

    def __init__(self, config: Mapping[str, Any], logger: logging.Logger | None = None) -> None:
        from confluent_kafka import Producer

        shown = {} if logger is None else {"logger": logger}
        self._producer = Producer({**config, "error_cb": self._trouble}, **shown)
        self._failure: NotDelivered | None = None
        self._sent = 0
        self._bytes = 0

    @property
    def producer(self) -> Producer:
        return self._producer

    def send(self, batch: pa.RecordBatch) -> None:
        """Queue a batch with the columns of a message; waits while the queue is full."""
        names = [name for name in _COLUMNS if name in batch.schema.names]
        columns = {name: batch.column(name).to_pylist() for name in names}
        for start in range(0, batch.num_rows, _CHUNK):
            end = min(start + _CHUNK, batch.num_rows)
            self._send_chunk({name: column[start:end] for name, column in columns.items()})

    def finish(self) -> int:
        """Wait for the last acknowledgement; how many messages were written."""
        # Not `flush`, which ends in an error of Python's own once the producer is shut out.
        while len(self._producer):
            self._poll(_POLL_SECONDS)
        self._raise_failure()
        return self._sent

    def _send_chunk(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._await_room()
        # Only the order within a topic means something; letters go to one of their own.
        for topic, messages in _by_topic(columns).items():
            # `produce_batch` takes neither headers nor, whatever its description says, times.
            if any("headers" in message or "timestamp" in message for message in messages):
                self._one_by_one(topic, messages)
            else:
                self._together(topic, messages)
        self._sent += len(columns["topic"])
        self._bytes += sum(len(value) for value in columns["value"] if value is not None)
        self._poll(0)

    def _one_by_one(self, topic: str, messages: list[dict[str, Any]]) -> None:
        from confluent_kafka import KafkaException

        for message in messages:
            try:
                self._producer.produce(topic, on_delivery=self._undelivered, **message)
            except KafkaException as refused:
                raise NotDelivered(topic, refused.args[0]) from refused

    def _together(self, topic: str, messages: list[dict[str, Any]]) -> None:
        from confluent_kafka import KafkaException

        try:
            queued = self._producer.produce_batch(topic, messages, on_delivery=self._undelivered)
        except KafkaException as failure:
            raise NotDelivered(topic, failure.args[0]) from failure
        if queued < len(messages):
            refused = next(each["_error"] for each in messages if "_error" in each)
            raise NotDelivered(topic, refused)

    def _await_room(self) -> None:
        """The queue is never full: librdkafka would refuse messages, and so change their order."""
        while len(self._producer) > _MOST_WAITING:
            self._poll(_POLL_SECONDS)
        while self._bytes > _MOST_BYTES and len(self._producer):
            self._poll(_POLL_SECONDS)
        if not len(self._producer):
            self._bytes = 0

    def _undelivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = NotDelivered(message.topic() or "", error)

    def _trouble(self, error: KafkaError) -> None:
        """A login that is refused will be refused for as long as messages may wait."""
        from confluent_kafka import KafkaError

        if error.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
            self._failure = self._failure or NotDelivered("", error)

    def _poll(self, seconds: float) -> None:
        """Take reports; a producer that is shut out says so here, by an exception of its own."""
        from confluent_kafka import KafkaException

        try:
            self._producer.poll(seconds)
        except KafkaException as failure:
            raise NotDelivered("", failure.args[0]) from failure
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _by_topic(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[dict[str, Any]]]:
    """The messages of each topic; what is NULL is left to the producer."""
    messages = [
        {"value": value, "key": key}
        for value, key in zip(columns["value"], columns["key"], strict=True)
    ]
    for message, headers in zip(messages, columns["headers"], strict=True):
        if headers:
            message["headers"] = [(each["key"], each["value"]) for each in headers]
    for name in ("partition", "timestamp"):
        for message, given in zip(messages, columns.get(name, ()), strict=False):
            if given is not None:
                message[name] = given
    topics = columns["topic"]
    if topics.count(topics[0]) == len(topics):
        return {topics[0]: messages}
    found: dict[str, list[dict[str, Any]]] = {}
    for topic, message in zip(topics, messages, strict=True):
        found.setdefault(topic, []).append(message)
    return found
