"""Kafka as the protocol sees it: a transaction coordinator, logs with markers, a group's offsets.

Requests are the methods of `Kafka`; each happens at once or is refused. What Kafka does by itself
comes later and one thing at a time: `moves` lists it (a marker into one log, the offsets of a
decided transaction becoming visible, a transaction timing out).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial


class Fenced(Exception):
    """The request comes from an older epoch than the newest."""


class Invalid(Exception):
    """The request does not fit the state that its transaction is in."""


class NotNow(Exception):
    """Ask again: something that was decided is not complete yet."""


class Phase(enum.Enum):
    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARED = "prepared"  # decided; some markers are still to be written
    COMPLETE = "complete"


@dataclass(frozen=True)
class Row:
    """One row of the output: part `part` of what became of a record, or of a batch.

    `at` is the offset in the source, or the batch id. `era` counts resets: the same record may, and
    must, come out once in each.
    """

    era: int
    sink: int
    partition: int
    at: int
    part: int
    value: int = 0


@dataclass(frozen=True)
class Entry:
    """What the ledger says: everything below `offset` is done. `term` counts claims.

    `era` is for the proof only, as in a row.
    """

    offset: int
    life: tuple[int, int]
    owner: str
    term: int = 0
    era: int = 0


@dataclass
class Producer:
    """What a client knows of itself."""

    transactional_id: str
    epoch: int
    sequences: dict[str, int] = field(default_factory=dict)


@dataclass
class Line:
    row: Row
    writer: str  # the transactional id; it stands for the producer id
    transaction: int
    committed: bool | None = None  # None while its transaction has no marker here


@dataclass
class Log:
    """A partition of a sink's topic."""

    lines: list[Line] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)

    def check(self, writer: str, epoch: int) -> None:
        known = self.epochs.get(writer, -1)
        if epoch < known:
            raise Fenced
        if epoch > known:
            self.epochs[writer], self.sequences[writer] = epoch, 0

    def append(self, line: Line, epoch: int, sequence: int) -> None:
        self.check(line.writer, epoch)
        expected = self.sequences[line.writer]
        if sequence > expected:
            raise Invalid
        if sequence == expected:  # a lower one is a repetition, and is answered as if it were new
            self.lines.append(line)
            self.sequences[line.writer] += 1

    def mark(self, writer: str, epoch: int, commit: bool) -> None:
        self.check(writer, epoch)
        for line in self.lines:
            if line.writer == writer and line.committed is None:
                line.committed = commit

    def read_committed(self) -> Iterator[Line]:
        """What a reader sees: nothing beyond the first line whose transaction is open."""
        for line in self.lines:
            if line.committed is None:
                return
            if line.committed:
                yield line


@dataclass
class Pending:
    """An offset inside a transaction; `commit` is None until the transaction's marker is here."""

    writer: str
    key: int
    entry: Entry
    place: int
    commit: bool | None = None


@dataclass
class Group:
    """The committed offsets of one consumer group that nobody has joined: a ledger."""

    entries: dict[int, tuple[Entry, int]] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    length: int = 0

    def check(self, writer: str, epoch: int) -> None:
        if epoch < self.epochs.get(writer, -1):
            raise Fenced
        self.epochs[writer] = epoch

    def append(self, key: int, entry: Entry, writer: str | None) -> None:
        self.length += 1
        if writer is None:
            self.entries[key] = entry, self.length
        else:
            self.pending.append(Pending(writer, key, entry, self.length))

    def mark(self, writer: str, epoch: int, commit: bool) -> None:
        self.check(writer, epoch)
        for each in self.pending:
            if each.writer == writer and each.commit is None:
                each.commit = commit

    def materialise(self, writer: str) -> None:
        """Decided offsets become visible. What was appended last wins, decided last or not."""
        for each in [p for p in self.pending if p.writer == writer and p.commit is not None]:
            self.pending.remove(each)
            if each.commit and each.place > self.entries.get(each.key, (None, -1))[1]:
                self.entries[each.key] = each.entry, each.place

    def read(self, key: int, stable: bool) -> Entry | None:
        if stable and any(each.key == key for each in self.pending):
            raise NotNow
        return self.entries[key][0] if key in self.entries else None


@dataclass
class Transactions:
    """What the coordinator knows of one transactional id."""

    epoch: int = -1
    phase: Phase = Phase.EMPTY
    number: int = 0  # of the transaction, in the whole of Kafka
    commit: bool = False
    ended: int = -2  # the epoch of the client that ended the latest one
    logs: set[str] = field(default_factory=set)
    unmarked: set[str] = field(default_factory=set)

    def decide(self, commit: bool) -> None:
        self.commit, self.phase = commit, Phase.PREPARED
        self.unmarked = set(self.logs)
        self.complete_if_marked()

    def complete_if_marked(self) -> None:
        if not self.unmarked:
            self.phase, self.logs = Phase.COMPLETE, set()


Happened = Callable[[str, int, bool], None]


