"""Where in a definition something stands, and what is to be said about it.

Every front-end records a `Span` for each value it reads; checks return `Diagnostic`s that carry
one, so that each fault is reported as `file:line:column CODE message`. Nothing here does I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, order=True)
class Span:
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


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
    """

    value: Scalar | list[Node] | dict[str, Field]
    span: Span

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
