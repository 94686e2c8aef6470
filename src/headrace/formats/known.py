"""What a pipeline knows of the schemas of its messages, from a registry; kept in its state.

`columns` is the pivot of it all: whatever schema a message was written with, it is read into these,
by name. They come from the newest schema when a pipeline is first started, or are declared, and
change only as `schema_evolution` allows. `writers` are the schemas that messages may have been
written with. A message with any other id stops the batch (`NEW_SCHEMA`), before which the id is
asked for; one of `refused` is a bad record.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.model.schema import Column, Schema

# What a query fails with at an id that it does not know; the rest of the text is JSON: `source`,
# `part` and `id`.
NEW_SCHEMA = "HEADRACE_NEW_SCHEMA "
# The reason of an id in `refused` that the registry has not; any other is of one that it has.
NOT_KNOWN = "the registry does not know it"
NOT_ASKED = "it was not asked for, as so many before it were not known"


@dataclass(frozen=True)
class Known:
    """`newest` is the schema that gives defaults to fields that older messages have not.

    `refused` are ids whose messages cannot be read, each with the reason. `scalar` says that a
    record is one value. `declared` says that the columns are the definition's own. Once a source
    no longer `asks`, which is not kept, messages with other ids are bad records, too.
    """

    framing: Framing
    columns: Schema
    writers: tuple[StoredSchema, ...]
    newest: StoredSchema | None = None
    refused: dict[str, str] = field(default_factory=dict)
    scalar: bool = False
    declared: bool = False
    asks: bool = True

    def with_writers(self, *more: StoredSchema) -> Known:
        ids = {each.id for each in self.writers}
        return replace(self, writers=(*self.writers, *(one for one in more if one.id not in ids)))

    def as_json(self) -> dict[str, Any]:
        return {
            "framing": self.framing.value,
            "columns": [[each.name, each.type, each.nullable] for each in self.columns.columns],
            "writers": [_schema_as_json(each) for each in self.writers],
            "newest": _schema_as_json(self.newest) if self.newest is not None else None,
            "refused": self.refused,
            "scalar": self.scalar,
            "declared": self.declared,
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Known:
        return cls(
            Framing(kept["framing"]),
            Schema(tuple(Column(*each) for each in kept["columns"])),
            tuple(_schema_from_json(each) for each in kept["writers"]),
            _schema_from_json(kept["newest"]) if kept["newest"] is not None else None,
            kept["refused"],
            kept["scalar"],
            kept["declared"],
        )


def _schema_as_json(schema: StoredSchema) -> dict[str, Any]:
    return {
        "id": schema.id,
        "type": schema.type.value,
        "text": schema.text,
        "references": [list(each) for each in schema.references],
        "subject": schema.subject,
        "version": schema.version,
    }


def _schema_from_json(kept: dict[str, Any]) -> StoredSchema:
    return StoredSchema(
        kept["id"],
        SchemaType(kept["type"]),
        kept["text"],
        tuple((name, text) for name, text in kept["references"]),
        kept["subject"],
        kept["version"],
    )
