"""The protocol, step by step. A wrong variant overrides one step.

A step is a generator: each `yield` is a call, and between two calls anything may happen.
`Rules.write` is what a task does, and a driver for a partition without output; `Rules.claim` is
what a driver does before its first batch. Both are the same five steps:

    1. init      under the transactional id of the entry
    2. read      the entry, stable
    3. produce   what is not done yet
    4. move      the entry, in the same transaction
    5. commit    not known whether it happened: from 1 again, and the entry tells
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.model.kafka import Entry, Fenced, Invalid, Kafka, Producer, Row

Life = tuple[int, int]


class TimedOut(Exception):
    """No answer. The call may have happened, may happen later, or never."""


class UnknownOutcome(Exception):
    """No answer to a commit."""


class AttemptFailed(Exception):
    """Somebody of the same run has taken over; the driver tries again."""


class Displaced(Exception):
    """Another run has taken over: stop for good."""

    def __init__(self, by: str) -> None:
        super().__init__(f"displaced by {by}")
        self.by = by


class LedgerGone(Exception):
    """The entry is missing where there must be one."""


class OtherState(Exception):
    """The entry is of another state of the pipeline, or of a later one than this."""


@dataclass
class Call:
    """One call, to Kafka or (`local`) to what the driver keeps on disk."""

    name: str
    do: Callable[[], Any]
    changes: bool = True
    local: bool = False


Steps = Generator[Call, Any, Any]


@dataclass(frozen=True)
class Work:
    """What is to be done to one entry of one sink: `rows` of [start, end).

    By lineage an entry is a source partition and counts its offsets; by batch it counts batches.
    A transaction ends early before a row whose `at` is in `cuts`.
    """

    sink: int
    key: int
    start: int
    end: int
    life: Life
    owner: str
    term: int
    era: int = 0
    batch: int = 0
    rows: Sequence[Row] = ()
    cuts: frozenset[int] = field(default_factory=frozenset)
    task: int = 0

    @property
    def group(self) -> str:
        return f"ledger{self.sink}"

    def until(self, position: int) -> int:
        return min((cut for cut in self.cuts if position < cut < self.end), default=self.end)

    def entry(self, offset: int) -> Entry:
        return Entry(offset, self.life, self.owner, self.term, self.era)


@dataclass(frozen=True)
class Start:
    """Where a driver wants an entry to begin, which counts only if its life is new to the entry.

    `offset` is None for a life that goes on from the ledger. `stands` is for an entry that is
    missing: how far the state knows that all is done. `expected`: an entry must not be missing.
    `resumed`: this life has claimed the entry before, so that it must be of it.
    """

    offset: int | None
    stands: int
    era: int
    expected: bool = False
    resumed: bool = False


class Rules:
    """The protocol as it must be."""

    stable = True
    moves_tails = True
    runs_known_batches = True
    checks_owner = True

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka

    def transactional_id(self, work: Work) -> str:
        return f"sink{work.sink}.{work.key}"

    # A task.

    def write(self, work: Work) -> Steps:
        """Everything of a range that is not done. Each transaction is begun at 1.

        So a range that is committed in pieces, and an outcome that is unknown, need no rule of
        their own; and no two transactions share an epoch.
        """
        while True:
            try:
                producer, entry = yield from self.begin(work)  # 1, 2
                position = self.position(work, entry)
                if position >= work.end:
                    return
                until = work.until(position)
                yield from self.transact(producer, work, position, until)  # 3, 4, 5
            except UnknownOutcome:
                continue
            except Fenced:
                yield from self.fenced(work)

    def begin(self, work: Work) -> Steps:
        """Never the other way round: what an older owner commits after the read would be unseen."""
        producer = yield from self.init(work)  # 1
        entry = yield from self.read(work)  # 2
        return producer, entry

    def position(self, work: Work, entry: Entry | None) -> int:
        """What is done already. A claim has made the entry ours, so any other is a later one."""
        if entry is None:
            raise LedgerGone
        if self.checks_owner and (entry.owner, entry.life) != (work.owner, work.life):
            raise Displaced(entry.owner)
        return max(entry.offset, work.start)

    def transact(self, producer: Producer, work: Work, position: int, until: int) -> Steps:
        yield from self.produce(producer, work, position, until)  # 3
        yield from self.move(producer, work, until)  # 4
        yield from self.commit(producer)  # 5

    def fenced(self, work: Work) -> Steps:
        """By whom? The entry tells; a task never goes on by itself."""
        entry = yield from self.read(work)
        if entry is not None and entry.owner != work.owner:
            raise Displaced(entry.owner)
        raise AttemptFailed

    # A driver.

    def claim(self, work: Work, start: Start) -> Steps:
        """Makes the entry ours, and fences whoever was at work on it. Returns the entry."""
        while True:
            try:
                term = work.term or (yield from self.new_term())
                producer, found = yield from self.begin(work)  # 1, 2
                term = self.term(work, found, term)
                offset, era = self.claimed(work, found, start)
                mine = Entry(offset, work.life, work.owner, term, era)
                yield from self.write_claim(producer, work, mine)
            except (UnknownOutcome, Fenced, Invalid, TimedOut):
                continue
            return mine

    def write_claim(self, producer: Producer, work: Work, mine: Entry) -> Steps:
        yield from self.move_to(producer, work, mine)  # 4
        yield from self.commit(producer)  # 5

    def new_term(self) -> Steps:
        """Above all that the ledger knows; the entry that is claimed first may have expired."""
        highest = yield Call("read terms", self.kafka.highest_term, changes=False)
        return highest + 1

    def term(self, work: Work, found: Entry | None, term: int) -> int:
        """A run's first claim makes its term the highest; it then yields to higher ones only.

        Without it two runs that start together can take entries from each other, and both stop.
        """
        if found is None or found.term < term:
            return term
        if not work.term:
            return found.term + 1
        if found.term > term:
            raise Displaced(found.owner)
        return term

    def claimed(self, work: Work, found: Entry | None, start: Start) -> tuple[int, int]:
        """The offset from which a life goes on, and its era: its own, if the entry is of it.

        Else where the life begins: where it was told to, or where the ledger is.
        """
        if found is None:
            if start.expected:
                raise LedgerGone
            return start.stands, start.era
        if found.life != work.life:
            same_state = found.life[0] == work.life[0]
            if found.life > work.life if same_state else start.resumed:
                raise OtherState
            if start.offset is not None and not same_state:
                return start.offset, start.era
        return found.offset, found.era

    def expects_entry(self, cut_off: bool, noted: bool) -> bool:
        """Whether an entry that is missing may have told of work that is done.

        A claim is noted before the first task; without the note nothing was written in this life.
        """
        return cut_off and noted

    # Calls.

    def init(self, work: Work) -> Steps:
        name = self.transactional_id(work)
        return (yield Call(f"init {name}", partial(self.kafka.init, name)))

    def read(self, work: Work) -> Steps:
        ask = partial(self.kafka.read, work.group, work.key, self.stable)
        return (yield Call(f"read {work.group}.{work.key}", ask, changes=False))

    def produce(self, producer: Producer, work: Work, position: int, until: int) -> Steps:
        rows = [row for row in work.rows if position <= row.at < until]
        yield from self.send(producer, rows)

    def send(self, producer: Producer, rows: Sequence[Row]) -> Steps:
        kafka, writer, epoch = self.kafka, producer.transactional_id, producer.epoch
        added = set()
        for row in rows:
            log = log_of(row)
            if log not in added:
                yield Call(f"add {log}", partial(kafka.add, writer, epoch, log))
                added.add(log)
            number = producer.sequences.get(log, 0)
            put = partial(kafka.produce, writer, epoch, log, number, row)
            yield Call(f"produce {row.partition}:{row.at}/{row.part} to {log}", put)
            producer.sequences[log] = number + 1

    def move(self, producer: Producer, work: Work, offset: int) -> Steps:
        yield from self.move_to(producer, work, work.entry(offset))

    def move_to(self, producer: Producer, work: Work, entry: Entry) -> Steps:
        kafka, writer, epoch = self.kafka, producer.transactional_id, producer.epoch
        group, key = work.group, work.key
        yield Call(f"add {group}", partial(kafka.add, writer, epoch, group))
        put = partial(kafka.send_offsets, writer, epoch, group, key, entry)
        yield Call(f"move {group}.{key} to {entry.offset}", put)

    def commit(self, producer: Producer) -> Steps:
        writer, epoch = producer.transactional_id, producer.epoch
        try:
            next_epoch = yield Call(f"commit {writer}", partial(self.kafka.end, writer, epoch))
        except TimedOut:
            raise UnknownOutcome from None
        if next_epoch != producer.epoch:
            producer.epoch, producer.sequences = next_epoch, {}


LOGS_PER_SINK = 2


def log_of(row: Row) -> str:
    return f"out{row.sink}-{(row.partition + row.at // 2 + row.part) % LOGS_PER_SINK}"
