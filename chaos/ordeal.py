"""Perform a schedule on a world: start drivers, hurt them, and see that the next one goes on.

Between two pains something must move, or nothing is proved: a life that is to be killed in a batch
has finished one before, and after each trouble a batch is awaited. Only the moment of a kill is
left to chance. Records are fed as they are needed, so that there is always something to do.
"""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

from chaos.driver import WAIT_SECONDS, Driver, Stuck
from chaos.pipeline import NAME, Sink, text
from chaos.processes import signal_each
from chaos.schedule import KILL, WORKER, Life, Trouble, Victim, named, times
from chaos.world import OUT, TRANSACTION_SECONDS, World
from headrace.admin import topics
from headrace.cluster.process import wait_until
from headrace.model.pipeline import Mode

LAST_BATCH_SIZE = 20_000
# For how long a moment with an open transaction is looked for; Spark's own sink has none.
OPEN_SECONDS = 20.0
# Batches that a driver may finish beyond the one in which its failpoint should have ended it.
PATIENCE_BATCHES = 3
DRAINS = 5
# How long two drivers have for a slice of records before they get the next.
MEET_SECONDS = 10.0
Say = Callable[[str], None]


@dataclass
class Tally:
    """What has happened so far. `stuck` drivers did not go on; others `gave_up` with an error."""

    done: Counter[str] = field(default_factory=Counter)
    lives: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    gave_up: list[str] = field(default_factory=list)


class NothingToHurt(Exception):
    """A driver has ended before its trouble began."""


class NotDrained(Exception):
    def __init__(self, words: str) -> None:
        super().__init__(f"{DRAINS} runs without any pain did not come to an end: {words}")


