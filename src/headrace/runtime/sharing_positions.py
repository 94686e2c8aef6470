"""Where a run stands in the partitions that it shares with others of its group.

The group is the truth: a partition that comes to this run begins where the group stands in it, and
from then on the run knows, as nobody else may move it. A partition that the group has no position
in gets one before it is read, so that whoever takes it over later begins there and not at an end
that has moved on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from headrace.admin.membership import Committed, Held
from headrace.errors import NoOffsetForPartition
from headrace.model.offsets import Offsets
from headrace.model.pipeline import Mode
from headrace.sources.kafka import KafkaSource
from headrace.sources.kafka_offsets import Extent, place

Key = tuple[str, int]
Warn = Callable[[str], None]


class Member(Protocol):
    """What a `Membership` is for here: the positions of the group, read and written."""

    def still(self, held: Held) -> set[Key]: ...

    def committed(self, partitions: Iterable[Key]) -> Mapping[Key, Committed]: ...

    def commit(self, offsets: Offsets) -> bool: ...


class SharedPositions:
    """Of one run. `stands` is the next offset to read of each partition that it has now.

    `look` tells what is in partitions now.
    """

    def __init__(
        self, source: KafkaSource, look: Callable[[Iterable[Key]], Extent], warn: Warn
    ) -> None:
        self._source = source
        self._look = look
        self._warn = warn
        self._given: dict[Key, int] = {}
        self._stored: dict[Key, int] = {}
        self.stands: dict[Key, int] = {}
        self._existing: frozenset[Key] = frozenset()
        self._first_start = False

    def begin(self, member: Member, existing: Iterable[Key]) -> None:
        """Before the group is joined: which partitions there are, and whether it stands in any.

        One that comes later is read from its beginning, and so is one that others of the group have
        left without a position: only where all begin does `auto_offset_reset` count.
        """
        self.forget([*self._given])
        self._existing = frozenset(existing)
        self._first_start = not member.committed(self._existing)

    def follow(self, member: Member, held: Held) -> None:
        """Take up what has come, and forget what has gone."""
        self.forget([key for key, given in self._given.items() if held.get(key) != given])
        new = [key for key in held if key not in self._given]
        known = member.committed(new)
        self._tell_moved(known)
        found = {key: each.offset for key, each in known.items()}
        fresh = self._fresh([key for key in new if key not in known])
        # Before anything is read: with `latest`, what comes until a first batch would be lost.
        if fresh and member.commit(fresh):
            found.update(fresh)
        self.stands.update(found)
        self._stored.update(found)
        self._given.update((key, held[key]) for key in found)

    def move(self, offsets: Offsets) -> None:
        """All before these is written; `store` is to follow."""
        self.stands.update(offsets)

    def store(self, member: Member, held: Held) -> list[Key]:
        """Commit what has moved; the partitions that were taken back before that could be done."""
        still = member.still(held)
        moved = {key: at for key, at in self.stands.items() if at != self._stored[key]}
        kept = {key: at for key, at in moved.items() if key in still}
        if kept and not member.commit(kept):
            kept = {}
        self._stored.update(kept)
        lost = [key for key in moved if key not in kept]
        self.forget(lost)
        return lost

    def forget(self, keys: Iterable[Key]) -> None:
        """They are someone else's; should they come again, the group says where they stand."""
        for key in keys:
            for known in (self._given, self.stands, self._stored):
                known.pop(key, None)

    def extent(self) -> Extent:
        """What is in the partitions of this run now."""
        return self._look(self.stands)

    def _fresh(self, keys: list[Key]) -> Offsets:
        """Where partitions begin that the group has no position in."""
        if not keys:
            return {}
        first = self._source.first(Mode.STREAM).value
        old = self._existing.intersection(keys)
        if first == "none" and old:
            named = ", ".join(place(key) for key in sorted(old))
            raise NoOffsetForPartition(self._source.name, named)
        extent = self._look(keys)
        at_end = first == "latest" and self._first_start
        return {
            key: extent.ends[key] if at_end and key in old else extent.begins[key]
            for key in keys
            if key in extent.begins
        }

    def _tell_moved(self, known: Mapping[Key, Committed]) -> None:
        others = sorted(key for key, each in known.items() if each.sharer is None)
        if others:
            named = ", ".join(f"{place(key)}@{known[key].offset}" for key in others)
            self._warn(
                f"group {self._source.group} stands where no pipeline that shares it has left it, "
                f"by a reset or another program: {named}; reading goes on from there"
            )
