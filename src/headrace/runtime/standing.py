"""Where a pipeline stands, and how it is moved: what `headrace offsets` shows and edits.

A pipeline that reads in batches stands where its table of offsets says (`StoredPositions`), a
stream where Spark's checkpoints say (`checkpointed`), one that shares partitions where the group
does (`of_group`). Moving is planned first, as a list of moves;
storing them fails if the table was changed in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.admin import groups, places, topics
from headrace.admin.client import Clusters
from headrace.admin.places import Place
from headrace.admin.resets import Scope
from headrace.errors import DefinitionError, HeadraceError
from headrace.model.offsets import Offsets
from headrace.plan.stages import Plan
from headrace.runtime import notes
from headrace.runtime.journal import Journal
from headrace.runtime.notes import Found, Note, Positions
from headrace.runtime.offsets_table import PositionStore
from headrace.runtime.starts import Starts
from headrace.runtime.state import PipelineState
from headrace.sinks.delta import DeltaSink
from headrace.sources.kafka import KafkaSource
from headrace.sources.reader import Access, SourceReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Key = tuple[str, int]


@dataclass(frozen=True)
class Standing:
    """One partition of one source. `position` is the next offset to read; None: none is stored."""

    source: str
    topic: str
    partition: int
    position: int | None
    earliest: int | None
    end: int | None

    @property
    def max_offset(self) -> int | None:
        """The last offset that is done, as the table of offsets has it."""
        return None if self.position is None else self.position - 1

    @property
    def lag(self) -> int | None:
        if self.end is None:
            return None
        begin = self.earliest if self.position is None else self.position
        return None if begin is None else max(self.end - begin, 0)


@dataclass(frozen=True)
class PositionMove:
    """`old` and `new` are next offsets; None where there is no position, or none any more."""

    source: str
    topic: str
    partition: int
    old: int | None
    new: int | None


class StoredPositions:
    """The positions of a pipeline that reads in batches."""

    def __init__(self, plan: Plan, spark: SparkSession, state: PipelineState) -> None:
        self._plan = plan
        self._spark = spark
        self._state = state
        self._store = PositionStore(spark, plan, state)
        self._clusters = Clusters()

    @property
    def places(self) -> list[str]:
        """The tables, by path or name."""
        return self._store.places

    def show(self) -> list[Standing]:
        stored = self._store.read()
        return [
            standing
            for source in self._plan.sources
            for standing in self._of(source, stored.get(source.name, {}))
        ]

    def cut_off(self) -> Note | None:
        """The run that the next one has to finish first."""
        entry = Journal(self._state.folder).read()
        return None if entry is None or entry.closed else entry.note

    def moves(
        self, place: Place, scopes: Sequence[Scope] = (), only: str | None = None
    ) -> list[PositionMove]:
        """Where each partition would go; without scopes, all of them."""
        stored = self._store.read()
        sources = [source for source in self._plan.sources if only in (None, source.name)]
        if only is not None and not sources:
            known = ", ".join(source.name for source in self._plan.sources)
            raise DefinitionError(f"there is no source `{only}`", hint=f"known: {known}")
        found = [
            move
            for source in sources
            if self._chosen(source, scopes)
            for move in self._moved(source, place, scopes, stored.get(source.name, {}))
        ]
        missing = [s.topic for s in scopes if not any(move.topic == s.topic for move in found)]
        if missing:
            raise DefinitionError(f"no source reads {', '.join(missing)}")
        return [move for move in found if move.old != move.new]

    def rebuilt(
        self, sink: str | None = None, as_of: int | None = None
    ) -> tuple[Found, list[PositionMove]]:
        """The note of a Delta sink, and the moves that make the table what it says.

        Of several sinks the one that is furthest behind counts, so that none misses anything.
        """
        found = [
            each
            for chosen in self._delta_sinks(sink, as_of)
            if (each := notes.in_sink(self._spark, self._plan, chosen, as_of)) is not None
        ]
        if not found:
            raise DefinitionError(
                f"no Delta sink of {self._plan.pipeline.name} has a note of its runs"
                + (f" at version {as_of} or before" if as_of is not None else ""),
                hint="use `headrace offsets edit` instead",
            )
        oldest = min(found, key=lambda each: each.note.run)
        return oldest, list(_differences(self._store.read(), oldest.note.positions))

    def move(self, moves: Sequence[PositionMove], note: Note | None = None) -> None:
        """Store the moves, unless the pipeline runs or the table was changed since they were made.

        With `note` the table then stands as after that run.
        """
        self._state.folder.mkdir(parents=True, exist_ok=True)
        with self._state.lock(self._plan.pipeline.name):
            after = {name: dict(offsets) for name, offsets in self._store.known.items()}
            for move in moves:
                offsets = after.setdefault(move.source, {})
                if move.new is None:
                    offsets.pop((move.topic, move.partition), None)
                else:
                    offsets[move.topic, move.partition] = move.new
            self._store.write(after, None if note is None else note.text())

    def _of(self, source: SourceReader, stored: Offsets) -> Iterator[Standing]:
        if isinstance(source, KafkaSource):
            extent = source.extent(self._clusters)
            begins, ends = extent.begins, extent.ends
        else:
            begins, ends = {}, self._ends(source, stored)
        yield from _standings(source.name, stored, begins, ends)

    def _ends(self, source: SourceReader, stored: Offsets) -> Offsets:
        """What a source that is no Kafka has now, as far as it says."""
        try:
            return source.find(Access(self._spark, self._clusters, lambda _: None), stored).end
        except HeadraceError:
            return {}

    @staticmethod
    def _chosen(source: SourceReader, scopes: Sequence[Scope]) -> bool:
        return not scopes or any(source.reads(scope.topic) for scope in scopes)

    def _moved(
        self, source: SourceReader, place: Place, scopes: Sequence[Scope], stored: Offsets
    ) -> Iterator[PositionMove]:
        if not self._store.keeps(source.name):
            raise DefinitionError(f"`{source.name}` has `store_offsets: false`, and no positions")
        if isinstance(source, KafkaSource):
            targets = self._in_kafka(source, place, scopes, stored)
        else:
            targets = _elsewhere(source, place, scopes, stored)
        for (topic, partition), new in sorted(targets.items()):
            old = stored.get((topic, partition))
            yield PositionMove(source.name, topic, partition, old, new)

    def _in_kafka(
        self, source: KafkaSource, place: Place, scopes: Sequence[Scope], stored: Offsets
    ) -> Mapping[Key, int | None]:
        cluster = self._clusters.at(source.bootstrap)
        if isinstance(place, places.Listed):
            keys = [key for key in place.offsets if source.reads(key[0])]
        elif scopes:
            keys = [
                key
                for scope in scopes
                if source.reads(scope.topic)
                for key in topics.keys(cluster, scope.topic, scope.partitions)
            ]
        else:
            keys = list(source.extent(self._clusters).begins)
        return places.resolve(cluster, place, keys, stored)

    def _delta_sinks(self, sink: str | None, as_of: int | None) -> list[DeltaSink]:
        sinks = notes.delta_sinks(self._plan)
        chosen = [each for each in sinks if sink in (None, each.name)]
        if not chosen:
            hint = "known: " + ", ".join(each.name for each in sinks) if sinks else None
            raise DefinitionError("there is no such Delta sink in this pipeline", hint=hint)
        if as_of is not None and len(chosen) > 1:
            raise DefinitionError(
                f"version {as_of} could be of several tables", hint="choose one with --sink"
            )
        return chosen


def checkpointed(plan: Plan, state: PipelineState) -> list[Standing]:
    """Where a stream stands: a source stands where the slowest query that reads it does."""
    clusters = Clusters()
    starts = Starts(plan, state, clusters, lambda _text: None)
    found: list[Standing] = []
    for source in plan.sources:
        if not isinstance(source, KafkaSource):
            continue
        stands: dict[Key, int] = {}
        for query in plan.queries:
            if source.name in {each.name for each in query.sources}:
                for key, offset in starts.stands(query).items():
                    if source.reads(key[0]):
                        stands[key] = min(offset, stands.get(key, offset))
        extent = source.extent(clusters)
        found += _standings(source.name, stands, extent.begins, extent.ends)
    return found


def of_group(source: KafkaSource) -> list[Standing]:
    """Where all who share the partitions of a source stand together."""
    clusters = Clusters()
    known = groups.committed(clusters.at(source.bootstrap), source.group)
    stands = {key: at for key, at in known.items() if source.reads(key[0])}
    extent = source.extent(clusters)
    return list(_standings(source.name, stands, extent.begins, extent.ends))


def _standings(source: str, stored: Offsets, begins: Offsets, ends: Offsets) -> Iterator[Standing]:
    for topic, partition in sorted({*stored, *begins, *ends}):
        key = (topic, partition)
        yield Standing(source, *key, stored.get(key), begins.get(key), ends.get(key))


def _elsewhere(
    source: SourceReader, place: Place, scopes: Sequence[Scope], stored: Offsets
) -> Mapping[Key, int | None]:
    """The same for a source that is no Kafka: back to the beginning, or to what one says."""
    chosen = [key for key in stored if not scopes or any(_within(key, each) for each in scopes)]
    match place:
        case places.Earliest():
            return dict.fromkeys(chosen)
        case places.AtOffset(offset):
            return dict.fromkeys(chosen, offset)
        case places.Listed(listed):
            return {key: listed[key] for key in stored if key in listed}
    raise DefinitionError(
        f"`{source.name}` is no Kafka, and has no such place",
        hint="use --to-earliest or --to-offset",
    )


def _within(key: Key, scope: Scope) -> bool:
    return key[0] == scope.topic and (not scope.partitions or key[1] in scope.partitions)


def _differences(stored: Positions, wanted: Positions) -> Iterator[PositionMove]:
    for source in sorted({*stored, *wanted}):
        old, new = stored.get(source, {}), wanted.get(source, {})
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield PositionMove(source, *key, old.get(key), new.get(key))
