"""Named points at which a run can be made to crash, to prove that a crash there loses nothing.

`HEADRACE_FAILPOINT=write.aside:2` ends the process, as `kill -9` would, when that point is reached
the second time; tests arm a point in their own process with `headrace.testing.crash_at`. Unarmed,
reaching a point costs one comparison. Each point stands after the step that it is named after.

The points of `IN_TASKS` are in Spark's Python workers. They are armed from the N-th batch on, and
end the worker and the process that runs the pipeline; `eos.ledger:2@worker` ends one worker alone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from headrace.errors import DefinitionError, InternalError

VARIABLE = "HEADRACE_FAILPOINT"

# In the order of the steps of `headrace.sinks.kafka_transactions`.
IN_TASKS = (
    "eos.begin",  # a task has its first rows
    "eos.initiated",  # older owners are shut out
    "eos.ledger",  # the entry is read
    "eos.producing",  # some rows are sent
    "eos.produced",  # all rows are acknowledged
    "eos.offsets",  # the entry is moved, and nothing is committed
    "eos.committed",  # messages and entry are committed, and Spark does not know
)
POINTS = (
    "schema.judged",  # a new schema is judged, and the state does not have it yet
    "schema.kept",  # the state has a new schema, and no query runs with it yet
    "write.aside",  # dead letters are written, rows are not
    "write.sink",  # one sink is written, others and the position are not
    "write.done",  # everything is written, and the position has not moved
    "reset.noted",  # `offset` is to be followed, and nothing has begun there yet
    "reset.stored",  # the table of a batch has the positions of `offset`, the note is still there
    "batch.noted",  # a batch run is in the journal, and has written nothing
    "batch.written",  # a query of a batch run is written and marked, its position is not stored
    "batch.stored",  # a batch run has stored its position, and not closed the journal
    "batch.closed",  # the journal is closed, and the position not shown to Kafka
    "share.committed",  # a shared stream has stored its position in the group, and told nobody
    "eos.claimed",  # the ledgers of a query are taken, and no batch has begun
    "redrive.begun",  # an earlier redrive is fenced, and no letter moved
    "redrive.produced",  # letters are sent, and not noted as moved
    "redrive.noted",  # letters are sent and noted, and nothing is committed
    "redrive.committed",  # letters are moved, and nobody was told
    *IN_TASKS,
)


class Crash(InternalError):
    """Stands for the end of the process where a test cannot end its own."""

    def __init__(self, point: str) -> None:
        super().__init__(f"crashed on purpose at {point}")


@dataclass
class Armed:
    point: str
    times: int
    act: Callable[[], None]
    worker_only: bool = False


_armed: Armed | None = None


def reach(point: str) -> None:
    """Called by the runtime at each point."""
    if _armed is None or _armed.point != point:
        return
    _armed.times -= 1
    if _armed.times == 0:
        _armed.act()


def fuse() -> tuple[str | None, int | None]:
    """Asked for each batch: the point at which its tasks are to die, and the process with them."""
    if _armed is None or _armed.point not in IN_TASKS:
        return None, None
    _armed.times -= 1
    if _armed.times > 0:
        return None, None
    return _armed.point, None if _armed.worker_only else os.getpid()


def worker_died() -> None:
    """A point in a task has had its victim; the batch that is done again must not lose another."""
    if _armed is not None and _armed.point in IN_TASKS:
        arm(None)


def arm(armed: Armed | None) -> None:
    """Set, or with None remove, the one point that is armed."""
    global _armed
    _armed = armed


def arm_from_environment() -> None:
    """Called once at the start of a run."""
    text = os.environ.get(VARIABLE)
    if not text:
        return
    name, at, whom = text.partition("@")
    point, _, times = name.partition(":")
    wrong = point not in POINTS or not (times or "1").isdigit()
    if wrong or (at and (whom != "worker" or point not in IN_TASKS)):
        known = ", ".join(POINTS)
        raise DefinitionError(
            f"{VARIABLE}={text} is not one of {known}, with :N or without; those of tasks also "
            "with @worker"
        )
    dies = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
    arm(Armed(point, int(times or "1"), dies, bool(at)))
