"""Look at what a pipeline makes of its newest records. Reads a bounded range and moves nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from headrace.admin.client import Clusters
from headrace.formats.carried import COLUMN
from headrace.model.pipeline import Pipeline
from headrace.plan.planner import preview_query
from headrace.plan.stages import Plan, Query
from headrace.runtime import rows
from headrace.runtime.schemas import SourceSchemas
from headrace.runtime.state import PipelineState
from headrace.sources.reader import Access, SourceReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class BadRow:
    topic: str
    partition: int
    offset: int
    error: str
    message: str


@dataclass(frozen=True)
class Preview:
    """`values` are at most as many rows as were asked for; `more` says that there are others.

    `scanned` records were read to find them: None where a source counts something else. The sources
    in `partial` have more than was read.
    """

    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    bad: tuple[BadRow, ...]
    scanned: int | None
    more: bool = False
    partial: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        return tuple(dict(zip(self.columns, row, strict=True)) for row in self.values)


def preview(
    pipeline: Pipeline,
    spark: SparkSession,
    limit: int = 20,
    scan: int = 1000,
    state: PipelineState | None = None,
) -> Preview:
    """The first `limit` rows made of the newest `scan` records of each source, and the bad ones.

    With a `state` the schemas that it knows count, as in a run; it is not changed.
    """
    schemas = SourceSchemas(state, lambda _event: None, keep=False)
    plan = Plan(pipeline, (), (preview_query(pipeline),), ())
    return schemas.learning(plan, lambda bound: _look(bound.queries[0], spark, limit, scan))


def _look(query: Query, spark: SparkSession, limit: int, scan: int) -> Preview:
    access = Access(spark, Clusters(), lambda _text: None)
    raw: dict[str, DataFrame] = {}
    ranges = {source.name: source.newest(access, scan) for source in query.sources}
    for source in query.sources:
        raw[source.name] = source.batch(spark, ranges[source.name])
    frame = rows.build(spark, query, raw).persist()  # so that functions are called once
    try:
        shown = rows.good(frame) if query.carried else frame
        values = values_of(shown, limit + 1)
        bad = [
            row
            for source in query.sources
            for row in _bad(
                source, frame if query.carried else source.decode(raw[source.name]), limit
            )
        ]
    finally:
        frame.unpersist()
    in_records = all(found.unit == "records" for found in ranges.values())
    return Preview(
        columns=tuple(shown.columns),
        values=tuple(values[:limit]),
        bad=tuple(bad),
        scanned=sum(found.records for found in ranges.values()) if in_records else None,
        more=len(values) > limit,
        partial=tuple(name for name, found in ranges.items() if found.partial),
    )


def _bad(source: SourceReader, decoded: DataFrame, limit: int) -> list[BadRow]:
    if source.bad_data == "fail":
        return []
    names = ("topic", "partition", "offset", "error")
    columns = [f"{COLUMN}.{name}" for name in names]
    found = rows.bad(decoded).selectExpr(*columns, source.reason)
    return [BadRow(*row) for row in found.limit(limit).collect()]


def values_of(shown: DataFrame, limit: int) -> list[tuple[Any, ...]]:
    """The first rows as plain values; columns may have the same name."""
    from pyspark.sql.functions import struct, to_json

    if not shown.columns:
        return []
    numbered = shown.toDF(*(str(number) for number in range(len(shown.columns))))
    everything = struct(*(numbered[name] for name in numbered.columns))
    lines = numbered.limit(limit).select(to_json(everything, {"ignoreNullFields": "false"}))
    return [tuple(json.loads(row[0], parse_float=_number).values()) for row in lines.collect()]


def _number(text: str) -> float | Decimal:
    """A DECIMAL stays what it is where a float would be another number."""
    exact = Decimal(text)
    return float(text) if Decimal(repr(float(text))) == exact else exact
