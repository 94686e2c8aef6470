"""Run a plan as a stream: one Spark query for each of its queries, followed until the end.

    start      every query from its own checkpoint, or where `runtime.starts` says
    follow     report each finished batch, publish its position
    stop       let the batch in hand finish and be committed, begin no other
    restart    after a failure that may pass, from the checkpoints, with growing pauses; and at
               once where messages have a schema that is new

Spark's own `stop` would interrupt a batch while it writes. So a batch is let through a gate, and
once the run is stopping the gate is closed: a batch that finds it closed has written nothing yet.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.admin.client import Clusters
from headrace.errors import DataLoss, HeadraceError, WorkerLost
from headrace.model.offsets import by_partition
from headrace.model.pipeline import Mode
from headrace.plan.stages import Plan, Query
from headrace.runtime import failpoints, failures, old_state, rows, writing
from headrace.runtime.binding import Binding, HeldBack
from headrace.runtime.checkpoints import Checkpoint, lowest
from headrace.runtime.ledgers import Ledgers
from headrace.runtime.patience import Patience
from headrace.runtime.positions import GroupPositions
from headrace.runtime.progress import BatchDone, Listener, Stopping, Warned
from headrace.runtime.starts import Starts
from headrace.runtime.state import PipelineState
from headrace.sinks.writer import Batch, Once
from headrace.sources.kafka import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 0.1
COMMIT_SECONDS = 60


class _GateClosed(Exception):
    """A batch was begun after the run was told to stop."""


class _Gate:
    """Counts batches that are being written, and lets no new one in once it is closed."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._inside = 0
        self._closed = False
        self.last_written: dict[str, int] = {}
        self.failures: list[BaseException] = []

    def through(self, query: str, batch: int, write: Callable[[], None]) -> None:
        with self._lock:
            if self._closed:
                raise _GateClosed
            self._inside += 1
        try:
            write()
            self.last_written[query] = batch
        except BaseException as error:
            # Spark keeps only the text of what is raised here, so the error itself is kept.
            self.failures.append(error)
            raise
        finally:
            with self._lock:
                self._inside -= 1
                self._lock.notify_all()

    def close(self) -> None:
        """Returns when no batch is being written and none will be."""
        with self._lock:
            self._closed = True
            self._lock.wait_for(lambda: self._inside == 0)

    def reopen(self) -> None:
        self._closed = False
        self.failures.clear()


