"""Positions that are moved because the definition asks for it, once for each time that it asks.

A pipeline's `resets.json` remembers which `offset` of each source has been followed, so that a
plain restart does not follow it again; one that is changed, or taken out and put in again, is. The
file is replaced whole, and what it says is done by whoever reads it: a crash at any moment leaves
either the old file or the new one.

    followed   by source, the `offset` that has been followed
    begun      by query of a stream, a checkpoint begun anew: its id, and where its sources began
    storing    by source of a batch, positions on their way into the table of offsets
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from headrace.errors import DefinitionError
from headrace.model.offsets import Offsets, by_partition, by_topic
from headrace.model.pipeline import Mode
from headrace.runtime.failpoints import reach
from headrace.sources.kafka import KafkaSource
from headrace.sources.reader import Access, SourceReader

Positions = Mapping[str, Offsets]  # by source


@dataclass(frozen=True)
class Begun:
    """A checkpoint of a query that is not its first. `id` also stands for its generation.

    `resumed`: it goes on where ledgers say that a state which is gone had come to.
    """

    starts: Positions
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    resumed: bool = False


@dataclass(frozen=True)
class Resets:
    followed: Mapping[str, str] = field(default_factory=dict)
    begun: Mapping[str, Begun] = field(default_factory=dict)
    storing: Positions = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Resets:
        if not file.exists():
            return cls()
        told = json.loads(file.read_text())
        begun = {
            query: Begun(_positions(each["starts"]), each["id"], each.get("resumed", False))
            for query, each in told["begun"].items()
        }
        return cls(told["followed"], begun, _positions(told["storing"]))

    def write(self, file: Path) -> None:
        told = {
            "followed": dict(self.followed),
            "begun": {
                query: {"id": each.id, "starts": _plain(each.starts), "resumed": each.resumed}
                for query, each in self.begun.items()
            },
            "storing": _plain(self.storing),
        }
        new = file.with_suffix(".new")
        new.write_text(json.dumps(told, indent=2))
        new.replace(file)


def wanted(sources: Iterable[SourceReader]) -> dict[str, str]:
    """By source, the `offset` that the definition asks for."""
    return {
        source.name: source.reset
        for source in sources
        if isinstance(source, KafkaSource) and source.reset is not None
    }


def due(asked: Mapping[str, str], resets: Resets, again: bool) -> set[str]:
    """The sources whose `offset` is to be followed now; all that have one, if `again` says so."""
    if again and not asked:
        raise DefinitionError(
            "no source has an `offset` that could be followed again",
            hint="add `offset:` with a type, or leave --reset-offsets away",
        )
    return {name for name, text in asked.items() if again or resets.followed.get(name) != text}


class Table(Protocol):
    """The stored positions of a batch pipeline; of some sources it may keep none."""

    def read(self) -> dict[str, dict[tuple[str, int], int]]: ...

    def write(self, positions: Positions) -> None: ...


def follow_in_table(
    file: Path,
    sources: Iterable[SourceReader],
    access: Access,
    table: Table,
    again: bool = False,
    keep: bool = True,
) -> Positions:
    """The positions from which a batch run begins, after `offset` has been followed.

    1. note     the new positions in `resets.json`
    2. store    them in the table
    3. forget   the note; before that, whoever comes next begins at 2 again

    No batch can run between 1 and 3, so doing 2 twice moves nothing twice. Without `keep` nothing
    is written.
    """
    readers = list(sources)
    resets, stored = Resets.read(file), table.read()
    stored = {**stored, **{name: dict(offsets) for name, offsets in resets.storing.items()}}
    asked = wanted(readers)
    now = due(asked, resets, again)
    starts = {
        source.name: source.starts(
            access.clusters,
            Mode.BATCH,
            stored.get(source.name, {}),
            source.extent(access.clusters),
            access.warn,
        )
        for source in readers
        if isinstance(source, KafkaSource) and source.name in now
    }
    storing = {**resets.storing, **starts}
    if not keep:
        return {**stored, **storing}
    after = replace(resets, followed=asked, storing=storing)
    if after != resets:
        after.write(file)  # 1
        reach("reset.noted")
    if not storing:
        return stored
    table.write({**stored, **storing})  # 2
    reach("reset.stored")
    replace(after, storing={}).write(file)  # 3
    # Read again, as the table counts on being as it was when it was read last.
    return {**storing, **table.read()}


def _plain(positions: Positions) -> dict[str, Any]:
    return {source: by_topic(offsets) for source, offsets in positions.items()}


def _positions(told: Mapping[str, Any]) -> dict[str, Offsets]:
    return {source: by_partition(offsets) for source, offsets in told.items()}
