"""Stretches of time in all their spellings: `INTERVAL '5 seconds'`, `'5' SECOND`, `'01:30:00'`.

PostgreSQL's and Flink's forms are read; `Interval.spark` is what Spark takes as a duration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from headrace.frontend.sql.cursor import Cursor, SqlFault
from headrace.frontend.sql.tokens import Sort, Token, value
from headrace.spec import nearest

# In microseconds; months have no length of their own.
_UNITS = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
_MONTHS = {"year": 12, "month": 1}
_NAMES = {unit: unit for unit in [*_UNITS, *_MONTHS]}
_NAMES |= {f"{unit}s": unit for unit in [*_UNITS, *_MONTHS]}
_NAMES |= {
    "w": "week",
    "d": "day",
    "h": "hour",
    "hr": "hour",
    "hrs": "hour",
    "m": "minute",
    "min": "minute",
    "mins": "minute",
    "s": "second",
    "sec": "second",
    "secs": "second",
    "ms": "millisecond",
    "msec": "millisecond",
    "msecs": "millisecond",
    "us": "microsecond",
    "usec": "microsecond",
    "usecs": "microsecond",
    "y": "year",
    "yr": "year",
    "yrs": "year",
    "mon": "month",
    "mons": "month",
}
_PART = re.compile(r"\s*([+-]?[0-9]{1,12}(?:\.[0-9]{1,9})?)\s*([a-z]+)\s*,?", re.IGNORECASE)
_CLOCK = re.compile(r"\s*([0-9]{1,6}):([0-9]{1,2})(?::([0-9]{1,2}(?:\.[0-9]{1,6})?))?\s*")
_ISO = re.compile(
    r"P(?:([0-9]{1,9})D)?(?:T(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9}(?:\.[0-9]+)?)S)?)?"
)
_EXAMPLE = "write it as INTERVAL '5 seconds', '1 hour 30 minutes' or '2 days'"


@dataclass(frozen=True)
class Interval:
    months: int
    micros: int

    @property
    def milliseconds(self) -> int:
        return self.micros // 1000

    @property
    def spark(self) -> str:
        """`1 hour 30 minutes`, which Spark takes as a text and inside INTERVAL."""
        parts = []
        rest, months = self.micros, self.months
        for unit, months_each in _MONTHS.items():
            count, months = _divide(months, months_each)
            parts += [_counted(count, unit)] if count else []
        for unit, size in _UNITS.items():
            count, rest = _divide(rest, size)
            parts += [_counted(count, unit)] if count and unit != "week" else []
            rest += count * size if unit == "week" else 0
        return " ".join(parts) or "0 seconds"


def _divide(number: int, size: int) -> tuple[int, int]:
    """Towards zero: what is left has the same sign."""
    count = abs(number) // size * (1 if number >= 0 else -1)
    return count, number - count * size


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}" if count in (1, -1) else f"{count} {unit}s"


def read_interval(cursor: Cursor) -> Interval:
    """`INTERVAL '…' [UNIT]`, of which the first word is here."""
    cursor.expect("INTERVAL", hint=_EXAMPLE)
    sign = -1 if cursor.accept("-") else 1
    token = cursor.token
    if token.sort is Sort.TEXT:
        text = value(cursor.take())[0]
    elif token.sort is Sort.NUMBER:
        text = cursor.take().text
    else:
        raise cursor.expected([], "a length of time after INTERVAL", _EXAMPLE)
    if cursor.token.sort is Sort.WORD and cursor.token.text.lower() in _NAMES:
        text = f"{text} {cursor.take().text}"
    interval = _parsed(text, cursor, token)
    return Interval(sign * interval.months, sign * interval.micros)


def _parsed(text: str, cursor: Cursor, token: Token) -> Interval:
    iso = _ISO.fullmatch(text.strip().upper())
    if iso and text.strip()[-1].upper() not in "PT":
        return Interval(0, _micros(iso.groups(), "day hour minute second"))
    months = micros = at = 0
    while at < len(text) and (part := _PART.match(text, at)):
        at = part.end()
        unit = _NAMES.get(part[2].lower())
        if unit is None:
            raise _bad(f"`{part[2]}` is not a unit of time", part[2], cursor, token)
        if unit in _MONTHS:
            months += int(Decimal(part[1]) * _MONTHS[unit])
        else:
            micros += int(Decimal(part[1]) * _UNITS[unit])
    clock = _CLOCK.fullmatch(text, at)
    if clock:
        return Interval(months, micros + _micros(clock.groups(), "hour minute second"))
    if at < len(text.rstrip()) or not text.strip():
        raise _bad(f"{token} is not a length of time", "", cursor, token)
    return Interval(months, micros)


def _micros(numbers: tuple[str | None, ...], units: str) -> int:
    parts = zip(numbers, units.split(), strict=True)
    return sum(int(Decimal(number or 0) * _UNITS[unit]) for number, unit in parts)


def _bad(message: str, word: str, cursor: Cursor, token: Token) -> SqlFault:
    close = nearest(word, _NAMES)
    hint = f"did you mean `{close[0]}`?" if close else _EXAMPLE
    return cursor.fault(message, token, hint, code="BAD_INTERVAL")


def whole_duration(interval: Interval, cursor: Cursor, token: Token, what: str) -> Interval:
    """The same, refused where it has months, which differ in length, or is below zero."""
    if interval.months:
        hint = "count in days or weeks"
        raise cursor.fault(f"{what} cannot be in months or years", token, hint, code="BAD_INTERVAL")
    if interval.micros < 0:
        raise cursor.fault(f"{what} cannot be below zero", token, None, code="BAD_INTERVAL")
    return interval
