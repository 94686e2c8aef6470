"""Every process of an ordeal, found by a mark in its environment, and none of them left behind.

A driver that is killed leaves a JVM and Python workers that nobody is the parent of any more. All
of them have inherited the mark. `python -m chaos.processes MARK` ends them when its standard input
is closed, which the system does however its owner ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from headrace.cluster.guard import outlived_by

VARIABLE = "HEADRACE_CHAOS"
# Where `python -m chaos.…` is found.
ROOT = Path(__file__).parent.parent


def marked(mark: str) -> list[psutil.Process]:
    """Processes that carry the mark, this one excepted."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(VARIABLE) == mark:
                found.append(process)
    return found


@contextmanager
def guarded(mark: str) -> Iterator[None]:
    """When this block ends, or this process dies, no process with the mark is left."""
    with outlived_by([sys.executable, "-m", "chaos.processes", mark], cwd=ROOT):
        yield


def end_all(mark: str) -> None:
    """Again and again, as what is killed may just have started another."""
    while left := marked(mark):
        signal_each(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=5)


def signal_each(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_all(sys.argv[1])
