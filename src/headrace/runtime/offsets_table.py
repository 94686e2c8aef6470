"""The Delta table of offsets, where batch runs begin: `topic`, `partition`, `max_offset`.

`max_offset` is the last offset that is done. After these three columns come `source` and
`pipeline`, so that several of each can share a table; everyone touches only rows of their own. A
row without them was written by hand: it means the one source that reads its topic, counts before
that source's own row, and is taken over when its position moves.

Rows are changed by a MERGE that fails when they are no longer what was read, so a run never
overwrites an edit, nor another run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import DefinitionError, PositionsChanged
from headrace.plan.stages import Plan
from headrace.runtime import failures
from headrace.runtime.notes import Found, Positions, newest, on_path
from headrace.runtime.state import PipelineState
from headrace.sources.reader import SourceReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = "topic STRING, partition INT, max_offset BIGINT, source STRING, pipeline STRING"
_CHANGES = f"{_COLUMNS}, seen ARRAY<BIGINT>, owned BOOLEAN"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_VIEW = "headrace_offsets"
_MOVED = "HEADRACE_POSITIONS_MOVED"

# Runs of other pipelines may commit to a shared table at the same moment.
_ATTEMPTS = 20
_PAUSE_SECONDS = 0.2
_CONFLICTS = ("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")

Key = tuple[str, int]


@dataclass(frozen=True)
class _Row:
    key: Key
    max_offset: int
    source: str
    by_hand: bool


class OffsetsTable:
    """The positions of some sources of one pipeline, in one table."""

    def __init__(
        self, spark: SparkSession, place: str, pipeline: str, sources: Sequence[SourceReader]
    ) -> None:
        """`place` is the table's path, or its name in the session's own catalog."""
        self._spark = spark
        self.place = place
        self._path = place if "/" in place else None
        self._name = on_path(place) if self._path else place
        self._pipeline = pipeline
        self._sources = sources
        self._rows: list[_Row] = []

    def read(self) -> dict[str, dict[Key, int]]:
        """The next offset to read, by source and partition; a source without rows is not in it."""
        self._rows = list(self._own()) if self.exists else []
        return self.known

    @property
    def known(self) -> dict[str, dict[Key, int]]:
        """What was read last."""
        found: dict[str, dict[Key, int]] = {}
        # Rows by hand last, so that they count; of two alike the lowest, so that nothing is lost.
        for row in sorted(self._rows, key=lambda row: (row.by_hand, -row.max_offset)):
            found.setdefault(row.source, {})[row.key] = row.max_offset + 1
        return found

    def write(self, after: Positions, note: str | None) -> None:
        """Store positions, given whole for each source, in one commit that carries `note`.

        Raises PositionsChanged, and stores nothing, if a row is no longer as it was read.
        """
        changes = [change for name in after for change in self._changes(name, after[name])]
        if not changes:
            return
        for attempt in range(_ATTEMPTS):
            try:
                self._commit(changes, note)
            except Exception as error:
                self._refuse_or_wait(error, last=attempt == _ATTEMPTS - 1)
            else:
                self._rows = [row for row in self._rows if row.source not in after]
                self._rows += [
                    _Row(key, at - 1, source, by_hand=False)
                    for source, offsets in after.items()
                    for key, at in offsets.items()
                ]
                return

    def newest_note(self) -> Found | None:
        return newest(self._spark, self._name, self._pipeline) if self.exists else None

    @property
    def exists(self) -> bool:
        from delta.tables import DeltaTable

        if self._path is None:
            return self._spark.catalog.tableExists(self._name)
        return DeltaTable.isDeltaTable(self._spark, self._path)

    def _own(self) -> Iterator[_Row]:
        """The rows that are about this pipeline's sources."""
        for row in self._checked().collect():
            told = row.asDict()
            pipeline, source = told.get("pipeline"), told.get("source")
            if pipeline not in (None, self._pipeline) or row.max_offset is None:
                continue
            by_hand = pipeline is None or source is None
            meant = [
                each.name
                for each in self._sources
                if source in (None, each.name) and (not by_hand or each.reads(row.topic))
            ]
            if len(meant) > 1:
                raise self._ambiguous(row, meant)
            if meant:
                yield _Row((row.topic, row.partition), row.max_offset, meant[0], by_hand)

    def _ambiguous(self, row: Any, meant: Sequence[str]) -> DefinitionError:
        names = " and ".join(f"`{name}`" for name in meant)
        return DefinitionError(
            f"{self.place}: the row of {row.topic}[{row.partition}] could be of {names}",
            hint="set its columns `source` and `pipeline`",
        )

    def _checked(self) -> DataFrame:
        table = self._spark.table(self._name)
        types = dict(table.dtypes)
        if {"topic", "partition"} - types.keys() or types.get("max_offset") != "bigint":
            found = ", ".join(f"{name} {kind.upper()}" for name, kind in types.items())
            raise DefinitionError(
                f"{self.place} cannot keep offsets: it has the columns {found}",
                hint="it must begin with topic STRING, partition INT, max_offset BIGINT; "
                "name another `metadata_table`, and it will be made",
            )
        return table

    def _changes(self, source: str, after: Mapping[Key, int]) -> Iterator[tuple[Any, ...]]:
        rows = [row for row in self._rows if row.source == source]
        for key in sorted({*after, *(row.key for row in rows)}):
            seen = [row.max_offset for row in rows if row.key == key]
            done = after[key] - 1 if key in after else None
            owned = any(row.key == key and not row.by_hand for row in rows)
            if seen != [done]:
                yield (*key, done, source, self._pipeline, seen, owned)

    def _commit(self, changes: list[tuple[Any, ...]], note: str | None) -> None:
        spark = self._spark
        spark.sql(f"CREATE TABLE IF NOT EXISTS {self._name} ({_COLUMNS}) USING delta")
        missing = [
            f"{name} STRING"
            for name in ("source", "pipeline")
            if name not in spark.table(self._name).columns
        ]
        if missing:
            spark.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({', '.join(missing)})")
        spark.createDataFrame(changes, _CHANGES).coalesce(1).createOrReplaceTempView(_VIEW)
        if note is not None:
            spark.conf.set(_USER_METADATA, note)
        try:
            spark.sql(_MERGE.format(table=self._name))
        finally:
            spark.conf.unset(_USER_METADATA)

    def _refuse_or_wait(self, error: Exception, last: bool) -> None:
        text = str(error)
        if _MOVED in text:
            raise PositionsChanged(self._pipeline, self.place) from error
        if last or not any(name in text for name in _CONFLICTS):
            raise failures.translate(error, f"storing positions in {self.place}") from error
        time.sleep(_PAUSE_SECONDS)


