"""What formats have in common that no registry knows: JSON, CSV and text by declared columns."""

from __future__ import annotations

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import StoredSchema
from headrace.errors import InternalError
from headrace.formats.options import Wanted
from headrace.model.schema import Schema


class Unregistered:
    """The questions that only a schema of a registry raises; nobody asks them here."""

    type: SchemaType | None = None

    def columns_of(self, schema: StoredSchema, wanted: Wanted) -> tuple[Schema, bool]:  # noqa: ARG002
        raise self._unasked(wanted)

    def unreadable(self, writer: StoredSchema, columns: Schema, wanted: Wanted) -> list[str]:  # noqa: ARG002
        raise self._unasked(wanted)

    def given(self, wanted: Wanted) -> tuple[str, tuple[tuple[str, str], ...]] | None:  # noqa: ARG002
        return None

    def made(self, name: str, rows: Schema, newest: StoredSchema | None = None) -> str:  # noqa: ARG002
        raise InternalError("a format without a registry was asked for a schema")

    def _unasked(self, wanted: Wanted) -> InternalError:
        return InternalError(f"{wanted.format} was asked for a schema of a registry")
