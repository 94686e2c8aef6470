"""What a registry knows of a topic, with a store that holds a few schemas."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import pytest

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.admin.stores import RegistryAddress
from headrace.errors import UnknownSchema, UnknownSubject
from headrace.formats import registered
from headrace.formats.framing import Frame, id_in

CONFLUENT = RegistryAddress("confluent", "http://registry:8081", None, None)
GLUE = RegistryAddress("glue", None, None, None, "eu-central-1", "shop")
UUID = str(uuid.UUID(int=7))
Texts = tuple[tuple[str, str], ...]


@dataclass
class Store:
    framing: Framing = Framing.CONFLUENT
    compares: bool = True
    url: str = "http://registry:8081"
    schemas: list[StoredSchema] = field(default_factory=list)

    def by_id(self, id: str) -> StoredSchema:
        for each in self.schemas:
            if each.id == id:
                return each
        raise UnknownSchema(id, self.url)

    def versions(self, subject: str) -> list[StoredSchema]:
        return [each for each in self.schemas if each.subject == subject]

    def newest(self, subject: str) -> StoredSchema | None:
        found = self.versions(subject)
        return found[-1] if found else None

    def subjects(self) -> list[str]:
        raise NotImplementedError

    def register(
        self,
        subject: str,
        type: SchemaType,
        text: str,
        references: tuple[tuple[str, str], ...] = (),
    ) -> StoredSchema:
        raise NotImplementedError

    def accepts(
        self,
        subject: str,
        type: SchemaType,
        text: str,
        references: tuple[tuple[str, str], ...] = (),
    ) -> list[str]:
        raise NotImplementedError


def stored(id: str, subject: str, type: SchemaType = SchemaType.AVRO) -> StoredSchema:
    return StoredSchema(id, type, "{}", (), subject, int(id[-1]))


def framed(framing: Framing, id: str) -> bytes:
    head = Frame(framing, id).around("").removeprefix("concat(X'").partition("'")[0]
    return bytes.fromhex(head) + b"payload"


def test_the_subject_of_the_topic_counts_first() -> None:
    store = Store(schemas=[stored("1", "orders-value"), stored("2", "orders-value")])
    found = registered.find(store, CONFLUENT, "orders", None, [])
    assert found is not None
    assert (found.schema.id, found.usual, found.format) == ("2", True, "confluent_avro")

    store = Store(Framing.GLUE, schemas=[stored(UUID, "orders", SchemaType.PROTOBUF)])
    found = registered.find(store, GLUE, "orders", None, [])
    assert found is not None
    assert (found.subject, found.format) == ("orders", "protobuf")


def test_a_message_tells_its_subject() -> None:
    store = Store(schemas=[stored("1", "shop.Order"), stored("2", "shop.Order")])
    values = [None, b"{}", framed(Framing.CONFLUENT, "1")]
    found = registered.find(store, CONFLUENT, "orders", None, values)
    assert found is not None
    assert (found.subject, found.schema.version, found.usual) == ("shop.Order", 2, False)
    assert registered.find(store, CONFLUENT, "orders", None, values[:2]) is None
    unknown = [framed(Framing.CONFLUENT, "9")]
    assert registered.find(store, CONFLUENT, "orders", None, unknown) is None
    with pytest.raises(UnknownSubject, match="orders-v"):
        registered.find(store, CONFLUENT, "orders", "orders-v", values)


def test_the_id_in_a_message() -> None:
    assert id_in(framed(Framing.CONFLUENT, "258"), Framing.CONFLUENT) == "258"
    assert id_in(framed(Framing.GLUE, UUID), Framing.GLUE) == UUID
    packed = b"\x03\x05" + framed(Framing.GLUE, UUID)[2:]
    assert id_in(packed, Framing.GLUE) == UUID
    for message in (b"", b"\0\0\0\0", b'{"id": 1}', b"\x03\x01" + bytes(16)):
        assert not registered.framings([message])
    assert registered.framings([None, packed]) == {Framing.GLUE}
