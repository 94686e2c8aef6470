"""Schemas of a registry with Confluent's API, as messages name them.

What a schema refers to is fetched with it, all the way down. What a registry has answered about an
id or a version never changes, and is asked for once in the life of a store; which version is the
newest is asked for every time, by one request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.admin import registry as schemas
from headrace.admin.registry import Registered
from headrace.admin.registry_client import Registry
from headrace.admin.registry_schemas import Reference, Schema, SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.errors import HeadraceError, InvalidSchema, UnknownSchema

Texts = tuple[tuple[str, str], ...]
# Messages have four bytes for an id, and registries do not count beyond a signed number of these.
_LARGEST = 2**31 - 1


class ConfluentStore:
    framing = Framing.CONFLUENT
    compares = True

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.url = registry.url
        self._by_id: dict[str, StoredSchema] = {}
        self._by_place: dict[tuple[str, int], StoredSchema] = {}

    def by_id(self, id: str) -> StoredSchema:
        if id not in self._by_id:
            if int(id) > _LARGEST:
                raise UnknownSchema(f"a schema with id {id}", self.url)
            schema = schemas.schema_of(self._registry, int(id))
            self._by_id[id] = self._stored(id, schema, *self._place(id))
        return self._by_id[id]

    def versions(self, subject: str) -> list[StoredSchema]:
        return [self._known(each) for each in schemas.all_versions(self._registry, subject)]

    def newest(self, subject: str) -> StoredSchema | None:
        found = schemas.newest(self._registry, subject)
        return self._known(found) if found is not None else None

    def subjects(self) -> list[str]:
        return schemas.subjects(self._registry)

    def register(
        self, subject: str, type: SchemaType, text: str, references: Texts = ()
    ) -> StoredSchema:
        """What it refers to is registered first, each under its own name, as Confluent's clients
        do it.
        """
        placed: list[Reference] = []
        for name, each in references:
            made = schemas.register(self._registry, name, _schema(type, each, placed))
            placed.append(Reference(name, name, made.version))
        made = schemas.register(self._registry, subject, _schema(type, text, placed))
        # As the registry has it: some put a schema into a form of their own.
        return self._known(schemas.find(self._registry, subject, made.version))

    def accepts(
        self, subject: str, type: SchemaType, text: str, references: Texts = ()
    ) -> list[str]:
        """A registry cannot be asked about a schema that refers to what it has not: where that is
        new, only that is judged.
        """
        placed: list[Reference] = []
        for name, each in references:
            schema = _schema(type, each, placed)
            known = schemas.registration(self._registry, name, schema)
            if known is None:
                return self._against(name, schema)
            placed.append(Reference(name, name, known.version))
        return self._against(subject, _schema(type, text, placed))

    def _against(self, subject: str, schema: Schema) -> list[str]:
        try:
            verdict = schemas.check(self._registry, subject, schema)
        except InvalidSchema as invalid:
            return [str(invalid)]
        return [] if verdict.accepted else list(verdict.messages) or ["it gave no reason"]

    def _place(self, id: str) -> tuple[str | None, int | None]:
        """A subject and version that have this schema, for words about it; none if not told."""
        try:
            places = schemas.by_id(self._registry, int(id))
        except HeadraceError:
            return None, None
        return (places[0].subject, places[0].version) if places else (None, None)

    def _known(self, found: Registered) -> StoredSchema:
        place = found.subject, found.version
        if place not in self._by_place:
            self._by_place[place] = self._stored(str(found.id), found.schema, *place)
            self._by_id.setdefault(str(found.id), self._by_place[place])
        return self._by_place[place]

    def _stored(
        self, id: str, schema: Schema, subject: str | None, version: int | None
    ) -> StoredSchema:
        texts: dict[str, str] = {}
        self._gather(schema, texts)
        return StoredSchema(id, schema.type, schema.text, tuple(texts.items()), subject, version)

    def _gather(self, schema: Schema, texts: dict[str, str]) -> None:
        """The texts of all that a schema refers to; what is needed first comes first."""
        for each in schema.references:
            if each.name not in texts:
                # A version that was deleted is still what others refer to.
                found = schemas.find(self._registry, each.subject, each.version, deleted=True)
                self._gather(found.schema, texts)
                texts[each.name] = found.schema.text


def _schema(type: SchemaType, text: str, placed: Sequence[Reference]) -> Schema:
    """A schema with those references that its text speaks of."""
    return Schema(type, text, tuple(each for each in placed if _mentions(type, text, each.name)))


def _mentions(type: SchemaType, text: str, name: str) -> bool:
    if type is not SchemaType.AVRO:
        # One without a brace is a descriptor of Protobuf in base64, which shows no names.
        return name in text or "{" not in text
    # Within its own namespace a type goes by its last name.
    return re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", text) is not None
