"""Run a command and measure its whole process tree: CPU, memory, and when it first writes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

SAMPLE_SECONDS = 0.1
# A process between fork and exec shows its parent's memory as its own; it must not count twice.
GROWN_UP_SECONDS = 1.0


@dataclass(frozen=True)
class Measured:
    """`first_output` counts from the start of the process, as `wall` does."""

    cpu_seconds: float
    peak_rss_mb: float
    wall_seconds: float
    first_output_seconds: float


class CommandFailed(Exception):
    def __init__(self, command: Sequence[str], code: int, log: Path) -> None:
        super().__init__(f"{command[0]} ended with {code}:\n{log.read_text()[-4000:]}")


def measure(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    has_output: Callable[[], bool],
) -> Measured:
    """Run to the end; processes that a child starts (the JVM, Python workers) all count."""
    began = time.monotonic()
    first_output: float | None = None
    tree = _Tree()
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        try:
            root = psutil.Process(process.pid)
            while process.poll() is None:
                tree.sample(root)
                if first_output is None and has_output():
                    first_output = time.monotonic() - began
                time.sleep(SAMPLE_SECONDS)
        finally:
            process.kill()
            process.wait()
    wall = time.monotonic() - began
    if process.returncode:
        raise CommandFailed(command, process.returncode, log)
    return Measured(tree.cpu_seconds, tree.peak_rss / 1e6, wall, first_output or wall)


class _Tree:
    """What has been seen of each process; one that has ended keeps its last figure."""

    def __init__(self) -> None:
        self._cpu: dict[tuple[int, float], float] = {}
        self.peak_rss = 0

    @property
    def cpu_seconds(self) -> float:
        return sum(self._cpu.values())

    def sample(self, root: psutil.Process) -> None:
        rss = 0
        with suppress(psutil.NoSuchProcess):
            for process in [root, *root.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess), process.oneshot():
                    times = process.cpu_times()
                    self._cpu[process.pid, process.create_time()] = times.user + times.system
                    if time.time() - process.create_time() > GROWN_UP_SECONDS:
                        rss += process.memory_info().rss
        self.peak_rss = max(self.peak_rss, rss)
