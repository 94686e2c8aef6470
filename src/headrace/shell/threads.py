"""Work that others may keep waiting, in threads that nobody waits for longer than they want to.

A thread that hangs in a call of the system cannot be stopped; it is left behind, and does not keep
the process from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def within(call: Callable[[], T], seconds: float) -> T:
    """What `call` returns or raises; TimeoutError when that takes longer."""
    answers: SimpleQueue[tuple[T | None, Exception | None]] = SimpleQueue()
    _start(lambda: answers.put(_answer(call)))
    try:
        answer, failure = answers.get(timeout=max(seconds, 0.001))
    except Empty:
        raise TimeoutError from None
    if failure is not None:
        raise failure
    return answer  # type: ignore[return-value]  # None only where T is


def side_by_side(call: Callable[[S], T], things: Iterable[S], most: int) -> list[T]:
    """`call` of each thing, `most` of them at a time, in the order of the things.

    Raises what the first of them raises.
    """
    waiting: SimpleQueue[tuple[int, S]] = SimpleQueue()
    count = 0
    for count, thing in enumerate(things, 1):
        waiting.put((count, thing))
    answers: SimpleQueue[tuple[int, T | None, Exception | None]] = SimpleQueue()

    def work() -> None:
        while True:
            try:
                number, thing = waiting.get_nowait()
            except Empty:
                return
            answers.put((number, *_answer(partial(call, thing))))

    for _ in range(min(most, count)):
        _start(work)
    found = sorted((answers.get() for _ in range(count)), key=lambda answer: answer[0])
    for _, _, failure in found:
        if failure is not None:
            raise failure
    return [answer for _, answer, _ in found]  # type: ignore[misc]  # None only where T is


def _answer(call: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return call(), None
    except Exception as failure:
        return None, failure


def _start(work: Callable[[], object]) -> None:
    threading.Thread(target=work, name="headrace-asking", daemon=True).start()