# The conditions are checked where a value is made: in those of WHEN, Spark also tries rows that do
# not match. What was not there when the table was read must not be there now, and the other way.
_MERGE = f"""
MERGE INTO {{table}} AS t USING {_VIEW} AS s
ON t.topic = s.topic AND t.partition = s.partition
  AND coalesce(t.pipeline, s.pipeline) = s.pipeline AND coalesce(t.source, s.source) = s.source
WHEN MATCHED AND (s.max_offset IS NULL OR s.owned AND (t.pipeline IS NULL OR t.source IS NULL))
  THEN DELETE
WHEN MATCHED THEN UPDATE SET
  max_offset = IF(array_contains(s.seen, t.max_offset), s.max_offset, raise_error('{_MOVED}')),
  source = s.source,
  pipeline = s.pipeline
WHEN NOT MATCHED AND s.max_offset IS NOT NULL
  THEN INSERT (topic, partition, max_offset, source, pipeline) VALUES (
    s.topic,
    s.partition,
    IF(size(s.seen) = 0, s.max_offset, raise_error('{_MOVED}')),
    s.source,
    s.pipeline)
"""


class PositionStore:
    """The positions of a whole pipeline, in as many tables as its sources name."""

    def __init__(self, spark: SparkSession, plan: Plan, state: PipelineState) -> None:
        by_place: dict[str, list[SourceReader]] = {}
        for source in plan.sources:
            if plan.pipeline.source(source.name).store_offsets:
                by_place.setdefault(place(spark, plan, state, source.name), []).append(source)
        self._tables = [
            OffsetsTable(spark, each, plan.pipeline.name, sources)
            for each, sources in by_place.items()
        ]
        self._of = {
            source.name: table
            for table, sources in zip(self._tables, by_place.values(), strict=True)
            for source in sources
        }

    @property
    def places(self) -> list[str]:
        return [table.place for table in self._tables]

    def keeps(self, source: str) -> bool:
        return source in self._of

    def read(self) -> dict[str, dict[Key, int]]:
        """Where each source stands; `write` counts on that it still does."""
        for table in self._tables:
            table.read()
        return self.known

    @property
    def known(self) -> dict[str, dict[Key, int]]:
        """What was read last."""
        return {name: at for table in self._tables for name, at in table.known.items()}

    def write(self, after: Positions, note: str | None = None) -> None:
        """Store the positions of the sources that are kept; one commit a table."""
        for table in self._tables:
            own = {name: after[name] for name in after if self._of.get(name) is table}
            table.write(own, note)

    def newest_note(self) -> Found | None:
        found = [note for table in self._tables if (note := table.newest_note()) is not None]
        return max(found, key=lambda each: each.note.run, default=None)


def place(spark: SparkSession, plan: Plan, state: PipelineState, source: str) -> str:
    """Where a source's positions are: a path, or a table that the session's catalog knows."""
    named = plan.pipeline.source(source).metadata_table
    if named is None:
        return str(state.offsets)
    if "/" not in named:
        known = spark.catalog.tableExists(named)
        return named if known else str(state.tables.joinpath(*named.split(".")))
    folder = plan.pipeline.file.resolve().parent if plan.pipeline.file else Path.cwd()
    return named if "://" in named else str((folder / named).resolve())
