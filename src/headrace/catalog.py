"""The catalog: what was created in SQL, kept between shells in `.headrace/catalog.db`.

It keeps the text of each statement, and nothing that could be made of it: what a table or a
pipeline means is found by reading its statement again. Values of secrets are in a table of their
own, so that no statement holds one. The file belongs to its owner alone. Nothing here understands
SQL.
"""

from __future__ import annotations

import datetime
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import CatalogUnavailable
from headrace.project import Project

_VERSION = 1
_TABLES = """
CREATE TABLE object (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    changed TEXT NOT NULL,
    state TEXT
);
-- Connections, tables, views and pipelines are told apart by their names alone.
CREATE UNIQUE INDEX object_name ON object (lower(name));
CREATE TABLE secret (
    name TEXT NOT NULL,
    value TEXT,
    variable TEXT,
    changed TEXT NOT NULL
);
CREATE UNIQUE INDEX secret_name ON secret (lower(name));
"""


@dataclass(frozen=True)
class Entry:
    """`state` is what was last asked of a pipeline: `started`, `stopped` or `paused`."""

    kind: str
    name: str
    text: str
    changed: str
    state: str | None = None


@dataclass(frozen=True)
class Secret:
    """Where a value comes from; the value itself is read by `Catalog.secret` only."""

    name: str
    variable: str | None
    changed: str


class Catalog:
    """One file; every call is a transaction of its own, so that shells can work side by side."""

    def __init__(self, file: Path, within: sqlite3.Connection | None = None) -> None:
        self.file = file
        self._within = within

    @classmethod
    def of(cls, project: Project) -> Catalog:
        return cls(project.catalog)

    def entries(self) -> list[Entry]:
        """All of them, in the order in which they were created."""
        with self._reading() as db:
            if db is None:
                return []
            found = db.execute("SELECT kind, name, text, changed, state FROM object ORDER BY rowid")
            return [Entry(*row) for row in found]

    def entry(self, name: str) -> Entry | None:
        return next((e for e in self.entries() if e.name.lower() == name.lower()), None)

    def put(self, kind: str, name: str, text: str) -> None:
        """Create it, or give one of this name its new text; its state stays."""
        sql = (
            "INSERT INTO object (kind, name, text, changed) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (lower(name)) DO UPDATE SET kind = excluded.kind, name = excluded.name, "
            "text = excluded.text, changed = excluded.changed"
        )
        with self._writing() as db:
            db.execute(sql, (kind, name, text, _now()))

    def remove(self, name: str) -> None:
        with self._writing() as db:
            db.execute("DELETE FROM object WHERE lower(name) = lower(?)", (name,))

    def set_state(self, name: str, state: str) -> None:
        with self._writing() as db:
            db.execute("UPDATE object SET state = ? WHERE lower(name) = lower(?)", (state, name))

    def secrets(self) -> list[Secret]:
        with self._reading() as db:
            if db is None:
                return []
            found = db.execute("SELECT name, variable, changed FROM secret ORDER BY lower(name)")
            return [Secret(*row) for row in found]

    def secret(self, name: str) -> str | None:
        """The value, from here or from the environment; None where there is none."""
        with self._reading() as db:
            if db is None:
                return None
            sql = "SELECT value, variable FROM secret WHERE lower(name) = lower(?)"
            found = db.execute(sql, (name,)).fetchone()
        if found is None:
            return None
        value, variable = found
        return os.environ.get(variable) if variable is not None else value

    def put_secret(self, name: str, value: str | None, variable: str | None) -> None:
        sql = (
            "INSERT INTO secret (name, value, variable, changed) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (lower(name)) DO UPDATE SET name = excluded.name, "
            "value = excluded.value, variable = excluded.variable, changed = excluded.changed"
        )
        with self._writing() as db:
            db.execute(sql, (name, value, variable, _now()))

    def remove_secret(self, name: str) -> None:
        with self._writing() as db:
            db.execute("DELETE FROM secret WHERE lower(name) = lower(?)", (name,))

    @contextmanager
    def changing(self) -> Iterator[Catalog]:
        """One transaction for all that is done with the catalog of this block, or nothing of it.

        Other processes wait, so that what was read inside still holds when something is written.
        """
        with self._writing() as db:
            db.commit()  # a file that was just made is complete for others, too
            db.execute("BEGIN IMMEDIATE")
            yield Catalog(self.file, db)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """None where nothing was ever created: to look makes no file."""
        if self._within is None and not self.file.exists():
            yield None
            return
        with self._opened() as db:
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if self._within is None and not self.file.exists():
            try:
                Project(self.file.parent.parent).ensure(self.file.parent)
                self.file.touch(mode=0o600)
            except OSError as error:
                raise CatalogUnavailable(str(self.file), error.strerror or str(error)) from error
        with self._opened() as db:
            yield db

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if self._within is not None:
            yield self._within
            return
        try:
            with (
                closing(sqlite3.connect(self.file, timeout=30, isolation_level="IMMEDIATE")) as db,
                db,
            ):
                if db.execute("PRAGMA user_version").fetchone()[0] < _VERSION:
                    _make_tables(db)
                yield db
        except sqlite3.DatabaseError as error:
            raise CatalogUnavailable(str(self.file), str(error)) from error


def _make_tables(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    if db.execute("PRAGMA user_version").fetchone()[0] == _VERSION:
        return  # another process was faster
    for statement in _TABLES.split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {_VERSION}")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