class Kafka:
    """`epoch_per_transaction`: with a new epoch for each transaction (KIP-890, which needs the
    client's help); without, one producer has the same for all that it makes.

    `decided` is told of each transaction whose end is certain: transactional id, number, commit.
    """

    epochs_guard_offsets = True

    def __init__(self, epoch_per_transaction: bool, logs: list[str], groups: list[str]) -> None:
        self.epoch_per_transaction = epoch_per_transaction
        self.ids: dict[str, Transactions] = {}
        self.logs = {name: Log() for name in logs}
        self.groups = {name: Group() for name in groups}
        self.count = 0
        self.outcomes: dict[int, bool] = {}
        self.offsets: dict[int, list[tuple[str, int, Entry]]] = {}
        self.decided: Happened = lambda *_: None

    # Requests.

    def init(self, transactional_id: str) -> Producer:
        """A new epoch; whatever an older one had open is complete when this answers."""
        known = self.ids.setdefault(transactional_id, Transactions())
        if known.phase is Phase.ONGOING:
            self._abort(transactional_id)
        if known.phase is Phase.PREPARED:
            raise NotNow
        known.epoch, known.phase = known.epoch + 1, Phase.EMPTY
        return Producer(transactional_id, known.epoch)

    def add(self, writer: str, epoch: int, log: str) -> None:
        """Make a log, or a group, part of the transaction; the first begins it."""
        known = self._current(writer, epoch)
        if known.phase is Phase.PREPARED:
            raise NotNow
        if known.phase is not Phase.ONGOING:
            self.count += 1
            known.phase, known.number, known.logs = Phase.ONGOING, self.count, set()
        known.logs.add(log)

    def produce(self, writer: str, epoch: int, log: str, sequence: int, row: Row) -> None:
        known = self.ids[writer]
        target = self.logs[log]
        target.check(writer, epoch)
        self._verify(writer, epoch, log)
        target.append(Line(row, writer, known.number), epoch, sequence)

    def send_offsets(self, writer: str, epoch: int, group: str, key: int, entry: Entry) -> None:
        target = self.groups[group]
        if self.epochs_guard_offsets:
            target.check(writer, epoch)
            self._verify(writer, epoch, group)
        target.append(key, entry, writer)
        self.offsets.setdefault(self.ids[writer].number, []).append((group, key, entry))

    def end(self, writer: str, epoch: int) -> int:
        """Commit; the answer is the client's next epoch. It is asked again when no answer came."""
        known = self.ids[writer]
        repeated = known.phase in (Phase.PREPARED, Phase.COMPLETE) and known.ended == epoch
        if repeated and known.commit:
            return known.epoch
        self._current(writer, epoch)
        if known.phase is not Phase.ONGOING:
            raise Invalid
        known.ended = epoch
        known.epoch += self.epoch_per_transaction
        self._decide(writer, commit=True)
        return known.epoch

    def commit_offset(self, group: str, key: int, entry: Entry) -> None:
        """Outside of any transaction: what the protocol never does."""
        self.groups[group].append(key, entry, None)

    def read(self, group: str, key: int, stable: bool) -> Entry | None:
        return self.groups[group].read(key, stable)

    def highest_term(self) -> int:
        entries = (entry for group in self.groups.values() for entry, _ in group.entries.values())
        return max((entry.term for entry in entries), default=0)

    # What happens by itself.

    def moves(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for writer, known in self.ids.items():
            for log in sorted(known.unmarked):
                yield f"marker of {writer} into {log}", partial(self._mark, writer, log)
        for name, group in self.groups.items():
            for writer in sorted({p.writer for p in group.pending if p.commit is not None}):
                yield f"{name} shows {writer}", partial(group.materialise, writer)

    def timeouts(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for writer, known in self.ids.items():
            if known.phase is Phase.ONGOING:
                yield f"{writer} times out", partial(self._abort, writer)

    def _current(self, writer: str, epoch: int) -> Transactions:
        known = self.ids[writer]
        if epoch != known.epoch:
            raise Fenced
        return known

    def _verify(self, writer: str, epoch: int, log: str) -> None:
        """A broker asks the coordinator before it takes the first write of a transaction."""
        known = self.ids[writer]
        # While markers are on their way a log still takes writes of the transaction's own epoch.
        late = log in known.unmarked and known.ended == epoch
        if not late and (
            epoch != known.epoch or known.phase is not Phase.ONGOING or log not in known.logs
        ):
            raise Invalid

    def _abort(self, writer: str) -> None:
        known = self.ids[writer]
        known.epoch += 1
        self._decide(writer, commit=False)

    def _decide(self, writer: str, commit: bool) -> None:
        known = self.ids[writer]
        self.outcomes[known.number] = commit
        self.decided(writer, known.number, commit)
        known.decide(commit)

    def _mark(self, writer: str, log: str) -> None:
        known = self.ids[writer]
        known.unmarked.discard(log)
        target: Log | Group = self.groups[log] if log in self.groups else self.logs[log]
        target.mark(writer, known.epoch, known.commit)
        known.complete_if_marked()


class WithoutEpochsForOffsets(Kafka):
    """A broker that takes offsets into a transaction from anyone."""

    epochs_guard_offsets = False
