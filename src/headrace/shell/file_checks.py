"""What `test_connection` tries with folders, files and Delta tables of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from headrace.shell.connections import Check, Failed
from headrace.shell.known import Connection

CONNECTORS = frozenset({"files", "log", "delta"})
_ENOUGH = 1000  # files are counted up to here


def checks(connection: Connection, folder: Path) -> Iterator[Check]:
    path = connection.options.get("path")
    if path is None:
        yield Check("path", lambda: "each table names its own")
        return
    if "://" in path:
        yield Check("path", lambda: f"{path} is not on this machine and was not looked at")
        return
    test = _Files(connection, folder / path)
    yield Check("path", test.path)
    if connection.role != "sink":
        yield Check("read", test.read)
    if connection.role == "sink":
        yield Check("write", test.write)


@dataclass(frozen=True)
class _Files:
    connection: Connection
    place: Path

    def path(self) -> str:
        if self.connection.role == "sink" and not self.place.exists():
            return f"{self.place} is made by the first run"
        found = self._found()
        if not found:
            cure = "correct `path`, or make it first; a relative one begins at the project's folder"
            raise Failed(f"{self.place} does not exist", cure)
        if self.connection.connector == "delta":
            return self._delta()
        return f"{self.place}" if len(found) == 1 else f"{self.place}: {len(found)} match"

    def read(self) -> str:
        count = 0
        for file in self._files():
            if not os.access(file, os.R_OK):
                raise Failed(f"{file} may not be read", "let its owner allow it")
            count += 1
        more = " or more" if count == _ENOUGH else ""
        return f"{count}{more} file{'s' * (count != 1)} may be read"

    def write(self) -> str:
        existing = next(each for each in (self.place, *self.place.parents) if each.exists())
        if not os.access(existing, os.W_OK | os.X_OK):
            raise Failed(f"{existing} may not be written", "let its owner allow it")
        return f"{existing} may be written"

    def _delta(self) -> str:
        log = self.place / "_delta_log"
        if not log.is_dir():
            if self.connection.role == "sink" and not any(self.place.iterdir()):
                return f"{self.place} is empty; the first run makes the table"
            raise Failed(f"{self.place} is no Delta table", "correct `path`: it has no _delta_log")
        versions = [int(file.stem) for file in log.glob("*.json") if file.stem.isdigit()]
        return f"{self.place}: a Delta table, version {max(versions, default=0)}"

    def _found(self) -> list[Path]:
        if self.place.exists():
            return [self.place]
        pattern = str(self.place.relative_to(self.place.anchor))
        return list(islice(Path(self.place.anchor).glob(pattern), _ENOUGH))

    def _files(self) -> Iterator[Path]:
        inside = (
            file
            for found in self._found()
            for file in (found.rglob("*") if found.is_dir() else [found])
            if file.is_file() and not file.name.startswith((".", "_"))
        )
        return islice(inside, _ENOUGH)
