"""What is known of the pipelines of a folder: running or not, how far, how fast, how much waits and
for how long it will stay.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.admin import client, quantities
from headrace.admin import offsets as partition_offsets
from headrace.admin.forecast import Forecast, forecasts
from headrace.errors import HeadraceError
from headrace.formats.known import Known
from headrace.model.offsets import Offsets
from headrace.project import Project
from headrace.runtime.state import PipelineState, Status

# A run whose last batch is longer ago than this, and than so many times its length, stands still.
STILL_SECONDS = 60.0
STILL_BATCHES = 10.0


@dataclass(frozen=True)
class ReadBy:
    """The newest schema of the keys or values of a source, and the columns that these become.

    `subject` and `version` are None where the columns are declared and no message has come yet.
    """

    source: str
    part: str
    registry: str
    subject: str | None
    version: int | None
    columns: str

    def __str__(self) -> str:
        schema = "schemas" if self.version is None else f"schema {self.version} of {self.subject}"
        return f"{self.part} of `{self.source}` by {schema} at {self.registry}: {self.columns}"


@dataclass(frozen=True)
class PipelineReport:
    """`lag` is None when the brokers do not answer, or there is no position yet.

    `loses_in` is the time until the first unread record may go, in words, and `forecast` what each
    partition has lost or will lose; both are empty where nothing is. `shares` is the group with
    whose members it shares partitions; `positions` are then those of its own. `schemas` are those
    of a registry that it reads by.
    """

    pipeline: str
    state: str
    mode: str
    records: int
    written: int
    dead_letters: int
    late: int
    lag: int | None
    rate: float | None
    loses_in: str | None
    last_batch: str | None
    pid: int | None
    file: str
    error: str | None
    shares: str | None
    positions: tuple[dict[str, Any], ...]
    forecast: tuple[Forecast, ...]
    schemas: tuple[ReadBy, ...]


def reports(project: Project) -> list[PipelineReport]:
    """Every pipeline that was ever run in this folder, by name."""
    if not project.states.is_dir():
        return []
    clusters = _Clusters()
    found = []
    for folder in sorted(path for path in project.states.iterdir() if path.is_dir()):
        state = PipelineState(folder)
        status = state.read_status()
        if status is not None:
            found.append(_report(state, status, clusters))
    return found


def by_cluster(positions: Iterable[Mapping[str, Any]]) -> dict[str, dict[tuple[str, int], int]]:
    """The positions of a status, by the address of the cluster that they are in."""
    found: dict[str, dict[tuple[str, int], int]] = {}
    for each in positions:
        keys = found.setdefault(each["bootstrap"], {})
        keys[each["topic"], each["partition"]] = each["offset"]
    return found


def rate(status: Status) -> float | None:
    """Records a second of the last batch."""
    last = status.last_batch or {}
    seconds = last.get("seconds") or 0
    return round(last["records"] / seconds, 1) if seconds else None


def reading(state: PipelineState, status: Status) -> float:
    """Records a second that the pipeline reads now: 0 when it does not run or stands still."""
    last = status.last_batch
    if not state.running() or last is None:
        return 0.0
    since = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(last["at"])
    still = since.total_seconds() > max(STILL_SECONDS, STILL_BATCHES * last["seconds"])
    return 0.0 if still else rate(status) or 0.0


def _report(state: PipelineState, status: Status, clusters: _Clusters) -> PipelineReport:
    running = state.running()
    positions = by_cluster(status.positions)
    forecast = clusters.forecast(positions, reading(state, status))
    return PipelineReport(
        pipeline=status.pipeline,
        state=_state(status, running),
        mode=status.mode,
        records=status.records,
        written=status.written,
        dead_letters=status.dead_letters,
        late=status.late,
        lag=clusters.lag(positions),
        rate=rate(status),
        loses_in=_loses_in(forecast),
        last_batch=(status.last_batch or {}).get("at"),
        pid=status.pid if running else None,
        file=status.file,
        error=status.error,
        shares=status.shares if running else None,
        positions=tuple(status.positions),
        forecast=tuple(forecast),
        schemas=tuple(_read_by(state)),
    )


def _read_by(state: PipelineState) -> Iterator[ReadBy]:
    for source, parts in state.schemas().items():
        for part, told in parts.items():
            known = Known.from_json(told["known"])
            newest = known.newest
            columns = ", ".join(f"{each.name} {each.type}" for each in known.columns.columns)
            yield ReadBy(
                source,
                part,
                told["asked"]["registry"],
                newest.subject if newest is not None else None,
                newest.version if newest is not None else None,
                columns,
            )


def _state(status: Status, running: bool) -> str:
    if running:
        return status.state
    # It says it runs, and nobody holds the lock: its process was ended from outside.
    return "killed" if status.state in ("running", "starting") else status.state


def _loses_in(forecast: Sequence[Forecast]) -> str | None:
    if any(each.lost for each in forecast):
        return "lost"
    left = [each.seconds for each in forecast if each.seconds is not None]
    if not left:
        return None
    return quantities.duration(min(left)) if min(left) >= 1 else "now"


class _Clusters:
    """What clusters say of positions; one that does not answer is asked once and stays unknown."""

    def __init__(self) -> None:
        self._known: dict[str, client.Cluster | None] = {}

    def lag(self, positions: Mapping[str, Offsets]) -> int | None:
        total = 0
        for bootstrap, offsets in positions.items():
            cluster = self._at(bootstrap)
            if cluster is None:
                return None
            try:
                ends = partition_offsets.latest(cluster, offsets, stable=True)
            except HeadraceError:
                return None
            total += sum(max(ends[key] - at, 0) for key, at in offsets.items() if key in ends)
        return total if positions else None

    def forecast(self, positions: Mapping[str, Offsets], read: float) -> list[Forecast]:
        """Empty too where a cluster does not answer: no forecast is better than a wrong one."""
        found: list[Forecast] = []
        for bootstrap, offsets in positions.items():
            cluster = self._at(bootstrap)
            if cluster is None:
                continue
            try:
                found += forecasts(cluster, offsets, read)
            except HeadraceError:
                continue
        return found

    def _at(self, bootstrap: str) -> client.Cluster | None:
        if bootstrap not in self._known:
            try:
                self._known[bootstrap] = client.connect(bootstrap)
            except HeadraceError:
                self._known[bootstrap] = None
        return self._known[bootstrap]
