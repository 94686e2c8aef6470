"""The public Python interface: `headrace.load(path)` and what can be done with the result.

It works in a notebook, under spark-submit and below the command line, which is built on it. Loading
and checking need neither a JVM nor a cluster; pyspark is imported when something runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import DefinitionError
from headrace.frontend.load import examine
from headrace.model.pipeline import Mode, Pipeline
from headrace.plan import promises, stateful
from headrace.plan.doubts import doubts
from headrace.plan.explain import explain
from headrace.plan.planner import plan
from headrace.plan.stages import Plan
from headrace.project import Project
from headrace.runtime.progress import Listener, Summary
from headrace.runtime.session import adopt, settings, start
from headrace.runtime.state import PipelineState
from headrace.spans import Diagnostic, Severity, Span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.runtime.preview import Preview
    from headrace.runtime.standing import Standing, StoredPositions
    from headrace.runtime.tuning import Tuning


class Definition:
    """A pipeline file that has been read. Nothing has been started yet."""

    def __init__(self, path: Path, project: Project | None = None) -> None:
        self.path = path
        self.project = project or Project.find(path.parent)
        self._pipeline, self._found = examine(path)

    def check(self) -> list[Diagnostic]:
        """Every fault and warning, in order of place; empty when all is well."""
        if self._planned is None:
            return list(self._found)
        refused = [*promises.refusals(self._planned), *stateful.refusals(self._planned)]
        return [*self._found, *refused, *doubts(self._planned)]

    @cached_property
    def _planned(self) -> Plan | None:
        """The plan, whether or not its promises are enough; None where there is none to make."""
        if self._pipeline is None or not self._pipeline.sinks:
            return None
        return plan(self._pipeline)

    @property
    def pipeline(self) -> Pipeline:
        """What the file means; raises DefinitionError with all faults when it has any."""
        faults = [fault for fault in self.check() if fault.severity is Severity.ERROR]
        if faults or self._pipeline is None:
            raise DefinitionError(f"{self.path} has {len(faults)} fault(s)", faults)
        return self._pipeline

    @property
    def plan(self) -> Plan:
        """What a run will do; a file without a sink has no plan."""
        _ = self.pipeline  # a definition with faults has no plan to follow
        if self._planned is None:
            span = Span(str(self.path), 1, 1)
            hint = "add `sink:`; without one it can be checked and previewed"
            fault = Diagnostic("MISSING_SINK", "there is no `sink:` to run into", span, hint)
            raise DefinitionError(f"{self.path} has no sink", [fault])
        return self._planned

    def explain(self, master: str | None = None, online: bool = False) -> dict[str, Any]:
        """Stages, settings with their origins, and promises, as plain values.

        With `online` the brokers are asked how many partitions there are to read.
        """
        return explain(
            self.plan,
            settings(self.pipeline, master),
            self._partitions() if online else None,
        )

    def _partitions(self) -> dict[str, int]:
        from headrace.admin.client import Clusters
        from headrace.runtime.measuring import partitions

        return partitions(self.plan, Clusters())

    def tune(self, master: str | None = None, sample: int = 100) -> Tuning:
        """What its topics and brokers really are, and what is worth changing for that.

        Connects to its clusters and looks at the newest `sample` records of each partition; starts
        no Spark and moves nothing.
        """
        from headrace.admin.client import Clusters
        from headrace.runtime.measuring import measure
        from headrace.runtime.tuning import Tuning

        pipeline = self.pipeline
        session = settings(pipeline, master)
        return Tuning(measure(pipeline, self._planned, session, self.state, Clusters(), sample))

    def code(
        self,
        spark: SparkSession | None = None,
        master: str | None = None,
        debug: bool = False,
    ) -> str:
        """A standalone PySpark script that does the same work.

        Spark is asked for columns and types; nothing is read.
        """
        from headrace.cluster.lock import jar_set
        from headrace.codeview.view import script

        packages = tuple(jar.coordinate for jar in jar_set("spark"))
        plan = self.plan
        with self._looking(spark, master, debug) as session:
            return script(plan, session, settings(self.pipeline, master), packages)

    def preview(
        self,
        rows: int = 20,
        scan: int = 1000,
        spark: SparkSession | None = None,
        master: str | None = None,
        debug: bool = False,
    ) -> Preview:
        """Rows made of the newest records; no position moves and nothing is written."""
        from headrace.runtime.preview import preview

        pipeline = self.pipeline
        with self._looking(spark, master, debug) as session:
            return preview(pipeline, session, rows, scan)

    @contextmanager
    def _looking(
        self, spark: SparkSession | None, master: str | None, debug: bool
    ) -> Iterator[SparkSession]:
        """A session to look at something with: the caller's, or one for the moment."""
        if spark is not None:
            yield adopt(spark)
            return
        folder = self.project.ensure(self.project.states)
        session = start(settings(self.pipeline, master), folder / "preview.log", debug)
        try:
            yield session
        finally:
            session.stop()

    def run(
        self,
        spark: SparkSession | None = None,
        master: str | None = None,
        once: bool = False,
        on_event: Listener | None = None,
        debug: bool = False,
        reset_offsets: bool = False,
        commit: bool = True,
    ) -> Summary:
        """Run until it ends; a stream ends when it is stopped, or with `once` when all is read.

        With `reset_offsets` the `offset` of its sources is followed though it has been before.
        Without `commit` a batch writes its sinks and moves no position.
        """
        return self.prepare(spark, master, once, on_event, debug, reset_offsets, commit).wait()

    def prepare(
        self,
        spark: SparkSession | None = None,
        master: str | None = None,
        once: bool = False,
        on_event: Listener | None = None,
        debug: bool = False,
        reset_offsets: bool = False,
        commit: bool = True,
    ) -> Run:
        """A run that is not started yet: `start` it beside other work, or `wait` for its end."""
        from headrace.runtime.engine import Engine

        if not commit and self.pipeline.mode is not Mode.BATCH:
            raise DefinitionError(
                f"{self.pipeline.name} is a stream, whose position moves with every batch",
                hint="only `mode: batch` can run without it; to look at rows, use `preview`",
            )
        listener = on_event or (lambda _event: None)
        engine = Engine(
            self.plan, self.project, listener, spark, master, once, debug, reset_offsets, commit
        )
        return Run(engine)

    @contextmanager
    def offsets(
        self, spark: SparkSession | None = None, master: str | None = None, debug: bool = False
    ) -> Iterator[StoredPositions]:
        """The positions of a pipeline that reads in batches, to be seen and moved."""
        from headrace.runtime.standing import StoredPositions

        plan = self.plan
        with self._looking(spark, master, debug) as session:
            yield StoredPositions(plan, session, self.state)

    def standing(self) -> list[Standing]:
        """Where a stream stands by its checkpoints; needs no Spark."""
        from headrace.runtime.standing import checkpointed

        return checkpointed(self.plan, self.state)

    @property
    def state(self) -> PipelineState:
        return PipelineState(self.project.state(self.pipeline.name))


class Run:
    """One run of a pipeline."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._thread: threading.Thread | None = None
        self._result: Summary | None = None
        self._failure: BaseException | None = None

    def start(self) -> Run:
        """In a thread of its own; `wait` gives its result or raises its error."""
        self._thread = threading.Thread(target=self._work, name="headrace-run", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Finish the batch in hand and end. Returns at once; `wait` for the end."""
        self._engine.stop()

    @property
    def active(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> Summary:
        """Until the end; a run that was not started is run here, in the caller's thread."""
        if self._thread is None:
            return self._engine.run()  # type: ignore[no-any-return]
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        assert self._result is not None
        return self._result

    def _work(self) -> None:
        try:
            self._result = self._engine.run()
        except BaseException as error:
            self._failure = error


def load(path: str | Path) -> Definition:
    """Read a pipeline file. Raises only when there is no such text; ask `check` for its faults."""
    return Definition(Path(path))
