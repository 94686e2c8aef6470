"""What becomes of a run that was cut off. Decided here from values; done by `runtime.batch`.

    finish   every query had written: only the positions are missing
    redo     some queries have not: the same range under the same number, for those only
    drop     the table of offsets was changed since, and what it says now counts

A query is known to have written by its mark in the journal, or by a Delta sink that has the run in
its log: sinks are written in order, so what comes before it is done, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.model.offsets import Range
from headrace.plan.stages import Query
from headrace.runtime.journal import Entry
from headrace.runtime.notes import Found, Note, Positions


@dataclass(frozen=True)
class Finish:
    """`after` are the positions to store; `left` are sources that were moved by someone else."""

    after: Positions
    left: tuple[str, ...]


@dataclass(frozen=True)
class Redo:
    queries: tuple[Query, ...]


@dataclass(frozen=True)
class Drop:
    """`queries` may have written some or all of the run."""

    queries: tuple[Query, ...]


def decide(
    entry: Entry, stored: Positions, queries: Sequence[Query], seen: Collection[str]
) -> Finish | Redo | Drop:
    """What to do about an open entry; `seen` are the sinks that have its run in their log."""
    done = {*entry.written, *_known_by(queries, seen)}
    rest = tuple(query for query in queries if query.name not in done)
    sources = {source.name for query in queries for source in query.sources}
    if sources != set(entry.note.starts):
        return Drop(tuple(queries))
    if not rest:
        # With several tables, a crash may have come between two of them.
        moved = {name for name in sources if stored.get(name) == entry.note.positions[name]}
        left = {name for name in sources if stored.get(name, {}) != entry.basis.get(name, {})}
        after = {
            name: stored.get(name, {}) if name in left else entry.note.positions[name]
            for name in sorted(sources)
        }
        return Finish(after, tuple(sorted(left - moved)))
    if _nonempty(stored) == _nonempty(entry.basis):
        return Redo(rest)
    return Drop(rest)


def _nonempty(positions: Positions) -> dict[str, object]:
    return {name: dict(offsets) for name, offsets in positions.items() if offsets}


def _known_by(queries: Sequence[Query], seen: Collection[str]) -> Iterator[str]:
    """The queries that are done because a sink of them, or of a later one, has the run."""
    last = max(
        (number for number, query in enumerate(queries) if _sinks(query) & set(seen)), default=None
    )
    if last is None:
        return
    yield from (query.name for query in queries[:last])
    if queries[last].writes[-1].sink.name in seen:
        yield queries[last].name


def _sinks(query: Query) -> set[str]:
    return {write.sink.name for write in query.writes}


def behind(
    stored: Positions, table: Found | None, sinks: Mapping[str, Found], sources: Collection[str]
) -> Note | None:
    """With a new state folder: the run that sinks have and the table of offsets lacks, if any.

    A table that somebody edited after its last run is no sign of a crash: it says where to begin.
    """
    newest = max((found.note for found in sinks.values()), key=lambda n: n.run, default=None)
    if newest is None or set(newest.positions) != set(sources):
        return None
    if table is None:
        return None if _nonempty(stored) else newest
    edited = _nonempty(stored) != _nonempty(table.note.positions)
    return None if edited or table.note.run >= newest.run else newest


# Words


def covered(note: Note) -> str:
    """The records of a run: `orders[0] 3 to 9, orders[1] 0 to 4 (12 records)`."""
    parts = [part for source in sorted(note.starts) for part in _parts(note.range(source))]
    return f"{', '.join(parts) or 'nothing'} ({note.records:,} records)"


def _parts(found: Range) -> Iterator[str]:
    for (topic, partition), start in sorted(found.start.items()):
        end = found.end[topic, partition]
        if end > start:
            yield f"{topic}[{partition}] {start} to {end - 1}"


def doubtful(queries: Sequence[Query], again: bool) -> list[str]:
    """The targets that may get records of a run twice; `again`: under the same number."""
    found = []
    for query in queries:
        known = again and query.way is not None  # by its ledgers
        if query.aside is not None and query.aside.topic is not None and not known:
            found.append(f"dead letters in {query.aside.topic}")
        found += [
            f"`{write.sink.name}` ({write.sink.target})"
            for write in query.writes
            if not (again and write.sink.REPLAY_SAFE)
            and not (known and write.sink in query.kafka_sinks)
        ]
    return found
