"""The whole: Kafka, drivers, tasks, requests on their way; every move that can come next.

A move has a name that stays the same when other moves are left out, so that a schedule is a list
of names, can be played again, and can be made shorter (`schedules.py`).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from tests.model.actors import Actor, Conflict, Driver, Killed, State, Wait, Way
from tests.model.invariants import Harm, Invariants, Violation
from tests.model.kafka import Fenced, Invalid, Kafka, NotNow
from tests.model.rules import (
    LOGS_PER_SINK,
    Call,
    Displaced,
    LedgerGone,
    OtherState,
    Rules,
    TimedOut,
    Work,
)

Do = Callable[[], object]
Moves = Iterator[tuple[str, Do]]

MOST_ACTORS = 9
MOST_PARTITIONS = 3
MOST_STATES = 3
MOST_RECORDS = 24


@dataclass(frozen=True)
class Setting:
    """Which world: the way, the rules, the Kafka, and how many sinks."""

    way: Way = Way.LINEAGE
    rules: type[Rules] = Rules
    kafka: type[Kafka] = Kafka
    epoch_per_transaction: bool = False
    sinks: int = 1
    seed: int = 0


class World:
    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        sinks = range(setting.sinks)
        logs = [f"out{sink}-{n}" for sink in sinks for n in range(LOGS_PER_SINK)]
        self.kafka = setting.kafka(
            setting.epoch_per_transaction, logs, [f"ledger{sink}" for sink in sinks]
        )
        self.available = {0: 3, 1: 2}
        self.states: list[State] = []
        self.drivers: list[Driver] = []
        self.tasks: list[Actor] = []
        self.in_flight: list[tuple[str, Call]] = []
        self.history: list[str] = []
        self.counts: dict[str, int] = {}
        self.expired = False
        self.forgotten = False
        self.waited = False  # whether the latest step was a call that must be made again
        self.invariants = Invariants(
            setting.way, self.kafka, self.available, self.states, sinks, setting.rules.moves_tails
        )
        self._new_state(begin=None)

    # Moves, by kind. A schedule weighs the kinds.

    def steps(self) -> Moves:
        """An actor's next call, answered."""
        for actor in self._ready():
            yield f"{actor.name}: {_name(actor)}", partial(self._step, actor)

    def calls_without_answer(self) -> Moves:
        """An actor's next call: done and not answered, done late or never, done and again later."""
        for actor in self._ready():
            call = actor.call
            if call is None or call.local:
                continue
            yield f"{actor.name}: {call.name}, no answer", partial(self._lose_answer, actor)
            if call.changes:
                yield f"{actor.name}: {call.name}, delayed", partial(self._delay, actor)
                yield f"{actor.name}: {call.name}, twice", partial(self._repeat, actor)

    def arrivals(self) -> Moves:
        for index, (name, _) in enumerate(self.in_flight):
            yield f"{name} arrives", partial(self._arrive, index)

    def inside_kafka(self) -> Moves:
        yield from self.kafka.moves()

    def timeouts(self) -> Moves:
        yield from self.kafka.timeouts()

    def given_up(self) -> Moves:
        """A driver takes a task for lost and starts another attempt; the first goes on."""
        for task in self.tasks:
            if not task.over and task.driver in self._alive():
                yield f"give up {task.name}", partial(setattr, task, "given_up", True)

    def worker_faults(self) -> Moves:
        for task in self.tasks:
            if not task.ended:
                yield f"kill {task.name}", partial(self._kill_task, task)

    def driver_faults(self) -> Moves:
        for driver in self._alive():
            yield f"kill {driver.name}", partial(self._kill_driver, driver)

    def starts(self) -> Moves:
        """A driver on a state that there is, whether or not another one runs."""
        if len(self._actors()) < MOST_ACTORS and len(self._alive()) < 2:
            for state in self.states:
                yield f"start on state {state.number}", partial(self.start, state)

    def new_states(self) -> Moves:
        """The state is lost, or the positions are reset."""
        if len(self.states) < MOST_STATES:
            if not self.expired:
                yield "state lost", partial(self._new_state, None)
            yield "reset", self._reset

    def losses(self) -> Moves:
        """What is on disk or in the ledger goes away while nobody uses it."""
        # Not from both: what is done would then be known to nobody.
        if self._alive() or self.expired:
            return
        for state in self.states:
            # By batch, a batch must keep its boundaries; Spark promises that.
            if state.cut_off and self.setting.way is not Way.BATCH:
                yield f"offsets of state {state.number} lost", partial(self._forget, state)
        if len(self.states) == 1 and not self.forgotten:
            yield "ledger expires", self._expire

    def news(self) -> Moves:
        if sum(self.available.values()) < MOST_RECORDS:
            for partition in self.available:
                yield f"record in {partition}", partial(self._append, partition)
            if len(self.available) < MOST_PARTITIONS:
                new = len(self.available)
                yield f"partition {new} is made", partial(self.available.update, {new: 1})

    def do(self, name: str, move: Do) -> None:
        self.history.append(name)
        self.waited = False
        move()
        self._settle_ends()
        self.invariants.check()

    # What they do.

    def start(self, state: State) -> Driver:
        name = f"D{self._number('D')}"
        driver = Driver(
            name,
            self.setting.way,
            self.setting.rules(self.kafka),
            state,
            self.setting.sinks,
            self.available,
            self._spawn,
            self.setting.seed,
        )
        self.drivers.append(driver)
        driver.start()
        return driver

    def _spawn(self, driver: Driver, work: Work) -> Actor:
        name = f"{driver.name}.b{work.batch}.s{work.sink}.k{work.key}"
        name = f"{name}.a{self._number(name)}"
        task = Actor(
            name, driver.rules.write(replace(work, task=self._number("task"))), driver=driver
        )
        self.tasks.append(task)
        task.start()
        return task

    def _step(self, actor: Actor) -> bool:
        """Whether it got anywhere: a call that must be made again changes nothing."""
        call = actor.call
        assert call is not None
        try:
            value = call.do()
        except NotNow:
            self.waited = True
            return False
        except (Fenced, Invalid, Conflict) as failure:
            actor.fail(failure)
        else:
            actor.answer(value)
        return True

    def _lose_answer(self, actor: Actor) -> None:
        call = actor.call
        assert call is not None
        with contextlib.suppress(NotNow, Fenced, Invalid):
            call.do()
        actor.fail(TimedOut())

    def _delay(self, actor: Actor) -> None:
        assert actor.call is not None
        self._send_later(actor, actor.call)
        actor.fail(TimedOut())

    def _repeat(self, actor: Actor) -> None:
        call = actor.call
        assert call is not None
        if self._step(actor):
            self._send_later(actor, call)

    def _send_later(self, actor: Actor, call: Call) -> None:
        name = f"{actor.name}'s {call.name}"
        self.in_flight.append((f"{name} #{self._number(name)}", call))

    def _arrive(self, index: int) -> None:
        _, call = self.in_flight.pop(index)
        with contextlib.suppress(NotNow, Fenced, Invalid):  # nobody hears the answer
            call.do()

    def _kill_task(self, task: Actor) -> None:
        if task.call is not None and task.call.changes and not task.call.local:
            self._send_later(task, task.call)
        task.steps.close()
        task.ended, task.call, task.failure = True, None, Killed()

    def _kill_driver(self, driver: Driver) -> None:
        if driver.call is not None and driver.call.changes and not driver.call.local:
            self._send_later(driver, driver.call)
        driver.steps.close()
        driver.ended, driver.call, driver.failure = True, None, Killed()

    def _new_state(self, begin: dict[int, int] | None) -> State:
        state = State(self._number("state"), begin)
        self.states.append(state)
        return state

    def _reset(self) -> None:
        self._new_state({p: count // 2 for p, count in self.available.items()})

    def _forget(self, state: State) -> None:
        self.forgotten = True
        state.offsets.pop()

    def _expire(self) -> None:
        self.expired = True
        for group in self.kafka.groups.values():
            group.entries.clear()

    def _append(self, partition: int) -> None:
        self.available[partition] += 1

    def _settle_ends(self) -> None:
        """What became of those that have ended."""
        self.tasks = [task for task in self.tasks if not task.ended or self._is_awaited(task)]
        for driver in self.drivers:
            failure = driver.failure
            if failure is None or isinstance(failure, (Killed, Conflict)):
                continue
            if isinstance(failure, Displaced):
                self.invariants.stopped(driver.name, failure.by)
            elif isinstance(failure, LedgerGone) and not self.expired:
                raise Violation(Harm.REFUSED, driver.name)
            elif not isinstance(failure, (LedgerGone, OtherState)):
                raise failure

    def _is_awaited(self, task: Actor) -> bool:
        return any(isinstance(d.call, Wait) and task in d.call.tasks for d in self._alive())

    # Who there is.

    def _alive(self) -> list[Driver]:
        return [driver for driver in self.drivers if not driver.ended]

    def _actors(self) -> list[Actor]:
        return [*self._alive(), *(task for task in self.tasks if not task.ended)]

    def _ready(self) -> list[Actor]:
        return [actor for actor in self._actors() if self._can_go_on(actor)]

    @staticmethod
    def _can_go_on(actor: Actor) -> bool:
        call = actor.call
        if isinstance(call, Wait):
            return all(task.over for task in call.tasks)
        if isinstance(actor, Driver) and call is not None and call.name.startswith("write offsets"):
            return actor.has_work()
        return call is not None

    def _number(self, name: str) -> int:
        self.counts[name] = self.counts.get(name, 0) + 1
        return self.counts[name]

    # The end.

    def finish(self) -> None:
        """No more faults: whatever runs goes on, a driver is there, and all gets done."""
        while self.in_flight:
            self.do(f"{self.in_flight[0][0]} arrives", partial(self._arrive, 0))
        for _ in range(8):
            self._run_dry()
            if any(self._has_finished(driver) for driver in self._alive()):
                self.invariants.check_complete()
                return
            self._start_again()
        raise Violation(Harm.ENDLESS, "runs end before their work")

    def _has_finished(self, driver: Driver) -> bool:
        """One that a dead run has displaced on some entry may not have noticed yet."""
        newest = driver.state is self._state_of_ledger()
        return newest and not driver.has_work() and driver.term in (0, self.kafka.highest_term())

    def _start_again(self) -> None:
        for driver in self._alive():
            if driver.has_work():
                raise Violation(Harm.ENDLESS, f"{driver.name} is stuck at {_name(driver)}")
            self.do(f"kill {driver.name}", partial(self._kill_driver, driver))
        last = self.drivers[-1].failure if self.drivers else None
        if isinstance(last, (LedgerGone, OtherState)):  # a person decides
            self.do("reset", self._reset)
            state = self.states[-1]
        else:
            state = self._state_of_ledger()
        self.do(f"start on state {state.number}", partial(self.start, state))

    def _state_of_ledger(self) -> State:
        entries = [e for g in self.kafka.groups.values() for e, _ in g.entries.values()]
        newest = max(entries, key=lambda entry: entry.term, default=None)
        known = {state.number: state for state in self.states}
        return known[newest.life[0]] if newest else self.states[-1]

    def _run_dry(self) -> None:
        """In no fixed order: two drivers in lockstep could shut each other out for ever."""
        dice = random.Random(self.setting.seed)
        idle = 0
        for _ in range(20_000):
            moves = [*self.steps(), *self.inside_kafka()]
            if moves and idle < 10 * len(moves):
                self.do(*dice.choice(moves))
                idle = idle + 1 if self.waited else 0
            elif ends := list(self.timeouts()):
                self.do(*ends[0])
                idle = 0
            else:
                return
        raise Violation(Harm.ENDLESS, "calls go on")


def _name(actor: Actor) -> str:
    return actor.call.name if actor.call else ""
