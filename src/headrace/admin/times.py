"""How a user writes a point in time, or a duration.

A time is ISO 8601 (`2026-03-01T12:00:00Z`, `2026-03-01T13:00:00+01:00`, `2026-03-01`; without a
zone it is UTC), milliseconds since 1970 (`1772366400000`), `now`, or how long ago (`90s`, `15m`,
`2h`, `7d`).
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

from headrace.errors import DefinitionError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST_BARE_SECONDS = 300
# As milliseconds this is March 1973; whoever writes a smaller number means seconds.
_SMALLEST_MS = 100_000_000_000


def parse(text: str, now_ms: int | None = None) -> int:
    """Milliseconds since 1970; what cannot be read is a `DefinitionError` that shows the forms."""
    text = text.strip()
    now = int(time.time() * 1000) if now_ms is None else now_ms
    ago = re.fullmatch(r"-?(\d+)([smhd])", text)
    if ago:
        return now - int(ago[1]) * _SECONDS[ago[2]] * 1000
    if text == "now":
        return now
    if text.isdecimal():
        return _milliseconds(text)
    return _iso(text)


def parse_duration(text: str) -> float:
    """Seconds from `500ms`, `5s`, `2m`, `1h` or a bare number of seconds.

    A bare number that only makes sense in milliseconds is refused rather than waited for.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", text.strip())
    if not found or float(found[1]) == 0:
        raise DefinitionError(f"`{text}` is not a duration", hint="write 500ms, 5s or 2m")
    number, unit = float(found[1]), found[2]
    if unit is None and number > _MOST_BARE_SECONDS:
        raise DefinitionError(
            f"{text} seconds is long; is it milliseconds?", hint=f"write {text}ms or {text}s"
        )
    return number / 1000 if unit == "ms" else number * _SECONDS[unit or "s"]


def show(time_ms: int) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    seconds, milliseconds = divmod(time_ms, 1000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return str(time_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def _milliseconds(text: str) -> int:
    number = int(text)
    if 0 < number < _SMALLEST_MS:
        raise DefinitionError(
            f"time {text} looks like seconds", hint=f"write milliseconds: {text}000"
        )
    return number


def _iso(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as failure:
        raise DefinitionError(
            f"time `{text}` is not understood",
            hint="write 2026-03-01T12:00:00Z, milliseconds since 1970, or how long ago (15m, 2h)",
        ) from failure
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)
