"""Processes of pipelines, followed by what they write to their log."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.errors import PipelineEnded
from headrace.shell import processes
from headrace.shell.processes import Launched

STARTED = json.dumps({"event": "Started", "pipeline": "p", "seconds": 1.0})
DONE = json.dumps({"event": "BatchDone", "records": 3})
SUMMARY = json.dumps({"event": "Summary", "records": 3, "written": 2, "bad": 1})
WAIT = "import sys; sys.stdin.read()"

Start = Callable[..., Launched]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A process that writes lines and ends with a code, or stays until it is ended."""
    started: list[subprocess.Popen[bytes]] = []

    def launch(*lines: str, code: int | None = 0) -> Launched:
        log = tmp_path / "run.log"
        end = WAIT if code is None else f"import sys; sys.exit({code})"
        program = f"print({chr(10).join(lines)!r}, flush=True); {end}"
        with log.open("ab") as file:
            file.write(b"EarlierError of an earlier run\n")
            offset = file.tell()
            process = subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=file
            )
        started.append(process)
        return Launched("p", process, log, offset)

    yield launch
    for process in started:
        process.kill()
        process.communicate()


def test_a_run_that_reads_has_started(start: Start) -> None:
    assert start(STARTED, DONE, code=None).await_start()


def test_a_run_that_has_nothing_to_read_has_started_too(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "SETTLE_SECONDS", 0.0)
    assert start(STARTED, '{"event": "half a li', code=None).await_start()


def test_a_run_that_has_ended_in_order_has_done_its_work(start: Start) -> None:
    launched = start(STARTED, DONE, SUMMARY)
    assert not launched.await_start()
    assert launched.await_end()["written"] == 2


def test_an_error_is_told_as_the_process_told_it(start: Start) -> None:
    said = ("warning: something", "NoBrokersAvailable no broker answers", "  → start one")
    with pytest.raises(PipelineEnded) as raised:
        start(*said, code=3).await_start()
    error = raised.value
    assert (error.code, error.exit_code, error.hint) == ("NoBrokersAvailable", 3, "start one")
    assert str(error) == "pipeline p has ended: no broker answers"


def test_a_fault_after_the_start_is_told(start: Start) -> None:
    with pytest.raises(PipelineEnded, match="bad") as raised:
        start(STARTED, "BadRecord record orders[0]@3 is bad", code=4).await_start()
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("its log: ")


def test_a_process_that_is_killed_is_told_by_its_signal(start: Start) -> None:
    launched = start("nothing yet", code=None)
    launched.process.send_signal(signal.SIGKILL)
    with pytest.raises(PipelineEnded, match="got SIGKILL") as raised:
        launched.await_start()
    assert (raised.value.code, raised.value.exit_code) == ("SIGKILL", 4)


def test_a_process_that_says_nothing_is_told_by_its_exit_code(start: Start) -> None:
    with pytest.raises(PipelineEnded, match="exit code 70"):
        start("", code=70).await_start()
