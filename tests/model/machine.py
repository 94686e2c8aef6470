"""The moves of the world as rules for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.model.actors import Way
from tests.model.schedules import moves
from tests.model.world import Setting, World

WHICH = st.integers(min_value=0, max_value=11)


class Machine(RuleBasedStateMachine):
    """Each rule takes one of the moves of a kind. The end of a schedule is the end of all work."""

    steps_taken = 0

    @initialize(
        way=st.sampled_from(Way),
        sinks=st.integers(1, 2),
        epoch_per_transaction=st.booleans(),
        seed=st.integers(0, 99),
    )
    def begin(self, way: Way, sinks: int, epoch_per_transaction: bool, seed: int) -> None:
        setting = Setting(way, sinks=sinks, epoch_per_transaction=epoch_per_transaction, seed=seed)
        self.world = World(setting)
        self._take("starts", 0)

    @rule(which=st.lists(WHICH, min_size=1, max_size=12))
    def go_on(self, which: list[int]) -> None:
        for each in which:
            self._take("steps", each)

    @rule(which=WHICH)
    def call_without_answer(self, which: int) -> None:
        self._take("calls_without_answer", which)

    @rule(which=WHICH)
    def late_request(self, which: int) -> None:
        self._take("arrivals", which)

    @rule(which=st.lists(WHICH, min_size=1, max_size=4))
    def kafka_goes_on(self, which: list[int]) -> None:
        for each in which:
            self._take("inside_kafka", each)

    @rule(which=WHICH)
    def transaction_times_out(self, which: int) -> None:
        self._take("timeouts", which)

    @rule(which=WHICH)
    def task_is_given_up(self, which: int) -> None:
        self._take("given_up", which)

    @rule(which=WHICH)
    def worker_dies(self, which: int) -> None:
        self._take("worker_faults", which)

    @rule(which=WHICH)
    def driver_dies(self, which: int) -> None:
        self._take("driver_faults", which)

    @rule(which=WHICH)
    def driver_starts(self, which: int) -> None:
        self._take("starts", which)

    @rule(which=WHICH)
    def state_is_new(self, which: int) -> None:
        self._take("new_states", which)

    @rule(which=WHICH)
    def something_is_lost(self, which: int) -> None:
        self._take("losses", which)

    @rule(which=WHICH)
    def source_grows(self, which: int) -> None:
        self._take("news", which)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.finish()
            Machine.steps_taken += len(self.world.history)

    def _take(self, kind: str, which: int) -> None:
        found = list(moves(self.world, kind))
        if found:
            self.world.do(*found[which % len(found)])
