"""Send dead letters again: each one exactly once, whatever dies in the middle.

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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.admin import letters_moved, letters_reading, offsets, topic_settings, topics
from headrace.admin.client import Cluster, new_client, plain, translate
from headrace.admin.letters import ALL, ATTEMPTS, Letter, Selection
from headrace.admin.letters_moved import Moved
from headrace.admin.offsets import Offsets
from headrace.admin.records import PRODUCER_SETTINGS, Record
from headrace.admin.topics import Topic
from headrace.errors import BrokerTimeout, DefinitionError, HeadraceError, RedriveTakenOver
from headrace.runtime import failpoints
from headrace.runtime.letter_expressions import Expressions, Failed, Patched

# A load takes a second at most, unless the brokers are in trouble.
TRANSACTION_SECONDS = 60
CALL_SECONDS = 60.0
SETTLE_SECONDS = 5.0
TRIES = 3
DEFAULT_ATTEMPTS = 3
KEPT_EXAMPLES = 10


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
class Order:
    """What is asked for. `to` None is the topic that a letter came from; `rate` is letters/s."""

    topic: str
    selection: Selection = ALL
    to: str | None = None
    max_attempts: int = DEFAULT_ATTEMPTS
    rate: float | None = None
    original_time: bool = True


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


Decision = Move | Stay


@dataclass
class Outcome:
    """What became of the letters that were chosen.

    `moved` counts by the topic that they went to, `before` those that an earlier redrive moved.
    """

    moved: Counter[str] = field(default_factory=Counter)
    before: int = 0
    left: Counter[Reason] = field(default_factory=Counter)
    examples: list[Stay] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """How many letters were to be moved and could not be."""
        return sum(count for reason, count in self.left.items() if reason not in BY_RULE)

    def add(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Move):
                self.moved[decision.to] += 1
                continue
            self.left[decision.reason] += 1
            if len(self.examples) < KEPT_EXAMPLES:
                self.examples.append(decision)


Listener = Callable[[Outcome], None]


def survey(cluster: Cluster, order: Order, expressions: Expressions | None = None) -> Outcome:
    """What a redrive would do now; nothing is written."""
    topic = _topic(cluster, order)
    outcome = Outcome()
    judge = _Judge(cluster, order, expressions)
    for load in _waiting(cluster, order, letters_moved.read(cluster, topic), outcome):
        outcome.add(judge.decide(load))
    return outcome


def redrive(
    cluster: Cluster,
    order: Order,
    expressions: Expressions | None = None,
    on_progress: Listener = lambda _outcome: None,
) -> Outcome:
    """Move the letters that are there now. Letters that come back meanwhile wait for the next."""
    failpoints.arm_from_environment()
    topic = _topic(cluster, order)
    outcome = Outcome()
    judge = _Judge(cluster, order, expressions)
    with _Mover(cluster, topic) as mover:
        for load in _waiting(cluster, order, mover.moved, outcome):
            decisions = judge.decide(load)
            outcome.add(each for each in decisions if isinstance(each, Stay))
            moves = [each for each in decisions if isinstance(each, Move)]
            for part in _paced(moves, order.rate):
                outcome.add(mover.move(part))
                on_progress(outcome)
        mover.settle()
    return outcome


def _topic(cluster: Cluster, order: Order) -> Topic:
    """The topic of the letters, if the order makes sense."""
    if "isolation.level" in cluster.config:
        raise DefinitionError(
            "client property `isolation.level` cannot be set here",
            hint="notes of what was moved are sound only when they are committed",
        )
    if order.to in (order.topic, letters_moved.notes_topic(order.topic)):
        raise DefinitionError(
            f"letters of {order.topic} cannot be moved to {order.to}", hint="name another topic"
        )
    if order.to is not None:
        topics.describe(cluster, order.to)
    return topics.describe(cluster, order.topic)


def _waiting(
    cluster: Cluster, order: Order, moved: Moved, outcome: Outcome
) -> Iterator[list[Letter]]:
    """Letters that are chosen and not moved yet; the others are counted."""

    def waiting() -> Iterator[Letter]:
        for letter in letters_reading.letters(cluster, order.topic, order.selection):
            if letter.at in moved:
                outcome.before += 1
            else:
                yield letter

    return letters_reading.loads(waiting())


def _paced(moves: Sequence[Move], rate: float | None) -> Iterator[Sequence[Move]]:
    """The moves in parts of a second each, with pauses in which no transaction is open."""
    count = len(moves) if rate is None else max(1, int(rate))
    for start in range(0, len(moves), max(count, 1)):
        part = moves[start : start + count]
        began = time.monotonic()
        yield part
        if rate is not None:
            time.sleep(max(0.0, len(part) / rate - (time.monotonic() - began)))


class _Judge:
    """Decides about letters; writes nothing. What it learns of topics it keeps."""

    def __init__(self, cluster: Cluster, order: Order, expressions: Expressions | None) -> None:
        self._cluster, self._order, self._expressions = cluster, order, expressions
        self._existing = set(topics.names(cluster))
        self._partitions = cache(lambda name: len(topics.describe(cluster, name).partitions))
        self._oldest = cache(self._oldest_kept)

    def decide(self, letters: Sequence[Letter]) -> list[Decision]:
        """For each letter that `--where` admits, what becomes of it."""
        decisions: list[Decision] = []
        ready: list[Letter] = []
        for letter, chosen in zip(letters, self._chosen(letters), strict=True):
            if isinstance(chosen, Failed):
                decisions.append(Stay(letter, Reason.EXPRESSION_FAILED, chosen.reason))
            elif chosen:
                stay = self._obstacle(letter)
                decisions.append(stay) if stay else ready.append(letter)
        for letter, patched in zip(ready, self._patched(ready), strict=True):
            if isinstance(patched, Failed):
                decisions.append(Stay(letter, Reason.EXPRESSION_FAILED, patched.reason))
            else:
                decisions.append(self._move(letter, patched))
        return decisions

    def _chosen(self, letters: Sequence[Letter]) -> Sequence[bool | Failed]:
        return self._expressions.chosen(letters) if self._expressions else [True] * len(letters)

    def _patched(self, letters: Sequence[Letter]) -> Sequence[Patched | Failed]:
        if self._expressions:
            return self._expressions.patched(letters)
        return [Patched(each.record.key, each.record.value) for each in letters]

    def _obstacle(self, letter: Letter) -> Stay | None:
        """What speaks against sending this letter, whatever its value."""
        if letter.topic is None:
            return Stay(letter, Reason.NOT_A_LETTER, "it has no headers of a dead letter")
        if letter.attempts >= self._order.max_attempts:
            detail = f"it was sent again {letter.attempts} times and failed"
            return Stay(letter, Reason.TOO_MANY_ATTEMPTS, detail)
        to = self._order.to or letter.topic
        if to not in self._existing:
            return Stay(letter, Reason.NO_TOPIC, f"there is no topic {to}")
        if self._timestamp(letter) is not None and (letter.timestamp or 0) < self._oldest(to):
            return Stay(letter, Reason.TOO_OLD, f"retention of {to} would delete it at once")
        return None

    def _move(self, letter: Letter, patched: Patched) -> Move:
        to = self._order.to or str(letter.topic)
        attempts = str(letter.attempts + 1).encode()
        message = Record(
            patched.value,
            patched.key,
            (*letter.headers, (ATTEMPTS, attempts)),
            self._partition(letter, to, patched),
            self._timestamp(letter),
        )
        return Move(letter, to, message)

    def _partition(self, letter: Letter, to: str, patched: Patched) -> int | None:
        """The one it came from, which keeps it beside its neighbours; else by its key."""
        same = to == letter.topic and patched.key == letter.record.key
        if not same or letter.partition is None or letter.partition >= self._partitions(to):
            return None
        return letter.partition

    def _timestamp(self, letter: Letter) -> int | None:
        return letter.timestamp if self._order.original_time else None

    def _oldest_kept(self, topic: str) -> int:
        """Records of a time (ms) before this are deleted by the topic's retention."""
        settings = {each.name: each.value for each in topic_settings.read(self._cluster, topic)}
        retention = int(settings.get("retention.ms") or -1)
        by_append = settings.get("message.timestamp.type") == "LogAppendTime"
        if retention < 0 or by_append or "delete" not in (settings.get("cleanup.policy") or ""):
            return 0
        return int(time.time() * 1000) - retention


