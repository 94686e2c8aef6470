"""What one statement of a shell gave, as values; the command line turns it into text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """Rows under `columns`, or a whole `text`, or the `story` of a plan; most have only a `note`.

    `columns` are empty where the statement gives no table. `note` says what was done, or what is to
    be known of the rows; each of `warnings` is a sentence, with its place where it has one.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    note: str | None = None
    warnings: tuple[str, ...] = ()
    text: str | None = None
    story: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows by the names of their columns; of two with one name the later has a number."""
        names = distinct(self.columns)
        return [dict(zip(names, row, strict=True)) for row in self.rows]


def distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, with `_2` and so on after those that were there before."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return tuple(found)
