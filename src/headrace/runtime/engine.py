"""Run a plan from start to end: the whole of a run on one screen.

1. lock     one process a pipeline
2. prepare  the brokers answer, the topics are there; registries give the schemas of messages
3. spark    a session, ours or the caller's
4. run      as a stream or a batch, reporting each batch and keeping `status.json`
5. leave    the status says how it ended, and a session of ours is closed
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.admin.client import Clusters
from headrace.admin.stores import Stores
from headrace.errors import HeadraceError
from headrace.model.pipeline import Mode
from headrace.plan.stages import Plan
from headrace.project import Project
from headrace.runtime import failpoints, failures, session
from headrace.runtime.batch import BatchRun, PolledRun
from headrace.runtime.binding import Binding
from headrace.runtime.positions import GroupPositions
from headrace.runtime.prepare import prepare, reach_targets
from headrace.runtime.progress import (
    BatchDone,
    Event,
    Listener,
    Shared,
    Started,
    Summary,
    Warned,
)
from headrace.runtime.schemas import SourceSchemas
from headrace.runtime.sharing import SharedRun
from headrace.runtime.sink_schemas import SinkSchemas
from headrace.runtime.state import PipelineState, Status
from headrace.runtime.streaming import StreamRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Stop = Callable[[], None]


class Engine:
    """One run of one plan. `run` blocks; `stop` may be called from a signal handler meanwhile."""

    def __init__(
        self,
        plan: Plan,
        project: Project,
        listener: Listener,
        spark: SparkSession | None = None,
        master: str | None = None,
        once: bool = False,
        debug: bool = False,
        reset_offsets: bool = False,
        commit: bool = True,
        accept_schema: bool = False,
    ) -> None:
        self._plan = plan
        self._state = PipelineState(project.ensure(project.state(plan.pipeline.name)))
        self._listener = listener
        self._spark = spark
        self._master = master
        self._once = once
        self._debug = debug
        self._reset_offsets = reset_offsets
        self._commit = commit
        self._accept_schema = accept_schema
        self._stop_requested = False
        self._stop: Stop | None = None

    def stop(self) -> None:
        self._stop_requested = True
        if self._stop is not None:
            self._stop()

    def run(self) -> Summary:
        began = time.monotonic()
        pipeline = self._plan.pipeline
        failpoints.arm_from_environment()
        with ExitStack() as stack:
            stack.enter_context(self._state.lock(pipeline.name))  # 1
            report = stack.enter_context(_reporting(self._plan, self._state, self._listener))
            clusters = Clusters()
            there = prepare(self._plan, clusters, lambda text: report(Warned(text)))  # 2
            stores = Stores()
            schemas = SourceSchemas(self._state, report, stores, anew=self._accept_schema)
            binding = Binding(there, schemas)
            spark = stack.enter_context(self._session())  # 3
            reach_targets(binding.plan, spark)
            sinks = SinkSchemas(stores)
            binding.write_by(lambda plan: sinks.bound(plan, spark))
            report(Started(pipeline.name, time.monotonic() - began))
            positions = GroupPositions(self._plan, clusters, lambda text: report(Warned(text)))
            stack.callback(positions.close)
            report.follow(positions)
            run = self._of_mode(binding, spark, positions, clusters, report)
            self._stop = run.stop
            if not self._stop_requested:
                run.run()  # 4
            summary = report.summary(time.monotonic() - began)
            report(summary)
        return summary

    def _of_mode(
        self,
        binding: Binding,
        spark: SparkSession,
        positions: GroupPositions,
        clusters: Clusters,
        report: Listener,
    ) -> StreamRun | BatchRun | PolledRun | SharedRun:
        """As a stream of Spark's, as one batch, or as batches again and again."""
        parts = (binding, spark, self._state, positions, clusters, report)
        plan = binding.plan
        if plan.shared is not None:
            return SharedRun(plan.shared, *parts, self._once)
        if plan.pipeline.mode is Mode.STREAM and not plan.polled:
            return StreamRun(*parts, self._once, self._reset_offsets)
        batch = BatchRun(*parts, self._commit, self._reset_offsets)
        if plan.polled:
            return PolledRun(plan, batch, report, self._once)
        return batch

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        if self._spark is not None:
            yield session.adopt(self._spark)
            return
        settings = session.settings(self._plan.pipeline, self._master)
        spark = session.start(settings, self._state.log, self._debug)
        try:
            yield spark
        finally:
            spark.stop()


