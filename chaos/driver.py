"""A `headrace run` as a process, what it has told so far, and the ways in which it can be hurt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from chaos.processes import VARIABLE, signal_each
from chaos.schedule import Victim
from headrace.cluster.process import wait_until
from headrace.runtime import failpoints

WAIT_SECONDS = 240.0
_WORKER = "pyspark.daemon"


class Stuck(Exception):
    """A driver that lives, and does not do what is awaited."""

    def __init__(self, what: str, log: Path) -> None:
        words = log.read_text(errors="replace")[-3000:]
        super().__init__(f"{what} did not happen in {WAIT_SECONDS:.0f} s; {log} ends:\n{words}")


class Driver:
    def __init__(
        self, pipeline: Path, log: Path, mark: str, tasks: int, failpoint: str | None, once: bool
    ) -> None:
        command = [sys.executable, "-m", "headrace.cli.main", "run", str(pipeline)]
        command += ["--progress", "json", "--master", f"local[{tasks}]"]
        environment = {**os.environ, VARIABLE: mark}
        if failpoint:
            environment[failpoints.VARIABLE] = failpoint
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command + (["--once"] if once else []),
                cwd=pipeline.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._events: list[dict[str, Any]] = []
        self._told = 0

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What it has told of one kind so far."""
        with self.log.open("rb") as file:
            file.seek(self._told)
            for text in file:
                if not text.endswith(b"\n"):
                    break
                self._told += len(text)
                if text.startswith(b"{"):
                    self._events.append(json.loads(text))
        return [event for event in self._events if event["event"] == kind]

    @property
    def batches(self) -> int:
        return len(self.events("BatchDone"))

    @property
    def records(self) -> int:
        return sum(event["records"] for event in self.events("BatchDone"))

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def await_(self, what: str, condition: Callable[[], bool]) -> bool:
        """Whether it came to be before the driver's end; one that lives on without it is stuck."""
        if not wait_until(lambda: condition() or not self.alive, WAIT_SECONDS):
            raise Stuck(what, self.log)
        return condition()

    def last_words(self) -> str:
        """The end of what it said besides its events."""
        lines = self.log.read_text(errors="replace").splitlines()
        said = [text.strip() for text in lines if text.strip() and not text.startswith("{")]
        return " ".join(said)[-500:]

    # What can be done to it

    def workers(self) -> list[psutil.Process]:
        """The Python processes in which tasks run; none where no task needs Python."""
        return [each for each in self._tree() if _is_worker(each)]

    def java(self) -> list[psutil.Process]:
        return [each for each in self._tree() if _name(each) == "java"]

    def kill(self, victim: Victim) -> None:
        """With -9. Who is not the victim goes on until it notices, and is not waited for."""
        if victim is Victim.DRIVER:
            self.process.kill()
        elif victim is Victim.JAVA:
            signal_each(self.java(), signal.SIGKILL)
        else:
            tree = self._tree()
            self.process.kill()
            signal_each(tree, signal.SIGKILL)

    def end(self) -> None:
        """Kill what is left, and wait for it."""
        self.kill(Victim.ALL)
        self.process.wait()

    def _tree(self) -> list[psutil.Process]:
        try:
            return list(psutil.Process(self.process.pid).children(recursive=True))
        except psutil.NoSuchProcess:
            return []


def _name(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return str(process.name())
    return ""


def _is_worker(process: psutil.Process) -> bool:
    """Workers are forks of a process that looks as they do."""
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        parent = process.parent()
        return _WORKER in process.cmdline() and parent is not None and _WORKER in parent.cmdline()
    return False
