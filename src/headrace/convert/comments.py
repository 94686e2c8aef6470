"""The comments of a definition, found by the places of what they stand at.

A front-end reads no comments; a conversion keeps those that a reader would miss: the lines at the
top of a file, the lines right above a key or a statement, and the words behind a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.convert.draft import Remark
from headrace.spans import Field, Node, Span

HASH, DASHES = "#", "--"


class Comments:
    """`mark` begins a comment in this notation."""

    def __init__(self, text: str, mark: str) -> None:
        self.lines = text.splitlines()
        self.mark = mark
        self.heading = tuple(self._block(0, len(self.lines)))
        self._begin = len(self.heading)

    def above(self, span: Span) -> tuple[str, ...]:
        """The comment lines that end right above a place."""
        end = min(span.line - 1, len(self.lines))
        start = end
        while start > self._begin and self._comment(start - 1) is not None:
            start -= 1
        return tuple(self._block(start, end))

    def remarks(self, fields: Mapping[str, Field]) -> dict[str, Remark]:
        """What is said at each of these keys."""
        found = {
            key: Remark(self.above(each.key), self._beside(each)) for key, each in fields.items()
        }
        return {key: remark for key, remark in found.items() if remark != Remark()}

    def _block(self, start: int, end: int) -> list[str]:
        lines: list[str] = []
        for number in range(start, end):
            comment = self._comment(number)
            if comment is None:
                break
            lines.append(comment)
        return lines

    def _comment(self, number: int) -> str | None:
        line = self.lines[number].strip() if number < len(self.lines) else ""
        if not line.startswith(self.mark):
            return None
        return line.removeprefix(self.mark).removeprefix(" ")

    def _beside(self, each: Field) -> str:
        rest = self._after(each.node)
        match = re.fullmatch(rf"['\"]?\s*,?\s+{re.escape(self.mark)}\s*(\S.*)", rest)
        return match[1].rstrip() if match else ""

    def _after(self, node: Node) -> str:
        """What stands in the line behind a value of one line."""
        span = node.span
        if isinstance(node.value, list | dict) or not span.raw or "\n" in span.raw:
            return ""
        line = self.lines[span.line - 1] if span.line <= len(self.lines) else ""
        return line[span.column - 1 + len(span.raw) :]