class Ordeal:
    def __init__(
        self, world: World, mode: Mode, sink: Sink, records: int, seed: int, say: Say = print
    ) -> None:
        self._world = world
        self._mode = mode
        self._sink = sink
        self._records = records
        self._slice = 0
        self._say = say
        self._chance = random.Random(seed)
        self._numbers = itertools.count(1)
        self._started: list[Driver] = []
        self.table = world.folder / "table"
        self.tally = Tally()

    # The whole of it

    def perform(self, lives: list[Life], until: float) -> None:
        """All lives, or as many as begin before the time `until`; then feed and finish the rest."""
        pains = sum(1 + (life.trouble is not None) for life in lives)
        # A driver asks for more about three times for each of its pains.
        self._slice = max(1000, self._records // (3 * pains + 1))
        # What did not happen is tried once more: a kill can come too late for a driver.
        waiting, again = deque(lives), set[int]()
        while waiting and time.monotonic() < until:
            life = waiting.popleft()
            before, began = self.tally.done.copy(), time.monotonic()
            told = f"{life.told()}: {self._live(life)}"
            self.tally.lives.append(told)
            self._say(f"{len(waiting)} left; {told} ({time.monotonic() - began:.0f} s)")
            if (before + Counter(life.pains)) - self.tally.done and id(life) not in again:
                again.add(id(life))
                waiting.append(life)
        if waiting:
            self._say(f"time is up: {len(waiting)} lives are left out")
        self._world.feeder.feed(max(0, self._records - self._world.feeder.fed))
        self._drain()

    def _live(self, life: Life) -> str:
        """One driver from its start to its end; in words what became of it."""
        self._world.feeder.feed(self._slice)
        driver = self._start(life)
        try:
            return self._suffer(life, driver)
        except Stuck as error:
            self.tally.stuck.append(f"{life.told()}: {error}")
            return "stuck"
        except NothingToHurt:
            return "no task was running"
        finally:
            for each in self._started:
                if each.alive:
                    each.end()
            self._started.clear()

    def _suffer(self, life: Life, driver: Driver) -> str:
        if not driver.await_("its start", lambda: bool(driver.events("Started"))):
            return self._crashed(life, driver)
        if life.failpoint and WORKER not in life.failpoint:
            self._until_crashed(life, driver)
            return self._crashed(life, driver)
        if life.failpoint:
            self._until_worker_crashed(life, driver)
        if life.trouble is not None:
            driver = self._trouble(life.trouble, driver)
            self._progress(driver)
            self.tally.done[str(life.trouble)] += 1
        return self._kill(life, driver) if life.kill else self._finish(life, driver)

    def _drain(self) -> None:
        """Without pain: everything that is in the source is read, and the drivers end in order."""
        words = ""
        for _ in range(DRAINS):
            driver = self._start(Life(2, LAST_BATCH_SIZE), once=True)
            code = driver.process.wait()
            words = driver.last_words()
            # A batch may have been begun before the last records came; then one more has the rest.
            if code == 0 and (self._streams or not driver.records):
                return
        raise NotDrained(words)

    # A driver

    def _start(self, life: Life, folder: str = "a", once: bool = False) -> Driver:
        place = self._world.folder / folder
        (place / ".headrace").mkdir(parents=True, exist_ok=True)
        file = place / "chaos.yaml"
        servers = self._world.cluster.bootstrap
        file.write_text(text(servers, self._mode, self._sink, self.table, life.batch_size))
        logs = self._world.folder / "logs"
        logs.mkdir(exist_ok=True)
        log = logs / f"{next(self._numbers):03d}-{folder}.log"
        once = once and self._streams
        driver = Driver(file, log, self._world.mark, life.tasks, life.failpoint, once)
        self._started.append(driver)
        return driver

    @property
    def _streams(self) -> bool:
        return self._mode is Mode.STREAM

    def _progress(self, driver: Driver) -> bool:
        """Whether it finished one more batch; a batch pipeline has only one, and ends."""
        before = driver.batches
        if not self._streams:
            return driver.await_("its batch", lambda: driver.batches > 0)
        self._keep_busy(driver)
        return driver.await_("the next batch", lambda: driver.batches > before)

    def _keep_busy(self, driver: Driver) -> None:
        """Feed when what waited at the end of the last batch is not enough for some more."""
        done = driver.events("BatchDone")
        if self._streams and done and (done[-1]["lag"] or 0) < self._slice:
            self._world.feeder.feed(self._slice)

    def _until_crashed(self, life: Life, driver: Driver) -> None:
        """Until its failpoint has ended it, or too many batches have passed."""
        assert life.failpoint is not None
        if not self._streams:
            driver.await_("its end", lambda: not driver.alive)
            return
        enough = times(life.failpoint) + PATIENCE_BATCHES
        while driver.alive and driver.batches < enough and self._progress(driver):
            pass

    def _until_worker_crashed(self, life: Life, driver: Driver) -> None:
        """The death of a worker is a failed batch, after which a stream tries again."""
        assert life.failpoint is not None
        if not self._streams:
            driver.await_("its end", lambda: not driver.alive)
            self.tally.done[named(life.failpoint)] += driver.process.returncode != 0
            return
        enough = times(life.failpoint) + PATIENCE_BATCHES
        while driver.alive and not driver.events("Retrying") and driver.batches < enough:
            before = driver.batches
            self._keep_busy(driver)
            driver.await_(
                "a batch or its failure",
                lambda: bool(driver.events("Retrying")) or driver.batches > before,  # noqa: B023
            )
        if driver.events("Retrying"):
            self.tally.done[named(life.failpoint)] += 1
            self._progress(driver)

    def _crashed(self, life: Life, driver: Driver) -> str:
        """What is said of a driver that ended, or should have."""
        if driver.alive:
            return "not reached"
        if driver.process.returncode == -signal.SIGKILL and life.failpoint:
            self.tally.done[named(life.failpoint)] += 1
            return "died there"
        return self._ended(life, driver)

    def _finish(self, life: Life, driver: Driver) -> str:
        driver.await_("its end", lambda: not driver.alive)
        return self._ended(life, driver)

    def _ended(self, life: Life, driver: Driver) -> str:
        if driver.process.returncode == 0:
            return "was done"
        words = f"ended with {driver.process.returncode}: {driver.last_words()}"
        self.tally.gave_up.append(f"{life.told()}: {words}")
        return words

    def _kill(self, life: Life, driver: Driver) -> str:
        assert life.kill is not None
        if driver.alive and life.kill.batches:
            self._progress(driver)
        # The moment is the experiment; there is no condition to wait for.
        time.sleep(life.kill.delay)
        if not driver.alive:
            return self._ended(life, driver)
        driver.kill(life.kill.victim)
        self.tally.done[KILL] += 1
        if life.kill.victim is Victim.JAVA:
            # Without its JVM a driver can do nothing but say so; left alone it keeps the lock.
            wait_until(lambda: not driver.alive, 30)
            driver.end()
        return "killed"

    # Trouble

    def _trouble(self, trouble: Trouble, driver: Driver) -> Driver:
        """Do it, and undo it; the driver that must go on then."""
        if self._streams:
            self._progress(driver)
        if trouble is Trouble.KILL_WORKER:
            self._await_open_transaction(driver)
            signal_each(_tasks(driver)[:1], signal.SIGKILL)
        elif trouble is Trouble.FREEZE_WORKER:
            with self._frozen(driver):
                self._outlast()
        elif trouble is Trouble.FREEZE_BROKER:
            with self._world.frozen_broker(self._leader()):
                self._outlast()
        elif trouble is Trouble.KILL_BROKER:
            with self._world.dead_broker(self._leader()):
                time.sleep(self._chance.uniform(0, 5))  # how long it is gone is left to chance
        elif trouble is Trouble.ZOMBIE:
            return self._zombie(driver)
        else:
            return self._second(driver)
        return driver

    def _zombie(self, driver: Driver) -> Driver:
        """Its tasks wake up when another driver has gone on with their work."""
        with self._frozen(driver) as frozen:
            others = [each for each in driver.java() if each not in frozen]
            driver.process.kill()
            signal_each(others, signal.SIGKILL)
            driver.process.wait()
            heir = self._start(Life(2, 1000))
            heir.await_("its start", lambda: bool(heir.events("Started")))
            self._progress(heir)
        return heir

    def _second(self, driver: Driver) -> Driver:
        """The same state from another folder, as on a disk that is shared and knows no locks."""
        state = self._world.folder / "a" / ".headrace" / "state" / NAME
        twin = self._world.folder / "b" / ".headrace" / "state"
        twin.mkdir(parents=True, exist_ok=True)
        if not (twin / NAME).is_symlink():
            (twin / NAME).symlink_to(state)
        (state / "lock").unlink()
        second = self._start(Life(2, 1000), folder="b")
        second.await_("its start", lambda: bool(second.events("Started")))
        deadline = time.monotonic() + WAIT_SECONDS
        while driver.alive and second.alive and time.monotonic() < deadline:
            self._world.feeder.feed(self._slice)  # only at work do they meet
            wait_until(lambda: not (driver.alive and second.alive), MEET_SECONDS)
        for each, name in ((driver, "first"), (second, "second")):
            if not each.alive:
                self.tally.gave_up.append(f"two drivers, the {name}: {each.last_words()}")
        if driver.alive:
            second.end()
        if driver.alive or second.alive:
            return driver if driver.alive else second
        # Each was in the other's way: the first by the ledger, the second by Spark's own log.
        third = self._start(Life(2, 1000))
        third.await_("its start", lambda: bool(third.events("Started")))
        return third

    @contextmanager
    def _frozen(self, driver: Driver) -> Iterator[list[psutil.Process]]:
        self._await_open_transaction(driver)
        stopped = _tasks(driver)
        signal_each(stopped, signal.SIGSTOP)
        try:
            yield stopped
        finally:
            signal_each(stopped, signal.SIGCONT)

    def _await_open_transaction(self, driver: Driver) -> None:
        """The moment that hurts most. Spark's own sink has none, and is hurt at any moment."""
        if self._sink is Sink.HEADRACE:
            self._keep_busy(driver)
            wait_until(self._world.open_transaction, OPEN_SECONDS, pause=0)

    def _outlast(self) -> None:
        """Longer than any transaction may be open; this time is what is tested."""
        time.sleep(TRANSACTION_SECONDS + 5)

    def _leader(self) -> int:
        """A broker that leads a partition of the output."""
        partitions = topics.describe(self._world.cluster, OUT).partitions
        found = [each.leader for each in partitions if each.leader is not None]
        return self._chance.choice(found)


def _tasks(driver: Driver) -> list[psutil.Process]:
    """Where tasks run: in Python workers, and without any in the JVM."""
    found = driver.workers() or driver.java()
    if not found:
        raise NothingToHurt
    return found
