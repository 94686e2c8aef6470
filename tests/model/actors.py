"""Who acts: a driver with its state on disk, and the tasks that it starts.

An actor is a generator of calls and the call that it is about to make. One whose driver is dead, or
has given it up, goes on all the same: a zombie.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.model.kafka import Invalid, Row
from tests.model.rules import (
    AttemptFailed,
    Call,
    Life,
    Rules,
    Start,
    Steps,
    TimedOut,
    Work,
)

Ranges = dict[int, tuple[int, int]]


class Way(enum.Enum):
    LINEAGE = "a stream by lineage"
    RUNS = "runs of a batch by lineage"  # each run is a life of its own
    BATCH = "a stream by batch"


class Conflict(Exception):
    """Another driver has written the same file of the checkpoint."""


class Killed(Exception):
    """The worker is gone; what it had asked for may still happen."""


# What an attempt may fail with that the next one may not.
PASSING = (AttemptFailed, TimedOut, Invalid, Killed)


@dataclass
class State:
    """What a driver keeps on disk: `offsets/N`, `commits/N`, the state store, and its notes.

    `begin` is where a reset tells it to begin. `noted` are the claims that it has made, with their
    eras; a claim is noted before any task may use it.
    """

    number: int
    begin: dict[int, int] | None = None
    offsets: list[Ranges] = field(default_factory=list)
    commits: int = 0
    counts: dict[int, int] = field(default_factory=lambda: {0: 0})
    noted: dict[tuple[int, int], tuple[Life, int]] = field(default_factory=dict)

    @property
    def cut_off(self) -> bool:
        return len(self.offsets) > self.commits

    def read(self) -> tuple[list[Ranges], int]:
        """The ranges of all batches, and how many of them are done."""
        return list(self.offsets), self.commits

    def write_offsets(self, batch: int, ranges: Ranges) -> None:
        if batch != len(self.offsets):
            raise Conflict
        self.offsets.append(ranges)

    def write_commit(self, batch: int) -> None:
        if batch != self.commits:
            raise Conflict
        self.commits += 1


@dataclass
class Wait(Call):
    """A driver's call that returns when its tasks have ended or are given up."""

    tasks: list[Actor] = field(default_factory=list)


@dataclass
class Actor:
    name: str
    steps: Steps
    call: Call | None = None
    failure: BaseException | None = None
    ended: bool = False
    given_up: bool = False
    driver: Driver | None = None  # of a task: who waits for it

    def resume(self, go: Callable[[], Call]) -> None:
        try:
            self.call = go()
        except StopIteration:
            self.call, self.ended = None, True
        except Exception as failure:
            self.call, self.ended, self.failure = None, True, failure

    def start(self) -> None:
        self.resume(lambda: next(self.steps))

    def answer(self, value: Any) -> None:
        self.resume(lambda: self.steps.send(value))

    def fail(self, failure: Exception) -> None:
        self.resume(lambda: self.steps.throw(failure))

    @property
    def over(self) -> bool:
        return self.ended or self.given_up


def parts_of(partition: int, offset: int) -> int:
    """How many rows a record becomes: none if it is filtered out, two if it is exploded."""
    return (1, 1, 0, 0, 2, 1, 0)[(partition * 3 + offset) % 7]