class StreamRun:
    """One run of a stream. `stop` may be called from any thread or signal handler."""

    def __init__(
        self,
        binding: Binding,
        spark: SparkSession,
        state: PipelineState,
        positions: GroupPositions,
        clusters: Clusters,
        listener: Listener,
        once: bool = False,
        reset_offsets: bool = False,
    ) -> None:
        plan = binding.plan
        self._binding = binding
        self._spark = spark
        self._folder = str(state.folder)
        self._ledgers = Ledgers(plan, state, clusters, self._warn)
        self._starts = Starts(plan, state, clusters, self._warn, reset_offsets)
        self._positions = positions
        self._tell = listener
        self._once = once
        self._gate = _Gate()
        self._stop = threading.Event()
        self._reported: dict[str, int] = {}
        self._asked: set[str] = set()
        self._looked_at: dict[str, str] = {}

    @property
    def _plan(self) -> Plan:
        """Bound anew when messages have new schemas."""
        return self._binding.plan

    def stop(self) -> None:
        self._stop.set()

    def _warn(self, text: str) -> None:
        self._tell(Warned(text))

    def run(self) -> None:
        """Blocks until the stream is stopped, has read all (`once`), or fails for good."""
        patience = Patience(self._tell, self._stop)
        while True:
            before = dict(self._reported)
            patience.begin()
            failure = self._attempt()
            try:
                renewed = self._binding.renew(failure)
            except HeadraceError as unheard:
                renewed, failure = False, unheard
            if renewed and not self._stop.is_set():
                continue
            if renewed or failure is None:
                return
            if not patience.failed(failure, self._reported != before):
                return

    def _attempt(self) -> HeadraceError | None:
        """Start, follow, and take down; the failure that ended it, if one did."""
        self._gate.reopen()
        running: dict[str, StreamingQuery] = {}
        try:
            self._starts.settle(self._ledgers)
            for query in self._plan.queries:
                first = query.sources[0].first(Mode.STREAM).value
                self._positions.resume(query.name, self._starts.stands(query), first)
                self._refuse_old_state(query)
                standing, partitions = self._starts.standing(query), self._ledgers.partitions(query)
                self._ledgers.claim(query, standing, partitions)
                running[query.name] = self._start(query)
            self._follow(running)
        except Exception as error:
            return self._failure(error)
        finally:
            self._take_down(running)
        return self._failure_of(running)

    def _refuse_old_state(self, query: Query) -> None:
        """Once a run: what a batch of this run has written is newer than the state, too."""
        if query.name in self._asked:
            return
        # No batch is written before its end is noted; it may be written and not committed.
        newest = Checkpoint(self._starts.checkpoint(query)).planned
        generation = self._starts.generation(query)
        old_state.refuse(self._spark, query, generation, newest, self._folder)
        self._asked.add(query.name)

    def _start(self, query: Query) -> StreamingQuery:
        starts = self._starts.offsets(query)
        raw = {
            source.name: source.stream(self._spark, starts.get(source.name))
            if isinstance(source, KafkaSource)
            else source.stream(self._spark)
            for source in query.sources
        }
        frame = rows.build(self._spark, query, raw)
        checkpoint = self._starts.checkpoint(query)
        writer = frame.writeStream.foreachBatch(self._writer(query))
        writer = writer.outputMode(str(query.output_mode))
        writer = writer.queryName(f"{self._plan.pipeline.name}.{query.name}")
        writer = writer.option("checkpointLocation", str(checkpoint))
        trigger_ms = self._plan.pipeline.options["trigger"]
        if self._once:
            writer = writer.trigger(availableNow=True)
        elif trigger_ms:
            writer = writer.trigger(processingTime=f"{trigger_ms} milliseconds")
        return writer.start()

    def _writer(self, query: Query) -> Callable[[DataFrame, int], None]:
        generation = self._starts.generation(query)
        name = self._plan.pipeline.name

        def write(batch_rows: DataFrame, batch_id: int) -> None:
            # Before anything of it is written: the whole batch is read with the newest schemas.
            self._binding.hold_back()
            with self._ledgers.moving():
                once = self._exactly(query, batch_id)
                writing.write(query, name, batch_rows, Batch(batch_id, generation, once=once))
            self._starts.pass_by(query, batch_id)

        return lambda batch_rows, batch_id: self._gate.through(
            query.name, batch_id, lambda: write(batch_rows, batch_id)
        )

    def _exactly(self, query: Query, batch: int) -> Once | None:
        """What the sinks need to write it exactly once; its end is noted before it is run."""
        if query.way is None:
            return None
        checkpoint = Checkpoint(self._starts.checkpoint(query))
        starts, ends = lowest(checkpoint.before(batch)), lowest(checkpoint.before(batch + 1))
        standing = self._starts.standing(query)
        new = self._ledgers.unclaimed(query, standing.life, ends)
        if new:
            # Of a topic that was left and joins again there is an entry already, which holds.
            self._ledgers.claim(query, replace(standing, keeps=True, lives=None), new)
        return self._ledgers.once(query, standing.life, batch, starts, ends)

    def _follow(self, running: dict[str, StreamingQuery]) -> None:
        """Report progress until all have ended, one has failed, or a stop is asked for."""
        while not self._stop.is_set():
            for name, query in running.items():
                self._report(name, query)
            self._ledgers.renew()
            active = [query for query in running.values() if query.isActive]
            if not active or any(query.exception() for query in running.values()):
                return
            self._stop.wait(POLL_SECONDS)
        self._tell(Stopping())

    def _take_down(self, running: dict[str, StreamingQuery]) -> None:
        self._gate.close()
        for name, query in running.items():
            self._await_commit(name, query)
            self._report(name, query)
            query.stop()

    def _await_commit(self, name: str, query: StreamingQuery) -> None:
        """A batch that is written must also be committed, or it would be written again next time.

        Spark reports a batch after it has committed it, so its report is what is awaited. A look
        that found nothing to do is reported with the number of the batch that comes next.
        """
        written = self._gate.last_written.get(name, -1)
        deadline = time.monotonic() + COMMIT_SECONDS
        while query.isActive and time.monotonic() < deadline:
            last = _progress(query)
            if written < 0 or (last is not None and last["batchId"] + _ran(last) > written):
                return
            time.sleep(POLL_SECONDS)

    def _report(self, name: str, query: StreamingQuery) -> None:
        """Tell of every finished batch that was not told yet; idle triggers make reports too.

        A batch without records may still write, when the watermark has made rows final.
        """
        last = query.lastProgress
        if last is None or last.timestamp == self._looked_at.get(name):
            return
        self._looked_at[name] = last.timestamp
        for report in (json.loads(each.json) for each in query.recentProgress):
            if _ran(report) and report["batchId"] > self._reported.get(name, -1):
                self._reported[name] = report["batchId"]
                done = self._batch_done(name, report)
                if report["numInputRows"] or done.written or done.late:
                    self._positions.moved(name, done.positions)
                    self._tell(done)

    def _batch_done(self, name: str, report: dict[str, Any]) -> BatchDone:
        positions = _offsets(report, "endOffset")
        query = next(query for query in self._plan.queries if query.name == name)
        counts = rows.counts(self._plan, query, report.get("observedMetrics", {}))
        return BatchDone(
            query=name,
            batch=report["batchId"],
            **counts,
            late=sum(each["numRowsDroppedByWatermark"] for each in report["stateOperators"]),
            seconds=report["durationMs"].get("triggerExecution", 0) / 1000,
            lag=_lag(report, positions),
            positions=positions,
        )

    def _failure_of(self, running: dict[str, StreamingQuery]) -> HeadraceError | None:
        failed = next((query for query in running.values() if query.exception()), None)
        return self._failure(failed.exception()) if failed is not None else None

    def _failure(self, error: BaseException | None) -> HeadraceError | None:
        """What went wrong, told by the batch itself where it was there that it did."""
        if self._gate.failures:
            error = self._gate.failures[0]
        if error is None or isinstance(error, HeldBack) or _GateClosed.__name__ in str(error):
            return None
        servers = self._plan.pipeline.bootstrap or ""
        known = failures.translate(error, f"running {self._plan.pipeline.name}", servers)
        if isinstance(known, WorkerLost):
            failpoints.worker_died()
        return self._named(known) if isinstance(known, DataLoss) else known

    def _named(self, loss: DataLoss) -> HeadraceError:
        """The loss with its partitions and numbers, which Spark's words do not always have."""
        try:
            lost = self._starts.lost()
        except HeadraceError as error:
            return error
        return DataLoss(lost) if lost else loss


def _progress(query: StreamingQuery) -> dict[str, Any] | None:
    last = query.lastProgress
    return json.loads(last.json) if last is not None else None


def _ran(report: dict[str, Any]) -> bool:
    """Whether it is of a batch that was run, and not of a look that found nothing to do."""
    return "addBatch" in report["durationMs"]


def _offsets(report: dict[str, Any], which: str) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for source in report["sources"]:
        found.update(by_partition(source.get(which) or {}))
    return found


def _lag(report: dict[str, Any], positions: dict[tuple[str, int], int]) -> int | None:
    latest = _offsets(report, "latestOffset")
    if not latest:
        return None
    return sum(max(offset - positions.get(key, offset), 0) for key, offset in latest.items())
