"""Schemas in AWS Glue, on the stand-in of moto."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing
from headrace.admin.stores import RegistryAddress, Stores
from headrace.errors import IncompatibleSchema, UnknownRegistry, UnknownSchema, UnknownSubject
from headrace.testing.glue import GlueServer


def record(*fields: str) -> str:
    parts = [{"name": each, "type": "long"} for each in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": parts})


def test_versions_of_a_schema_are_made_and_found(
    glue_server: GlueServer, unique: Callable[[str], str]
) -> None:
    login = (glue_server.api_key, glue_server.api_secret)
    store = Stores().at(
        RegistryAddress("glue", glue_server.endpoint, *login, region=glue_server.region)
    )
    name = unique("orders")
    assert store.framing is Framing.GLUE
    assert store.newest(name) is None
    assert store.accepts(name, SchemaType.AVRO, record("id")) == []

    first = store.register(name, SchemaType.AVRO, record("id"))
    again = store.register(name, SchemaType.AVRO, record("id"))
    second = store.register(name, SchemaType.AVRO, record("id", "amount"))
    assert again == first
    assert (first.subject, first.version, second.version) == (name, 1, 2)
    assert store.versions(name) == [first, second]
    assert store.newest(name) == second
    assert store.by_id(first.id) == first
    assert store.accepts(name, SchemaType.AVRO, record("id")) == []

    assert "one of AVRO" in store.accepts(name, SchemaType.JSON, "{}")[0]
    with pytest.raises(IncompatibleSchema, match="one of AVRO"):
        store.register(name, SchemaType.JSON, "{}")


def test_what_is_not_there_is_told(glue_server: GlueServer, unique: Callable[[str], str]) -> None:
    store = glue_server.store()
    with pytest.raises(UnknownSubject) as subject:
        store.versions(unique("nothing"))
    assert "value_subject" in (subject.value.hint or "")
    with pytest.raises(UnknownSchema, match="version 00000000-"):
        store.by_id("00000000-0000-0000-0000-000000000000")
    elsewhere = glue_server.store(unique("registry"))
    for ask in (elsewhere.newest, elsewhere.versions):
        with pytest.raises(UnknownRegistry):
            ask("orders")
    with pytest.raises(UnknownRegistry):
        elsewhere.register("orders", SchemaType.AVRO, record("id"))
