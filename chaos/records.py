"""The records of an ordeal: mostly good ones, and each kind of bad one that a topic can hold.

Every record says in a header what must become of it, so that what is expected is read from the
source topic itself and not from the notes of whoever filled it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

HEADER = "chaos.fate"
OUT, DEAD, NONE = b"out", b"dead", b"none"

SCHEMA = "id BIGINT NOT NULL, customer STRING, amount INT, note STRING"
# The sink's limit for a message, and the size of records that are above it.
LARGEST, TOO_LARGE = 32_768, 40_000
CUSTOMERS = 500


@dataclass(frozen=True)
class Record:
    partition: int
    key: bytes | None
    value: bytes | None
    fate: bytes


Made = tuple[bytes | None, bytes | None]


def _good(number: int, key: bytes | None, **fields: object) -> Made:
    customer = key.decode() if key else None
    row = {"id": number, "customer": customer, "amount": 1, "note": "-" * 20, **fields}
    return key, json.dumps(row).encode()


# Kind, how many of a thousand, what must become of it, and how it is made.
_KINDS: tuple[tuple[float, bytes, Callable[[int, bytes], Made]], ...] = (
    (903.5, OUT, _good),
    (20, OUT, lambda number, _: _good(number, None)),
    (50, NONE, lambda number, key: _good(number, key, amount=-1)),
    (10, DEAD, lambda number, key: (key, b'{"id": %d, "customer": "cut o' % number)),
    (3, DEAD, lambda _, key: (key, b"")),
    (3, DEAD, lambda number, key: (key, b'{"id": %d, "note": "\xff\xfe\xc3"}' % number)),
    (2, DEAD, lambda number, key: (key, b'{"id": "%d is no number"}' % number)),
    (2, DEAD, lambda number, key: (key, b'{"customer": "%d without an id"}' % number)),
    (2, DEAD, lambda *_: (None, None)),
    (0.5, DEAD, lambda number, key: _good(number, key, note="*" * TOO_LARGE)),
    # A tombstone: its key alone says which one it is.
    (4, OUT, lambda number, _: (b"tombstone-%d" % number, None)),
)


def generate(seed: int, partitions: int) -> Iterator[Record]:
    """The same records for the same seed, without end."""
    chance = random.Random(seed)
    shares = [share for share, _, _ in _KINDS]
    number = 0
    while True:
        for _, fate, make in chance.choices(_KINDS, shares, k=1000):
            key, value = make(number, b"C-%03d" % chance.randrange(CUSTOMERS))
            yield Record(chance.randrange(partitions), key, value, fate)
            number += 1
