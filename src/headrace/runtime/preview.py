"""Look at what a pipeline makes of its newest records. Reads a bounded range and moves nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.admin.client import Clusters
from headrace.formats.carried import COLUMN
from headrace.model.pipeline import Pipeline
from headrace.plan.planner import preview_query
from headrace.runtime import rows
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
    """`rows` are at most as many as were asked for; `scanned` records were read to find them.

    That is None where a source counts something else than records.
    """

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    bad: tuple[BadRow, ...]
    scanned: int | None


def preview(pipeline: Pipeline, spark: SparkSession, limit: int = 20, scan: int = 1000) -> Preview:
    """The first `limit` rows made of the newest `scan` records of each source, and the bad ones."""
    access = Access(spark, Clusters(), lambda _text: None)
    query = preview_query(pipeline)
    raw: dict[str, DataFrame] = {}
    ranges = [source.newest(access, scan) for source in query.sources]
    for source, found in zip(query.sources, ranges, strict=True):
        raw[source.name] = source.batch(spark, found)
    frame = rows.build(spark, query, raw).persist()  # so that functions are called once
    shown = rows.good(frame) if query.carried else frame
    columns = tuple(column for column in shown.columns if column != COLUMN)
    lines = tuple(json.loads(line) for line in _json_lines(shown, limit))
    bad = [
        row
        for source in query.sources
        for row in _bad(source, frame if query.carried else source.decode(raw[source.name]), limit)
    ]
    frame.unpersist()
    in_records = all(found.unit == "records" for found in ranges)
    scanned = sum(found.records for found in ranges) if in_records else None
    return Preview(columns, lines, tuple(bad), scanned)


def _bad(source: SourceReader, decoded: DataFrame, limit: int) -> list[BadRow]:
    if source.bad_data == "fail":
        return []
    names = ("topic", "partition", "offset", "error")
    columns = [f"{COLUMN}.{name}" for name in names]
    found = rows.bad(decoded).selectExpr(*columns, source.reason)
    return [BadRow(*row) for row in found.limit(limit).collect()]


def _json_lines(shown: DataFrame, limit: int) -> list[str]:
    from pyspark.sql.functions import struct, to_json

    if not shown.columns:
        return []
    everything = struct(*(shown[f"`{name}`"] for name in shown.columns))
    lines = shown.limit(limit).select(to_json(everything, {"ignoreNullFields": "false"}))
    return [row[0] for row in lines.collect()]
