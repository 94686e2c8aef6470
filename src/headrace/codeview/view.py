"""A plan as a standalone PySpark script, which does the same work without Headrace.

A third walk over the stages, beside `plan.explain` and the runtime. What a stage asks of Spark is
not repeated here: the runtime's own functions are called with recorders (`codeview.recording`), and
their calls are the script. What only Headrace has is not in it: locks, retries, progress, positions
shown to Kafka's tools, topics made and checked before the start.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from headrace.codeview.recording import Code, Recorded, render
from headrace.formats.carried import COLUMN, IS_NO_VALUE
from headrace.model.pipeline import PythonTransform, SqlTransform
from headrace.model.query import Query as SqlQuery
from headrace.plan.explain import words
from headrace.plan.stages import Apply, Decode, Plan, Query, Read
from headrace.runtime import rows, writing
from headrace.sinks.writer import Batch
from headrace.spec import Setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What `python script.py` and spark-submit decide.
_NOT_SET = ("spark.master", "spark.app.name")
_NAMES = {"batch", "batch_id", "builder", "expr", "os", "spark", "sys", "generation", "Path"}
_INDENT = "    "


def script(plan: Plan, session: tuple[Setting, ...], packages: tuple[str, ...]) -> str:
    """The script's text. `packages` are the Maven coordinates of the jars that Spark needs."""
    return "\n".join(_Stream(plan, session, packages).lines()) + "\n"


class _Script:
    """Lines as they grow, and what both kinds of scripts begin with."""

    def __init__(self, plan: Plan, session: tuple[Setting, ...], packages: tuple[str, ...]) -> None:
        self.plan = plan
        self.session = session
        self.packages = packages
        self.imports: set[str] = set()
        self.body: list[str] = []
        self.margin = ""

    def lines(self) -> list[str]:
        raise NotImplementedError

    # Writing

    def add(self, *lines: str) -> None:
        self.body.extend(f"{self.margin}{line}" if line else "" for line in lines)

    def comment(self, text: str) -> None:
        room = 98 - len(self.margin)
        line = "#"
        for word in text.split():
            if len(line) + 1 + len(word) > room:
                self.add(line)
                line = "#"
            line += f" {word}"
        self.add(line)

    def assign(self, name: str, value: Recorded) -> Recorded:
        self.add(f"{name} = {render(value, self.margin, len(name) + 3)}")
        return self.name(name)

    def name(self, *parts: str) -> Recorded:
        """A Spark object that the script has a name for."""
        return Recorded(parts, self._act)

    def _act(self, statement: Recorded) -> None:
        self.add(render(statement, self.margin))

    @contextmanager
    def indented(self) -> Iterator[None]:
        before, self.margin = self.margin, self.margin + _INDENT
        yield
        self.margin = before

    # Parts

    def start(self) -> None:
        """The session, with the settings that a run would have."""
        self.add("builder = SparkSession.builder.appName(" + render(self.plan.pipeline.name) + ")")
        origin = ""
        for setting in self.session:
            if setting.name not in _NOT_SET:
                if setting.origin != origin:
                    self.comment(setting.origin)
                origin = setting.origin
                self.assign("builder", self.name("builder").config(setting.name, setting.value))
        self.add(
            'if "SPARK_JARS" in os.environ:',
            '    builder = builder.config("spark.jars", os.environ["SPARK_JARS"])',
            "else:",
            '    builder = builder.config("spark.jars.packages", ",".join(PACKAGES))',
            "spark = builder.getOrCreate()",
        )
        self.imports |= {"import os", "from pyspark.sql import DataFrame, SparkSession"}

    def transform(self, stage: Apply, frames: dict[str, Recorded]) -> None:
        step = stage.transform
        self.add("")
        self.comment(f"Step {step.name}")
        variable = _variable(step.name)
        if isinstance(step, SqlTransform):
            for name in step.inputs:
                frames[name].createOrReplaceTempView(name)
            if step.previous is not None:
                frames[step.previous].createOrReplaceTempView("input")
            frames[step.name] = self.assign(variable, self.name("spark").sql(_sql(step, stage)))
        elif isinstance(step, PythonTransform):
            module, _, function = step.function.rpartition(".")
            self.imports.add(f"from {module} import {function}")
            call = self.name(f"{function}({_variable(step.inputs[0])})")
            frames[step.name] = self.assign(variable, call)

    def decode(self, stage: Decode, carried: bool, raw: Recorded) -> Recorded:
        source = stage.source
        self.add("")
        self.comment(f"Decode: {words(stage)}")
        decoded = cast(Any, source.decode(cast("DataFrame", raw), stage.originals))
        # The counter is also a wall that keeps filters from being moved below the decoding.
        counter = Code('expr("count(1)").alias("records")')
        self.imports.add("from pyspark.sql.functions import expr")
        counted = decoded.observe(f"read_{source.name}", counter)
        found = counted if carried else cast(Any, rows.good(counted))
        return self.assign(_variable(source.name), found)


