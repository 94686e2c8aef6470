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

from headrace.codeview.secrets import secrets
from headrace.errors import DefinitionError
from headrace.frontend.load import Examined, of_definitions, spoken, survey
from headrace.frontend.load import from_catalog as load_from_catalog
from headrace.frontend.sql.definitions import Definitions, catalog_file
from headrace.frontend.sql.statements import CreatePipeline
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
from headrace.spec import hide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.runtime.preview import Preview
    from headrace.runtime.schemas import SourceSchema
    from headrace.runtime.sink_schemas import Verdict
    from headrace.runtime.standing import Standing, StoredPositions
    from headrace.runtime.tuning import Tuning


class Definition:
    """A pipeline that has been read: from a YAML file, an SQL file or the catalog.

    Nothing has been started yet. An SQL file may hold several pipelines: all of them are checked,
    and what is done with one needs its name, `pipeline`. What has been `examined` is not read.
    """

    def __init__(
        self,
        path: Path,
        project: Project | None = None,
        pipeline: str | None = None,
        examined: Examined | None = None,
    ) -> None:
        self.path = path
        self.project = project or Project.find(path.parent)
        self._examined = examined or survey(path, pipeline, self.project)

    def check(self) -> list[Diagnostic]:
        """Every fault and warning, in order of place; empty when all is well."""
        return sorted([*self._examined.faults, *self._of_plans], key=lambda fault: fault.span)

    @cached_property
    def _of_plans(self) -> list[Diagnostic]:
        """What is wrong with what would be done."""
        found: list[Diagnostic] = []
        for planned in self._plans.values():
            found += [*promises.refusals(planned), *stateful.refusals(planned), *doubts(planned)]
        return [*spoken(found, self._examined)]

    @cached_property
    def _plans(self) -> dict[str, Plan]:
        """By pipeline, whether or not its promises are enough; one without a sink has none."""
        return {each.name: plan(each) for each in self._examined.pipelines if each.sinks}

    @property
    def pipelines(self) -> tuple[str, ...]:
        """The names of all that it is about, those with faults included."""
        return self._examined.names

    @property
    def pipeline(self) -> Pipeline:
        """What it means; raises DefinitionError with all faults when it has any."""
        title = self._examined.title
        faults = [fault for fault in self.check() if fault.severity is Severity.ERROR]
        if faults:
            raise DefinitionError(f"{title} has {len(faults)} fault(s)", faults)
        if len(self._examined.pipelines) > 1:
            names = ", ".join(self.pipelines)
            hint = f"name one with `--pipeline`: {names}"
            raise DefinitionError(f"{title} has {len(self.pipelines)} pipelines", hint=hint)
        if not self._examined.pipelines:
            hint = "add CREATE PIPELINE name AS SELECT …, or INSERT INTO table SELECT …"
            raise DefinitionError(f"there is no pipeline in {title}", hint=hint)
        return self._examined.pipelines[0]

    @property
    def _planned(self) -> Plan | None:
        return self._plans.get(self.pipeline.name)

    @property
    def plan(self) -> Plan:
        """What a run will do; a definition without a sink has no plan."""
        planned = self._planned
        if planned is None:
            span = Span(self._examined.title, 1, 1)
            hint = "add `sink:`; without one it can be checked and previewed"
            fault = Diagnostic("MISSING_SINK", "there is no `sink:` to run into", span, hint)
            raise DefinitionError(
                f"{self._examined.title} has no sink", [*spoken([fault], self._examined)]
            )
        return planned

    def explain(self, master: str | None = None, online: bool = False) -> dict[str, Any]:
        """Stages, settings with their origins, and promises, as plain values.

        With `online` the brokers are asked how many partitions there are to read, and registries
        for the columns of messages.
        """
        story = explain(
            self._known() if online else self.plan,
            settings(self.pipeline, master),
            self._partitions() if online else None,
        )
        return hide(story, secrets(self.pipeline))  # type: ignore[no-any-return]

    def _known(self) -> Plan:
        """The plan with what registries know of its messages; nothing of it is kept."""
        from headrace.runtime.schemas import SourceSchemas

        return SourceSchemas(self.state, lambda _event: None, keep=False).bound(self.plan)

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

    def source_schemas(self, on_event: Listener | None = None) -> list[SourceSchema]:
        """What registries know of the messages of its sources, and the columns that come of it.

        Nothing of it is kept. `on_event` gets warnings.
        """
        from headrace.runtime.schemas import SourceSchemas, source_schemas

        known = SourceSchemas(self.state, on_event or (lambda _event: None), keep=False)
        planned = self._planned
        return source_schemas(known.bound(planned)) if planned is not None else []

    @property
    def writes_by_registries(self) -> bool:
        """Whether one of its sinks writes by schemas of a registry."""
        from headrace.runtime.sink_schemas import by_registries

        planned = self._planned
        return planned is not None and by_registries(planned)

    def sink_schemas(
        self, spark: SparkSession | None = None, master: str | None = None, debug: bool = False
    ) -> list[Verdict]:
        """Whether registries would take the schemas of its sinks; they are asked, and nothing is
        registered. Spark is asked for the types of rows, if there is such a sink.
        """
        from headrace.runtime.sink_schemas import SinkSchemas

        if not self.writes_by_registries:
            return []
        plan = self._known()
        with self._looking(spark, master, debug) as session:
            return SinkSchemas().verdicts(plan, session)

    def code(
        self,
        spark: SparkSession | None = None,
        master: str | None = None,
        debug: bool = False,
    ) -> str:
        """A standalone PySpark script that does the same work.

        Spark is asked for columns and types, and registries for the schemas of messages; nothing is
        read.
        """
        from headrace.cluster.lock import jar_set
        from headrace.codeview.view import script

        packages = tuple(jar.coordinate for jar in jar_set("spark"))
        plan = self._known()
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
            return preview(pipeline, session, rows, scan, self.state)

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
        accept_schema: bool = False,
    ) -> Summary:
        """Run until it ends; a stream ends when it is stopped, or with `once` when all is read.

        With `reset_offsets` the `offset` of its sources is followed though it has been before.
        Without `commit` a batch writes its sinks and moves no position.
        With `accept_schema` the columns of sources that go by a registry are those of its newest
        schema, whatever they have been.
        """
        return self.prepare(
            spark, master, once, on_event, debug, reset_offsets, commit, accept_schema
        ).wait()

    def prepare(
        self,
        spark: SparkSession | None = None,
        master: str | None = None,
        once: bool = False,
        on_event: Listener | None = None,
        debug: bool = False,
        reset_offsets: bool = False,
        commit: bool = True,
        accept_schema: bool = False,
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
            self.plan,
            self.project,
            listener,
            spark,
            master,
            once,
            debug,
            reset_offsets,
            commit,
            accept_schema,
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
        """Where a stream stands, by its checkpoints or the group that it shares; needs no Spark."""
        from headrace.runtime.standing import checkpointed, of_group

        shared = self.plan.shared
        return checkpointed(self.plan, self.state) if shared is None else of_group(shared)

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


def load(path: str | Path, pipeline: str | None = None) -> Definition:
    """Read a pipeline file, or one pipeline of an SQL file that holds several.

    Raises only when there is no such text or pipeline; ask `check` for its faults.
    """
    return Definition(Path(path), pipeline=pipeline)


def from_catalog(project: Project, name: str) -> Definition:
    """A pipeline that was created in SQL and kept. Raises only when there is none of this name."""
    return _kept(project, load_from_catalog(project, name))


def from_definitions(
    project: Project, definitions: Definitions, pipeline: str | CreatePipeline
) -> Definition:
    """A pipeline of definitions that are in no file, or one that is not among them."""
    return _kept(project, of_definitions(definitions, pipeline, project))


def _kept(project: Project, examined: Examined) -> Definition:
    return Definition(project.root / catalog_file(examined.title), project, examined=examined)
