"""Schemas as messages name them: what a store of schemas is to the rest of Headrace.

A `SchemaStore` is Confluent's registry (and all with its API) or AWS Glue. A message carries the id
of the schema that it was written with; the store gives that schema with everything it refers to.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from headrace.admin.registry_schemas import SchemaType


class Framing(StrEnum):
    """What stands before the payload of a message.

    Confluent's is a zero byte and the id in four; Glue's the byte 3, one for the compression, and
    the sixteen of a UUID.
    """

    CONFLUENT = "confluent"
    GLUE = "glue"


@dataclass(frozen=True)
class StoredSchema:
    """One schema of a store. `id` is what messages carry: a number, or a UUID in small letters.

    `references` are the texts of all that it refers to, by the names that it has for them, those
    that are needed first coming first.
    """

    id: str
    type: SchemaType
    text: str
    references: tuple[tuple[str, str], ...] = ()
    subject: str | None = None
    version: int | None = None


class SchemaStore(Protocol):
    """Everything runs on the driver; failures are Headrace's errors."""

    framing: Framing
    # Whether `accepts` compares a schema with the versions that there are.
    compares: bool
    # Its address without a login.
    url: str

    def by_id(self, id: str) -> StoredSchema:
        """Raises UnknownSchema."""
        ...

    def versions(self, subject: str) -> list[StoredSchema]:
        """All versions, the oldest first; raises UnknownSubject."""
        ...

    def newest(self, subject: str) -> StoredSchema | None:
        """The newest version; None if there is no such subject."""
        ...

    def subjects(self) -> list[str]:
        """The names of all, sorted."""
        ...

    def register(
        self,
        subject: str,
        type: SchemaType,
        text: str,
        references: tuple[tuple[str, str], ...] = (),
    ) -> StoredSchema:
        """The version with this schema, made where the subject has it not; IncompatibleSchema."""
        ...

    def accepts(
        self,
        subject: str,
        type: SchemaType,
        text: str,
        references: tuple[tuple[str, str], ...] = (),
    ) -> list[str]:
        """Why the subject would not take this schema; nothing if it would, or has it. Changes
        nothing.
        """
        ...
