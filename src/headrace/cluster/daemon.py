"""A server of the development cluster as a process: started, known again, stopped and killed.

It outlives the command that started it. In its folder are `logs/` and, while it runs or after it
died without being asked to, `pid`. A Kafka node and the schema registry are daemons; what each
runs with is in its own module.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from headrace.cluster.process import ended, runs, send, wait_until

STOP_SECONDS = 20.0
_ERROR = re.compile(r"\S+ \S+ (ERROR|FATAL) +(?P<message>.*)")
_EXCEPTION = re.compile(r"(Caused by: )?[\w.$]+(Exception|Error)\b")
_MESSAGE = re.compile(r"(Exception|Error): \S")
_REFUSED = re.compile(r"\.ConfigException: (?P<sentence>.+)")
_FRAME = re.compile(r"\s+at |\s*\.\.\. \d+ more")


class State(StrEnum):
    RUNNING = "running"
    STARTING = "starting"
    STOPPED = "stopped"
    CRASHED = "crashed"


class Daemon:
    """`mark` is the argument of its command line that no other process has."""

    def __init__(self, folder: Path, name: str, mark: str) -> None:
        self.folder = folder
        self.name = name
        self._mark = mark
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def log(self) -> Path:
        return self.folder / "logs" / "server.log"

    @property
    def console(self) -> Path:
        """What the JVM itself says; the server's own words are in `log`."""
        return self.folder / "logs" / "console.log"

    @property
    def _pid_file(self) -> Path:
        return self.folder / "pid"

    @property
    def pid(self) -> int | None:
        """The process, if it lives and is this one; a stale pid file is not believed."""
        recorded = self._recorded_pid()
        if self._child is not None:
            self._child.poll()
        if recorded is not None and runs(recorded, self._mark):
            return recorded
        return None

    @property
    def crashed(self) -> bool:
        """Whether its process ended without being told to stop."""
        return self._recorded_pid() is not None and self.pid is None

    def state(self, answers: bool) -> State:
        """What it is doing, where `answers` says whether a running one has just been heard."""
        if self.pid is None:
            return State.CRASHED if self.crashed else State.STOPPED
        return State.RUNNING if answers else State.STARTING

    def _recorded_pid(self) -> int | None:
        try:
            return int(self._pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None

    def launch(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        """Start the process and return; it answers later. It outlives the caller."""
        child = self.spawn(command, environment)
        self._child = child
        self._pid_file.write_text(f"{child.pid}\n")
        # For an instant a new process has no command line to be known by.
        wait_until(lambda: self.pid is not None or child.poll() is not None, seconds=10)

    def spawn(
        self, command: Sequence[str | Path], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """A process in this folder, without a pid file."""
        self.console.parent.mkdir(parents=True, exist_ok=True)
        self._log_start = self.log.stat().st_size if self.log.is_file() else 0
        with self.console.open("wb") as console:
            return subprocess.Popen(
                command,
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                # Ctrl-C in the terminal is for the command, not for the server.
                start_new_session=True,
            )

    def ask_to_stop(self) -> None:
        """SIGTERM: it hands over its work, closes its files and ends."""
        if (pid := self.pid) is not None:
            send(pid, signal.SIGTERM)

    def wait_stopped(self, seconds: float = STOP_SECONDS) -> None:
        """Wait for the end of one that was asked to stop; one that hangs is killed."""
        pid = self.pid
        if pid is not None and not wait_until(lambda: ended(pid), seconds):
            self.kill()
        self._pid_file.unlink(missing_ok=True)

    def kill(self) -> None:
        """SIGKILL, as a crash would: its pid file stays and its state is `crashed`."""
        pid = self.pid
        if pid is not None:
            send(pid, signal.SIGKILL)
            wait_until(lambda: ended(pid), STOP_SECONDS)

    def discard(self) -> None:
        """End whatever was started here, as fast as can be."""
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        self._pid_file.unlink(missing_ok=True)

    def last_words(self) -> str:
        """The last error in its log since it was started, or else what the JVM printed last."""
        written = _read_from(self.log, self._log_start)
        printed = _read_from(self.console, 0)
        return last_error(written) or last_print(printed) or "it left no message"


def last_error(log: str) -> str | None:
    """The last error of a log in one line: the message and, behind it, the exception.

    Of a setting that it refuses, only what it says about it.
    """
    lines = log.splitlines()
    for number in reversed(range(len(lines))):
        found = _ERROR.match(lines[number])
        if found:
            causes = [line for line in lines[number + 1 :] if _EXCEPTION.match(line)]
            refused = [match["sentence"] for line in causes if (match := _REFUSED.search(line))]
            # The innermost, but rather one that says something than a mere name.
            telling = [line for line in causes if _MESSAGE.search(line)] or causes
            return refused[-1] if refused else ": ".join([found["message"], *telling[-1:]])
    return None


def last_print(console: str) -> str | None:
    """The last thing that a JVM printed, without the lines of a stack trace."""
    lines = [line for line in console.splitlines() if line.strip() and not _FRAME.match(line)]
    if not lines:
        return None
    refused = _REFUSED.search(lines[-1])
    return refused["sentence"] if refused else lines[-1]


def _read_from(file: Path, start: int) -> str:
    if not file.is_file():
        return ""
    with file.open("rb") as handle:
        # A log that was rolled over is shorter than it was; then all of it is new.
        handle.seek(start if start <= file.stat().st_size else 0)
        return handle.read().decode(errors="replace")
