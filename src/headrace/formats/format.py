"""What a format is to the rest of Headrace; `formats.kinds` lists those that there are.

A `Format` answers for one language of schemas and bytes. Without a network it says which columns a
definition's own schema gives and what is wrong with it; with what a registry knows it makes
`Reading`s and `Encoding`s. Both are made on the driver; nothing here needs Spark to be imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import StoredSchema
from headrace.formats.encoding import Encoding
from headrace.formats.known import Known
from headrace.formats.options import Wanted
from headrace.formats.reading import Reading
from headrace.model.schema import Schema


class Format(Protocol):
    """One language of schemas, `type` by its name in registries, and of bytes."""

    type: SchemaType | None

    def faults(self, wanted: Wanted) -> Iterator[str]:
        """What is wrong with the schema that a definition gives, in sentences; asks no registry."""
        ...

    def columns(self, wanted: Wanted) -> Schema | None:
        """The columns by the definition alone; None where only a registry knows them."""
        ...

    def reading(self, wanted: Wanted, source: str, known: Known | None) -> Reading:
        """How messages are read. `known` is there if `wanted.registered`; `source` is the name of
        the source, for what an unknown id is told with.
        """
        ...

    def columns_of(self, schema: StoredSchema, wanted: Wanted) -> tuple[Schema, bool]:
        """The columns of messages that were written with a schema, and whether such a message is
        one value. Raises ValueError with what cannot be read.
        """
        ...

    def unreadable(self, writer: StoredSchema, columns: Schema, wanted: Wanted) -> list[str]:
        """Why messages written with a schema cannot be read into columns; nothing if they can."""
        ...

    def given(self, wanted: Wanted) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        """The schema that a definition gives, by its file, text or class, as a registry takes it:
        its text, and the texts that it refers to, by their names. None if it gives none.
        """
        ...

    def made(self, name: str, rows: Schema, newest: StoredSchema | None = None) -> str:
        """A schema, as text, for rows with these columns; `name` is what a record is called, with
        its namespace before it. Messages that are one value have `encoding.one_value(rows)`.
        What the subject's `newest` schema has numbered or named stays so; it may itself be the one.
        Raises ValueError for a type that the format has not.
        """
        ...

    def encoding(self, wanted: Wanted, rows: Schema, schema: StoredSchema | None) -> Encoding:
        """How rows are written, with the registry's `schema` if `wanted.registered`.
        Raises ValueError where rows do not fit it, with every column that does not.
        """
        ...
