"""The one that moves dead letters: a transactional producer, and the notes of what it has moved.

One producer with the transactional id `headrace.dlq.<topic>` moves letters, a load at a time:
 1. `init_transactions()`: another redrive of this topic is fenced, what it had open is aborted;
 2. the notes are read (`admin.letters_moved`), so that moved letters are passed over;
 3. the messages of a load are produced,
 4. and the notes about them;
 5. `commit_transaction()`. Steps 3 to 5 repeat.
Never 2 before 1: a transaction that commits in between would not be seen. Messages and notes are
committed together, so a letter is moved if, and only if, it is noted as moved. An outcome that is
not known is left as it is: the next redrive begins with 1 and 2, and finds out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.admin import letters_moved, offsets
from headrace.admin.client import Cluster, new_client, plain, translate
from headrace.admin.letters import Letter
from headrace.admin.offsets import Offsets
from headrace.admin.records import PRODUCER_SETTINGS, Record
from headrace.admin.topics import Topic
from headrace.errors import BrokerTimeout, HeadraceError, RedriveTakenOver
from headrace.runtime import failpoints

# A load takes a second at most, unless the brokers are in trouble.
TRANSACTION_SECONDS = 60
CALL_SECONDS = 60.0
SETTLE_SECONDS = 5.0
SETTLE_POLL_SECONDS = 0.02
TRIES = 3


class Reason(StrEnum):
    """Why a letter that was chosen stays where it is."""

    NOT_A_LETTER = "NOT_A_LETTER"
    TOO_MANY_ATTEMPTS = "TOO_MANY_ATTEMPTS"
    NO_TOPIC = "NO_TOPIC"
    TOO_OLD = "TOO_OLD"
    EXPRESSION_FAILED = "EXPRESSION_FAILED"
    REJECTED = "REJECTED"


# Said about letters that a rule of the command leaves out; all others are failures.
BY_RULE = {Reason.TOO_MANY_ATTEMPTS}


@dataclass(frozen=True)
class Move:
    """A letter that goes out, as this message."""

    letter: Letter
    to: str
    message: Record


@dataclass(frozen=True)
class Stay:
    letter: Letter
    reason: Reason
    detail: str

    def __str__(self) -> str:
        return f"{self.letter.place}: {self.reason}: {self.detail}"


Decision = Move | Stay


class _Rejected(Exception):
    """The brokers do not take a message of the load; nothing of it is committed."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(f"{error.name()} {plain(error.str())}")


class _ThrownAway(Exception):
    """The client gave up the load, for no fault of its messages; nothing of it is committed.

    It does so with the first transaction after a refused one, whose messages it has numbered.
    """


