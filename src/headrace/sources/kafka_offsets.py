"""Offsets of the partitions that a Kafka source reads: where it begins, and what it has lost.

Everything here asks the brokers, so it runs on the driver when a run begins, and never while a
definition is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headrace.admin import offsets as partition_offsets
from headrace.admin import times, topics
from headrace.admin.client import Cluster
from headrace.errors import NoOffsetForPartition
from headrace.model.offsets import Offsets
from headrace.model.subscription import Subscription
from headrace.sources.kafka_options import BEGINNING, END, INT, named_in
from headrace.spec import Options

Key = tuple[str, int]
Warn = Callable[[str], None]


def partitions(cluster: Cluster, read: Subscription) -> list[Key]:
    """All partitions that there are now; of Kafka's own topics none, whatever a pattern says."""
    if read.pattern is None:
        return [key for topic in read.topics for key in topics.keys(cluster, topic)]
    matching = [topic for topic in topics.list_all(cluster) if read.reads(topic.name)]
    return [(topic.name, partition.id) for topic in matching for partition in topic.partitions]


@dataclass(frozen=True)
class Extent:
    """What is in the topics now: the oldest record still there, and the end.

    `ends` is where committed records end, for those who read no others; `tops` counts all.
    """

    begins: Offsets
    ends: Offsets
    tops: Offsets

    @classmethod
    def of(cls, cluster: Cluster, keys: Iterable[Key]) -> Extent:
        wanted = list(keys)
        return cls(
            partition_offsets.earliest(cluster, wanted),
            partition_offsets.latest(cluster, wanted, stable=True),
            partition_offsets.latest(cluster, wanted),
        )


def without(extent: Extent, keys: Iterable[Key]) -> Extent:
    """The same of all other partitions."""
    left = [key for key in extent.begins if key not in set(keys)]
    begins, ends, tops = (
        {key: each[key] for key in left} for each in (extent.begins, extent.ends, extent.tops)
    )
    return Extent(begins, ends, tops)


def reset(cluster: Cluster, asked: Options, extent: Extent, warn: Warn) -> dict[Key, int]:
    """Where the partitions that `offset` holds for begin by it."""
    keys = _existing(cluster, asked) if asked["partitions"] else list(extent.begins)
    kind, value = asked["type"], asked["value"]
    if kind == BEGINNING:
        return {key: extent.begins[key] for key in keys}
    if kind == END:
        return {key: extent.ends[key] for key in keys}
    if kind == INT:
        return {key: _within(key, int(value), extent, warn) for key in keys}
    found = partition_offsets.at_time(cluster, keys, times.parse(value))
    # A record of a transaction that is still open may be the first since then.
    return {key: min(found[key], extent.ends[key]) for key in keys}


def _existing(cluster: Cluster, asked: Options) -> list[Key]:
    """The partitions that it names; one that is not there is refused."""
    named: dict[str, list[int]] = {}
    for topic, number in named_in(asked):
        named.setdefault(topic, []).append(number)
    return [key for topic, numbers in named.items() for key in topics.keys(cluster, topic, numbers)]


def _within(key: Key, wanted: int, extent: Extent, warn: Warn) -> int:
    begin, end = extent.begins[key], extent.ends[key]
    at = min(max(wanted, begin), end)
    if at != wanted:
        where = "the end" if at == end else "the oldest record"
        warn(f"{place(key)} has no offset {wanted}: it begins at {where}, {at}")
    return at


def fill(source: str, first: str, stored: Offsets, extent: Extent) -> dict[Key, int]:
    """Where each partition begins: at its stored position, or else as `first` says.

    Once there are positions, a partition without one has come since, and is read from its
    beginning.
    """
    unknown = sorted(key for key in extent.begins if key not in stored)
    if unknown and first == "none":
        raise NoOffsetForPartition(source, ", ".join(place(key) for key in unknown))
    fresh = extent.begins if stored or first == "earliest" else extent.ends
    return {key: stored.get(key, fresh[key]) for key in extent.begins}


def lost(stands: Offsets, extent: Extent) -> dict[Key, tuple[int, int]]:
    """The offsets from a position up to the oldest record left, of partitions that fell behind."""
    return {
        key: (at, extent.begins[key])
        for key, at in stands.items()
        if key in extent.begins and at < extent.begins[key]
    }


def beyond(stands: Offsets, extent: Extent) -> str | None:
    """Which partitions end before their position, in words.

    All records count, so that an open transaction is not taken for it.
    """
    found = sorted(key for key, at in stands.items() if at > extent.tops.get(key, at))
    told = (f"{place(key)} ends at {extent.tops[key]}, not {stands[key]}" for key in found)
    return ", ".join(told) or None


def loss_in_words(gone: Mapping[Key, tuple[int, int]]) -> str | None:
    """Which records are gone, with their number; None when none are."""
    parts = (
        f"{place(key)} offsets {begin} to {end - 1} ({end - begin} records)"
        for key, (begin, end) in sorted(gone.items())
    )
    return ", ".join(parts) or None


def place(key: Key) -> str:
    return f"{key[0]}[{key[1]}]"