class Driver(Actor):
    """One process: claims, then one batch after the other, as Spark and the protocol do it."""

    def __init__(
        self,
        name: str,
        way: Way,
        rules: Rules,
        state: State,
        sinks: int,
        available: dict[int, int],
        spawn: Callable[[Driver, Work], Actor],
        seed: int,
    ) -> None:
        super().__init__(name, self._run())
        self.way = way
        self.rules = rules
        self.state = state
        self.sinks = range(sinks)
        self.available = available  # by partition, how many records there are; it grows
        self.spawn = spawn
        self.seed = seed
        self.term = 0
        self.offsets: list[Ranges] = []  # as it was read at the start, and what it has added
        self.claimed: dict[tuple[int, int], int] = {}

    def _run(self) -> Steps:
        state = self.state
        self.offsets, batch = yield Call("read checkpoint", state.read, local=True)
        ranges = self.offsets[batch] if batch < len(self.offsets) else None
        if self.way is not Way.RUNS:
            yield from self._claim_all(batch, self._keys())
        while True:
            if ranges is None:
                plan = partial(self._plan, batch)
                ranges = yield Call(f"write offsets/{batch}", plan, local=True)
            if self.way is Way.RUNS:
                self.claimed.clear()
                yield from self._claim_all(batch, list(ranges))
            elif self.way is Way.LINEAGE:  # partitions that have turned up
                yield from self._claim_all(batch, [k for k in ranges if (0, k) not in self.claimed])
            for sink in self.sinks:
                yield from self._job(sink, batch, ranges)
            done = partial(state.write_commit, batch)
            yield Call(f"write commits/{batch}", done, local=True)
            batch, ranges = batch + 1, None

    # Claims.

    def _keys(self) -> list[int]:
        return [0] if self.way is Way.BATCH else sorted(self.available)

    def _life(self, batch: int) -> Life:
        return self.state.number, batch if self.way is Way.RUNS else 0

    def _claim_all(self, batch: int, keys: list[int]) -> Steps:
        for key in keys:
            for sink in self.sinks:
                work = Work(sink, key, 0, 0, self._life(batch), self.name, self.term)
                entry = yield from self.rules.claim(work, self._start(sink, key, batch))
                self.term = entry.term
                self.claimed[sink, key] = entry.offset
                note = {(sink, key): (entry.life, entry.era)}
                keep = partial(self.state.noted.update, note)
                yield Call(f"note claim {sink}.{key}", keep, local=True)

    def _start(self, sink: int, key: int, batch: int) -> Start:
        state = self.state
        life, era = state.noted.get((sink, key), (None, 0 if state.begin is None else state.number))
        cut_off = batch < len(self.offsets)
        expected = self.rules.expects_entry(cut_off, life == self._life(batch))
        resumed = life is not None
        if self.way is Way.BATCH:
            return Start(0, batch, state.number, expected, resumed)
        begin = None if state.begin is None else state.begin.get(key, 0)
        return Start(begin, self._stands(key, batch), era, expected, resumed)

    # Batches.

    def has_work(self) -> bool:
        return any(self._stands(k) < count for k, count in self.available.items())

    def _stands(self, key: int, batch: int | None = None) -> int:
        """Where a batch begins; without one, where the next will."""
        for ranges in reversed(self.offsets[:batch]):
            if key in ranges:
                return ranges[key][1]
        if self.state.begin is not None:
            return self.state.begin.get(key, 0)
        if self.way is Way.BATCH:
            return 0
        return min((self.claimed.get((sink, key), 0) for sink in self.sinks), default=0)

    def _plan(self, batch: int) -> Ranges:
        """Another driver, or the same after a crash, would choose other boundaries."""
        dice = random.Random(f"{self.seed}/{self.name}/{batch}")
        ranges = {}
        for key, count in self.available.items():
            start = self._stands(key)
            ranges[key] = start, min(count, start + dice.choice((1, 2, 3, 5)))
        self.state.write_offsets(batch, ranges)
        self.offsets.append(ranges)
        return ranges

    def _job(self, sink: int, batch: int, ranges: Ranges) -> Steps:
        if self.way is Way.BATCH:
            yield from self._stateful_job(sink, batch, ranges)
            return
        works = [self._part(sink, batch, key, span) for key, span in ranges.items()]
        yield from self._run_tasks([work for work in works if work.rows])
        if self.rules.moves_tails:
            for work in works:
                if not work.rows and work.start < work.end:
                    yield from self._patiently(work)

    def _stateful_job(self, sink: int, batch: int, ranges: Ranges) -> Steps:
        """Version N + 1 of Spark's state store is made of version N, however often.

        It is there when the tasks have ended; the output may be committed before it.
        """
        if not self.rules.runs_known_batches and self.claimed[sink, 0] > batch:
            return
        records = sum(end - start for start, end in ranges.values())
        count = self.state.counts.get(batch, 0) + records
        yield from self._run_tasks([self._whole(sink, batch, count)])
        advance = partial(self.state.counts.update, {batch + 1: count})
        yield Call(f"write state {batch + 1}", advance, local=True)

    def _run_tasks(self, works: list[Work]) -> Steps:
        while works:
            tasks = [self.spawn(self, work) for work in works]
            yield Wait("wait for tasks", lambda: None, local=True, tasks=tasks)
            for task in tasks:
                if task.failure is not None and self._is_final(task.failure):
                    raise task.failure
            works = [
                work
                for work, task in zip(works, tasks, strict=True)
                if task.failure is not None or not task.ended
            ]

    def _patiently(self, work: Work) -> Steps:
        while True:
            try:
                yield from self.rules.write(work)
            except PASSING:
                continue
            return

    @staticmethod
    def _is_final(failure: BaseException) -> bool:
        return not isinstance(failure, PASSING)

    def _whole(self, sink: int, batch: int, count: int) -> Work:
        era = self._era(sink, 0)
        rows = [Row(era, sink, 0, batch, part, count) for part in range(2)]
        return self._work(sink, 0, batch, (batch, batch + 1), rows)

    def _part(self, sink: int, batch: int, key: int, span: tuple[int, int]) -> Work:
        era = self._era(sink, key)
        rows = [
            Row(era, sink, key, offset, part)
            for offset in range(*span)
            for part in range(parts_of(key, offset))
        ]
        return self._work(sink, key, batch, span, rows)

    def _work(
        self, sink: int, key: int, batch: int, span: tuple[int, int], rows: list[Row]
    ) -> Work:
        dice = random.Random(f"{self.seed}/{self.name}/{batch}/{key}")
        cuts = frozenset(at for at in range(*span) if dice.random() < 0.25)
        life, era = self._life(batch), self._era(sink, key)
        return Work(sink, key, *span, life, self.name, self.term, era, batch, rows, cuts)

    def _era(self, sink: int, key: int) -> int:
        return self.state.noted[sink, key][1]
