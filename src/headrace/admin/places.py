"""Places in a topic: how one says where to read from, or where to move a group to.

`resolve` turns a place into one offset a partition, always within what the partition holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.admin import offsets
from headrace.admin.client import Cluster
from headrace.admin.offsets import Offsets, TopicPartitionKey
from headrace.errors import DefinitionError


@dataclass(frozen=True)
class Earliest:
    """The oldest record still kept."""


@dataclass(frozen=True)
class Latest:
    """The end: only what is written from now on."""


@dataclass(frozen=True)
class AtOffset:
    offset: int


@dataclass(frozen=True)
class AtTime:
    """The first record that is not older; the end when there is none."""

    time_ms: int


@dataclass(frozen=True)
class Shift:
    """So many records forward (or, negative, back) from the present position."""

    by: int


@dataclass(frozen=True)
class Listed:
    """An offset for each partition, one by one."""

    offsets: Mapping[TopicPartitionKey, int]


Place = Earliest | Latest | AtOffset | AtTime | Shift | Listed


def resolve(
    cluster: Cluster,
    place: Place,
    partitions: Iterable[TopicPartitionKey],
    current: Mapping[TopicPartitionKey, int] | None = None,
) -> Offsets:
    """One offset for each partition; `current` is what a `Shift` counts from.

    An offset below the oldest kept becomes the oldest, one beyond the end becomes the end.
    """
    keys = list(partitions)
    low, high = offsets.earliest(cluster, keys), offsets.latest(cluster, keys)
    if isinstance(place, AtTime):
        wanted: Mapping[TopicPartitionKey, int] = offsets.at_time(cluster, keys, place.time_ms)
    else:
        wanted = _wanted(place, keys, low, high, current or {})
    return clamp(wanted, low, high)


def clamp(
    wanted: Mapping[TopicPartitionKey, int],
    low: Mapping[TopicPartitionKey, int],
    high: Mapping[TopicPartitionKey, int],
) -> Offsets:
    """The wanted offsets moved into what each partition holds; partitions now gone left out."""
    known = [key for key in wanted if key in low and key in high]
    return {key: min(max(wanted[key], low[key]), high[key]) for key in known}


def _wanted(
    place: Earliest | Latest | AtOffset | Shift | Listed,
    keys: Iterable[TopicPartitionKey],
    low: Offsets,
    high: Offsets,
    current: Mapping[TopicPartitionKey, int],
) -> Mapping[TopicPartitionKey, int]:
    match place:
        case Earliest():
            return low
        case Latest():
            return high
        case AtOffset(offset):
            return dict.fromkeys(keys, offset)
        case Shift(by):
            return {key: _position(key, current) + by for key in keys}
        case Listed(listed):
            return {key: listed[key] for key in keys if key in listed}


def _position(key: TopicPartitionKey, current: Mapping[TopicPartitionKey, int]) -> int:
    if key not in current:
        raise DefinitionError(
            f"{key[0]}[{key[1]}] has no position yet to count from",
            hint="start with the earliest or latest, an offset or a time",
        )
    return current[key]
