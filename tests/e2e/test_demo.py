"""`headrace demo` as a user starts it: what it says, how it ends, and that nothing is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import psutil

from headrace.demo.events import BAD, FILTERED, KEPT, order_events

GONE_SECONDS = 60
AT_WORK = "running"


class Demo:
    """A demo in a folder of its own for temporary files, and every process that it ever had."""

    def __init__(self, temporary: Path, *arguments: str) -> None:
        self.temporary = temporary
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", "demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=temporary,
            env={**psutil.Process().environ(), "TMPDIR": str(temporary)},
        )
        self._family: set[psutil.Process] = set()

    def lines(self) -> Iterator[str]:
        """What it says, line by line; whoever lives at that moment is remembered."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with suppress(psutil.NoSuchProcess):
                self._family.update(psutil.Process(self.process.pid).children(recursive=True))
            yield line.rstrip()

    def end(self) -> tuple[str, int]:
        """The rest of what it says, and its exit code."""
        text = "\n".join(self.lines())
        return text, self.process.wait()

    def survivors(self) -> list[str]:
        assert self._family
        _, alive = psutil.wait_procs(self._family, timeout=GONE_SECONDS)
        return [" ".join(process.cmdline()[:3]) for process in alive]


def left_in(temporary: Path) -> list[str]:
    # Spark's JVM removes its own folders a moment after the last process of ours has ended.
    deadline = time.monotonic() + GONE_SECONDS
    while (found := sorted(path.name for path in temporary.iterdir() if "spark" in path.name)) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.2)
    return found or [path.name for path in temporary.iterdir() if "headrace" in path.name]


def test_the_demo_ends_with_counts_that_agree_and_leaves_nothing(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "--seconds", "3", "--rate", "2000")
    text, code = demo.end()
    assert code == 0, text
    assert "= 6,000 produced: the counts agree" in text
    assert all(code in text for code in BAD)
    assert "headrace dev up" in text
    assert demo.survivors() == []
    assert left_in(tmp_path) == []


def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "--seconds", "300")
    for line in demo.lines():
        if AT_WORK in line:
            demo.process.send_signal(signal.SIGINT)
            break
    text, code = demo.end()
    assert code == 130, text
    assert demo.survivors() == []
    assert left_in(tmp_path) == []


def test_events_are_the_same_for_the_same_seed() -> None:
    assert list(islice(order_events(7), 500)) == list(islice(order_events(7), 500))
    assert list(islice(order_events(7), 500)) != list(islice(order_events(8), 500))


def test_events_have_every_fate() -> None:
    fates = {event.fate for event in islice(order_events(bad_share=0.1), 2000)}
    assert fates == {KEPT, FILTERED, *BAD}
