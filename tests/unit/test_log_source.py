"""What a log source finds, as its files grow, are rotated, emptied and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.definitions import planned

from headrace.model.offsets import Offsets
from headrace.sources.log import LogSource
from headrace.sources.reader import Access


class Log:
    """A log and a source that follows it, with the position kept as a run keeps it."""

    def __init__(self, folder: Path, *options: str) -> None:
        source = "".join(
            f"  {line}\n" for line in ("connector_type: log", "path: app.log", *options)
        )
        plan = planned(folder, f"source:\n{source}sink:\n  connector_type: console\n")
        self.source = cast(LogSource, plan.sources[0])
        self.folder, self.path = folder, folder / "app.log"
        self.stored: Offsets = {}
        self.told: list[str] = []

    def append(self, text: str, name: str = "app.log") -> None:
        with (self.folder / name).open("a") as file:
            file.write(text)

    def find(self) -> list[tuple[int, int]]:
        """From where to where there is something to read, of each file that has any."""
        access = Access(cast(Any, None), cast(Any, None), self.told.append)
        found = self.source.find(access, self.stored)
        self.stored = {**self.stored, **found.end}
        return sorted(
            (start, found.end[key]) for key, start in found.start.items() if start < found.end[key]
        )


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_complete_lines_are_found_once(log: Log) -> None:
    log.append("one\ntwo\nthr")
    assert log.find() == [(0, 8)]
    assert log.find() == []
    log.append("ee\n")
    assert log.find() == [(8, 14)]
    assert log.told == []


def test_a_log_that_is_renamed_again_and_again_is_read_to_its_end(log: Log) -> None:
    log.append("1\n")
    log.find()
    log.append("2\n")
    log.path.rename(log.folder / "app.log.1")
    log.append("3\n")
    assert log.find() == [(0, 2), (2, 4)]
    (log.folder / "app.log.1").rename(log.folder / "app.log.2")
    log.path.rename(log.folder / "app.log.1")
    log.append("4\n")
    log.append("late\n", "app.log.2")
    assert log.find() == [(0, 2), (4, 9)]
    assert {topic for topic, _ in log.stored} == {str(log.path)}
    assert log.told == 2 * [f"{log.path} is another file now; the old one is read to its end"]


def test_a_log_that_is_emptied_in_place_begins_anew_and_is_told(log: Log) -> None:
    log.append("one\n")
    log.find()
    log.path.write_text("two\nthree\n")
    assert log.find() == [(0, 10)]
    log.path.write_text("two\n")
    assert log.find() == [(0, 4)]
    assert log.find() == []
    assert log.told == [
        f"{log.path} is another file now; what the old one got after its byte 4 cannot be found",
        f"{log.path} has 4 bytes, and 10 were read: it begins anew",
    ]


def test_a_log_that_is_gone_for_a_while_keeps_its_position(log: Log) -> None:
    log.append("one\n")
    log.find()
    log.path.rename(log.folder / "elsewhere")
    assert log.find() == []
    assert "is there yet" in log.told[0]
    (log.folder / "elsewhere").rename(log.path)
    log.append("two\n")
    assert log.find() == [(4, 8)]


def test_latest_begins_with_the_lines_to_come(tmp_path: Path) -> None:
    log = Log(tmp_path, "auto_offset_reset: latest")
    log.append("before\n")
    assert log.find() == []
    log.append("after\n")
    assert log.find() == [(7, 13)]


def test_latest_has_all_of_a_log_that_was_not_there_at_first(tmp_path: Path) -> None:
    log = Log(tmp_path, "auto_offset_reset: latest")
    assert log.find() == []
    log.append("after\n")
    assert log.find() == [(0, 6)]
    assert len(log.told) == 1
