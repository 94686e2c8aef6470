"""A plan as a standalone PySpark script, which does the same work without Headrace.

A third walk over the stages, beside `plan.explain` and the runtime. What a stage asks of Spark is
not repeated here: the runtime's own functions are called with stand-ins (`codeview.recording`), and
their calls are the script. What only Headrace has is not in it: locks, retries, progress, positions
shown to Kafka's tools, topics made and checked before the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from headrace.codeview import text
from headrace.codeview.frames import Frames
from headrace.codeview.recording import Code, NotRecordable, Recorded, render
from headrace.codeview.secrets import secrets
from headrace.codeview.text import Script, variable
from headrace.errors import DefinitionError
from headrace.formats.options import Compression, Wanted
from headrace.model.offsets import Range
from headrace.model.pipeline import Mode, OutputMode
from headrace.plan.explain import words
from headrace.plan.stages import Plan, Query, Read, SetAside
from headrace.runtime import writing
from headrace.runtime.rows import good
from headrace.runtime.sink_schemas import SinkSchemas
from headrace.sinks.kafka import KafkaSink
from headrace.sinks.writer import Batch, NotScripted, Scripted
from headrace.sources.kafka import KafkaSource
from headrace.sources.reader import SourceReader
from headrace.spec import Setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def script(
    plan: Plan, spark: SparkSession, session: tuple[Setting, ...], packages: tuple[str, ...]
) -> str:
    """The script's text.

    `spark` is asked for columns and types only; `session` are the settings that a run would have,
    and `packages` the Maven coordinates of the jars that it would use.
    """
    if plan.shared is not None:
        raise DefinitionError(
            f"there is no script for this pipeline: `{plan.shared.name}` shares its partitions, "
            "which takes a member of the group that only Headrace is",
            hint="run it with `headrace run`; `headrace explain` says what it does",
        )
    _refuse_schemas(plan)
    plan = SinkSchemas(register=False).bound(plan, spark)
    kind = _Stream if plan.pipeline.mode is Mode.STREAM and not plan.polled else _Batch
    return kind(plan, spark).text(session, packages)


def _refuse_schemas(plan: Plan) -> None:
    """The ids of schemas are known when they are registered, and Spark alone has no Protobuf."""
    for source in plan.sources:
        for wanted in (source.wanted, source.key_wanted) if isinstance(source, KafkaSource) else ():
            reason = _unscripted(wanted) if wanted is not None else None
            if reason is not None:
                raise NotScripted(source.name, reason, "source")
    for sink in plan.sinks:
        for part, wanted in sink.typed.items() if isinstance(sink, KafkaSink) else ():
            if wanted.registered:
                reason = f"the schema of its {part}s is registered when Headrace starts it"
                raise NotScripted(sink.name, reason)
            if wanted.language == "protobuf":
                raise NotScripted(sink.name, "only Headrace writes Protobuf")


def _unscripted(wanted: Wanted) -> str | None:
    """Why messages are read by functions of Headrace's, and not by SQL alone."""
    if wanted.language == "protobuf":
        return "only Headrace reads Protobuf"
    glue = wanted.registered and wanted.registry is not None and wanted.registry.kind == "glue"
    if glue and wanted.compression is not Compression.NONE:
        return "its messages may be compressed, and only Headrace unpacks them"
    return None


class _View:
    """What the scripts of both modes have in common."""

    def __init__(self, plan: Plan, spark: SparkSession) -> None:
        self.plan = plan
        self.spark = spark
        self.script = Script(plan.pipeline.name, secrets(plan.pipeline))

    def text(self, session: tuple[Setting, ...], packages: tuple[str, ...]) -> str:
        self.script.session(session)
        self.begin()
        for query in self.plan.queries:
            self.query(query)
        self.end()
        return self.script.whole(self.about(), packages)

    def begin(self) -> None:
        raise NotImplementedError

    def query(self, query: Query) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def about(self) -> list[str]:
        """The lines of the script's own description."""
        sources = ", ".join(source.origin for source in self.plan.sources)
        sinks = ", ".join(sink.target for sink in self.plan.sinks)
        return [f"{self.plan.pipeline.name}: {sources} to {sinks}.", ""]

    @property
    def recorded_spark(self) -> SparkSession:
        return cast("SparkSession", self.script.name("spark", real=self.spark))

    def rows(self, query: Query) -> Recorded:
        """The rows that a query writes, and the code that makes them."""
        raw = {}
        for stage in query.stages:
            if isinstance(stage, Read):
                self.script.gap()
                self.script.comment(f"Read: {words(stage)}")
                name = stage.source.name
                raw[name] = self.script.assign(f"raw_{name}", self.read(stage.source))
        return Frames(self.script, self.recorded_spark, query.watermarks).build(query, raw)

    def read(self, source: SourceReader) -> Recorded:
        raise NotImplementedError

    def write(self, query: Query, rows: Recorded, batch: Batch) -> None:
        """What is written of `rows`: by `runtime.writing`, less what looks at rows."""
        if query.way is not None:
            reason = "exactly once into Kafka needs a ledger, which only Headrace keeps"
            named = query.kafka_sinks[0].name if query.kafka_sinks else query.name
            raise NotScripted(named, reason)
        pipeline = self.plan.pipeline.name
        aside = query.aside
        several = writing.jobs(query) > 1
        kept = cast("DataFrame", rows.persist() if several else rows)
        if aside is not None and aside.limit is not None:
            self._refuse_too_many(aside, rows)
        if aside is not None and aside.alone:
            self.script.comment(words(aside))
            writing.write_aside(aside, pipeline, kept, batch)
        for stage in query.writes:
            self.script.comment(words(stage))
            if isinstance(stage.sink, Scripted):
                stage.sink.scripted(good(kept) if query.carried else kept, batch)
            else:
                writing.write_sink(query, stage, pipeline, kept, batch)
        if several:
            rows.unpersist()

    def _refuse_too_many(self, aside: SetAside, rows: Recorded) -> None:
        from headrace.formats.carried import IS_BAD

        self.script.add(
            f"bad = {render(rows)}.where({render(IS_BAD)}).count()",
            f"if bad > {aside.limit}:",
            f'    raise RuntimeError(f"{{bad}} bad records, and at most {aside.limit} may be")',
        )


