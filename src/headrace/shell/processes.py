"""Pipelines of the catalog as processes of their own, which outlive the shell that starts them.

`launch` runs `headrace run NAME` with its output in the state folder; what it tells there, an event
a line but for batches after the first, says how it fares. A pipeline is known to run by the lock of
its state folder, whoever has started it, and from where.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from headrace.cluster.process import ended, runs, send, wait_until
from headrace.errors import AlreadyRunning, PipelineEnded, WrongState
from headrace.project import Project
from headrace.runtime.state import PipelineState

# How long a run that has started is watched for its first batch, or for what makes it fail.
SETTLE_SECONDS = 5.0
_EXIT_SECONDS = 60.0
_FOREVER = float("inf")
_ERROR = re.compile(r"(?P<code>[A-Za-z_]+) (?P<reason>\S.*)")
_HINT = re.compile(r"\s*→ (?P<hint>.*)")
# A run has shown that it can read, when it tells one of these.
_SETTLED = frozenset({"BatchDone", "Waiting", "Retrying", "Summary"})


@dataclass(frozen=True)
class Launched:
    """A process that this shell has started; its part of the log begins at `offset`."""

    pipeline: str
    process: subprocess.Popen[bytes]
    log: Path
    offset: int

    @property
    def pid(self) -> int:
        return self.process.pid

    def await_start(self) -> bool:
        """Until it runs, or has ended by itself: whether it runs. PipelineEnded if it failed."""
        self._wait(lambda: self._told({"Started"}))
        self._wait(lambda: self._told(_SETTLED), SETTLE_SECONDS)
        if self.process.poll() is None:
            return True
        self.await_end()
        return False

    def await_end(self) -> dict[str, Any]:
        """Until its end; the sums that it told. PipelineEnded if it failed."""
        code = self.process.wait()
        if code != 0:
            raise self._failure(code)
        return next((event for event in self._events() if event["event"] == "Summary"), {})

    def stop(self) -> None:
        """Ask for the end in order."""
        send(self.pid, signal.SIGTERM)

    def _wait(self, done: Callable[[], bool], seconds: float = _FOREVER) -> None:
        wait_until(lambda: self.process.poll() is not None or done(), seconds)

    def _told(self, kinds: set[str] | frozenset[str]) -> bool:
        return any(event["event"] in kinds for event in self._events())

    def _events(self) -> Iterator[dict[str, Any]]:
        for line in self._lines():
            if line.startswith("{"):
                with suppress(ValueError):  # a line that is not whole yet
                    yield json.loads(line)

    def _lines(self) -> list[str]:
        with self.log.open("rb") as file:
            file.seek(self.offset)
            return file.read().decode(errors="replace").splitlines()

    def _failure(self, code: int) -> PipelineEnded:
        """The error as the process has told it, or the signal that ended it."""
        log = f"its log: {self.log}"
        if code < 0:
            name = signal.Signals(-code).name
            hint = f"it was ended from outside, so START it again; {log}"
            return PipelineEnded(self.pipeline, name, f"its process got {name}", hint)
        said = [line for line in self._lines() if line.strip() and not line.startswith("{")]
        for line, following in pairwise([*said, ""]):
            error, told = _ERROR.fullmatch(line), _HINT.fullmatch(following)
            if error is not None:
                cure = told["hint"] if told else log
                return PipelineEnded(self.pipeline, error["code"], error["reason"], cure, code)
        reason = said[-1] if said else f"exit code {code}"
        return PipelineEnded(self.pipeline, PipelineEnded.code, reason, log, code)


def launch(project: Project, pipeline: str, *options: str, debug: bool = False) -> Launched:
    """Begin to run a pipeline of the catalog; session, signals and files are its own."""
    state = PipelineState(project.ensure(project.state(pipeline)))
    if state.running():
        raise AlreadyRunning(pipeline, state.holder() or 0)
    log = log_of(state)
    log.parent.mkdir(exist_ok=True)
    program = [sys.executable, "-m", "headrace.cli.main", *(["--debug"] if debug else [])]
    with log.open("ab") as file:
        offset = file.tell()
        process = subprocess.Popen(
            [*program, "run", pipeline, "--progress", "log", *options],
            cwd=project.root,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    return Launched(pipeline, process, log, offset)


def log_of(state: PipelineState) -> Path:
    """What the processes of a pipeline tell, one after the other."""
    return state.log.with_name("run.log")


def stop(pipeline: str, state: PipelineState) -> int | None:
    """End the process of a pipeline in order and wait for it; its id, or None if none runs."""
    pid = state.holder()
    if pid is None:
        return None
    if not runs(pid, "run"):
        # A notebook, or the number of a process on another machine: not ours to end.
        hint = "end it where it was started"
        raise WrongState(pipeline, f"runs in process {pid}, which is no `headrace run`", hint)
    send(pid, signal.SIGTERM)
    wait_until(lambda: state.holder() != pid, _FOREVER)
    wait_until(lambda: ended(pid), _EXIT_SECONDS)
    return pid