class _Reporter:
    """Passes events on, and keeps the sums and `status.json` up to date as they come."""

    def __init__(self, plan: Plan, state: PipelineState, listener: Listener) -> None:
        self._state = state
        self._listener = listener
        self._plan = plan
        self._positions: GroupPositions | None = None
        before = state.read_status()
        self._status = Status(plan.pipeline.name, str(plan.pipeline.mode), str(plan.pipeline.file))
        if before is not None:
            # What earlier runs have done counts on; it is the pipeline's sum, not the run's.
            self._status.records, self._status.written = before.records, before.written
            self._status.dead_letters, self._status.batches = before.dead_letters, before.batches
            self._status.late = before.late
            self._status.positions, self._status.last_batch = before.positions, before.last_batch
        self._status.pid = os.getpid()
        self._status.started = _now()
        self._run = Summary(plan.pipeline.name, 0, 0, 0, 0, 0.0)
        state.write_status(self._status)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self._status.state = "running"
            self._state.write_status(self._status)
        elif isinstance(event, BatchDone):
            self._add(event)
        elif isinstance(event, Shared):
            self._status.shares = event.group
            self._status.positions = list(self._stand())
            self._state.write_status(self._status)
        self._listener(event)

    def summary(self, seconds: float) -> Summary:
        return replace(self._run, seconds=seconds)

    def ended(self, error: HeadraceError | None) -> None:
        self._status.state = "failed" if error else "stopped"
        self._status.ended = _now()
        self._status.error = f"{error.code}: {error}" if error else None
        if self._status.shares is not None:
            # From now on others move these positions.
            self._status.shares, self._status.positions = None, []
        self._state.write_status(self._status)

    def follow(self, positions: GroupPositions) -> None:
        """From now on each report keeps where the sources stand."""
        self._positions = positions

    def _add(self, event: BatchDone) -> None:
        run, status = self._run, self._status
        self._run = replace(
            run,
            batches=run.batches + 1,
            records=run.records + event.records,
            written=run.written + event.written,
            bad=run.bad + event.bad,
            late=run.late + event.late,
        )
        status.batches += 1
        status.records += event.records
        status.written += event.written
        status.dead_letters += event.bad
        status.late += event.late
        status.last_batch = {
            "at": _now(),
            "query": event.query,
            "batch": event.batch,
            "records": event.records,
            "written": event.written,
            "dead_letters": event.bad,
            "late": event.late,
            "seconds": round(event.seconds, 3),
        }
        status.positions = list(self._stand())
        self._state.write_status(status)

    def _stand(self) -> Iterator[dict[str, Any]]:
        for source in self._plan.sources:
            if source.group is None:
                continue
            positions = self._positions.of(source) if self._positions else {}
            for (topic, partition), offset in sorted(positions.items()):
                yield {
                    "bootstrap": source.bootstrap,
                    "group": source.group,
                    "topic": topic,
                    "partition": partition,
                    "offset": offset,
                }


@contextmanager
def _reporting(plan: Plan, state: PipelineState, listener: Listener) -> Iterator[_Reporter]:
    reporter = _Reporter(plan, state, listener)
    try:
        yield reporter
    except HeadraceError as error:
        reporter.ended(error)
        raise
    except Exception as error:
        known = failures.translate(error, f"running {plan.pipeline.name}")
        reporter.ended(known)
        raise known from error
    except BaseException:
        reporter.ended(None)
        raise
    reporter.ended(None)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
