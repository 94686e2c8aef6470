"""How sizes, durations and rates are said (`1.5 MiB`, `2 h 40 m`, `850 records/s`), and read."""

from __future__ import annotations

import re

from headrace.errors import DefinitionError

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_PARTS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def size(count: float) -> str:
    """Bytes in the unit that keeps the number short; one decimal where it is not whole."""
    value, unit = float(count), _SIZES[0]
    for name in _SIZES:
        unit = name
        if value < 1024 or name == _SIZES[-1]:
            break
        value /= 1024
    rounded = round(value, 0 if unit == "B" else 1)
    return f"{rounded:,.0f} {unit}" if rounded == int(rounded) else f"{rounded:,.1f} {unit}"


def duration(seconds: float) -> str:
    """The two largest units that say something: `2 h 40 m`, `6 d`, `45 s`; never more than it is.

    A forecast that is rounded up would promise time that there is not.
    """
    rest = int(seconds)
    if rest < 1:
        return "less than a second"
    said: list[str] = []
    for name, length in _PARTS:
        count, rest = divmod(rest, length)
        if count:
            said.append(f"{count} {name}")
        elif said:
            break
        if len(said) == 2:
            break
    return " ".join(said)


def rate(per_second: float) -> str:
    """Records in a second; one decimal where they are few."""
    if 0 < per_second < 0.1:
        return "less than 0.1 records/s"
    number = f"{per_second:,.1f}" if 0 < per_second < 10 else f"{per_second:,.0f}"
    return f"{number} records/s"


def parse_size(text: str) -> int:
    """Bytes from Spark's way to write memory: `512m`, `2g`, `1024` (MiB)."""
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    if not found:
        raise DefinitionError(f"`{text}` is not a size of memory", hint="write 512m or 2g")
    return int(found[1]) << 10 * ("bkmgt".index(found[2]) if found[2] else 2)
