"""The Delta source: rows appended to a Delta table.

A stream is Delta's own. A batch reads the files that the commits after its position have added,
through Delta's own reader, so that deletion vectors, column mapping and partitions are its
business; the position is the next version. A first run reads the table as it is. A commit that
updates or deletes has no appended rows to tell from the others, and is refused or passed over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.errors import PathNotFound, SourceChanged
from headrace.formats.carried import COLUMN, located
from headrace.formats.delta_log import log_of, snapshot_of
from headrace.model import pipeline as model
from headrace.model.offsets import Offsets, Range
from headrace.model.schema import literal
from headrace.sources.plain import PlainSource
from headrace.sources.reader import Access
from headrace.spec import Option, Setting, Spec, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_FILES = 1000
_NO_TABLE = ("DELTA_SCHEMA_NOT_SET", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST")


@dataclass(frozen=True)
class DeltaSource(PlainSource):
    STREAMS: ClassVar[bool] = True
    REPLAYS: ClassVar[bool] = True
    SPEC: ClassVar[Spec] = Spec(
        "source",
        "delta",
        "Rows appended to a Delta table.",
        (
            Option(
                "path",
                Type.TEXT,
                "The table's folder; a relative one is beside the pipeline file.",
                required=True,
                example="tables/orders",
            ),
            Option(
                "starting_version",
                Type.INTEGER,
                "A first run begins with the commit of this version. Default: with all rows that "
                "are in the table.",
                minimum=1,
                example="12",
            ),
            Option(
                "skip_change_commits",
                Type.FLAG,
                "Pass over commits that update or delete rows. Without it they stop the pipeline, "
                "as their rows cannot be told from those that were read before.",
                default=False,
            ),
            Option(
                "max_files_per_batch",
                Type.INTEGER,
                "The most files that a batch of a stream reads.",
                default=DEFAULT_FILES,
                minimum=1,
            ),
        ),
    )

    @property
    def path(self) -> str:
        return self.located(self.options["path"])

    @property
    def topic(self) -> str:
        return self.path

    @property
    def origin(self) -> str:
        return f"rows appended to Delta table {self.path}"

    @property
    def shape(self) -> str:
        return "the table's columns as they are"

    def first(self, mode: model.Mode) -> Setting:  # noqa: ARG002
        version = self.options["starting_version"]
        value = f"version {version}" if version else "all rows of the table"
        return self.options.setting("startingVersion", "starting_version", value)

    def settings(self, mode: model.Mode) -> tuple[Setting, ...]:
        options = self.options
        path = options.setting("path", "path", self.path)
        if mode is model.Mode.BATCH:
            return (path,)
        skip = str(options["skip_change_commits"]).lower()
        limits = (
            options.setting("skipChangeCommits", "skip_change_commits", skip),
            options.setting("maxFilesPerTrigger", "max_files_per_batch"),
        )
        if "starting_version" not in options:
            return path, *limits
        return path, options.setting("startingVersion", "starting_version"), *limits

    def stream(self, spark: SparkSession) -> DataFrame:
        settings = {setting.name: setting.value for setting in self.settings(model.Mode.STREAM)}
        with self._must_exist():
            return spark.readStream.format("delta").options(**settings).load()

    def find(self, access: Access, stored: Offsets) -> Range:
        start = stored.get(self.key, self.options["starting_version"] or 0)
        end = self._version(access.spark) + 1
        if self.key in stored and start > end:
            detail = f"it is at version {end - 1}, and version {start - 1} was read"
            hint = (
                "the table was made anew: give the pipeline another name to read it from the start"
            )
            raise SourceChanged(self._title, detail, hint)
        return self.span_of(min(start, end), end, "versions")

    def newest(self, access: Access, count: int) -> Range:  # noqa: ARG002
        """The whole table, of which Spark reads no more than the preview takes."""
        return self.span_of(0, self._version(access.spark) + 1, "versions")

    def batch(self, spark: SparkSession, found: Range) -> DataFrame:
        if not found.end:
            return spark.read.format("delta").load(self.path).where("false")
        start, end = found.start[self.key], found.end[self.key]
        table = spark.read.format("delta").option("versionAsOf", end - 1)
        if start == 0:
            return table.load(self.path)
        if start == end:
            return table.load(self.path).where("false")
        return self._added(spark, start, end)

    def decode(self, raw: DataFrame, originals: int | None = None) -> DataFrame:  # noqa: ARG002
        return raw.selectExpr("*", f"{located(literal(self.path))} AS {COLUMN}")

    @property
    def _title(self) -> str:
        return f"Delta table {self.path}"

    @contextlib.contextmanager
    def _must_exist(self) -> Iterator[None]:
        from pyspark.errors import AnalysisException

        try:
            yield
        except AnalysisException as error:
            if error.getCondition() in _NO_TABLE:
                raise PathNotFound("the Delta table", self.path) from error
            raise

    # Delta has no public call for the files of some commits. What follows is what its own stream
    # is made of, and its version is pinned.

    def _version(self, spark: SparkSession) -> int:
        version = int(snapshot_of(spark, log_of(spark, self.path)).version())
        if version < 0:
            raise PathNotFound("the Delta table", self.path)
        return version

    def _added(self, spark: SparkSession, start: int, end: int) -> DataFrame:
        """The rows of the files that the commits from `start` up to, and not with, `end` added."""
        from pyspark.sql import DataFrame

        jvm: Any = spark._jvm
        log = log_of(spark, self.path)
        files = jvm.java.util.ArrayList()
        expected = start
        for version, actions in _commits(jvm, log, start, end):
            if version != expected:
                self._raise_lost(expected, version)
            for file in self._files(version, actions):
                files.add(file)
            expected = version + 1
        if expected != end:
            self._raise_lost(expected, end)
        some = jvm.scala.jdk.javaapi.CollectionConverters.asScala(files).toSeq()
        snapshot = snapshot_of(spark, log)
        return DataFrame(
            log.createDataFrame(snapshot, some, False, jvm.scala.Option.empty()), spark
        )

    def _files(self, version: int, actions: list[tuple[str, Any]]) -> list[Any]:
        """The files whose rows a commit appended; OPTIMIZE and the like change no data."""
        if not any(kind == "RemoveFile" and action.dataChange() for kind, action in actions):
            return [a for kind, a in actions if kind == "AddFile" and a.dataChange()]
        if self.options["skip_change_commits"]:
            return []
        what = next((a.operation() for kind, a in actions if kind == "CommitInfo"), "a commit")
        hint = (
            "`skip_change_commits: true` passes over such commits; to read the table from the "
            "start again, give the pipeline another name"
        )
        detail = f"version {version} ({what}) changed or deleted rows that may have been read"
        raise SourceChanged(self._title, detail, hint)

    def _raise_lost(self, first: int, end: int) -> None:
        detail = f"versions {first} to {end - 1} are no longer in its log"
        hint = "run more often than `delta.logRetentionDuration`; to read the table from the start "
        raise SourceChanged(self._title, detail, hint + "again, give the pipeline another name")


def _commits(
    jvm: Any, log: Any, start: int, end: int
) -> Iterator[tuple[int, list[tuple[str, Any]]]]:
    """Each version with its actions and their kinds."""
    changes = log.getChanges(start, end - 1, jvm.scala.Option.empty(), False)
    while changes.hasNext():
        commit = changes.next()
        actions = commit._2()
        every = (actions.apply(number) for number in range(actions.size()))
        yield commit._1(), [(action.getClass().getSimpleName(), action) for action in every]
