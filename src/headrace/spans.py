"""Where in a definition something stands, and what is to be said about it.

Every front-end records a `Span` for each value it reads; checks return `Diagnostic`s that carry
one, so that each fault is reported as `file:line:column CODE message`. Nothing here does I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum


@dataclass(frozen=True, order=True)
class Edit:
    """`text` in place of what stands from `start` to before `end`."""

    start: int
    end: int
    text: str


def edited(raw: str, edits: tuple[Edit, ...]) -> str:
    """The text after all edits, which are in order and do not overlap."""
    parts: list[str] = []
    done = 0
    for edit in edits:
        parts += [raw[done : edit.start], edit.text]
        done = edit.end
    return "".join([*parts, raw[done:]])


def _before_edits(edits: tuple[Edit, ...], offset: int) -> int:
    """Where a character of the edited text stood; what an edit put there, at its beginning."""
    moved = 0
    for edit in edits:
        begin = edit.start + moved
        if offset < begin:
            break
        if offset < begin + len(edit.text):
            return edit.start
        moved += len(edit.text) - (edit.end - edit.start)
    return offset - moved


@dataclass(frozen=True, order=True)
class Span:
    """A place in a file; lines and columns count from 1.

    `raw` is the text that stands there as the file has it, where it may be more than a word.
    `edits` made the value out of it, where a front-end translates.
    """

    file: str
    line: int
    column: int
    raw: str = field(default="", compare=False, repr=False)
    edits: tuple[Edit, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def within(self, text: str, offset: int) -> Span:
        """The place of a character of `text`, the value of what stands here.

        The file may break and indent it otherwise, so the letters before it are counted. Where
        these differ too (escapes, replaced variables), the answer is the beginning.
        """
        if self.edits and edited(self.raw, self.edits) == text:
            return self._at(_before_edits(self.edits, max(offset, 0)))
        if "".join(text.split()) != "".join(self.raw.split()):
            return self
        before = len("".join(text[: max(offset, 0)].split()))
        places = [at for at, letter in enumerate(self.raw) if not letter.isspace()]
        if not places:
            return self
        return self._at(places[min(before, len(places) - 1)])

    def inserting(self, text: str, insertions: tuple[Edit, ...]) -> tuple[str, Span]:
        """`text`, the value of what stands here, with more in it; and the span that knows it.

        Each insertion is an edit of no length, and they are in order.
        """
        changed = edited(text, insertions)
        if edited(self.raw, self.edits) != text:
            return changed, self
        moved = [
            replace(e, start=(at := _before_edits(self.edits, e.start)), end=at) for e in insertions
        ]
        return changed, replace(self, edits=tuple(sorted([*self.edits, *moved])))

    def _at(self, at: int) -> Span:
        line = self.raw.count("\n", 0, at)
        column = at - self.raw.rfind("\n", 0, at) if line else self.column + at
        return Span(self.file, self.line + line, column)


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Diagnostic:
    """One fault or warning: a stable code, what is wrong, what to do about it, and where."""

    code: str
    message: str
    span: Span
    hint: str | None = None
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        label = "" if self.severity is Severity.ERROR else " warning:"
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.span} {self.code}{label} {self.message}{hint}"


Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Node:
    """A value of a definition with its place; what every front-end gives to the option checks.

    `value` is a scalar, a list of nodes, or a mapping from a key to the `Field` that it names.
    `written` is a scalar as it was written: `1.10` is a number, and may be meant as text. A value
    that came from a `secret` must not be shown.
    """

    value: Scalar | list[Node] | dict[str, Field]
    span: Span
    written: str | None = None
    secret: bool = False

    @property
    def text(self) -> str:
        """A scalar as text; of what is none, what it is."""
        if isinstance(self.value, list | dict):
            return self.shape
        return str(self.value) if self.written is None else self.written

    @property
    def has_secret(self) -> bool:
        """Whether it, or something in it, came from a secret."""
        if isinstance(self.value, list):
            return any(item.has_secret for item in self.value)
        if isinstance(self.value, dict):
            return any(field.node.has_secret for field in self.value.values())
        return self.secret

    def plain(self) -> object:
        """The value without places, as ordinary Python."""
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        if isinstance(self.value, dict):
            return {key: field.node.plain() for key, field in self.value.items()}
        return self.value

    @property
    def shape(self) -> str:
        """What a person would call it."""
        names = {list: "a list", dict: "a mapping", bool: "true or false", type(None): "nothing"}
        return names.get(type(self.value)) or (
            "text" if isinstance(self.value, str) else "a number"
        )


@dataclass(frozen=True)
class Field:
    """A key of a mapping: where the key stands, and what it is set to."""

    key: Span
    node: Node


def short(text: str) -> str:
    """Text as it can be shown inside a sentence."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"
