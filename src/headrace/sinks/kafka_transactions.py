"""Messages and the note that they are done, written together or not at all.

A ledger is the committed offset of a consumer group that nobody joins. It moves inside the
transaction that writes the messages, so that it always tells what has been written:

    1. init      a producer with the id of the entry: every older owner of it is shut out
    2. read      the entry; never before 1, and never while a transaction on it is pending
    3. produce   what the entry does not cover yet
    4. move      the entry, in the same transaction
    5. commit    both become visible together

A crash before 5 leaves nothing behind, one after 5 leaves everything. Whoever does the same work
again begins at 1, and so does every transaction: a commit that was sent twice and arrives late must
find an epoch that is over.

Here are the steps, and what the driver does with one entry; `kafka_deliveries` writes batches by
them. What runs on the executors needs no Headrace there, so nothing here may use other parts of it
than `kafka_producer`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.sinks.kafka_producer import FIXED, NotDelivered, Outbox

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import KafkaError, TopicPartition

Place = tuple[str, int]

# What a task fails with; the rest of the text is JSON.
NOT_COMMITTED = "HEADRACE_NOT_COMMITTED "

_CALL_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
# A transaction that has used up this part of its time is committed before the range is at its end.
_SHARE = 4
# librdkafka tells of being shut out on stderr, whatever its log level is.
_SILENT = logging.Logger("headrace.silent", logging.CRITICAL + 1)


@dataclass(frozen=True)
class Entry:
    """What a ledger says of one place: everything below `offset` is done.

    `life` tells which offsets can be compared: with another one, an entry says nothing about the
    work in hand. `owner` is the run that wrote it; of two owners the greater one has come later.
    `topic_id` is the id of the place's topic then.
    """

    offset: int
    life: str
    owner: str
    topic_id: str = ""

    def metadata(self) -> str:
        told = {"life": self.life, "owner": self.owner, "topic_id": self.topic_id}
        return json.dumps(told, separators=(",", ":"))

    @classmethod
    def parse(cls, offset: int, metadata: str | None) -> Entry:
        told = json.loads(metadata or "")
        return cls(offset, told["life"], told["owner"], told["topic_id"])


@dataclass(frozen=True)
class Ledger:
    """The group that holds what one sink of one pipeline has done, and the ids that may move it."""

    pipeline: str
    sink: str

    @property
    def group(self) -> str:
        return f"__headrace.eos.{self.pipeline}.{self.sink}"

    def transactional_id(self, place: Place | None = None) -> str:
        """That of a source's partition, or of the sink where a batch is written as a whole."""
        whole = f"headrace.{self.pipeline}.{self.sink}"
        return whole if place is None else f"{whole}.{place[0]}-{place[1]}"


