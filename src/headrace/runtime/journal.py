"""The journal of a batch pipeline: what its latest run covers, kept before anything is written.

`journal.json` in the state folder holds one entry. A run that is cut off leaves it open, and the
next run knows from it which range to finish, under which number, and which queries are done. It is
replaced whole and forced to the disk: what follows must never be there without it.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.errors import OutsideError
from headrace.runtime.notes import Note, Positions, parsed, plain

_NAME = "journal.json"


@dataclass(frozen=True)
class Entry:
    """One run: `basis` is what the table of offsets held when it began.

    `generation` is this journal's, for the runs that follow: where a journal is new, numbers that
    targets may know from an earlier one must not count. `written` names the queries whose targets
    have all acknowledged; once `closed`, positions are stored. `life` is what entries of ledgers
    have that were made for this run.
    """

    note: Note
    basis: Positions
    generation: str
    written: tuple[str, ...] = ()
    closed: bool = False
    life: str = field(default_factory=lambda: uuid.uuid4().hex)

    def wrote(self, query: str) -> Entry:
        return replace(self, written=(*self.written, query))

    def close(self) -> Entry:
        return replace(self, closed=True)


class Journal:
    def __init__(self, folder: Path) -> None:
        self._file = folder / _NAME

    def read(self) -> Entry | None:
        """The latest run's entry; None before the first run with this state folder."""
        try:
            text = self._file.read_text()
        except FileNotFoundError:
            return None
        try:
            return _entry(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise OutsideError(
                f"{self._file} cannot be read: {error}",
                "remove it: the next run then begins where the table of offsets says",
            ) from error

    def write(self, entry: Entry) -> None:
        body = {
            "note": entry.note.text(),
            "basis": plain(entry.basis),
            "generation": entry.generation,
            "written": entry.written,
            "closed": entry.closed,
            "life": entry.life,
        }
        new = self._file.with_suffix(".new")
        with new.open("w") as file:
            json.dump(body, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._file)
        _force_names(self._file.parent)


def _entry(body: dict[str, Any]) -> Entry:
    note = Note.parse(body["note"])
    if note is None:
        raise ValueError("it has no note of a run")
    written = tuple(body["written"])
    basis, life = parsed(body["basis"]), body.get("life") or uuid.uuid4().hex
    return Entry(note, basis, body["generation"], written, body["closed"], life)


def _force_names(folder: Path) -> None:
    """A rename is on the disk only when the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
