"""What a dead letter is: a record with headers that say where it came from and what is wrong.

`formats.deadletter` writes those headers and `Letter.of` reads them; `Selection` picks letters by
plain facts. Nothing here needs a Kafka client. How letters are read is in `letters_reading`, which
of them have been moved in `letters_moved`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.admin.records import Headers, Record

HEADER_PREFIX = "headrace.dlq."
# How often the record has been sent again. It stays with the record, so that one which always
# fails is not sent for ever; all other headers of ours are those of the newest letter.
ATTEMPTS = f"{HEADER_PREFIX}attempts"


@dataclass(frozen=True)
class Letter:
    """A record of a dead-letter topic. One that no pipeline wrote has no `topic`.

    `topic`, `partition`, `offset` and `timestamp` (ms) are those of the record that was bad.
    """

    record: Record
    pipeline: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    error: str | None = None
    message: str | None = None
    attempts: int = 0

    @classmethod
    def of(cls, record: Record) -> Letter:
        facts = {
            name.removeprefix(HEADER_PREFIX): value.decode(errors="replace")
            for name, value in record.headers
            if name.startswith(HEADER_PREFIX) and value is not None
        }
        return cls(
            record,
            facts.get("pipeline"),
            facts.get("topic"),
            _number(facts, "partition"),
            _number(facts, "offset"),
            _number(facts, "timestamp"),
            facts.get("error"),
            facts.get("message"),
            _number(facts, "attempts") or 0,
        )

    @property
    def at(self) -> tuple[int, int]:
        """Its partition and offset in the dead-letter topic."""
        return self.record.partition or 0, self.record.offset or 0

    @property
    def place(self) -> str:
        return f"{self.record.topic}[{self.record.partition}]@{self.record.offset}"

    @property
    def source_place(self) -> str | None:
        """Where the bad record is, as `orders[0]@7`."""
        return None if self.topic is None else f"{self.topic}[{self.partition}]@{self.offset}"

    @property
    def headers(self) -> Headers:
        """Those that the record came with."""
        return tuple(
            (name, value)
            for name, value in self.record.headers
            if not name.startswith(HEADER_PREFIX)
        )

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.record.key or b"") + len(self.record.value or b"")


@dataclass(frozen=True)
class Selection:
    """Which letters are meant; what is not set admits all.

    `offsets` are the first and last of the bad record's; `since` and `until` (ms) are about when
    the letter was written; `contains` is looked for in key, value and message; `places` are
    partitions and offsets of the letters themselves.
    """

    errors: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    offsets: tuple[int, int] | None = None
    since: int | None = None
    until: int | None = None
    contains: str | None = None
    places: frozenset[tuple[int, int]] = frozenset()

    def admits(self, letter: Letter) -> bool:
        return (
            (not self.places or letter.at in self.places)
            and (not self.errors or letter.error in self.errors)
            and (not self.topics or letter.topic in self.topics)
            and (not self.partitions or letter.partition in self.partitions)
            and self._in_offsets(letter)
            and self._in_time(letter)
            and (self.contains is None or _holds(letter, self.contains))
        )

    def _in_offsets(self, letter: Letter) -> bool:
        if self.offsets is None:
            return True
        first, last = self.offsets
        return letter.offset is not None and first <= letter.offset <= last

    def _in_time(self, letter: Letter) -> bool:
        written = letter.record.timestamp
        if written is None:
            return self.since is None and self.until is None
        return (self.since is None or written >= self.since) and (
            self.until is None or written < self.until
        )


ALL = Selection()


def _number(facts: Mapping[str, str], name: str) -> int | None:
    text = facts.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _holds(letter: Letter, text: str) -> bool:
    parts = (letter.record.key, letter.record.value, (letter.message or "").encode())
    return any(text.encode() in part for part in parts if part)
