"""Read the end of a growing log file, and what is added to it."""

from __future__ import annotations

from collections import deque
from pathlib import Path


def tail(file: Path, lines: int) -> list[str]:
    """The last lines of a file; none if there is no file yet."""
    if not file.is_file():
        return []
    with file.open(errors="replace") as handle:
        return [line.rstrip("\n") for line in deque(handle, maxlen=lines)]


class Follower:
    """Gives the lines that were added since the last call; only whole ones."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._position = file.stat().st_size if file.is_file() else 0
        self._rest = ""

    def news(self) -> list[str]:
        if not self._file.is_file():
            return []
        if self._file.stat().st_size < self._position:
            # The log was rolled over: this is a new file of the same name.
            self._position = 0
        with self._file.open("rb") as handle:
            handle.seek(self._position)
            added = handle.read()
        self._position += len(added)
        *whole, self._rest = (self._rest + added.decode(errors="replace")).split("\n")
        return whole
