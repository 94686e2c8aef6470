"""What one run of a batch covers, as a note, and where such notes are found again.

A note is written to the journal before the run writes anything, and goes with the run's commits
into Delta: those of its sinks (`Batch.positions`, kept there as `userMetadata`) and that of the
table of offsets. So each can say by itself which run it has, and where the sources stood after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.model.offsets import Offsets, Range, by_partition, by_topic
from headrace.plan.stages import Plan
from headrace.sinks.delta import DeltaSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The next offset to read, by source, topic and partition.
Positions = Mapping[str, Offsets]

_FORM = 1
# Most often the newest commit is the one that is looked for.
_FIRST_LOOK = 20


@dataclass(frozen=True)
class Note:
    """Run `run` reads each source from its `starts`; afterwards it stands at its `positions`.

    Numbers grow over all runs of a pipeline. Partitions that are in `positions` alone are not read.
    """

    pipeline: str
    generation: str
    run: int
    starts: Positions
    positions: Positions

    def range(self, source: str) -> Range:
        start, after = self.starts[source], self.positions[source]
        return Range(start, {key: after[key] for key in start})

    @property
    def records(self) -> int:
        return sum(self.range(source).records for source in self.starts)

    def text(self) -> str:
        body = {
            "headrace": _FORM,
            "pipeline": self.pipeline,
            "generation": self.generation,
            "run": self.run,
            "starts": plain(self.starts),
            "positions": plain(self.positions),
        }
        return json.dumps(body, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str | None) -> Note | None:
        """A note, unless the text is something else: others may keep theirs in the same place."""
        try:
            body = json.loads(text or "")
        except ValueError:
            return None
        if not isinstance(body, dict) or body.get("headrace") != _FORM:
            return None
        return cls(
            body["pipeline"],
            body["generation"],
            body["run"],
            parsed(body["starts"]),
            parsed(body["positions"]),
        )


def plain(positions: Positions) -> dict[str, Any]:
    """As JSON has them: by source, topic and partition."""
    return {source: by_topic(offsets) for source, offsets in positions.items()}


def parsed(body: Mapping[str, Any]) -> dict[str, dict[tuple[str, int], int]]:
    return {source: by_partition(topics) for source, topics in body.items()}


@dataclass(frozen=True)
class Found:
    """A note, and the version of the table whose commit has it."""

    note: Note
    version: int


def newest(
    spark: SparkSession, table: str, pipeline: str, as_of: int | None = None
) -> Found | None:
    """The newest note of the pipeline in a Delta table's history, at `as_of` or before.

    `table` is a name in SQL. A table that is not there has no notes.
    """
    for limit in (f" LIMIT {_FIRST_LOOK}", ""):
        for found in _history(spark, table, limit):
            if found.note.pipeline == pipeline and (as_of is None or found.version <= as_of):
                return found
    return None


def _history(spark: SparkSession, table: str, limit: str) -> Iterator[Found]:
    for row in spark.sql(f"DESCRIBE HISTORY {table}{limit}").collect():
        note = Note.parse(row.userMetadata)
        if note is not None:
            yield Found(note, row.version)


def in_sinks(spark: SparkSession, plan: Plan) -> dict[str, Found]:
    """The newest note in each Delta sink that has one."""
    found = {sink.name: in_sink(spark, plan, sink) for sink in delta_sinks(plan)}
    return {name: each for name, each in found.items() if each is not None}


def in_sink(
    spark: SparkSession, plan: Plan, sink: DeltaSink, as_of: int | None = None
) -> Found | None:
    from delta.tables import DeltaTable

    if not DeltaTable.isDeltaTable(spark, sink.path):
        return None
    return newest(spark, on_path(sink.path), plan.pipeline.name, as_of)


def delta_sinks(plan: Plan) -> list[DeltaSink]:
    return [sink for sink in plan.sinks if isinstance(sink, DeltaSink)]


def on_path(path: str) -> str:
    """A Delta table on a path, as SQL names it."""
    return f"delta.`{path.replace('`', '``')}`"
