"""The SQL of one database, as the JDBC sink needs it. A second database is a second class here.

Everything is text: no connection is made. Names come in as the definition or the rows have them and
are quoted here; values are never in the text, they are `?`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.model.jdbc import POSTGRES_DRIVER, quoted, quoted_table
from headrace.sinks.changes import DELETED

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

NOTES = "headrace_batches"
ROW = "__headrace_row"


@dataclass(frozen=True)
class Postgres:
    """PostgreSQL 12 and newer. `table` is the target: `table` or `schema.table`."""

    table: str

    DRIVER: ClassVar[str] = POSTGRES_DRIVER
    # Text fits a column of any type that can be read from text: uuid, jsonb, enums.
    CONNECTION: ClassVar[Mapping[str, str]] = {
        "stringtype": "unspecified",
        "reWriteBatchedInserts": "true",
    }
    _TYPES: ClassVar[Mapping[str, str]] = {
        "boolean": "BOOLEAN",
        "tinyint": "SMALLINT",
        "smallint": "SMALLINT",
        "int": "INTEGER",
        "bigint": "BIGINT",
        "float": "REAL",
        "double": "DOUBLE PRECISION",
        "string": "TEXT",
        "binary": "BYTEA",
        "date": "DATE",
        "timestamp": "TIMESTAMP WITH TIME ZONE",
        "timestamp_ntz": "TIMESTAMP",
    }

    @property
    def target(self) -> str:
        return quoted_table(self.table)

    def beside(self, name: str) -> str:
        """Another table of the target's schema."""
        schema, dot, _ = self.table.rpartition(".")
        return quoted_table(schema + dot + name)

    # What is in the database

    LOCK: ClassVar[str] = "SELECT pg_advisory_xact_lock(hashtext('headrace'))"
    COLUMNS: ClassVar[str] = (
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(?) "
        "AND attnum > 0 AND NOT attisdropped"
    )

    # Tables with names like `?` in the schema of table `?`.
    LEFTOVERS: ClassVar[str] = (
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE ? AND relnamespace = "
        "(SELECT relnamespace FROM pg_class WHERE oid = to_regclass(?))"
    )

    # Tables

    def create_target(self, columns: Mapping[str, DataType], key: Sequence[str]) -> str:
        parts = [f"{quoted(name)} {self.type_of(kind)}" for name, kind in columns.items()]
        if key:
            parts.append(f"PRIMARY KEY ({_names(key)})")
        return f"CREATE TABLE IF NOT EXISTS {self.target} ({', '.join(parts)})"

    def type_of(self, kind: DataType) -> str:
        """The type for a column of Spark's type; what has no other is JSON."""
        name = kind.simpleString()
        element = getattr(kind, "elementType", None)
        if name.startswith("decimal"):
            return name.replace("decimal", "NUMERIC")
        if element is not None and self.type_of(element) != "JSONB":
            return f"{self.type_of(element)}[]"
        return self._TYPES.get(name, "JSONB")

    @property
    def create_notes(self) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {self.beside(NOTES)} (pipeline TEXT, sink TEXT, "
            "generation TEXT, batch BIGINT NOT NULL, positions TEXT, "
            "written TIMESTAMP WITH TIME ZONE NOT NULL, PRIMARY KEY (pipeline, sink, generation))"
        )

    def create_staging(self, staging: str, columns: Sequence[str]) -> str:
        """The types of the target and none of its constraints.

        A task that Spark runs twice would bring its rows twice; their numbers, which are the same
        both times, make the second a failure.
        """
        return (
            f"CREATE UNLOGGED TABLE {self.beside(staging)} AS SELECT {_names(columns)}, "
            f"0::BIGINT AS {quoted(ROW)}, false AS {quoted(DELETED)} FROM {self.target} "
            f"WITH NO DATA; ALTER TABLE {self.beside(staging)} ADD PRIMARY KEY ({quoted(ROW)})"
        )

    def drop(self, table: str) -> str:
        return f"DROP TABLE IF EXISTS {self.beside(table)}"

    # A batch

    @property
    def noted(self) -> str:
        return (
            f"SELECT batch FROM {self.beside(NOTES)} "
            "WHERE pipeline = ? AND sink = ? AND generation = ?"
        )

    @property
    def note(self) -> str:
        """Changes no row when that batch, or a later one, is noted."""
        return (
            f"INSERT INTO {self.beside(NOTES)} AS noted "
            "(pipeline, sink, generation, batch, positions, written) VALUES (?, ?, ?, ?, ?, now()) "
            "ON CONFLICT (pipeline, sink, generation) DO UPDATE SET batch = EXCLUDED.batch, "
            "positions = EXCLUDED.positions, written = EXCLUDED.written "
            "WHERE noted.batch < EXCLUDED.batch"
        )

    def append(self, staging: str, columns: Sequence[str]) -> str:
        return (
            f"INSERT INTO {self.target} ({_names(columns)}) "
            f"SELECT {_names(columns)} FROM {self.beside(staging)} WHERE NOT {quoted(DELETED)}"
        )

    def delete(self, staging: str, key: Sequence[str]) -> str:
        same = " AND ".join(f"old.{quoted(name)} = new.{quoted(name)}" for name in key)
        return (
            f"DELETE FROM {self.target} AS old USING {self.beside(staging)} AS new "
            f"WHERE new.{quoted(DELETED)} AND {same}"
        )

    def upsert(self, staging: str, columns: Sequence[str], key: Sequence[str]) -> str:
        rest = [name for name in columns if name not in key]
        taken = ", ".join(f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in rest)
        action = f"UPDATE SET {taken}" if rest else "NOTHING"
        return f"{self.append(staging, columns)} ON CONFLICT ({_names(key)}) DO {action}"


def _names(columns: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in columns)
