"""What a run writes to the log of a process that lasts."""

from __future__ import annotations

import json

import pytest

from headrace.cli.progress import Style, showing
from headrace.runtime.progress import BatchDone, Event, Retrying, Started, Summary, Waiting

BATCH = BatchDone("main", 1, records=3, written=2, bad=1, seconds=0.1, lag=0)
EVENTS: list[Event] = [
    Started("p", 1.0),
    BATCH,
    Waiting(4),
    BATCH,
    Retrying("the broker is gone", 1, 1.0),
    BATCH,
    Summary("p", 3, 9, 6, 3, 1.0),
]


def test_a_log_has_each_event_but_of_batches_only_the_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with showing(Style.LOG) as tell:
        for event in EVENTS:
            tell(event)
    told = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert told == ["Started", "BatchDone", "Retrying", "Summary"]