class _Stream(_View):
    """Every query from its own checkpoint; each batch is written by a function."""

    def about(self) -> list[str]:
        return [*super().about(), *text.STREAM_ABOUT]

    def begin(self) -> None:
        self.script.constant("CHECKPOINTS", text.folder("CHECKPOINTS", "checkpoints"))
        self.script.imports |= {"import sys", "import uuid", "from collections.abc import Callable"}
        self.script.add(*text.GENERATION.splitlines(), *text.START.splitlines())
        trigger_ms = self.plan.pipeline.options["trigger"]
        if trigger_ms:
            self.script.add(
                "    else:",
                f'        stream = stream.trigger(processingTime="{trigger_ms} milliseconds")',
            )
        self.script.add("    stream.start()")

    def read(self, source: SourceReader) -> Recorded:
        return cast(Recorded, source.stream(self.recorded_spark))

    def query(self, query: Query) -> None:
        rows = self.rows(query)
        function = "write_" + query.name.replace(".", "_")
        self.script.gap()
        self.script.add(f"def {function}(batch: DataFrame, batch_id: int) -> None:")
        with self.script.indented():
            # In a batch the rows are not a stream any more.
            batch = self.spark.createDataFrame([], rows.real.schema)
            number = Batch(cast(int, Code("batch_id")), str(Code("generation")))
            self.write(query, self.script.name("batch", real=batch), number)
        self.script.gap()
        mode = "" if query.output_mode is OutputMode.APPEND else f", {render(query.output_mode)}"
        self.script.add(f"start({render(rows)}, {function}, {render(query.name)}{mode})")

    def end(self) -> None:
        self.script.gap()
        self.script.add("for query in spark.streams.active:", "    query.awaitTermination()")


class _Batch(_View):
    """From the offsets in a Delta table to the ends of the topics, and the table last."""

    def about(self) -> list[str]:
        return [*super().about(), *text.BATCH_ABOUT]

    def begin(self) -> None:
        self.script.constant("OFFSETS", text.folder("OFFSETS", "offsets"))
        self.script.imports |= {
            "import json",
            "from confluent_kafka import IsolationLevel, TopicPartition",
            "from confluent_kafka.admin import AdminClient, OffsetSpec",
            "from delta import DeltaTable",
        }
        self.script.add(*text.RANGES.splitlines())
        for source in self.plan.sources:
            self._find(source)

    def _find(self, source: SourceReader) -> None:
        if not isinstance(source, KafkaSource) or source.options["topic_pattern"]:
            raise NotRecordable(f"how {source.origin} is read bit by bit cannot be told without it")
        first = source.first(Mode.BATCH).value
        self.script.gap()
        start, end = f"start_{source.name}", f"end_{source.name}"
        asked = ", ".join(
            render(value) for value in (source.name, source.bootstrap, source.topics, first)
        )
        self.script.add(f"{start}, {end} = find({asked})")

    def read(self, source: SourceReader) -> Recorded:
        nothing = Range({("topic", 0): 0}, {("topic", 0): 0})
        found = cast(Recorded, source.batch(self.recorded_spark, nothing))
        start, end = f"start_{source.name}", f"end_{source.name}"
        return found.with_options(
            assign=Code(f"as_json({end}, positions=False)"),
            startingOffsets=Code(f"as_json({start})"),
            endingOffsets=Code(f"as_json({end})"),
        )

    def query(self, query: Query) -> None:
        rows = self.rows(query)
        self.script.gap()
        self.write(
            query, self.script.assign(f"{variable(query.frame)}_rows", rows), Batch(None, "")
        )

    def end(self) -> None:
        ends = ", ".join(f"{render(s.name)}: end_{s.name}" for s in self.plan.sources)
        self.script.gap()
        self.script.comment("Only now, when everything is written, do the positions move.")
        self.script.add(f"store({{{ends}}})")
