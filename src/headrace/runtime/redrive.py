"""Send dead letters again, to where they came from or elsewhere.

`survey` says what would be done and writes nothing; `redrive` does it. Both have the same judge
decide about each letter. That each one is moved exactly once is the work of `letter_mover`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from headrace.admin import letters_moved, letters_reading, topic_settings, topics
from headrace.admin.client import Cluster
from headrace.admin.letters import ALL, ATTEMPTS, Letter, Selection
from headrace.admin.letters_moved import Moved
from headrace.admin.records import Record
from headrace.admin.topics import Topic
from headrace.errors import DefinitionError
from headrace.runtime import failpoints
from headrace.runtime.letter_expressions import Expressions, Failed, Patched
from headrace.runtime.letter_mover import BY_RULE, Decision, Move, Mover, Reason, Stay

DEFAULT_ATTEMPTS = 3
KEPT_EXAMPLES = 10


@dataclass(frozen=True)
class Order:
    """What is asked for. `to` None is the topic that a letter came from; `rate` is letters/s."""

    topic: str
    selection: Selection = ALL
    to: str | None = None
    max_attempts: int = DEFAULT_ATTEMPTS
    rate: float | None = None
    original_time: bool = True


@dataclass
class Outcome:
    """What became of the letters that were chosen.

    `moved` counts by the topic that they went to, `before` those that an earlier redrive moved.
    """

    moved: Counter[str] = field(default_factory=Counter)
    before: int = 0
    left: Counter[Reason] = field(default_factory=Counter)
    examples: list[Stay] = field(default_factory=list)
    first_failure: Stay | None = None

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
            if decision.reason not in BY_RULE:
                self.first_failure = self.first_failure or decision
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
    with Mover(cluster, topic) as mover:
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
