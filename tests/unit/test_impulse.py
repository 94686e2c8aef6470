"""Made-up rows: when they are due, and how they are shared out."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.sources import impulse_stream
from headrace.sources.impulse_stream import ImpulseReader


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(impulse_stream, "time", clock)
    return clock


def latest(reader: ImpulseReader, start: int) -> int:
    return reader.latestOffset({"rows": {"0": start}}, ReadAllAvailable())["rows"]["0"]


def test_rows_become_due_from_where_a_run_begins_until_there_are_no_more(clock: Clock) -> None:
    reader = ImpulseReader("rows", rate=10, count=45, partitions=1)
    assert reader.initialOffset() == {"rows": {"0": 0}}
    assert latest(reader, 20) == 20
    clock.now += 1.25
    assert latest(reader, 20) == 32
    clock.now += 100
    assert latest(reader, 32) == 45
    assert latest(reader, 45) == 45


@pytest.mark.parametrize(("count", "end"), [(45, 45), (0, 30)])
def test_a_stream_that_is_run_once_gets_all_that_is_left_and_ends(
    clock: Clock, count: int, end: int
) -> None:
    """Without a count there is no end, so it gets the rows of a second."""
    reader = ImpulseReader("rows", rate=10, count=count, partitions=1)
    reader.prepareForTriggerAvailableNow()
    assert latest(reader, 20) == end
    clock.now += 100
    assert latest(reader, end) == end


def test_tasks_share_the_rows() -> None:
    reader = ImpulseReader("rows", rate=10, count=0, partitions=3)
    parts = reader.partitions({"rows": {"0": 5}}, {"rows": {"0": 12}})
    assert [(part.start, part.end) for part in parts] == [(5, 8), (8, 11), (11, 12)]
    rows = [n for part in parts for batch in reader.read(part) for n in batch["n"].to_pylist()]
    assert rows == list(range(5, 12))
    assert reader.partitions({"rows": {"0": 5}}, {"rows": {"0": 5}}) == []
