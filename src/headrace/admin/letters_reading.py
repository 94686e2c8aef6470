"""Read dead letters, find the topics that hold some, and count them by source and reason.

Letters are read up to the end that their topic has when reading begins, committed ones only, each
partition in its order. Nobody's position is moved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.admin import letters_moved, reading, topics
from headrace.admin.client import Cluster
from headrace.admin.letters import ALL, Letter, Selection
from headrace.admin.letters_moved import SUFFIX, Moved
from headrace.admin.places import AtTime, Earliest

LOAD_LETTERS = 5_000
LOAD_BYTES = 16_000_000

# What people call such topics. Others are looked at when they are named.
_NAMES = re.compile(r"(^|[._-])(dlq|dlt|dead[._-]?letters?)([._-]|$)", re.IGNORECASE)


@dataclass
class Tally:
    """The letters of one pipeline and source topic with one code.

    Times (ms) are of when they were written.
    """

    topic: str
    source: str | None = None
    error: str | None = None
    pipeline: str | None = None
    letters: int = 0
    redriven: int = 0
    oldest: int | None = None
    newest: int | None = None

    def count(self, letter: Letter, moved: bool) -> None:
        self.letters += 1
        self.redriven += moved
        written = letter.record.timestamp
        if written is not None:
            self.oldest = written if self.oldest is None else min(self.oldest, written)
            self.newest = written if self.newest is None else max(self.newest, written)


def candidates(cluster: Cluster) -> list[str]:
    """Topics that may hold letters, by their names."""
    return [
        name
        for name in topics.names(cluster)
        if _NAMES.search(name) and not name.endswith(SUFFIX) and not name.startswith("__")
    ]


def letters(cluster: Cluster, topic: str, selection: Selection) -> Iterator[Letter]:
    """The letters that a selection admits, moved or not."""
    start = Earliest() if selection.since is None else AtTime(selection.since)
    for record in reading.consume(cluster, topic, start, reading.Until(end=True)):
        letter = Letter.of(record)
        if selection.admits(letter):
            yield letter


def loads(found: Iterable[Letter]) -> Iterator[list[Letter]]:
    """The letters in lists that fit into memory."""
    load: list[Letter] = []
    size = 0
    for letter in found:
        load.append(letter)
        size += letter.size
        if len(load) == LOAD_LETTERS or size >= LOAD_BYTES:
            yield load
            load, size = [], 0
    if load:
        yield load


def tallies(cluster: Cluster, topic: str, named: bool) -> list[Tally]:
    """Counts of all letters of a topic, the most frequent first.

    Of a topic that was only guessed by its name, nothing unless it holds letters of ours.
    """
    moved = letters_moved.read(cluster, topics.describe(cluster, topic))
    found = tally(topic, letters(cluster, topic, ALL), moved)
    if named or topic.endswith(".dlq"):
        return found or [Tally(topic)]
    return found if any(each.source for each in found) else []


def tally(topic: str, found: Iterable[Letter], moved: Moved) -> list[Tally]:
    """Counts by source topic, code and pipeline, the most frequent first."""
    counts: dict[tuple[str | None, str | None, str | None], Tally] = {}
    for letter in found:
        key = letter.topic, letter.error, letter.pipeline
        counts.setdefault(key, Tally(topic, *key)).count(letter, letter.at in moved)
    return sorted(counts.values(), key=lambda each: -each.letters)
