"""Run a plan as an incremental batch.

    1. find     where each source was left, and where its topics end now
    2. write    each query over exactly that range
    3. store    the new positions, in one commit
    4. publish  them to the groups

A crash before 3 leaves the old positions, and the next run reads the range again, with whatever has
come since. Between 3 and 4 only what Kafka's tools show is late.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.admin.client import Clusters
from headrace.model.offsets import Offsets, Range
from headrace.plan.stages import Plan, Query
from headrace.runtime import failures, rows, writing
from headrace.runtime.failpoints import reach
from headrace.runtime.positions import GroupPositions, OffsetsTable
from headrace.runtime.progress import BatchDone, Listener, Warned
from headrace.runtime.state import PipelineState
from headrace.sinks.writer import Batch
from headrace.sources.reader import Access, SourceReader

if TYPE_CHECKING:
    from pyspark.sql import Observation, SparkSession


class BatchRun:
    """One run of a batch. It cannot be stopped in the middle: it ends by itself."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        state: PipelineState,
        positions: GroupPositions,
        clusters: Clusters,
        listener: Listener,
    ) -> None:
        self._plan = plan
        self._spark = spark
        self._table = OffsetsTable(spark, state.offsets)
        self._generation = state.generation
        self._positions = positions
        self._access = Access(spark, clusters, self._warn)
        self._tell = listener

    def stop(self) -> None:
        self._warn("a batch ends by itself; it is not stopped half-way")

    def run(self) -> None:
        stored = self._table.read()
        ranges = {  # 1
            source.name: self._find(source, stored.get(source.name, {}))
            for source in self._plan.sources
        }
        done = []
        if any(found.records for found in ranges.values()):
            done = [self._write(query, ranges) for query in self._plan.queries]  # 2
            reach("batch.written")
        ended = {name: {**stored.get(name, {}), **found.end} for name, found in ranges.items()}
        # Also when there was nothing to read: a first run at the end of a topic has to note it.
        if ended != stored:
            self._table.write(ended)  # 3
            reach("batch.stored")
        for query in self._plan.queries:  # 4
            self._positions.moved(query.name, _merged(ranges, query))
        for report in done:
            self._tell(report)

    def _find(self, source: SourceReader, stored: Offsets) -> Range:
        found = source.find(self._access, stored)
        if found.lost:
            self._warn(f"lost before they were read, and passed over: {found.lost}")
        return found

    def _warn(self, text: str) -> None:
        self._tell(Warned(text))

    def _write(self, query: Query, ranges: Mapping[str, Range]) -> BatchDone:
        from pyspark.sql import Observation

        began = time.monotonic()
        raw = {
            source.name: source.batch(self._spark, ranges[source.name]) for source in query.sources
        }
        seen: dict[str, Observation] = {}
        frame = rows.build(
            self._spark, query, raw, lambda name: seen.setdefault(name, Observation(name))
        )
        try:
            writing.write(query, self._plan.pipeline.name, frame, Batch(None, self._generation))
        except Exception as error:
            servers = self._plan.pipeline.bootstrap or ""
            raise failures.translate(
                error, f"running {self._plan.pipeline.name}", servers
            ) from error
        counts = rows.counts(self._plan, query, {name: _counted(seen[name]) for name in seen})
        return BatchDone(
            query=query.name,
            batch=0,
            **counts,
            seconds=time.monotonic() - began,
            lag=0,
            positions=_merged(ranges, query),
        )


COUNT_SECONDS = 30


def _counted(observation: Observation) -> dict[str, int]:
    """What was counted, which Spark tells a moment after the job; nothing when it never does."""
    found: dict[str, int] = {}
    waiting = threading.Thread(target=lambda: found.update(observation.get), daemon=True)
    waiting.start()
    waiting.join(COUNT_SECONDS)
    return found


def _merged(ranges: Mapping[str, Range], query: Query) -> Offsets:
    return {
        key: offset for source in query.sources for key, offset in ranges[source.name].end.items()
    }
