"""What a registry knows of a topic that no definition describes yet, for proposals and for looking.

Comes in: a `SchemaStore`, a topic and the newest of its values. Goes out: the schema that they have
and what `format` reads it with. The subject by the topic's name counts; where there is none, the id
in a message tells, as producers may name subjects by other rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, SchemaStore, StoredSchema
from headrace.admin.stores import RegistryAddress
from headrace.errors import UnknownSchema, UnknownSubject
from headrace.formats.framing import id_in
from headrace.formats.kinds import FORMATS
from headrace.formats.options import Part, Wanted, subjects
from headrace.model.schema import Schema

_CONFLUENT = {
    SchemaType.AVRO: "confluent_avro",
    SchemaType.PROTOBUF: "confluent_protobuf",
    SchemaType.JSON: "json_schema",
}
_GLUE = {SchemaType.AVRO: "avro", SchemaType.PROTOBUF: "protobuf", SchemaType.JSON: "json_schema"}


@dataclass(frozen=True)
class Registered:
    """The values of a topic. `usual` says that their subject is the one that its name gives."""

    address: RegistryAddress
    schema: StoredSchema
    usual: bool

    @property
    def subject(self) -> str:
        return str(self.schema.subject)

    @property
    def format(self) -> str:
        """Of a source that reads them."""
        return (_GLUE if self.address.kind == "glue" else _CONFLUENT)[self.schema.type]

    @property
    def wanted(self) -> Wanted:
        return Wanted(
            Part.VALUE, self.format, Path(), registry=self.address, subjects=(self.subject,)
        )

    def columns(self) -> tuple[Schema, bool]:
        """And whether a message is one value. Raises ValueError with what cannot be read."""
        return FORMATS[self.wanted.language].columns_of(self.schema, self.wanted)


def find(
    store: SchemaStore,
    address: RegistryAddress,
    topic: str,
    subject: str | None,
    values: Iterable[bytes | None],
) -> Registered | None:
    """None if the store has no schema of them; UnknownSubject for a `subject` that was named."""
    (usual,) = subjects(subject, (topic,), Part.VALUE, address)
    newest = store.newest(usual)
    if newest is not None:
        return Registered(address, newest, subject is None)
    if subject is not None:
        raise UnknownSubject(subject, store.url)
    found = _by_message(store, values)
    return Registered(address, found, False) if found is not None else None


def _by_message(store: SchemaStore, values: Iterable[bytes | None]) -> StoredSchema | None:
    """By the id in the first of the values that has one; of its subject the newest version."""
    ids = (id_in(value, store.framing) for value in values if value is not None)
    id = next((each for each in ids if each is not None), None)
    if id is None:
        return None
    try:
        found = store.by_id(id)
    except UnknownSchema:
        return None
    return (store.newest(found.subject) if found.subject else None) or found


def framings(values: Iterable[bytes | None]) -> set[Framing]:
    """The frames that values may have, by what they begin with."""
    return {
        framing
        for value in values
        if value is not None
        for framing in Framing
        if id_in(value, framing) is not None
    }
