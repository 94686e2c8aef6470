"""Whether a pipeline's state is older than what its targets have.

A target skips a batch whose number it knows. If a state folder is brought back from a backup, or a
sink comes to another query of the pipeline, numbers that the target knows are given to records that
it has not, and they would be lost. So before the first batch each target is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import StateIsOld
from headrace.plan.stages import Query
from headrace.sinks.writer import Remembers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refuse(spark: SparkSession, query: Query, generation: str, newest: int, folder: str) -> None:
    """`newest` is the highest number that a target of `query` can have by what the state knows."""
    for stage in query.writes:
        sink = stage.sink
        if not isinstance(sink, Remembers):
            continue
        known = sink.newest(spark, generation)
        if known is not None and known > newest:
            raise StateIsOld(sink.name, sink.target, known, newest, folder)
