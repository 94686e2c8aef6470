"""How many tasks work side by side, by the master that Spark is told to use."""

from __future__ import annotations

import os
import re

FALLBACK_CORES = 2


def is_local(master: str) -> bool:
    """Whether all tasks run in the driver's own process."""
    return master.startswith("local")


def local_tasks(master: str) -> int:
    """The number that a local master runs at once: `local` is one, `local[*]` all cores."""
    inside = re.fullmatch(r"local(?:\[([^,\]]+).*\])?", master)
    count = inside[1] if inside else "*"
    if count is None:
        return 1
    return int(count) if count.isdecimal() else cores()


def cores() -> int:
    """Of this machine."""
    return os.cpu_count() or FALLBACK_CORES
