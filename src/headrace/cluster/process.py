"""Processes that outlive the command that started them: do they live, and are they gone.

A pid from a file proves nothing: the process may have ended and its number may be another program's
by now. So a process is known by its pid and one argument of its command line, a path of ours.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

_PROC = Path("/proc")


def runs(pid: int, argument: str) -> bool:
    """Whether process `pid` lives and was started with `argument`; a zombie does not live."""
    if _PROC.is_dir():
        return argument in _linux_arguments(pid)
    return argument in _ps(pid, "command=")


def _linux_arguments(pid: int) -> list[str]:
    try:
        return (_PROC / str(pid) / "cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


def _ps(pid: int, column: str) -> str:
    command = ["ps", "-ww", "-o", column, "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def ended(pid: int) -> bool:
    """Whether nothing is left of a process: its ports and files are free again.

    Later than the moment when `runs` turns false, because a dying process loses its command line
    first. A zombie has ended.
    """
    if _PROC.is_dir():
        return _linux_state(pid) in ("", "Z", "X")
    return _ps(pid, "stat=").strip()[:1] in ("", "Z")


def _linux_state(pid: int) -> str:
    try:
        # The name of the program stands in parentheses before the state, and may hold anything.
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(") ")[2][:1]
    except OSError:
        return ""


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process that may just have ended by itself."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def wait_until(done: Callable[[], bool], seconds: float, pause: float = 0.05) -> bool:
    """Ask `done` until it says yes or the time is over; what it said last."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True
