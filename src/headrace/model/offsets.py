"""Offsets: how far a source has been read, by topic and partition.

Sources that are no Kafka use the same form, so that one table holds the positions of all: a file's
path, a table's name or a generator stands for the topic, and bytes, a version or a count for the
offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# The next offset to read, by topic and partition.
Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Range:
    """What a batch covers of one source: from `start` up to, and not with, `end`.

    Both name the same partitions. `lost` says which records between the stored position and
    `start` are gone, in words, where any are. `unit` is what offsets count. Of a preview, `partial`
    says that the source has more than this.
    """

    start: Offsets
    end: Offsets
    lost: str | None = None
    unit: str = "records"
    partial: bool = False

    @property
    def records(self) -> int:
        """How much there is to read, in its `unit`."""
        return sum(self.end[key] - self.start[key] for key in self.end)


def at_most(found: Range, records: int) -> Range:
    """The same with so many records or fewer, of each partition in proportion to what it has."""
    whole = found.records
    if whole <= records:
        return found
    waiting = {key: found.end[key] - at for key, at in found.start.items()}
    shares = {key: count * records // whole for key, count in waiting.items()}
    # What rounding leaves goes to the fullest, so that something is read however small the limit.
    left = records - sum(shares.values())
    for key in sorted(waiting, key=lambda key: waiting[key], reverse=True)[:left]:
        shares[key] += 1
    end = {key: at + shares[key] for key, at in found.start.items()}
    return Range(found.start, end, found.lost, found.unit)


def by_partition(offsets: object) -> dict[tuple[str, int], int]:
    """From the form in which Spark's checkpoints and reports have those of Kafka.

    Other sources of Spark have forms of their own, of which nothing is taken.
    """
    if not isinstance(offsets, Mapping):
        return {}
    return {
        (topic, int(number)): offset
        for topic, partitions in offsets.items()
        if isinstance(partitions, Mapping)
        for number, offset in partitions.items()
        if number.isdigit() and isinstance(offset, int)
    }


def by_topic(offsets: Offsets) -> dict[str, dict[int, int]]:
    """As Spark's Kafka reader wants them."""
    found: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[partition] = offset
    return found