class _Stream(_Script):
    """Every query from its own checkpoint; each batch is written by a function."""

    def lines(self) -> list[str]:
        self.start()
        self.generation()
        self.starter()
        for query in self.plan.queries:
            self.query(query)
        self.add("", "", "for query in spark.streams.active:", "    query.awaitTermination()")
        return [*self.head(), *self.body]

    def head(self) -> list[str]:
        name = self.plan.pipeline.name
        self.imports.add("import sys")
        sinks = ", ".join(sink.target for sink in self.plan.sinks)
        return [
            f'"""{name}: from {self.plan.sources[0].origin} to {sinks}.',
            "",
            f"Made by `headrace explain --code`. {_RUN}",
            "    python script.py            until it is stopped",
            "    python script.py --once     what is there now, and end",
            "",
            "Jars are fetched by Spark, or taken from the files that SPARK_JARS lists. Checkpoints are",
            "kept in the folder that CHECKPOINTS names, or else in checkpoints/ here.",
            '"""',
            "",
            *sorted(line for line in self.imports if line.startswith("import ")),
            *sorted(line for line in self.imports if line.startswith("from pathlib")),
            "",
            *sorted(
                line
                for line in self.imports
                if line.startswith("from ") and not line.startswith("from pathlib")
            ),
            "",
            f"PACKAGES = {render(self.packages, '', 11)}",
            f'CHECKPOINTS = Path(os.environ.get("CHECKPOINTS", "checkpoints")) / {render(name)}',
            "",
        ]

    def generation(self) -> None:
        """A name for one life of the checkpoints, by which Delta knows a batch again."""
        self.imports |= {"import uuid", "from pathlib import Path"}
        self.add(
            "",
            "# Tables know a batch again by its number and by this name of the checkpoints' life.",
            "CHECKPOINTS.mkdir(parents=True, exist_ok=True)",
            'generation_file = CHECKPOINTS / "generation"',
            "if not generation_file.exists():",
            "    generation_file.write_text(uuid.uuid4().hex)",
            "generation = generation_file.read_text()",
        )

    def query(self, query: Query) -> None:
        raw: dict[str, Recorded] = {}
        frames: dict[str, Recorded] = {}
        for stage in query.stages:
            if isinstance(stage, Read):
                self.add("", "")
                self.comment(f"Read: {words(stage)}")
                found = stage.source.stream(cast("SparkSession", self.name("spark")))
                raw[stage.source.name] = self.assign(f"raw_{stage.source.name}", cast(Any, found))
            elif isinstance(stage, Decode):
                frames[stage.source.name] = self.decode(
                    stage, query.carried, raw[stage.source.name]
                )
            elif isinstance(stage, Apply):
                self.transform(stage, frames)
        self.writer(query)
        self.begin(query, frames[query.frame])

    def writer(self, query: Query) -> None:
        self.add("", "", f"def {_writer(query)}(batch: DataFrame, batch_id: int) -> None:")
        with self.indented():
            recorded = cast("DataFrame", self.name("batch"))
            batch = Batch(cast(int, Code("batch_id")), str(Code("generation")))
            writing.write(query, self.plan.pipeline.name, recorded, batch)

    def begin(self, query: Query, frame: Recorded) -> None:
        self.add("", "", f"start({render(frame)}, {_writer(query)}, {render(query.name)})")

    def starter(self) -> None:
        self.add(
            "",
            "",
            "def start(rows: DataFrame, write: Callable[[DataFrame, int], None], name: str) -> None:",
            "    stream = rows.writeStream.foreachBatch(write).queryName(name)",
            '    stream = stream.option("checkpointLocation", str(CHECKPOINTS / name))',
            '    if "--once" in sys.argv:',
            "        stream = stream.trigger(availableNow=True)",
        )
        trigger_ms = self.plan.pipeline.options["trigger"]
        if trigger_ms:
            self.add(
                "    else:",
                f'        stream = stream.trigger(processingTime="{trigger_ms} milliseconds")',
            )
        self.add("    stream.start()")
        self.imports.add("from collections.abc import Callable")


_RUN = "It needs pyspark and delta-spark:"


def _sql(step: SqlTransform, stage: Apply) -> str:
    if not stage.carried:
        return step.sql
    query, _ = SqlQuery.parse(step.sql, step.span)
    assert query is not None  # a definition with broken SQL has no plan
    return query.carrying(COLUMN, IS_NO_VALUE)


def _writer(query: Query) -> str:
    return "write_" + query.name.replace(".", "_")


def _variable(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) or name in _NAMES else name
