"""Order events as a shop would write them, with bad ones among them, the same for the same seed.

The generator knows what must become of each event, so that a run can be checked against it. The
demo and the benchmark use it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

KEPT = "kept"
FILTERED = "filtered"

_START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
_COUNTRIES = ("de", "fr", "nl", "pl", "us", "ca", "br", "jp")
_ITEMS = (
    ("espresso machine", 34990),
    ("coffee grinder", 12900),
    ("milk frother", 4950),
    ("water kettle", 3950),
    ("filter papers", 310),
    ("porcelain mug", 825),
    ("coffee beans, 1 kg", 1890),
)
# The pipeline keeps one of the three.
_STATUSES = ("placed", "paid", "shipped")


class OrderEvent(NamedTuple):
    """`fate` is KEPT, FILTERED, or the code that the dead letter must carry."""

    key: bytes | None
    value: bytes | None
    fate: str


BAD = (
    "NOT_JSON",
    "WRONG_TYPE",
    "MISSING_FIELD",
    "EMPTY_VALUE",
    "NOT_UTF8",
    "NOT_AN_OBJECT",
    "NULL_VALUE",
)


def order_events(
    seed: int = 1, bad_share: float = 0.005, bad: tuple[str, ...] = BAD
) -> Iterator[OrderEvent]:
    """Events without end, about 150 bytes each; `bad_share` of them are bad, in these ways."""
    rng = random.Random(seed)
    second, clock = -1, ""
    id = 1_000_000
    while True:
        id += 1
        # A thousand events a second, so the part of the time that costs is made once for many.
        if id // 1000 != second:
            second = id // 1000
            clock = (_START + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
        customer = f"C-{int(rng.random() * 90_000) + 10_000}"
        status = _STATUSES[int(rng.random() * 3)]
        item, cents = _ITEMS[int(rng.random() * len(_ITEMS))]
        country = _COUNTRIES[int(rng.random() * len(_COUNTRIES))]
        quantity = int(rng.random() * 5) + 1
        value = (
            f'{{"id":{id},"customer":"{customer}","country":"{country}","item":"{item}",'
            f'"quantity":{quantity},"price":{cents / 100:.2f},"status":"{status}",'
            f'"at":"{clock}.{id % 1000:03d}Z"}}'
        ).encode()
        key = customer.encode()
        if rng.random() < bad_share:
            yield _spoilt(rng.choice(bad), key, value)
        else:
            yield OrderEvent(key, value, KEPT if status == "paid" else FILTERED)


def _spoilt(code: str, key: bytes, value: bytes) -> OrderEvent:
    """The event as a careless producer would have written it."""
    bad: dict[str, bytes | None] = {
        "NOT_JSON": value[: len(value) // 2],
        "WRONG_TYPE": value.replace(b'"quantity":', b'"quantity":"a few, not ').replace(
            b',"price"', b'","price"'
        ),
        "MISSING_FIELD": value.replace(b'"customer":', b'"client":'),
        "EMPTY_VALUE": b"",
        "NOT_UTF8": value.replace(b'"item":"', b'"item":"caf\xe9 '),
        "NOT_AN_OBJECT": b"[" + value + b"]",
        "NULL_VALUE": None,
    }
    # With a key it would be a tombstone, which is no fault.
    return OrderEvent(None if code == "NULL_VALUE" else key, bad[code], code)
