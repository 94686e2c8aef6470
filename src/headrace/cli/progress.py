"""How a run looks while it runs: a live panel on a terminal, a line a second elsewhere, or JSON,
of each batch or of what a log should keep.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum

from rich.console import Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headrace.cli import output
from headrace.runtime.progress import (
    BatchDone,
    Event,
    Listener,
    Retrying,
    SchemaChanged,
    Shared,
    Started,
    Stopping,
    Summary,
    Waiting,
    Warned,
)


class Style(StrEnum):
    AUTO = "auto"
    LIVE = "live"
    PLAIN = "plain"
    JSON = "json"
    LOG = "log"
    NONE = "none"


@contextmanager
def showing(style: Style) -> Iterator[Listener]:
    """A listener that shows what it is told, for as long as the block lasts."""
    if style is Style.AUTO:
        style = Style.LIVE if output.stderr.is_terminal else Style.PLAIN
    if style is Style.NONE:
        yield lambda _event: None
    elif style is Style.JSON:
        yield _json
    elif style is Style.LOG:
        yield _Log()
    elif style is Style.PLAIN:
        yield _Plain()
    else:
        with _LivePanel() as panel:
            yield panel


def _json(event: Event) -> None:
    body = asdict(event)
    if isinstance(event, BatchDone):
        body["positions"] = [
            {"topic": topic, "partition": partition, "offset": offset}
            for (topic, partition), offset in event.positions.items()
        ]
    print(json.dumps({"event": type(event).__name__, **body}), file=sys.stderr, flush=True)


class _Log:
    """As JSON, for runs that last: of batches only the first, as `headrace status` has the rest."""

    def __init__(self) -> None:
        self._read = False

    def __call__(self, event: Event) -> None:
        passing = isinstance(event, BatchDone | Waiting)
        if not (passing and self._read):
            _json(event)
        self._read = self._read or passing


class Totals:
    """Sums over a run; the rate is that of the last seconds, by finished batches."""

    WINDOW_SECONDS = 10

    def __init__(self) -> None:
        self.records = self.written = self.bad = self.late = self.batches = 0
        self.lag: int | None = None
        self._recent: list[tuple[float, int]] = [(time.monotonic(), 0)]

    def add(self, event: BatchDone) -> None:
        self.batches += 1
        self.records += event.records
        self.written += event.written
        self.bad += event.bad
        self.late += event.late
        self.lag = event.lag
        now = time.monotonic()
        self._recent = [(at, n) for at, n in self._recent if now - at < self.WINDOW_SECONDS]
        self._recent.append((now, event.records))

    @property
    def rate(self) -> float:
        first = self._recent[0][0]
        seconds = max(time.monotonic() - first, 0.001)
        return sum(records for _, records in self._recent[1:]) / seconds


class _Plain:
    EVERY_SECONDS = 1.0

    def __init__(self) -> None:
        self._totals = Totals()
        self._last = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, BatchDone):
            self._totals.add(event)
            if time.monotonic() - self._last >= self.EVERY_SECONDS:
                self._last = time.monotonic()
                output.note(_line(self._totals))
        else:
            _say(event)


class _LivePanel:
    """Drawn anew several times a second, so that a long batch does not look like a standstill."""

    def __init__(self) -> None:
        self._totals = Totals()
        self._spinner = Spinner("dots")
        self._began = time.monotonic()
        self._note = "starting"
        self._live = Live(
            console=output.stderr,
            refresh_per_second=8,
            transient=True,
            get_renderable=self._panel,
        )

    def __enter__(self) -> _LivePanel:
        # While Spark's JVM is started, this process's stderr is a file; the panel keeps the screen.
        self._screen = os.fdopen(os.dup(2), "w")
        output.stderr.file = self._screen
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        output.stderr.file = sys.stderr
        self._screen.close()

    def __call__(self, event: Event) -> None:
        if isinstance(event, BatchDone):
            self._totals.add(event)
            self._note = f"batch {event.batch} took {event.seconds:.1f} s; Ctrl-C stops in order"
        elif isinstance(event, Started):
            self._note = "running; Ctrl-C finishes the batch in hand and stops"
        elif isinstance(event, Waiting):
            self._totals.lag = event.lag
        elif isinstance(event, Stopping):
            self._note = "finishing the batch in hand"
        else:
            _say(event)

    def _panel(self) -> Group:
        totals = self._totals
        table = Table(box=None, pad_edge=False)
        figures = {
            "records in": f"{totals.records:,}",
            "rows out": f"{totals.written:,}",
            "dead letters": f"{totals.bad:,}",
            **({"late": f"{totals.late:,}"} if totals.late else {}),
            "lag": "-" if totals.lag is None else f"{totals.lag:,}",
            "records/s": f"{totals.rate:,.0f}",
        }
        for name in figures:
            table.add_column(name, justify="right", min_width=12, header_style="bold")
        table.add_row(*figures.values())
        seconds = int(time.monotonic() - self._began)
        self._spinner.update(text=Text(f"{seconds} s: {self._note}", style="dim"))
        return Group(table, self._spinner)


def _partitions(event: Shared) -> str:
    named = ", ".join(f"{topic}[{number}]" for topic, number in event.partitions)
    return f"reads {named}" if named else "has no partition for this pipeline now"


def _line(totals: Totals) -> str:
    lag = "-" if totals.lag is None else f"{totals.lag:,}"
    late = f"late {totals.late:,}  " if totals.late else ""
    return (
        f"in {totals.records:,}  out {totals.written:,}  dead letters {totals.bad:,}  "
        f"{late}lag {lag}  {totals.rate:,.0f}/s"
    )


def _say(event: Event) -> None:
    if isinstance(event, Started):
        output.note(f"{event.pipeline}: running (started in {event.seconds:.1f} s)")
    elif isinstance(event, Shared):
        output.note(f"group {event.group}: {_partitions(event)}")
    elif isinstance(event, Retrying):
        output.warn(f"{event.reason}; trying again in {event.pause:.0f} s")
    elif isinstance(event, SchemaChanged):
        output.note(f"{event.source}: {event.schema}: {', '.join(event.changes)}")
    elif isinstance(event, Stopping):
        output.note("finishing the batch in hand …")
    elif isinstance(event, Warned):
        output.warn(event.text)
    elif isinstance(event, Summary):
        late = f"{event.late:,} late, " if event.late else ""
        output.note(
            f"{event.pipeline}: {event.records:,} records in, {event.written:,} rows out, "
            f"{event.bad:,} bad records, {late}{event.batches:,} batches, {event.seconds:.1f} s"
        )
