"""Spark's checkpoint of one query, read without Spark: how far it has come with Kafka.

    sources/N/0    where source N began
    offsets/ID     where each batch ends, a line for each source; written before the batch runs
    commits/ID     the batch is done
    state          what a query remembers between batches, where it has to

Only Kafka's offsets are understood; sources of other kinds have lines of their own form.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from headrace.model.offsets import Offsets, by_partition


@dataclass(frozen=True)
class Checkpoint:
    folder: Path

    @property
    def begun(self) -> bool:
        """Whether Spark goes on from here, and not from the offsets that it is started with."""
        return any((self.folder / "sources").glob("*/0")) or bool(self._ids("offsets"))

    @property
    def cut_off(self) -> bool:
        """Whether a batch was planned that is not done."""
        return self.planned > self.done

    @property
    def planned(self) -> int:
        """The number of the last batch whose end is noted, done or not; -1 before the first."""
        return max(self._ids("offsets"), default=-1)

    @property
    def done(self) -> int:
        """The number of the last batch that is done; -1 before the first."""
        return max(self._ids("commits"), default=-1)

    @property
    def stateful(self) -> bool:
        return (self.folder / "state").exists()

    def stands(self) -> tuple[Offsets, ...]:
        """For each source, the end of the last batch that is done, or else where it began."""
        return self.before(self.done + 1)

    def before(self, batch: int) -> tuple[Offsets, ...]:
        """For each source, where this batch begins."""
        planned = self.folder / "offsets" / str(batch - 1)
        if planned.exists():
            # A version, a line of metadata, and then a line for each source.
            return tuple(_offsets(line) for line in planned.read_text().splitlines()[2:])
        return tuple(_began(file) for file in sorted((self.folder / "sources").glob("*/0")))

    def _ids(self, kind: str) -> list[int]:
        return [int(file.name) for file in (self.folder / kind).glob("*") if file.name.isdigit()]


def lowest(parts: tuple[Offsets, ...]) -> Offsets:
    """All partitions together; one that two sources of a query read, where the later one stands."""
    found: dict[tuple[str, int], int] = {}
    for part in parts:
        for key, offset in part.items():
            found[key] = min(offset, found.get(key, offset))
    return found


def _began(file: Path) -> Offsets:
    """After a byte that older versions of Spark stumble over, a version and the offsets."""
    return _offsets(file.read_text().splitlines()[-1])


def _offsets(line: str) -> Offsets:
    return by_partition(json.loads(line)) if line.startswith("{") else {}
