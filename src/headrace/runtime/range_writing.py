"""One query over exactly one range of its sources: read, write, count.

For runs that find their ranges themselves, as batches and shared streams do. It blocks until every
target of the query has acknowledged; positions are the caller's matter.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.model.offsets import Range
from headrace.plan.stages import Plan, Query
from headrace.runtime import failures, rows, writing
from headrace.runtime.progress import BatchDone
from headrace.sinks.writer import Batch

if TYPE_CHECKING:
    from pyspark.sql import Observation, SparkSession

# How long counts may take to arrive after the job that made them.
COUNT_MS = 30_000


def write(
    spark: SparkSession, plan: Plan, query: Query, ranges: Mapping[str, Range], batch: Batch
) -> BatchDone:
    """What was read and written, in numbers; `ranges` has one for each source of the query."""
    from pyspark.sql import Observation

    began = time.monotonic()
    raw = {source.name: source.batch(spark, ranges[source.name]) for source in query.sources}
    seen: dict[str, Observation] = {}
    frame = rows.build(spark, query, raw, lambda name: seen.setdefault(name, Observation(name)))
    try:
        writing.write(query, plan.pipeline.name, frame, batch)
    except Exception as error:
        servers = plan.pipeline.bootstrap or ""
        raise failures.translate(error, f"running {plan.pipeline.name}", servers) from error
    counted = {name: _counted(spark, each) for name, each in seen.items()}
    return BatchDone(
        query=query.name,
        batch=batch.id or 0,
        **rows.counts(plan, query, counted),
        seconds=time.monotonic() - began,
        lag=None,
        positions={key: at for found in ranges.values() for key, at in found.end.items()},
    )


def _counted(spark: SparkSession, observation: Observation) -> dict[str, int]:
    """What was counted; nothing if no job has run, as a target had the batch already."""
    bus = spark.sparkContext._jsc.sc().listenerBus()
    with contextlib.suppress(Exception):  # counts are told even if others are slow to listen
        bus.waitUntilEmpty(COUNT_MS)
    arrived = observation._jo is not None and observation._jo.future().isCompleted()
    return dict(observation.get) if arrived else {}
