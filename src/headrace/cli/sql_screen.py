"""Rows on a screen: as a table that fits its width, or a line for each value where none fits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from rich.cells import cell_len, set_cell_size

from headrace.cli.output import is_numeric, printable

NARROWEST = 8  # no column is made narrower than this
_GAP = " │ "


class Layout(StrEnum):
    """`\\x`: a line for each value, a line for each row, or whichever fits."""

    ON = "on"
    OFF = "off"
    AUTO = "auto"


def lines(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int, layout: Layout = Layout.AUTO
) -> list[str]:
    """The rows within `width`; values that are cut for it end in `…`."""
    names = [printable(name) for name in columns]
    cells = [[printable(cell(value)) for value in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    fitting = _fitted(widths, width)
    if layout is Layout.ON or (layout is Layout.AUTO and fitting is None):
        return _expanded(names, cells, width)
    right = [is_numeric(row[at] for row in rows) for at in range(len(names))]
    return _table(names, cells, fitting or widths, right)


def cell(value: Any) -> str:
    """A value as data has it, and not as a person would say it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _fitted(widths: list[int], width: int) -> list[int] | None:
    """The widths, the widest made narrower until all fit; None where that cannot be done."""
    room = width - len(_GAP) * (len(widths) - 1)
    least = [min(each, NARROWEST) for each in widths]
    if sum(least) > room:
        return None
    fitted = list(widths)
    while sum(fitted) > room:
        widest = max(fitted)
        at = fitted.index(widest)
        others = [each for each in fitted if each < widest]
        # As far as needed, but not below the next widest: then both shrink.
        below = max(others, default=NARROWEST)
        fitted[at] = max(widest - (sum(fitted) - room), min(below, widest - 1), least[at])
    return fitted


def _table(
    names: list[str], cells: list[list[str]], widths: list[int], right: list[bool]
) -> list[str]:
    def line(texts: Sequence[str]) -> str:
        parts = (_padded(*each) for each in zip(texts, widths, right, strict=True))
        return _GAP.join(parts).rstrip()

    rule = "─┼─".join("─" * width for width in widths)
    return [line(names), rule, *map(line, cells)]


def _padded(text: str, width: int, right: bool) -> str:
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    return " " * (width - cell_len(text)) + text if right else set_cell_size(text, width)


def _expanded(names: list[str], cells: list[list[str]], width: int) -> list[str]:
    longest = max(map(cell_len, names))
    found = []
    for number, row in enumerate(cells, 1):
        head = f"─ row {number} "
        found.append(head + "─" * max(min(width, 60) - len(head), 0))
        found += [
            f"{set_cell_size(name, longest)}{_GAP}{value}".rstrip()
            for name, value in zip(names, row, strict=True)
        ]
    return found
