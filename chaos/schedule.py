"""What will happen, from a seed: which drivers live, with which parallelism, and what ends them.

A life is one driver. Spark takes seconds to start, so that one life has as many troubles as can be
told apart: a failpoint that ends only a worker, then trouble, then a kill. Pure; `ordeal` does it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.model.pipeline import Mode

WORKER = "@worker"
KILL = "kill at a random moment"
# How long after its start, or after a batch, a driver is killed at most.
LONGEST_SECONDS = 4.0


class Victim(StrEnum):
    """Who gets the signal: the Python driver, its JVM, or both with all workers at once."""

    DRIVER = "driver"
    JAVA = "java"
    ALL = "all"


class Trouble(StrEnum):
    KILL_WORKER = "a worker killed"
    FREEZE_WORKER = "the worker frozen for longer than the transaction timeout, and woken"
    ZOMBIE = "the worker frozen, its driver killed, woken beside the next driver"
    KILL_BROKER = "a broker killed and started again"
    FREEZE_BROKER = "a broker frozen for longer than the transaction timeout, and woken"
    TWO_DRIVERS = "a second driver of the same pipeline from another folder"


# How many of each there are for a hundred kills, and one of each at least.
TROUBLES = {
    Trouble.KILL_WORKER: 20,
    Trouble.FREEZE_WORKER: 8,
    Trouble.ZOMBIE: 8,
    Trouble.KILL_BROKER: 12,
    Trouble.FREEZE_BROKER: 6,
    Trouble.TWO_DRIVERS: 8,
}


@dataclass(frozen=True)
class Kill:
    """`delay` seconds after the start, or after a finished batch where `batches` is 1."""

    victim: Victim
    batches: int
    delay: float


@dataclass(frozen=True)
class Life:
    """One driver. It ends by its failpoint or by a kill; without either, by itself."""

    tasks: int
    batch_size: int
    failpoint: str | None = None
    trouble: Trouble | None = None
    kill: Kill | None = None

    @property
    def pains(self) -> tuple[str, ...]:
        """What is to happen to it, in the words of the report."""
        found = [named(self.failpoint)] if self.failpoint else []
        found += [str(self.trouble)] if self.trouble else []
        return (*found, *([KILL] if self.kill else []))

    def told(self) -> str:
        parts = [
            f"{self.tasks} task(s)",
            *([self.failpoint] if self.failpoint else []),
            *([str(self.trouble)] if self.trouble else []),
        ]
        if self.kill:
            when = "a batch" if self.kill.batches else "the start"
            parts.append(f"kill {self.kill.victim} {self.kill.delay:.1f} s after {when}")
        return ", ".join(parts)


def named(failpoint: str) -> str:
    """A failpoint without its count."""
    name, at, whom = failpoint.partition("@")
    return name.partition(":")[0] + at + whom


def times(failpoint: str) -> int:
    return int(failpoint.partition("@")[0].partition(":")[2] or "1")


def shortfalls(lives: Sequence[Life], done: Mapping[str, int]) -> tuple[str, ...]:
    """What was planned more often than it was done."""
    planned = Counter(pain for life in lives for pain in life.pains)
    return tuple(
        f"{pain}: {done.get(pain, 0)} of {count}"
        for pain, count in sorted(planned.items())
        if done.get(pain, 0) < count
    )


# Reached for certain only before a driver's first batch and in it: producers are kept for the next.
_EARLY = {"eos.claimed", "eos.initiated", "eos.ledger"}


@dataclass(frozen=True)
class Points:
    """The failpoints that a run can come by. Those of `workers` are reached in a task."""

    drivers: tuple[str, ...]
    workers: tuple[str, ...]


def points_of(
    known: Sequence[str], in_tasks: Sequence[str], mode: Mode, transactions: bool
) -> Points:
    """Of all failpoints, those that concern the mode, and the writer of transactions or not."""
    alone = {"write.aside"}  # letters ride with the Kafka sink here
    groups = ["write."] + (["batch."] if mode is Mode.BATCH else [])
    groups += ["eos."] if transactions else []
    drivers = [each for each in known if each.startswith(tuple(groups)) and each not in alone]
    return Points(tuple(drivers), tuple(each for each in drivers if each in in_tasks))


def plan(seed: int, kills: int, each: int, points: Points, mode: Mode = Mode.STREAM) -> list[Life]:
    """`kills` lives that end by a kill, and `each` for each failpoint, in a random order.

    Failpoints that end only a worker are spread over the lives that are killed, and so is trouble;
    more lives are added where there are too few.
    """
    chance = random.Random(seed)
    if mode is Mode.BATCH:
        return _plan_batches(chance, kills, each, points)
    by_worker = [f"{point}:{_count(chance, point)}{WORKER}" for point in points.workers * each]
    trouble = _troubles(chance, kills, bool(points.workers))
    killed = [_killed(chance) for _ in range(max(kills, len(by_worker), len(trouble)))]
    for number, failpoint in enumerate(by_worker):
        killed[number] = replace(killed[number], failpoint=failpoint)
    # From the other end, so that few lives have both.
    for number, one in enumerate(trouble, start=1):
        killed[-number] = replace(killed[-number], trouble=one)
    crashed = [
        Life(*_size(chance), failpoint=f"{point}:{_count(chance, point)}")
        for point in points.drivers * each
    ]
    lives = [*killed, *crashed]
    chance.shuffle(lives)
    return lives


def _count(chance: random.Random, point: str) -> int:
    return 1 if point in _EARLY else chance.randint(1, 3)


def _plan_batches(chance: random.Random, kills: int, each: int, points: Points) -> list[Life]:
    """A batch run has one batch and ends with the first failure, so that each has one pain."""
    failpoints = [*points.drivers, *(point + WORKER for point in points.workers)]
    lives = [Life(*_size(chance), failpoint=point) for point in failpoints * each]
    lives += [Life(*_size(chance), kill=_kill(chance, 0)) for _ in range(kills)]
    troubles = _troubles(chance, kills, bool(points.workers))
    lives += [Life(*_size(chance), trouble=one) for one in troubles]
    chance.shuffle(lives)
    return lives


def _troubles(chance: random.Random, kills: int, workers: bool) -> list[Trouble]:
    """Where tasks need no Python there is no worker to kill; frozen is then the whole JVM."""
    wanted = [one for one in TROUBLES if workers or one is not Trouble.KILL_WORKER]
    found = [one for one in wanted for _ in range(max(1, TROUBLES[one] * kills // 100))]
    chance.shuffle(found)
    return found


def _killed(chance: random.Random) -> Life:
    return Life(*_size(chance), kill=_kill(chance, int(chance.random() < 0.7)))


def _kill(chance: random.Random, batches: int) -> Kill:
    return Kill(chance.choice(list(Victim)), batches, chance.uniform(0, LONGEST_SECONDS))


def _size(chance: random.Random) -> tuple[int, int]:
    return chance.randint(1, 4), chance.choice((500, 1000, 2000))
