"""SET: what a shell can be told about its SELECTs, for as long as it lives."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.frontend.sql.statements import Set
from headrace.shell.result import Result
from headrace.spans import Diagnostic
from headrace.spec import unknown

ALL = sys.maxsize


@dataclass(frozen=True)
class Setting:
    name: str
    default: int
    help: str


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("scan", 100_000, "How many records of each source a SELECT reads: the newest."),
        Setting("rows", 1_000, "How many rows a SELECT gives."),
    )
}


@dataclass
class Settings:
    """The numbers in force; `all` is one that nothing exceeds."""

    values: dict[str, int] = field(
        default_factory=lambda: {name: each.default for name, each in SETTINGS.items()}
    )

    def faults(self, statement: Set) -> Iterator[Diagnostic]:
        name, value = statement.name, statement.value
        if name is None:
            return
        if name.text.lower() not in SETTINGS:
            yield unknown("setting", name.text, SETTINGS, name.span)
        elif value is not None and _number(value) is None:
            message = f"`{name}` must be a number of at least 1 or `all`, and is `{value}`"
            hint = f"for example SET {name} = {SETTINGS[name.text.lower()].default}"
            yield Diagnostic("BAD_VALUE", message, name.span, hint)

    def apply(self, statement: Set) -> Result:
        """Sets or shows; the statement has no faults."""
        if statement.name is None:
            rows = tuple((n, _shown(v), SETTINGS[n].help) for n, v in self.values.items())
            return Result(("setting", "value", "help"), rows)
        name = statement.name.text.lower()
        if statement.value is not None:
            self.values[name] = _number(statement.value) or SETTINGS[name].default
        return Result(note=f"{name} is {_shown(self.values[name])}")


def _number(text: str) -> int | None:
    if text.lower() == "all":
        return ALL
    digits = text.replace("_", "")
    return int(digits) if digits.isdecimal() and 0 < int(digits) <= ALL else None


def _shown(value: int) -> str:
    return "all" if value == ALL else str(value)
