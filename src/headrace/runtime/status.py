"""What is known of the pipelines of a folder: running or not, how far, how fast, how much waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace.admin import client
from headrace.admin import offsets as partition_offsets
from headrace.errors import HeadraceError
from headrace.project import Project
from headrace.runtime.state import PipelineState, Status


@dataclass(frozen=True)
class PipelineReport:
    """`lag` is None when the brokers do not answer, or there is no position yet."""

    pipeline: str
    state: str
    mode: str
    records: int
    written: int
    dead_letters: int
    lag: int | None
    rate: float | None
    last_batch: str | None
    pid: int | None
    file: str
    error: str | None
    positions: tuple[dict[str, Any], ...]


def reports(project: Project) -> list[PipelineReport]:
    """Every pipeline that was ever run in this folder, by name."""
    if not project.states.is_dir():
        return []
    ends = _Ends()
    found = []
    for folder in sorted(path for path in project.states.iterdir() if path.is_dir()):
        state = PipelineState(folder)
        status = state.read_status()
        if status is not None:
            found.append(_report(state, status, ends))
    return found


def _report(state: PipelineState, status: Status, ends: _Ends) -> PipelineReport:
    running = state.running()
    last = status.last_batch or {}
    seconds = last.get("seconds") or 0
    return PipelineReport(
        pipeline=status.pipeline,
        state=_state(status, running),
        mode=status.mode,
        records=status.records,
        written=status.written,
        dead_letters=status.dead_letters,
        lag=ends.lag(status.positions),
        rate=round(last["records"] / seconds, 1) if seconds else None,
        last_batch=last.get("at"),
        pid=status.pid if running else None,
        file=status.file,
        error=status.error,
        positions=tuple(status.positions),
    )


def _state(status: Status, running: bool) -> str:
    if running:
        return status.state
    # It says it runs, and nobody holds the lock: its process was ended from outside.
    return "killed" if status.state in ("running", "starting") else status.state


class _Ends:
    """The ends of partitions; a cluster that does not answer is asked once and stays unknown."""

    def __init__(self) -> None:
        self._clusters: dict[str, client.Cluster | None] = {}

    def lag(self, positions: Iterable[dict[str, Any]]) -> int | None:
        total, known = 0, False
        by_cluster: dict[str, dict[tuple[str, int], int]] = {}
        for each in positions:
            keys = by_cluster.setdefault(each["bootstrap"], {})
            keys[each["topic"], each["partition"]] = each["offset"]
        for bootstrap, offsets in by_cluster.items():
            ends = self._ends(bootstrap, offsets)
            if ends is None:
                return None
            known = True
            total += sum(max(ends[key] - at, 0) for key, at in offsets.items() if key in ends)
        return total if known else None

    def _ends(
        self, bootstrap: str, keys: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], int] | None:
        if bootstrap not in self._clusters:
            try:
                self._clusters[bootstrap] = client.connect(bootstrap)
            except HeadraceError:
                self._clusters[bootstrap] = None
        cluster = self._clusters[bootstrap]
        try:
            return partition_offsets.latest(cluster, keys, stable=True) if cluster else None
        except HeadraceError:
            return None
