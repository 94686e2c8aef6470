"""Messages one at a time: JSON to bytes with a frame, and back."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.errors import InvalidSchema, UnknownSchema
from headrace.formats import single

UUID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
LINE = '{"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}'
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": DECIMAL},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "seal", "type": ["bytes", "null"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "first", "type": ["null", "Line"]},
        {"name": "lines", "type": {"type": "array", "items": "Line"}},
        {"name": "notes", "type": {"type": "map", "values": ["int", "string"]}},
        {"name": "left", "type": "int", "default": 7},
    ],
}
ROW: dict[str, Any] = {
    "id": 1,
    "price": "12.50",
    "at": "2026-01-01T10:00:00+00:00",
    "day": "2026-01-01",
    "seal": "AAE=",
    "kind": "B",
    "first": {"sku": "a"},
    "lines": [{"sku": "b"}],
    "notes": {"n": 1, "s": "x"},
    "left": 3,
}
PROTO = """syntax = "proto3";
message First { message Inner { string name = 1; } }
message Order { int64 id = 1; map<string, int32> counts = 2; }
"""


class Store:
    """Knows one schema."""

    def __init__(self, framing: Framing, schema: StoredSchema) -> None:
        self.framing = framing
        self.url = "http://registry"
        self.schema = schema

    def by_id(self, id: str) -> StoredSchema:
        if id != self.schema.id:
            raise UnknownSchema(f"a schema with id {id}", self.url)
        return self.schema


def messages(framing: Framing, schema: StoredSchema) -> single.Messages:
    return single.Messages(Store(framing, schema))  # type: ignore[arg-type]


def stored(type: SchemaType, text: str, id: str = "7") -> StoredSchema:
    references = (("Line", LINE),) if type is SchemaType.AVRO else ()
    return StoredSchema(id, type, text, references, "orders-value", 1)


def test_avro_is_json_and_back() -> None:
    schema = stored(SchemaType.AVRO, json.dumps(AVRO))
    encode = single.encoder(schema, Framing.CONFLUENT)
    read = messages(Framing.CONFLUENT, schema)
    message = encode(ROW)
    assert message[:5] == b"\0\0\0\0\7"
    assert json.loads(read.decoded(message) or b"") == ROW
    empty = {**ROW, "at": None, "seal": None, "first": None}
    del empty["left"]
    assert json.loads(read.decoded(encode(empty)) or b"") == {**empty, "left": 7}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"price": "much"}, "does not fit orders-value"),
        ({"first": {"other": 1}}, "is none of null, Line"),
        ({"at": "soon"}, "is none of null, long"),
        ({"kind": "C"}, "does not fit orders-value"),
        ({"more": 1}, "more"),
        ({"notes": {"b": True}}, "is none of int, string"),
    ],
)
def test_what_does_not_fit_is_told(change: dict[str, Any], words: str) -> None:
    encode = single.encoder(stored(SchemaType.AVRO, json.dumps(AVRO)), Framing.CONFLUENT)
    with pytest.raises(ValueError, match=words):
        encode({**ROW, **change})


def test_protobuf_names_its_message() -> None:
    value = {"id": "1", "counts": {"a": 2}}
    for framing, id, index in ((Framing.CONFLUENT, "7", b"\2\2"), (Framing.GLUE, UUID, b"\2")):
        schema = stored(SchemaType.PROTOBUF, PROTO, id)
        read = messages(framing, schema)
        first = single.encoder(schema, framing)({})
        head = first.removesuffix(b"\0")
        assert read.decoded(first) == b"{}"
        order = head + index + b"\x08\x01\x12\x05\x0a\x01a\x10\x02"
        assert json.loads(read.decoded(order) or b"") == value
        with pytest.raises(ValueError, match="names no message"):
            read.decoded(head + b"\x7e")
    confluent = messages(Framing.CONFLUENT, stored(SchemaType.PROTOBUF, PROTO))
    assert confluent.decoded(b"\0\0\0\0\7\2\0") == b"{}"
    assert confluent.decoded(b"\0\0\0\0\7\4\0\0\x0a\1x") == b'{"name": "x"}'


def test_packed_json_of_glue_is_unpacked() -> None:
    read = messages(Framing.GLUE, stored(SchemaType.JSON, "{}", UUID))
    plain = single.encoder(stored(SchemaType.JSON, "{}", UUID), Framing.GLUE)({"id": 1})
    assert read.decoded(plain) == b'{"id": 1}'
    head = b"\x03\x05" + plain[2:18]
    assert read.decoded(head + zlib.compress(b"[1]")) == b"[1]"
    with pytest.raises(ValueError, match="compressed, and broken"):
        read.decoded(head + b"?")


def test_what_names_no_schema_stays() -> None:
    read = messages(Framing.CONFLUENT, stored(SchemaType.JSON, "{}"))
    assert read.decoded(None) is None
    assert read.decoded(b'{"id": 1}') == b'{"id": 1}'
    with pytest.raises(ValueError, match="id 9 does not exist"):
        read.decoded(b"\0\0\0\0\x09{}")
    with pytest.raises(ValueError, match="by schema 7: "):
        read.decoded(b"\0\0\0\0\x07{")


def test_a_schema_that_is_none_is_told() -> None:
    broken = stored(SchemaType.AVRO, '{"type": "unknown"}')
    with pytest.raises(InvalidSchema, match="reading orders-value"):
        single.encoder(broken, Framing.CONFLUENT)
    with pytest.raises(ValueError, match="the schema is not valid"):
        messages(Framing.CONFLUENT, broken).decoded(b"\0\0\0\0\x07")
