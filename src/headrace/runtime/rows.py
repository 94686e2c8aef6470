"""The DataFrames of a query: read, decoded and transformed, in stream and batch alike.

Everything here is lazy: it builds what Spark will run and reads nothing. `observe` counts records
where they pass, and is also a wall that keeps Spark from moving a filter below the decoding, which
would parse every message twice (docs/decisions/0003).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.errors import DefinitionError
from headrace.formats.carried import (
    COLUMN,
    IS_BAD,
    IS_GOOD,
    IS_NO_VALUE,
    IS_NOT_BAD,
    IS_REFUSED,
    MESSAGE,
    refusing,
)
from headrace.model.expressions import projection
from headrace.model.pipeline import (
    DeduplicateTransform,
    PythonTransform,
    Remember,
    SqlTransform,
)
from headrace.model.query import Query as SqlQuery
from headrace.model.schema import quote
from headrace.plan.stages import Apply, Call, Decode, OnFailure, Plan, Query, Select, Watermark
from headrace.runtime import failures, functions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

INPUT_COUNTS = "headrace_in_"
OUTPUT_COUNTS = "headrace_out"
DROPPED_COUNTS = "headrace_dropped_"


def build(
    spark: SparkSession,
    query: Query,
    raw: Mapping[str, DataFrame],
    name: Callable[[str], str | Observation] = str,
) -> DataFrame:
    """The rows that `query` writes, from the raw records of its sources; counted on the way.

    `name` gives what the counts are kept under: their name in a stream's reports, or an
    Observation.
    """
    rows = transformed(spark, query, raw, name)
    if not query.carried:
        return _counted(rows, name(OUTPUT_COUNTS), written="count(1)")
    refused = {"refused": _count(IS_REFUSED)} if query.calls or query.refusals else {}
    for refuse in query.refusals:
        rows = refuse.sink.refusing(rows, refuse.letters)
    return _counted(rows, name(OUTPUT_COUNTS), written=_count(IS_GOOD), **refused)


def transformed(
    spark: SparkSession,
    query: Query,
    raw: Mapping[str, DataFrame],
    name: Callable[[str], str | Observation] = str,
) -> DataFrame:
    """The rows of `query` after its steps, before its sinks have refused any."""
    tables = Tables(spark, name, query.watermarks)
    for decode in query.decodes:
        tables.decode(decode, raw[decode.source.name])
    for select in query.selects:
        tables.select(select)
    for stage in query.transforms:
        tables.apply(stage)
    return tables.frames[query.frame] if query.carried else tables.plain(query.frame)


def counts(plan: Plan, query: Query, seen: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """What the counters of a batch say: records and bad ones of the sources counted here."""
    inputs = [seen.get(INPUT_COUNTS + name, {}) for name in plan.counted_by(query)]
    output = seen.get(OUTPUT_COUNTS, {})
    later = [output, *(each for name, each in seen.items() if name.startswith(DROPPED_COUNTS))]
    return {
        "records": sum(each.get("records", 0) for each in inputs),
        "bad": sum(each.get("bad", 0) for each in inputs)
        + sum(each.get("refused", 0) for each in later),
        "written": output.get("written", 0) if query.writes else 0,
    }


def _count(condition: str) -> str:
    # Not `count_if`, for which Spark would copy every row into another projection.
    return f"count(IF({condition}, 1, NULL))"


def good(rows: DataFrame) -> DataFrame:
    """The rows that are values, without the hidden column."""
    return rows.where(IS_GOOD).drop(COLUMN)


def bad(rows: DataFrame) -> DataFrame:
    return rows.where(IS_BAD)


def _counted(rows: DataFrame, name: str | Observation, **counts: str) -> DataFrame:
    from pyspark.sql.functions import expr

    return rows.observe(name, *(expr(sql).alias(label) for label, sql in counts.items()))


@contextmanager
def _told(what: str) -> Iterator[None]:
    """What Spark refuses inside is told as a fault of `what`."""
    try:
        yield
    except DefinitionError:
        raise
    except Exception as error:
        raise failures.translate(error, what) from error


class Tables:
    """The sources and steps of a query by name, with the hidden column as far as it is carried."""

    def __init__(
        self,
        spark: SparkSession,
        name: Callable[[str], str | Observation],
        watermarks: Iterable[Watermark] = (),
    ) -> None:
        self._spark = spark
        self._name = name
        self._watermarks = {stage.table: stage for stage in watermarks}
        self.frames: dict[str, DataFrame] = {}
        self._plain: dict[str, DataFrame] = {}
        self._calls: set[str] = set()

    def decode(self, stage: Decode, raw: DataFrame) -> None:
        source = stage.source
        decoded = _counted(
            source.decode(raw, stage.originals),
            self._name(INPUT_COUNTS + source.name),
            records="count(1)",
            bad=_count(IS_BAD),
        )
        self.frames[source.name] = decoded if stage.keeps_bad else decoded.where(IS_NOT_BAD)

    def select(self, stage: Select) -> None:
        """After the counting, the wall that keeps expressions from parsing a record again."""
        rows = self.frames[stage.table]
        columns = [projection(each) for each in stage.columns]
        try:
            self.frames[stage.table] = rows.selectExpr(*columns, COLUMN)
        except Exception:
            for each in stage.columns:  # one of them is to blame, and has a place
                with _told(f"`columns.{each.name}` of `{stage.table}` at {each.span}"):
                    rows.selectExpr(projection(each))
            raise

    def apply(self, stage: Apply | Call) -> None:
        step = stage.transform
        with _told(f"step `{step.name}` at {step.span}"):
            self.frames[step.name] = self._applied(stage)

    def plain(self, name: str) -> DataFrame:
        """Only the values of a table; what a function failed for ends here, and is counted."""
        if name not in self._plain:
            rows = self.frames[name]
            if name in self._calls:
                rows = _counted(rows, self._name(DROPPED_COUNTS + name), refused=_count(IS_REFUSED))
            plain = good(rows) if COLUMN in rows.columns else rows
            self._plain[name] = self._timed(name, plain)
        return self._plain[name]

    def _timed(self, name: str, rows: DataFrame) -> DataFrame:
        stage = self._watermarks.get(name)
        if stage is None:
            return rows
        with _told(f"the watermark of `{name}` on `{stage.column}`"):
            return rows.withWatermark(stage.column, f"{stage.delay_ms} milliseconds")

    def _applied(self, stage: Apply | Call) -> DataFrame:
        if isinstance(stage, Call):
            return self._call(stage)
        step = stage.transform
        if isinstance(step, SqlTransform):
            return self._sql(step, stage.carried)
        if isinstance(step, DeduplicateTransform):
            return _first_of_each(step, self.plain(step.inputs[0]))
        return self._of_rows(step, self.plain(step.inputs[0]))

    def _of_rows(self, step: PythonTransform, rows: DataFrame) -> DataFrame:
        return functions.of_rows(step, rows)

    def _sql(self, step: SqlTransform, carried: bool) -> DataFrame:
        rows = {name: self.frames[name] if carried else self.plain(name) for name in step.inputs}
        for name in step.inputs:
            rows[name].createOrReplaceTempView(name)
        if step.previous is not None:
            rows[step.previous].createOrReplaceTempView("input")
        query, _ = SqlQuery.parse(step.sql, step.span)
        assert query is not None  # a definition with broken SQL has no plan
        if not carried and query.distinct and any(each.isStreaming for each in rows.values()):
            # In a stream Spark's DISTINCT gives a row again with every batch that has it.
            return self._spark.sql(query.without_distinct()).dropDuplicates()
        if not carried:
            return self._spark.sql(step.sql)
        if self._calls.intersection(step.inputs):
            self._calls.add(step.name)
        return self._spark.sql(query.carrying(COLUMN, IS_NO_VALUE))

    def _call(self, stage: Call) -> DataFrame:
        step = stage.transform
        name = step.inputs[0]
        rows = self.frames[name] if stage.carried else self.plain(name)
        rows = functions.of_messages(step, stage.batch_size, rows)
        if not stage.carried:
            return rows
        if stage.on_failure is OnFailure.LEFT:
            return rows.where(IS_NOT_BAD)
        if stage.on_failure is OnFailure.STOPS:
            return _with_hidden(rows, refusing(MESSAGE))
        self._calls.add(step.name)
        return rows


def _first_of_each(step: DeduplicateTransform, rows: DataFrame) -> DataFrame:
    if step.remember is Remember.WATERMARK and rows.isStreaming:
        return rows.dropDuplicatesWithinWatermark(list(step.by))
    return rows.dropDuplicates(list(step.by))


def _with_hidden(rows: DataFrame, sql: str) -> DataFrame:
    own = [quote(name) for name in rows.columns if name != COLUMN]
    return rows.selectExpr(*own, f"{sql} AS {COLUMN}")
