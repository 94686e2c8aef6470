"""Which letters of a dead-letter topic have been moved, as notes in a compacted topic beside it.

The notes of `orders.dlq` are in `orders.dlq.moved`, one record for each thousand offsets:

    {"topic_id": "…", "partition": 0, "from": 2000}   {"moved": [[2000, 2011], [2014, 2014]]}

Whoever moves letters writes the notes about them in the same transaction. `docs/decisions/0014`
says why they are not a group's offsets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby

from headrace.admin import offsets, topics
from headrace.admin.client import Cluster
from headrace.admin.places import Earliest
from headrace.admin.reading import Until, consume
from headrace.admin.records import Record
from headrace.admin.topics import Topic
from headrace.errors import NotesHidden

SUFFIX = ".moved"
SPAN = 1000

At = tuple[int, int]


class Moved:
    """A set of `(partition, offset)`; a bit for each offset, a number for each `SPAN` of them."""

    def __init__(self, topic_id: str) -> None:
        self._topic_id = topic_id
        self._bits: dict[At, int] = {}
        # Keys of notes about letters that are no more.
        self.stale: list[bytes] = []

    def __contains__(self, at: At) -> bool:
        partition, offset = at
        first = _first(offset)
        return bool(self._bits.get((partition, first), 0) >> (offset - first) & 1)

    def add(self, places: Iterable[At]) -> None:
        for partition, offset in places:
            first = _first(offset)
            self._bits[partition, first] = self._bits.get((partition, first), 0) | 1 << (
                offset - first
            )

    def notes(self, places: Iterable[At]) -> Iterator[Record]:
        """What is to be written so that these places are known as moved, with those before."""
        after = Moved(self._topic_id)
        wanted = list(places)
        spans = {(partition, _first(offset)) for partition, offset in wanted}
        after._bits = {span: self._bits.get(span, 0) for span in spans}
        after.add(wanted)
        for (partition, first), bits in sorted(after._bits.items()):
            yield Record(
                json.dumps({"moved": _ranges(first, bits)}).encode(), self._key(partition, first)
            )

    def learn(self, note: Record, earliest: dict[int, int]) -> None:
        """Take in a note; one about a topic of the same name, or letters now gone, is stale."""
        key = json.loads(note.key or b"{}")
        partition, first = key.get("partition"), key.get("from")
        known = key.get("topic_id") == self._topic_id and partition in earliest
        if note.value is None or note.key is None:
            return
        if not known or first + SPAN <= earliest[partition]:
            self.stale.append(note.key)
            return
        self._bits[partition, first] = sum(
            ((1 << (last - start + 1)) - 1) << (start - first)
            for start, last in json.loads(note.value)["moved"]
        )

    def _key(self, partition: int, first: int) -> bytes:
        key = {"topic_id": self._topic_id, "partition": partition, "from": first}
        return json.dumps(key).encode()


def notes_topic(topic: str) -> str:
    return topic + SUFFIX


def ensure(cluster: Cluster, topic: Topic) -> None:
    """Make the topic of the notes, as safe from loss as the letters are."""
    config = {"cleanup.policy": "compact"}
    topics.ensure(cluster, notes_topic(topic.name), 1, topic.replication, config)


def read(cluster: Cluster, topic: Topic, final: bool = False) -> Moved:
    """The letters of a topic that have been moved.

    Whoever is going to move some asks for `final`, and only after its transactional id has fenced
    all others: before that, a transaction which is still to be committed may hold more notes.
    """
    moved = Moved(topic.id)
    notes = notes_topic(topic.name)
    if not topics.exists(cluster, notes):
        return moved
    if final:
        _refuse_open(cluster, notes)
    low = offsets.earliest(cluster, [(topic.name, each.id) for each in topic.partitions])
    earliest = {partition: offset for (_, partition), offset in low.items()}
    for note in consume(cluster, notes, Earliest(), Until(end=True)):
        moved.learn(note, earliest)
    return moved


def _refuse_open(cluster: Cluster, notes: str) -> None:
    """A stranger's transaction would hide whatever was noted after its beginning."""
    keys = topics.keys(cluster, notes)
    ends, stable = offsets.latest(cluster, keys), offsets.latest(cluster, keys, stable=True)
    held = [partition for (_, partition), end in ends.items() if stable[notes, partition] < end]
    if held:
        raise NotesHidden(notes, held[0])


def _first(offset: int) -> int:
    return offset - offset % SPAN


def _ranges(first: int, bits: int) -> list[list[int]]:
    """The offsets whose bits are set, as first and last of each run."""
    found = []
    runs = groupby(range(SPAN), key=lambda number: bits >> number & 1)
    for is_set, run in runs:
        if is_set:
            numbers = list(run)
            found.append([first + numbers[0], first + numbers[-1]])
    return found
