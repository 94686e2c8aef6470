"""The protocol keeps its promise in every schedule that is tried; each wrong variant breaks it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.model.actors import Way
from tests.model.machine import Machine
from tests.model.schedules import LENGTH, play, run, search
from tests.model.variants import RIGHT, WRONG, Variant
from tests.model.world import Setting

SCHEDULES = 150


def test_hypothesis_finds_nothing_against_it_in_ten_thousand_steps() -> None:
    Machine.steps_taken = 0
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=200,
            stateful_step_count=60,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert Machine.steps_taken >= 10_000


@pytest.mark.parametrize("way", Way, ids=lambda way: way.name.lower())
def test_no_random_schedule_breaks_it(way: Way) -> None:
    steps = 0
    for seed, epoch_per_transaction in product(range(SCHEDULES), (False, True)):
        setting = Setting(
            way, epoch_per_transaction=epoch_per_transaction, sinks=1 + seed % 2, seed=seed
        )
        steps += len(run(setting, LENGTH).history)
    assert steps >= 10_000


@pytest.mark.parametrize("variant", WRONG, ids=lambda variant: variant.name)
def test_a_wrong_variant_is_caught(variant: Variant) -> None:
    violation, setting = search(variant)
    assert violation.harm is variant.harm
    # The same moves under the right rules and the right Kafka do no harm.
    assert (
        play(Setting(setting.way, sinks=setting.sinks, seed=setting.seed), violation.history)
        is None
    )


@pytest.mark.parametrize("variant", RIGHT, ids=lambda variant: variant.name)
def test_a_right_variant_is_not(variant: Variant) -> None:
    for seed in range(SCHEDULES):
        run(variant.setting(seed), LENGTH)