@dataclass(frozen=True)
class Fuse:
    """Where a task is to die, and which processes with it: for proofs that this loses nothing."""

    point: str | None = None
    driver: int | None = None

    def reach(self, point: str) -> None:
        if self.point != point:
            return
        if self.driver is not None:
            os.kill(self.driver, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Work:
    """What the tasks of one job need to know.

    `config` are librdkafka's properties. `life` and `owner` are those of this run; `topic_ids` are
    of the topics that the ledger has entries of.
    """

    config: Mapping[str, Any]
    ledger: Ledger
    timeout_ms: int
    life: str
    owner: str
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    fuse: Fuse = field(default_factory=Fuse)

    def entry(self, place: Place, offset: int) -> Entry:
        return Entry(offset, self.life, self.owner, self.topic_ids.get(place[0], ""))


class NotCommitted(Exception):
    """A transaction that was not made, or whose outcome is not known.

    `reason` is one of: `missing` and `foreign` (the entry), `taken_over` (by another run), `fenced`
    (by a task of this run), `expired` (it took longer than it may), `disorder` (of the rows),
    `refused` (by the broker, with the code of its answer).
    """

    def __init__(self, reason: str, work: Work, place: Place, error: KafkaError | None = None):
        facts = {
            "reason": reason,
            "group": work.ledger.group,
            "sink": work.ledger.sink,
            "topic": place[0],
            "partition": place[1],
            "timeout_ms": work.timeout_ms,
            "code": error.code() if error is not None else None,
            "detail": error.str() if error is not None else None,
        }
        super().__init__(NOT_COMMITTED + json.dumps(facts))


class Transaction:
    """One transaction of one transactional id, which moves the entry at `place`.

    To make one is step 1; it begins with the first rows that are sent, or when it is committed.
    """

    def __init__(self, work: Work, place: Place, transactional_id: str) -> None:
        from confluent_kafka import Consumer

        self._work = work
        self._place = place
        self._began: float | None = None
        asked = {**_connection(work.config), "group.id": work.ledger.group}
        self._reader = Consumer({**asked, "isolation.level": "read_committed"}, logger=_SILENT)
        self._group = self._reader.consumer_group_metadata()
        own = {
            "acks": "all",
            "transactional.id": transactional_id,
            "transaction.timeout.ms": work.timeout_ms,
        }
        self._outbox = Outbox({**work.config, **FIXED, **own}, _SILENT)
        self._producer = self._outbox.producer
        self._insist(self._producer.init_transactions)

    def read(self) -> Entry | None:
        """Step 2: the entry, once no transaction is pending on it."""
        from confluent_kafka import OFFSET_INVALID, KafkaException, TopicPartition

        asked = [TopicPartition(*self._place)]
        try:
            (found,) = _patiently(self._work, lambda left: self._reader.committed(asked, left))
        except KafkaException as failure:
            raise self._refused(failure.args[0]) from failure
        if found.error is not None:
            raise self._refused(found.error)
        return None if found.offset == OFFSET_INVALID else _parsed(self._work, found)

    def own(self) -> Entry:
        """Step 2 of a task: the entry, which must be there and made for this work."""
        found = self.read()
        if found is None:
            raise NotCommitted("missing", self._work, self._place)
        if found.owner != self._work.owner:
            raise NotCommitted("taken_over", self._work, self._place)
        if found.life != self._work.life:
            raise NotCommitted("fenced", self._work, self._place)
        return found

    def send(self, batch: pa.RecordBatch) -> None:
        """Step 3 for some rows; the first of them begin a transaction."""
        self._begin()
        try:
            self._outbox.send(batch)
        except NotDelivered as failure:
            raise self._undelivered(failure) from failure

    @property
    def due(self) -> bool:
        """Whether the open transaction should end before it is too old."""
        return self._age > self._work.timeout_ms / 1000 / _SHARE

    def commit(self, entry: Entry) -> None:
        """Steps 4 and 5; returns when the broker has said that it is done."""
        reach = self._work.fuse.reach
        try:
            self._outbox.finish()
        except NotDelivered as failure:
            raise self._undelivered(failure) from failure
        reach("eos.produced")
        self._move(entry)  # 4
        reach("eos.offsets")
        self._insist(self._producer.commit_transaction)  # 5
        reach("eos.committed")
        self._began = None

    def abort(self) -> None:
        """Give up what is open, so that no reader waits for it; the next owner would do it, too."""
        from confluent_kafka import KafkaException

        if self._began is None:
            return
        with contextlib.suppress(KafkaException):  # not ours any more, or nobody answers
            self._producer.abort_transaction(_CALL_SECONDS)

    def close(self) -> None:
        """End both clients, whose threads would outlive the task; one that failed ends with it."""
        self._reader.close()
        if self._began is None:
            self._producer.close()

    def _begin(self) -> None:
        if self._began is None:
            self._insist(lambda _: self._producer.begin_transaction())
            self._began = time.monotonic()

    def _move(self, entry: Entry) -> None:
        from confluent_kafka import TopicPartition

        self._begin()
        moved = [TopicPartition(*self._place, entry.offset, entry.metadata())]
        send = self._producer.send_offsets_to_transaction
        self._insist(lambda seconds: send(moved, self._group, seconds))

    @property
    def _age(self) -> float:
        return time.monotonic() - self._began if self._began is not None else 0.0

    def _insist(self, call: Callable[[float], Any]) -> None:
        from confluent_kafka import KafkaException

        try:
            _patiently(self._work, call)
        except KafkaException as failure:
            raise self._failed(failure.args[0]) from failure

    def _undelivered(self, failure: NotDelivered) -> Exception:
        """A message that was not taken: by its own fault, or because its transaction is over."""
        if failure.error.code() in _over():
            return self._failed(failure.error)
        self.abort()
        return failure

    def _failed(self, error: KafkaError) -> NotCommitted:
        """Why: who has shut this producer out, if somebody has, is told by the entry."""
        if error.code() not in _over():
            self.abort()
            return self._refused(error)
        expired = self._age > self._work.timeout_ms / 1000
        found = self.read()
        if found is not None and found.owner != self._work.owner:
            reason = "taken_over"
        else:
            reason = "expired" if expired else "fenced"
        return NotCommitted(reason, self._work, self._place, error)

    def _refused(self, error: KafkaError) -> NotCommitted:
        return NotCommitted("refused", self._work, self._place, error)


def _patiently(work: Work, call: Callable[[float], Any]) -> Any:
    """Repeats what may pass, as long as a transaction lasts; librdkafka goes on where it was."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + work.timeout_ms / 1000
    while True:
        try:
            return call(_CALL_SECONDS)
        except KafkaException as failure:
            error = failure.args[0]
            passes = error.retriable() or error.code() in _passing()
            if not passes or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)


def _passing() -> set[int]:
    """What passes by itself, though librdkafka does not always say so."""
    from confluent_kafka import KafkaError

    return {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }


def _over() -> set[int]:
    """What a producer is told whose transaction has been ended for it."""
    from confluent_kafka import KafkaError

    return {
        KafkaError._FATAL,
        KafkaError._FENCED,
        KafkaError._STATE,
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.PRODUCER_FENCED,
    }


def _connection(config: Mapping[str, Any]) -> dict[str, Any]:
    """Of a producer's properties those that every client has."""
    kept = ("bootstrap.servers", "client.id", "security.", "sasl.", "ssl.", "socket.", "reconnect.")
    return {name: value for name, value in config.items() if name.startswith(kept)}


# On the driver: one entry, without messages.


def claim(
    work: Work, place: Place, of: Place | None, decide: Callable[[Entry | None], Entry]
) -> None:
    """Shut out every older owner of an entry, and put in its place what `decide` makes of it.

    `of` is the source's partition that the entry is about, or None for one of a whole sink.
    """
    transaction = Transaction(work, place, work.ledger.transactional_id(of))
    try:
        transaction.commit(decide(transaction.read()))
    finally:
        transaction.close()


def renew(work: Work, place: Place, of: Place | None) -> None:
    """Write an entry of this run as it is: brokers forget what has not been written for long."""
    transaction = Transaction(work, place, work.ledger.transactional_id(of))
    try:
        transaction.commit(transaction.own())
    finally:
        transaction.close()


def entries(work: Work, places: Iterable[Place]) -> dict[Place, Entry]:
    """The entries that there are, without taking them: any of them may be overtaken at once."""
    from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition

    asked = {**_connection(work.config), "group.id": work.ledger.group}
    reader = Consumer({**asked, "isolation.level": "read_committed"}, logger=_SILENT)
    try:
        wanted = [TopicPartition(*place) for place in places]
        found = _patiently(work, lambda left: reader.committed(wanted, left)) if wanted else []
    finally:
        reader.close()
    return {
        (each.topic, each.partition): _parsed(work, each)
        for each in found
        if each.offset != OFFSET_INVALID
    }


def _parsed(work: Work, found: TopicPartition) -> Entry:
    try:
        return Entry.parse(found.offset, found.metadata)
    except (ValueError, KeyError, TypeError) as error:
        raise NotCommitted("foreign", work, (found.topic, found.partition)) from error


def advance(work: Work, place: Place, of: Place | None, end: int) -> None:
    """What a task does whose work has nothing to write: the entry moves to `end`."""
    transaction = Transaction(work, place, work.ledger.transactional_id(of))
    try:
        if transaction.own().offset < end:
            transaction.commit(work.entry(place, end))
    finally:
        transaction.close()