class Mover:
    """The one that may move letters of a topic, until another one fences it."""

    def __init__(self, cluster: Cluster, topic: Topic) -> None:
        self._cluster, self._topic = cluster, topic
        self._notes = letters_moved.notes_topic(topic.name)
        # The last offset in each partition, of transactions that are aborted, too.
        self._written: Offsets = {}
        letters_moved.ensure(cluster, topic)
        settings = {
            **PRODUCER_SETTINGS,
            "transactional_id": f"headrace.dlq.{topic.name}",
            "transaction_timeout_ms": TRANSACTION_SECONDS * 1000,
            "delivery_timeout_ms": TRANSACTION_SECONDS * 1000,
            "linger_ms": 5,
        }
        # What breaks the client arrives at the next call, too, and there it can be told.
        config = {**cluster.client_config(**settings), "error_cb": lambda _error: None}
        self._producer = new_client(Producer, config)
        self._call(lambda: self._producer.init_transactions(CALL_SECONDS))
        self.moved = letters_moved.read(cluster, topic, final=True)
        failpoints.reach("redrive.begun")

    def __enter__(self) -> Mover:
        return self

    def __exit__(self, *_: object) -> None:
        """End what is open, so that readers need not wait for its timeout."""
        with suppress(KafkaException):
            self._producer.abort_transaction(CALL_SECONDS)

    def move(self, moves: Sequence[Move]) -> list[Decision]:
        """Move a load; when the brokers refuse it, its halves, until the letter is found."""
        try:
            self._transact_patiently(moves)
        except _Rejected as rejected:
            if len(moves) == 1:
                return [Stay(moves[0].letter, Reason.REJECTED, str(rejected))]
            middle = len(moves) // 2
            return [*self.move(moves[:middle]), *self.move(moves[middle:])]
        return list(moves)

    def settle(self) -> None:
        """Wait until readers see what was moved: markers are written after a commit returns.

        Not for ever, as an older transaction of someone else may hold readers back.
        """
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._written and time.monotonic() < deadline:
            ends = offsets.latest(self._cluster, self._written, stable=True)
            for key, end in ends.items():
                if end > self._written[key]:
                    del self._written[key]
            time.sleep(SETTLE_POLL_SECONDS if self._written else 0)

    def _transact_patiently(self, moves: Sequence[Move]) -> None:
        for _ in range(TRIES):
            with suppress(_ThrownAway):
                return self._transact(moves)
        raise BrokerTimeout(self._action, "the client gave up the messages")

    def _transact(self, moves: Sequence[Move]) -> None:
        """Steps 3 to 5."""
        places = [move.letter.at for move in moves]
        refusals: list[KafkaError] = []
        self._call(self._producer.begin_transaction)
        try:
            for move in moves:
                self._produce(move.to, move.message, refusals)
            self._flush(refusals)
            failpoints.reach("redrive.produced")
            for note in (*self.moved.notes(places), *self._forgotten()):
                self._produce(self._notes, note, refusals)
            self._flush(refusals)
            failpoints.reach("redrive.noted")
        except (_Rejected, _ThrownAway):
            self._call(lambda: self._producer.abort_transaction(CALL_SECONDS))
            raise
        self._call(lambda: self._producer.commit_transaction(CALL_SECONDS))
        failpoints.reach("redrive.committed")
        # Only now: what was noted in a transaction that is aborted must be moved again.
        self.moved.add(places)
        self.moved.stale.clear()

    def _forgotten(self) -> list[Record]:
        return [Record(None, key) for key in self.moved.stale]

    def _produce(self, topic: str, message: Record, refusals: list[KafkaError]) -> None:
        def delivered(error: KafkaError | None, sent: Message) -> None:
            if error is None:
                self._written[topic, sent.partition() or 0] = sent.offset() or 0
            else:
                refusals.append(error)

        while True:
            try:
                self._producer.produce(
                    topic,
                    message.value,
                    message.key,
                    partition=-1 if message.partition is None else message.partition,
                    timestamp=message.timestamp or 0,
                    headers=list(message.headers),
                    on_delivery=delivered,
                )
            except BufferError:
                self._poll(0.1)
                continue
            except KafkaException as failure:
                raise self._failure(failure.args[0], refusals) from failure
            self._poll(0)
            return

    def _poll(self, seconds: float) -> None:
        """Take in reports; this is also where a client that was fenced says so."""
        try:
            self._producer.poll(seconds)
        except KafkaException as failure:
            raise self._failure(failure.args[0]) from failure

    def _flush(self, refusals: list[KafkaError]) -> None:
        """Wait for every report. The client's own `flush` breaks when it is fenced meanwhile."""
        while len(self._producer):
            self._poll(0.1)
        if refusals:
            raise self._failure(refusals[0], refusals)

    def _call(self, call: Callable[[], Any]) -> None:
        """A call about transactions; again, when the client says that it may work."""
        deadline = time.monotonic() + CALL_SECONDS
        while True:
            try:
                call()
            except KafkaException as failure:
                error = failure.args[0]
                if error.retriable() and time.monotonic() < deadline:
                    continue
                raise self._failure(error) from failure
            return

    @property
    def _action(self) -> str:
        return f"moving letters of {self._topic.name}"

    def _failure(
        self, error: KafkaError, refusals: Sequence[KafkaError] = ()
    ) -> HeadraceError | _Rejected | _ThrownAway:
        """What an error means. After a refusal the client takes nothing more; that says why."""
        causes = [each for each in refusals if each.code() not in _THROWN_AWAY]
        cause = causes[0] if causes else error
        if cause.code() in _FENCED:
            return RedriveTakenOver(self._topic.name)
        if cause.code() in _ABOUT_A_MESSAGE:
            return _Rejected(cause)
        if cause.code() in _THROWN_AWAY:
            return _ThrownAway()
        return translate(cause, self._action, self._cluster.bootstrap)


# Of these the call that aborts tells the cause, if it is one to stop for.
_THROWN_AWAY = {
    KafkaError._PURGE_QUEUE,
    KafkaError._PURGE_INFLIGHT,
    KafkaError._STATE,
    KafkaError._FATAL,
}
_FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
_ABOUT_A_MESSAGE = {
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_DIFFERENT_RECORD,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_MSG_SIZE,
}
