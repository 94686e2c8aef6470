"""What must hold after every move, and what must hold when everything has been driven to its end.

After every move, for a reader of committed data:
  - no row twice, in one era;
  - rows of one source partition in the order of the source;
  - no row of a transaction that was aborted;
  - nothing committed by a run whose entry another run has claimed;
  - by batch, the count that a batch shows is that of the records up to it;
  - two runs never stop because of each other.
At the end: every row of the era is there, and the ledger stands where the records end.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from tests.model.actors import State, Way, parts_of
from tests.model.kafka import Kafka, Line, Row


class Harm(enum.Enum):
    """In which way a promise is broken."""

    TWICE = "a row is there twice"
    LOST = "a row is missing"
    REORDERED = "rows of a partition are not in the order of the source"
    ABORTED = "a row of an aborted transaction is visible"
    COUNT = "a batch shows a wrong count"
    DISPLACED = "a run wrote after another had taken over"
    BOTH_STOPPED = "two runs stopped because of each other"
    REFUSED = "a run misses an entry that there never was"
    LEDGER = "the ledger does not stand where the records end"
    ENDLESS = "what is left to do is never done"


class Violation(Exception):
    def __init__(self, harm: Harm, detail: str) -> None:
        super().__init__(f"{harm.value}: {detail}")
        self.harm = harm
        self.history: list[str] = []


class Invariants:
    """`tails`: whether the ledger must follow partitions without output."""

    def __init__(
        self,
        way: Way,
        kafka: Kafka,
        available: Mapping[int, int],
        states: list[State],
        sinks: Iterable[int],
        tails: bool,
    ) -> None:
        self.way = way
        self.kafka = kafka
        self.available = available
        self.states = states
        self.sinks = list(sinks)
        self.tails = tails
        self._owners: dict[tuple[str, int], str] = {}
        self._stopped: dict[str, str] = {}
        self._seen: dict[str, int] = {}
        self._problem: str | None = None
        kafka.decided = self._decided

    def stopped(self, name: str, by: str) -> None:
        self._stopped[name] = by
        if self._stopped.get(by) == name:
            raise Violation(Harm.BOTH_STOPPED, f"{name} and {by}")

    def check(self) -> None:
        if self._problem is not None:
            raise Violation(Harm.DISPLACED, self._problem)
        visible = {name: list(log.read_committed()) for name, log in self.kafka.logs.items()}
        sizes = {name: len(lines) for name, lines in visible.items()}
        if sizes == self._seen:
            return
        self._seen = sizes
        self._check_once(line.row for lines in visible.values() for line in lines)
        for name, lines in visible.items():
            self._check_order(name, lines)
            self._check_lines(lines)

    def check_complete(self) -> None:
        rows = {line.row for log in self.kafka.logs.values() for line in log.read_committed()}
        for sink in self.sinks:
            for key, (entry, _) in sorted(self.kafka.groups[f"ledger{sink}"].entries.items()):
                expected, end = self._expected(key, entry.era)
                place = (sink, key, entry.era)
                there = {(r.at, r.part) for r in rows if (r.sink, r.partition, r.era) == place}
                if missing := sorted(expected - there):
                    raise Violation(Harm.LOST, f"sink {sink}, partition {key}: {missing}")
                if self.tails and entry.offset != end:
                    raise Violation(Harm.LEDGER, f"{sink}.{key} is {entry.offset}, not {end}")

    def _expected(self, key: int, era: int) -> tuple[set[tuple[int, int]], int]:
        state = next((s for s in self.states if s.number == era), None)
        if self.way is Way.BATCH:
            assert state is not None
            return {(n, part) for n in range(state.commits) for part in range(2)}, state.commits
        begin = state.begin.get(key, 0) if state is not None and state.begin is not None else 0
        end = self.available[key]
        offsets = range(begin, end)
        return {(at, part) for at in offsets for part in range(parts_of(key, at))}, end

    @staticmethod
    def _check_once(rows: Iterable[Row]) -> None:
        seen = set()
        for row in rows:
            place = (row.era, row.sink, row.partition, row.at, row.part)
            if place in seen:
                raise Violation(Harm.TWICE, str(row))
            seen.add(place)

    @staticmethod
    def _check_order(name: str, lines: list[Line]) -> None:
        last: dict[tuple[int, int], tuple[int, int]] = {}
        for line in lines:
            row = line.row
            if last.get((row.era, row.partition), (-1, 0)) > (row.at, row.part):
                raise Violation(Harm.REORDERED, f"in {name}: {row}")
            last[row.era, row.partition] = row.at, row.part

    def _check_lines(self, lines: list[Line]) -> None:
        for line in lines:
            if not self.kafka.outcomes.get(line.transaction):
                raise Violation(Harm.ABORTED, str(line.row))
            if self.way is Way.BATCH and line.row.value != self._count(line.row):
                raise Violation(Harm.COUNT, f"{line.row}, not {self._count(line.row)}")

    def _count(self, row: Row) -> int:
        (state,) = (s for s in self.states if s.number == row.era)
        ranges = state.offsets[: row.at + 1]
        return sum(end - start for each in ranges for start, end in each.values())

    def _decided(self, writer: str, number: int, commit: bool) -> None:
        """A claim writes an owner that was not there; anything else must be by the owner."""
        if not commit:
            return
        wrote = any(
            line.transaction == number and line.committed is None
            for log in self.kafka.logs.values()
            for line in log.lines
        )
        for group, key, entry in self.kafka.offsets.get(number, ()):
            owner = self._owners.get((group, key))
            if wrote and owner is not None and owner != entry.owner:
                self._problem = f"{entry.owner} by {writer}, after {owner}"
            self._owners[group, key] = entry.owner
