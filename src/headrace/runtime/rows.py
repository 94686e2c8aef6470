"""The DataFrames of a query: read, decoded and transformed, in stream and batch alike.

Everything here is lazy: it builds what Spark will run and reads nothing. `observe` counts records
where they pass, and is also a wall that keeps Spark from moving a filter below the decoding, which
would parse every message twice (docs/decisions/0003).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import DefinitionError
from headrace.formats.carried import COLUMN, IS_BAD, IS_GOOD, IS_NO_VALUE
from headrace.model.pipeline import PythonTransform, SqlTransform
from headrace.model.query import Query as SqlQuery
from headrace.plan.stages import Apply, Plan, Query
from headrace.runtime import failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

INPUT_COUNTS = "headrace_in_"
OUTPUT_COUNTS = "headrace_out"


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
    frames: dict[str, DataFrame] = {}
    for decode in query.decodes:
        source = decode.source
        decoded = _counted(
            source.decode(raw[source.name], decode.originals),
            name(INPUT_COUNTS + source.name),
            records="count(1)",
            bad=_count(IS_BAD),
        )
        frames[source.name] = decoded if query.carried else good(decoded)
    for stage in query.transforms:
        frames[stage.transform.name] = _apply(spark, stage, frames)
    written = _count(IS_GOOD) if query.carried else "count(1)"
    return _counted(frames[query.frame], name(OUTPUT_COUNTS), written=written)


def counts(plan: Plan, query: Query, seen: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """What the counters of a batch say: records and bad ones of the sources counted here."""
    inputs = [seen.get(INPUT_COUNTS + name, {}) for name in plan.counted_by(query)]
    written = seen.get(OUTPUT_COUNTS, {}).get("written", 0) if query.writes else 0
    return {
        "records": sum(each.get("records", 0) for each in inputs),
        "bad": sum(each.get("bad", 0) for each in inputs),
        "written": written,
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


def _apply(spark: SparkSession, stage: Apply, frames: Mapping[str, DataFrame]) -> DataFrame:
    step = stage.transform
    try:
        if isinstance(step, SqlTransform):
            return _sql(spark, step, stage.carried, frames)
        return _python(step, frames[step.inputs[0]])
    except DefinitionError:
        raise
    except Exception as error:
        raise failures.translate(error, f"step `{step.name}` at {step.span}") from error


def _sql(
    spark: SparkSession, step: SqlTransform, carried: bool, frames: Mapping[str, DataFrame]
) -> DataFrame:
    for name in step.inputs:
        frames[name].createOrReplaceTempView(name)
    if step.previous is not None:
        frames[step.previous].createOrReplaceTempView("input")
    if not carried:
        return spark.sql(step.sql)
    query, _ = SqlQuery.parse(step.sql, step.span)
    assert query is not None  # a definition with broken SQL has no plan
    return spark.sql(query.carrying(COLUMN, IS_NO_VALUE))


def _python(step: PythonTransform, rows: DataFrame) -> DataFrame:
    from pyspark.sql import DataFrame

    result = _function(step)(rows)
    if not isinstance(result, DataFrame):
        raise DefinitionError(
            f"step `{step.name}` at {step.span}: {step.function} returned "
            f"{type(result).__name__}, and must return a DataFrame"
        )
    return result


def _function(step: PythonTransform) -> Callable[[DataFrame], object]:
    """The author's function; modules are looked for beside the pipeline file first."""
    module, _, name = step.function.rpartition(".")
    folder = str(Path(step.span.file).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise DefinitionError(
            f"step `{step.name}` at {step.span}: {step.function} cannot be imported: {error}",
            hint=f"it must be a function in a module beside the pipeline file: {module}.py",
        ) from error
    if not callable(function):
        raise DefinitionError(f"step `{step.name}` at {step.span}: {step.function} is no function")
    return function  # type: ignore[no-any-return]
