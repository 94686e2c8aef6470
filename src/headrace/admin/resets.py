"""Move a consumer group to another place in its topics: first as a plan, then for real.

A plan is a list of moves, one for each partition. It changes nothing; `execute` stores it. Both
refuse a group with active members: those would go on from where they are and overwrite it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.admin import groups, places, topics
from headrace.admin.client import Cluster
from headrace.admin.offsets import Offsets, TopicPartitionKey
from headrace.admin.places import Place
from headrace.errors import DefinitionError, UnknownGroup


@dataclass(frozen=True)
class Scope:
    """A topic, or some of its partitions; none named means all."""

    topic: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Move:
    """`old` is None where the group had no position."""

    topic: str
    partition: int
    old: int | None
    new: int

    @property
    def by(self) -> int | None:
        return None if self.old is None else self.new - self.old


def plan(cluster: Cluster, group: str, place: Place, scopes: Sequence[Scope] = ()) -> list[Move]:
    """Where each partition would go; without scopes, all those that the group has a position in.

    With scopes the group need not exist: it gets its first positions.
    """
    _refuse_active(cluster, group, must_exist=not scopes and not isinstance(place, places.Listed))
    current = groups.committed(cluster, group)
    targets = places.resolve(cluster, place, _keys(cluster, place, scopes, current), current)
    return [Move(*key, current.get(key), new) for key, new in sorted(targets.items())]


def execute(cluster: Cluster, group: str, moves: Iterable[Move]) -> None:
    """Store the plan's new positions."""
    _refuse_active(cluster, group, must_exist=False)
    groups.commit(cluster, group, {(move.topic, move.partition): move.new for move in moves})


def parse_scope(text: str) -> Scope:
    """`orders`, or `orders:0,2` for some partitions."""
    topic, colon, listed = text.partition(":")
    try:
        numbers = tuple(int(number) for number in listed.split(",")) if colon else ()
    except ValueError:
        numbers = (-1,)
    if not topic or any(number < 0 for number in numbers):
        raise DefinitionError(
            f"`{text}` is not a topic or topic:partitions", hint="write `orders` or `orders:0,2`"
        )
    return Scope(topic, numbers)


def parse_plan(text: str, source: str) -> Offsets:
    """The offsets of a plan kept earlier: what `-o json` prints, or `topic,partition,offset`."""
    try:
        return _from_json(text) if text.lstrip().startswith("[") else _from_csv(text)
    except (ValueError, KeyError, TypeError) as failure:
        raise DefinitionError(
            f"{source}: not a plan of offsets: {type(failure).__name__} {failure}",
            hint="make one with `headrace groups reset … --dry-run -o json`, or write lines of "
            "topic,partition,offset",
        ) from failure


def _from_json(text: str) -> Offsets:
    rows: list[dict[str, Any]] = json.loads(text)
    return {(str(row["topic"]), int(row["partition"])): int(row["new"]) for row in rows}


def _from_csv(text: str) -> Offsets:
    rows = csv.reader(line for line in text.splitlines() if line.strip())
    return {(topic.strip('" '), int(partition)): int(offset) for topic, partition, offset in rows}


def _refuse_active(cluster: Cluster, group: str, must_exist: bool) -> None:
    try:
        groups.refuse_active(groups.describe(cluster, group))
    except UnknownGroup:
        if must_exist:
            raise


def _keys(
    cluster: Cluster, place: Place, scopes: Sequence[Scope], current: Offsets
) -> list[TopicPartitionKey]:
    """The partitions that a plan is about."""
    if scopes:
        return [
            key for scope in scopes for key in topics.keys(cluster, scope.topic, scope.partitions)
        ]
    if isinstance(place, places.Listed):
        listed = {topic for topic, _ in place.offsets}
        return [key for topic in sorted(listed) for key in topics.keys(cluster, topic)]
    return list(current)
