"""What a reader of topics saw, in the order in which it saw it: one line a record.

`reader` writes lines, the checks get `Seen`. A record is known by the place of the record in the
source that it was made of: its source, which it carries along. A tombstone has room for nothing but
its key, so that its key is unique in the source, and `load` looks it up.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headrace.formats.deadletter import HEADER_PREFIX

# Partition and offset of a record in the source topic.
Source = tuple[int, int]
Headers = Any  # of confluent-kafka: pairs, or none

PARTITION, OFFSET = "source_partition", "source_offset"
_KEY = "key="
_UNKNOWN = "?"


class Seen(NamedTuple):
    """A record at its place. `source` is None where it cannot be said."""

    at: float
    topic: str
    partition: int
    offset: int
    source: Source | None
    digest: int


def line(
    at: float,
    place: tuple[str, int, int],
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> str:
    """A record as a line of a history."""
    topic, partition, offset = place
    origin = origin_of(key, value, headers)
    return f"{at:.3f}\t{topic}\t{partition}\t{offset}\t{origin}\t{digest(key, value, headers)}\n"


def origin_of(key: bytes | None, value: bytes | None, headers: Headers) -> str:
    """`partition:offset`, `key=` of a tombstone, or `?`."""
    facts = dict(headers or ())
    letter = facts.get(f"{HEADER_PREFIX}partition"), facts.get(f"{HEADER_PREFIX}offset")
    if letter[0] is not None and letter[1] is not None:
        return f"{int(letter[0])}:{int(letter[1])}"
    if value is None:
        return _UNKNOWN if key is None else _KEY + key.hex()
    try:
        row = json.loads(value)
        return f"{row[PARTITION]:d}:{row[OFFSET]:d}"
    except (ValueError, KeyError, TypeError):
        return _UNKNOWN


def digest(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Two records that differ have, as good as always, two digests."""
    found = zlib.crc32(repr((key, headers)).encode())
    return zlib.crc32(b"" if value is None else b"=" + value, found)


def load(file: Path, keys: Mapping[bytes, Source]) -> Iterator[Seen]:
    """The lines of a history; the last one may be cut off, as readers can be killed too."""
    with file.open() as lines:
        yield from parse(lines, keys)


def parse(lines: Iterable[str], keys: Mapping[bytes, Source]) -> Iterator[Seen]:
    names: dict[str, str] = {}
    for text in lines:
        if not text.endswith("\n"):
            return
        at, topic, partition, offset, origin, found = text.split("\t")
        topic = names.setdefault(topic, topic)
        source = _source(origin, keys)
        yield Seen(float(at), topic, int(partition), int(offset), source, int(found))


def _source(origin: str, keys: Mapping[bytes, Source]) -> Source | None:
    if origin == _UNKNOWN:
        return None
    if origin.startswith(_KEY):
        return keys.get(bytes.fromhex(origin.removeprefix(_KEY)))
    partition, _, offset = origin.partition(":")
    return int(partition), int(offset)


def longest_stall(seen: Iterable[Seen]) -> float:
    """The longest time, in seconds, in which a reader saw nothing new, from its first record on."""
    longest, before = 0.0, None
    for each in seen:
        if before is not None:
            longest = max(longest, each.at - before)
        before = each.at
    return longest
