"""Crash a run at a named point, without ending the test's own process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.runtime import failpoints
from headrace.runtime.failpoints import POINTS, Crash

__all__ = ["Crash", "crash_at"]


@contextmanager
def crash_at(point: str, times: int = 1) -> Iterator[None]:
    """Inside the block, a run raises `Crash` when it reaches `point` for the `times`-th time.

    What is on disk and in the topics is then as after `kill -9` at that moment; the points are
    those of `headrace.runtime.failpoints.POINTS`.
    """
    if point not in POINTS:
        raise ValueError(f"{point} is not one of {', '.join(POINTS)}")

    def crash() -> None:
        raise Crash(point)

    failpoints.arm(failpoints.Armed(point, times, crash))
    try:
        yield
    finally:
        failpoints.arm(None)
