"""Long SQL expressions over several lines, for people. Only white space between words changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_INDENT = "  "
_WORD = re.compile(
    r"\s+|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|[(),]|[^\s'\"`(),]+", re.DOTALL
)
_CASE_PARTS = ("WHEN", "ELSE")


@dataclass
class _Group:
    """Something in brackets, or a CASE: `parts` stand on lines of their own when it is long."""

    open: str
    close: str
    parts: list[list[str | _Group]] = field(default_factory=lambda: [[]])

    @property
    def is_case(self) -> bool:
        return self.close == "END"


def pretty(sql: str, width: int) -> list[str]:
    """The lines of an expression, as narrow as `width` where that can be."""
    tree = _read(_Words(sql), "")
    return list(_lines(tree.parts[0], "", width))


class _Words:
    def __init__(self, sql: str) -> None:
        self.words = [word for word in _WORD.findall(sql) if word]
        self.at = 0

    def next(self) -> str | None:
        self.at += 1
        return self.words[self.at - 1] if self.at <= len(self.words) else None


def _read(words: _Words, close: str, opened: str = "") -> _Group:
    group = _Group(opened, close)
    while (word := words.next()) is not None:
        upper = word.upper()
        if close and upper == close:
            return group
        if word == "(":
            group.parts[-1].append(_read(words, ")", "("))
        elif upper == "CASE":
            group.parts[-1].append(_read(words, "END", word))
        elif close == ")" and word == ",":
            group.parts.append([])
        elif close == "END" and upper in _CASE_PARTS:
            group.parts.append([word])
        else:
            group.parts[-1].append(word if word.strip() else " ")
    return group


def _flat(items: list[str | _Group]) -> str:
    return "".join(item if isinstance(item, str) else _flat_group(item) for item in items).strip()


def _flat_group(group: _Group) -> str:
    parts = [_flat(part) for part in group.parts]
    if group.is_case:
        return " ".join([group.open, *(part for part in parts if part), group.close])
    return f"{group.open}{', '.join(parts)}{group.close}"


def _lines(items: list[str | _Group], margin: str, width: int) -> Iterator[str]:
    flat = _flat(items)
    if len(margin) + len(flat) <= width:
        yield margin + flat
        return
    conditions = _split_conditions(items)
    if len(conditions) > 1:
        first, *rest = conditions
        yield from _lines(first, margin, width)
        for condition in rest:
            yield from _lines(condition, margin + _INDENT, width)
        return
    groups = [item for item in items if isinstance(item, _Group)]
    if groups:
        yield from _broken(
            items, max(groups, key=lambda each: len(_flat_group(each))), margin, width
        )
    else:
        yield margin + flat


def _split_conditions(items: list[str | _Group]) -> list[list[str | _Group]]:
    """At each AND and OR that stands in no brackets; BETWEEN has an AND of its own."""
    found: list[list[str | _Group]] = [[]]
    between = False
    for item in items:
        word = item.upper() if isinstance(item, str) else ""
        if word in ("AND", "OR") and not between and _flat(found[-1]):
            found.append([])
        between = word == "BETWEEN" or (between and word != "AND")
        found[-1].append(item)
    return found


def _broken(items: list[str | _Group], group: _Group, margin: str, width: int) -> Iterator[str]:
    """With `group` over several lines; what stands before and after it is on the first and last."""
    at = next(i for i, item in enumerate(items) if item is group)
    before, after = _raw(items[:at]).lstrip(), _raw(items[at + 1 :]).rstrip()
    inner = margin + _INDENT
    if group.is_case:
        head = " ".join(part for part in (group.open, _flat(group.parts[0])) if part)
        yield f"{margin}{before}{head}"
        for part in group.parts[1:]:
            yield from _lines(part, inner, width)
    else:
        yield f"{margin}{before}{group.open}"
        pairs = before.rstrip().lower().endswith(("named_struct", "map"))
        yield from _arguments(group.parts, inner, width, 2 if pairs else 1)
    yield f"{margin}{group.close}{after}"


def _arguments(
    parts: list[list[str | _Group]], margin: str, width: int, together: int
) -> Iterator[str]:
    """A line each, or two a line where names and values alternate and fit."""
    for number in range(0, len(parts), together):
        several = parts[number : number + together]
        comma = "," if number + together < len(parts) else ""
        flat = ", ".join(_flat(part) for part in several) + comma
        if len(margin) + len(flat) <= width:
            yield margin + flat
            continue
        for place, part in enumerate(several, start=number + 1):
            *lines, last = _lines(part, margin, width)
            yield from lines
            yield last + ("," if place < len(parts) else "")


def _raw(items: list[str | _Group]) -> str:
    return "".join(item if isinstance(item, str) else _flat_group(item) for item in items)