class _Rejected(Exception):
    """The brokers do not take a message of the load; nothing of it is committed."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(f"{error.name()} {plain(error.str())}")


class _ThrownAway(Exception):
    """The client gave up the load, for no fault of its messages; nothing of it is committed.

    It does so with the first transaction after a refused one, whose messages it has numbered.
    """


class _Mover:
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
        self._call(self._producer.init_transactions)
        self.moved = letters_moved.read(cluster, topic, final=True)
        failpoints.reach("redrive.begun")

    def __enter__(self) -> _Mover:
        return self

    def __exit__(self, *_: object) -> None:
        """End what is open, so that readers need not wait for its timeout."""
        with suppress(KafkaException):
            self._producer.abort_transaction(CALL_SECONDS)

    def move(self, moves: Sequence[Move]) -> list[Decision]:
        """Move a load; when the brokers refuse it, each letter alone, to find the one."""
        try:
            self._transact_patiently(moves)
        except _Rejected as rejected:
            if len(moves) == 1:
                return [Stay(moves[0].letter, Reason.REJECTED, str(rejected))]
            return [each for move in moves for each in self.move([move])]
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
            self._call(self._producer.abort_transaction)
            raise
        self._call(self._producer.commit_transaction)
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
                print(
                    "DEBUG",
                    topic,
                    message.value,
                    error,
                    error.code(),
                    file=__import__("sys").stderr,
                )
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

    def _call(self, call: Callable[..., Any]) -> None:
        """A call about transactions; again, when the client says that it may work."""
        deadline = time.monotonic() + CALL_SECONDS
        while True:
            try:
                call() if call == self._producer.begin_transaction else call(CALL_SECONDS)
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
