"""The questions that Jepsen asks of Kafka, asked of what our readers saw. Pure functions.

`Truth` says of each record of the source in which topic it must be, and nowhere else; None for one
that the pipeline filters out. `live` is what the reader saw that ran all the while, `final` what
one saw that began when all was over. Both read committed records only. Each function gives the
exceptions: an empty list is a check that is passed.

| Jepsen's word         | here                                                                  |
|-----------------------|-----------------------------------------------------------------------|
| lost write            | `lost`                                                                |
| aborted read          | `unexpected`, and `vanished`: seen once, and not there in the end     |
| duplicate             | `doubled`                                                             |
| poll skip (gap)       | `skipped`                                                             |
| nonmonotonic send     | `reordered`                                                           |
| nonmonotonic poll     | `nonmonotonic`                                                        |
| inconsistent offsets  | `inconsistent`                                                        |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chaos.history import Seen, Source

Truth = Mapping[Source, str | None]
Place = tuple[str, int, int]


def place(seen: Seen) -> Place:
    return seen.topic, seen.partition, seen.offset


def lost(truth: Truth, seen: Iterable[Seen]) -> list[Source]:
    """Records of the source that are not where they must be."""
    found = {(each.topic, each.source) for each in seen}
    return [source for source, topic in truth.items() if topic and (topic, source) not in found]


def unexpected(truth: Truth, seen: Iterable[Seen]) -> list[Seen]:
    """Records made of nothing, of a record that belongs elsewhere, or of a filtered one."""
    return [each for each in seen if each.source is None or truth.get(each.source) != each.topic]


def doubled(seen: Iterable[Seen]) -> list[Seen]:
    """Records whose source has been seen before, at another place."""
    first: dict[Source, Place] = {}
    again = []
    for each in seen:
        if each.source is not None and first.setdefault(each.source, place(each)) != place(each):
            again.append(each)
    return again


def reordered(seen: Iterable[Seen]) -> list[Seen]:
    """Records behind one that comes later in their source partition.

    Within each partition of a topic, records of one source partition must stand in its order. One
    that is seen again is `doubled`, and not asked about here.
    """
    newest: dict[tuple[str, int, int], int] = {}
    known: set[Source] = set()
    late = []
    for each in sorted(seen, key=place):
        if each.source is None or each.source in known:
            continue
        known.add(each.source)
        lane = each.topic, each.partition, each.source[0]
        if each.source[1] < newest.get(lane, -1):
            late.append(each)
        newest[lane] = max(each.source[1], newest.get(lane, -1))
    return late


def inconsistent(live: Iterable[Seen], final: Iterable[Seen]) -> list[tuple[Seen, Seen]]:
    """Places at which two readers, or one at two times, saw different records."""
    first: dict[Place, Seen] = {}
    different = []
    for history in (live, final):
        for each in history:
            before = first.setdefault(place(each), each)
            if (before.digest, before.source) != (each.digest, each.source):
                different.append((before, each))
    return different


def vanished(live: Iterable[Seen], final: Iterable[Seen]) -> list[Seen]:
    """Records that were seen as committed, and are not there in the end."""
    there = {place(each) for each in final}
    return [each for each in live if place(each) not in there]


def skipped(live: Iterable[Seen], final: Iterable[Seen]) -> list[Seen]:
    """Records that the live reader passed over: it saw later ones of their partition."""
    seen: set[Place] = set()
    end: dict[tuple[str, int], int] = {}
    for each in live:
        seen.add(place(each))
        key = each.topic, each.partition
        end[key] = max(each.offset, end.get(key, -1))
    return [
        each
        for each in final
        if place(each) not in seen and each.offset < end.get((each.topic, each.partition), -1)
    ]


def nonmonotonic(seen: Iterable[Seen]) -> list[Seen]:
    """Records that a reader got after a later one of their partition, or twice."""
    newest: dict[tuple[str, int], int] = {}
    behind = []
    for each in seen:
        key = each.topic, each.partition
        if each.offset <= newest.get(key, -1):
            behind.append(each)
        newest[key] = max(each.offset, newest.get(key, -1))
    return behind
