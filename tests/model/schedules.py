"""Random schedules: made from a seed, played again by name, and made shorter."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

from tests.model.invariants import Harm, Violation
from tests.model.variants import Variant
from tests.model.world import Moves, Setting, World

# How often each kind of move is taken, where there is one.
NORMAL = {"steps": 100.0, "inside_kafka": 30.0, "arrivals": 8.0, "news": 4.0, "starts": 3.0}
FAULTS = {
    "calls_without_answer": 8.0,
    "given_up": 6.0,
    "worker_faults": 2.0,
    "driver_faults": 2.0,
    "timeouts": 2.0,
    "new_states": 1.0,
    "losses": 1.0,
}
SEEDS = 1500
LENGTH = 300
KINDS = [*NORMAL, *FAULTS]


def moves(world: World, kind: str) -> Moves:
    found: Moves = getattr(world, kind)()
    return found


def search(variant: Variant) -> tuple[Violation, Setting]:
    """The first schedule, by seed, in which a wrong variant does the harm that it is known for."""
    for seed in range(variant.seed, variant.seed + SEEDS):
        setting = variant.setting(seed)
        try:
            run(setting, LENGTH)
        except Violation as violation:
            if violation.harm is variant.harm:
                return violation, setting
    raise LookupError(f"{variant.name} does no harm in {SEEDS} schedules")


def run(setting: Setting, length: int) -> World:
    """One schedule, then to its end. Raises `Violation`; the world's history tells how."""
    dice = random.Random(setting.seed)
    world = World(setting)
    # Each schedule has its own faults: what needs one of them often is drowned by the others.
    faults = [weight * dice.choice((0, 0.3, 1, 3)) for weight in FAULTS.values()]
    weights = [*NORMAL.values(), *faults]
    try:
        for _ in range(length):
            (kind,) = dice.choices(KINDS, weights)
            choices = list(moves(world, kind))
            if choices:
                speeds = [_speed(setting.seed, name) for name, _ in choices]
                world.do(*dice.choices(choices, speeds)[0])
        world.finish()
    except Violation as violation:
        violation.add_note("\n".join(world.history))
        violation.history = world.history
        raise
    return world


@functools.cache
def _speed(seed: int, name: str) -> float:
    """Each actor has its own, and some are so slow that others do whole batches meanwhile."""
    actor = name.split(":")[0]
    return random.Random(f"{seed}/{actor}").choice((1, 1, 0.3, 0.01))


def play(setting: Setting, schedule: Sequence[str]) -> Violation | None:
    """The moves of a schedule that are possible when their turn comes, then to the end."""
    world = World(setting)
    try:
        for name in schedule:
            found = {n: move for kind in KINDS for n, move in moves(world, kind)}
            if name in found:
                world.do(name, found[name])
        world.finish()
    except Violation as violation:
        violation.add_note("\n".join(world.history))
        return violation
    return None


def shorten(setting: Setting, schedule: Sequence[str], harm: Harm) -> list[str]:
    """A schedule of which no part can be left out without losing the violation."""
    kept, size = list(schedule), max(1, len(schedule) // 2)
    while True:
        at, before = 0, len(kept)
        while at < len(kept):
            shorter = kept[:at] + kept[at + size :]
            found = play(setting, shorter)
            if found is not None and found.harm is harm:
                kept = shorter
            else:
                at += size
        if size == 1 and len(kept) == before:
            return kept
        size = max(1, size // 2)
