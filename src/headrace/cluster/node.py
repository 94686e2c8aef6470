"""One Kafka node of the development cluster: its folder, its storage and its process.

A node's folder has `server.properties`, `log4j2.properties`, `data/`, `logs/` and, while it runs or
after it died without being asked to, `pid`. Called by `cluster.dev` only.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from headrace.cluster import server_config
from headrace.cluster.layout import Layout, NodeAddress
from headrace.cluster.process import ended, runs, send, wait_until
from headrace.errors import NodeFailed

STOP_SECONDS = 20.0
_ERROR = re.compile(r"\S+ \S+ (ERROR|FATAL) +(?P<message>.*)")
_EXCEPTION = re.compile(r"(Caused by: )?[\w.$]+(Exception|Error)\b")
_REFUSED = re.compile(r"\.ConfigException: (?P<sentence>.+)")
_FRAME = re.compile(r"\s+at |\s*\.\.\. \d+ more")


class NodeState(StrEnum):
    RUNNING = "running"
    STARTING = "starting"
    STOPPED = "stopped"
    CRASHED = "crashed"


class Node:
    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.id = number
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def name(self) -> str:
        return f"node {self.id}"

    @property
    def log(self) -> Path:
        return self.folder / "logs" / "server.log"

    @property
    def _console(self) -> Path:
        """What the JVM itself says; Kafka's own words are in `log`."""
        return self.folder / "logs" / "console.log"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _pid_file(self) -> Path:
        return self.folder / "pid"

    @property
    def pid(self) -> int | None:
        """The process, if it lives and is this node; a stale pid file is not believed."""
        recorded = self._recorded_pid()
        if self._child is not None:
            self._child.poll()
        if recorded is not None and runs(recorded, str(self._properties)):
            return recorded
        return None

    @property
    def crashed(self) -> bool:
        """Whether its process ended without being told to stop."""
        return self._recorded_pid() is not None and self.pid is None

    def _recorded_pid(self) -> int | None:
        try:
            return int(self._pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None

    @property
    def formatted(self) -> bool:
        # Kafka writes this file last, so that half a format counts as none.
        return (self.folder / "data" / "meta.properties").is_file()

    def configure(self, layout: Layout, address: NodeAddress) -> None:
        """Write the files it starts from; they are made anew at each start."""
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        self._properties.write_text(self._text(layout, address))
        self._log4j.write_text(server_config.log4j_properties(self.log))

    def outdated(self, layout: Layout, address: NodeAddress) -> bool:
        """Whether it runs with other settings than it would be started with now."""
        return self.pid is not None and self._properties.read_text() != self._text(layout, address)

    def _text(self, layout: Layout, address: NodeAddress) -> str:
        return server_config.server_properties(layout, address, self.folder / "data")

    @property
    def _log4j(self) -> Path:
        return self.folder / "log4j2.properties"

    def begin_format(self, java: Path, jars: Sequence[Path], cluster_id: str) -> None:
        """Prepare empty storage; `finish_format` waits for it. Never for a formatted node."""
        arguments = ["format", "--cluster-id", cluster_id, "--config", str(self._properties)]
        self._child = self._spawn(java, jars, server_config.FORMAT_CLASS, *arguments)

    def finish_format(self) -> None:
        if self._child is not None and self._child.wait() != 0:
            raise NodeFailed(self.name, self.last_words(), str(self._console))
        self._child = None

    def start(self, java: Path, jars: Sequence[Path]) -> None:
        """Start the process and return; it answers later. It outlives the caller."""
        child = self._spawn(java, jars, server_config.MAIN_CLASS, str(self._properties))
        self._child = child
        self._pid_file.write_text(f"{child.pid}\n")
        # For an instant a new process has no command line to be known by.
        wait_until(lambda: self.pid is not None or child.poll() is not None, seconds=10)

    def _spawn(
        self, java: Path, jars: Sequence[Path], main: str, *arguments: str
    ) -> subprocess.Popen[bytes]:
        options = server_config.jvm_options(self._log4j)
        self._log_start = self.log.stat().st_size if self.log.is_file() else 0
        with self._console.open("wb") as console:
            return subprocess.Popen(
                [java, *options, main, *arguments],
                # In the environment, so that the command line stays readable in `ps`.
                env={**os.environ, "CLASSPATH": os.pathsep.join(map(str, jars))},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                # Ctrl-C in the terminal is for the command, not for the broker.
                start_new_session=True,
            )

    def ask_to_stop(self) -> None:
        """SIGTERM: it hands over its leaderships, closes its files and ends."""
        if (pid := self.pid) is not None:
            send(pid, signal.SIGTERM)

    def wait_stopped(self, seconds: float = STOP_SECONDS) -> None:
        """Wait for the end of a node that was asked to stop; one that hangs is killed."""
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
        """End whatever this node has running, a format too, as fast as can be."""
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        self._pid_file.unlink(missing_ok=True)

    def last_words(self) -> str:
        """The last error in its log since it was started, or else what the JVM printed last."""
        written = _read_from(self.log, self._log_start)
        printed = _read_from(self._console, 0)
        return last_error(written) or last_print(printed) or "it left no message"


def last_error(log: str) -> str | None:
    """The last error of a Kafka log in one line: the message and, behind it, the exception.

    Of a setting that it refuses, only what it says about it.
    """
    lines = log.splitlines()
    for number in reversed(range(len(lines))):
        found = _ERROR.match(lines[number])
        if found:
            causes = [line for line in lines[number + 1 :] if _EXCEPTION.match(line)]
            refused = [match["sentence"] for line in causes if (match := _REFUSED.search(line))]
            return refused[-1] if refused else ": ".join([found["message"], *causes[-1:]])
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
