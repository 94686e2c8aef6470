"""What is different between two schemas of each type."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.admin.registry_differences import (
    WHOLE,
    BrokenSchema,
    Difference,
    differences,
    outline,
)
from headrace.admin.registry_schemas import Reference, Schema, SchemaType


def avro(*fields: Any, **more: Any) -> Schema:
    record = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields, **more}
    return Schema(SchemaType.AVRO, json.dumps(record))


def field(name: str, type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def record(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def proto(text: str) -> Schema:
    return Schema(SchemaType.PROTOBUF, text)


def json_schema(**node: Any) -> Schema:
    return Schema(SchemaType.JSON, json.dumps(node))


# Avro


def test_fields_that_came_went_and_changed_are_told() -> None:
    before = avro(field("id", "int"), field("old", "string"), field("same", "long"))
    after = avro(
        field("id", "long"), field("same", "long"), field("note", ["null", "string"], default=None)
    )

    assert differences(before, after) == (
        Difference("id", "int", "long"),
        Difference("old", "string", None),
        Difference("note", None, "null | string, default null"),
    )


def test_what_means_nothing_to_a_reader_is_no_difference() -> None:
    before = avro(field("id", "int", doc="a number"), doc="orders")
    after = avro(field("id", {"type": "int"}))

    assert differences(before, after) == ()


def test_an_avro_schema_is_outlined_down_to_its_last_field() -> None:
    money = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    schema = avro(
        field("at", {"type": "long", "logicalType": "timestamp-millis"}),
        field("total", money, aliases=["sum"]),
        field("state", {"type": "enum", "name": "S", "symbols": ["NEW", "PAID"]}, default="NEW"),
        field("hash", {"type": "fixed", "name": "Md5", "size": 16}),
        field("lines", {"type": "array", "items": record("Line", field("sku", "string"))}),
        field("more", {"type": "map", "values": record("Note", field("text", "string"))}),
        field("before", ["null", "shop.Order"], default=None),
        field("who", ["null", record("Person", field("name", "string")), record("Firm")]),
    )

    assert outline(schema) == {
        WHOLE: "record shop.Order",
        "at": "long as timestamp-millis",
        "total": "bytes as decimal(12, 2), also sum",
        "state": 'enum shop.S of NEW, PAID, default "NEW"',
        "hash": "fixed shop.Md5 of 16 bytes",
        "lines": "array of record shop.Line",
        "lines[].sku": "string",
        "more": "map of record shop.Note",
        "more{}.text": "string",
        "before": "null | shop.Order, default null",
        "who": "null | record shop.Person | record shop.Firm",
        "who(Person).name": "string",
    }


@pytest.mark.parametrize(
    ("node", "wrong"),
    [
        (record("A", field("id", "nosuch")), "id: there is no type nosuch"),
        ({"type": "record", "name": "A"}, "record A has no list of fields"),
        ({"type": "record", "fields": []}, "this record has no name"),
        (record("A", {"name": "id"}), "has no name or no type"),
        (record("A", field("e", {"type": "enum", "name": "E"})), "e: this enum is not complete"),
        (record("A", field("n", 3)), "n: 3 is no type"),
        (None, "null is no type"),
    ],
)
def test_a_broken_avro_schema_is_told_with_its_place(node: Any, wrong: str) -> None:
    with pytest.raises(BrokenSchema, match=wrong):
        outline(Schema(SchemaType.AVRO, json.dumps(node)))


def test_types_of_references_are_not_missed() -> None:
    text = json.dumps(record("A", field("total", "shop.Money")))

    used = Schema(SchemaType.AVRO, text, (Reference("shop.Money", "money", 1),))

    assert outline(used)["total"] == "shop.Money"


# JSON Schema


def test_properties_are_told_with_what_is_asked_of_them() -> None:
    before = json_schema(
        type="object",
        properties={"id": {"type": "integer"}, "name": {"type": "string", "maxLength": 5}},
        required=["id"],
    )
    after = json_schema(
        title="Orders",
        type="object",
        properties={
            "id": {"type": ["integer", "string"]},
            "name": {"type": "string", "maxLength": 9, "description": "whose"},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
            "who": {"oneOf": [{"type": "object", "properties": {"vat": True}}, False]},
        },
        additionalProperties=False,
        **{"$defs": {"tag": {"type": "string", "enum": ["a", "b"]}}},
    )

    assert differences(before, after) == (
        Difference(WHOLE, "object", "object, additionalProperties false"),
        Difference("id", "integer, required", "integer | string"),
        Difference("name", "string, maxLength 5", "string, maxLength 9"),
        Difference("tags", None, "array"),
        Difference("tags[]", None, 'any type, $ref "#/$defs/tag"'),
        Difference("who", None, "any type"),
        Difference("who(oneOf 1)", None, "object"),
        Difference("who(oneOf 1).vat", None, "anything"),
        Difference("who(oneOf 2)", None, "nothing"),
        Difference("#tag", None, 'string, enum ["a", "b"]'),
    )


def test_what_is_no_json_schema_is_told() -> None:
    with pytest.raises(BrokenSchema, match="id: 3 is no schema"):
        outline(json_schema(properties={"id": 3}))


# Protobuf

ORDER = """
syntax = "proto3";
package shop;
import "money.proto";
option java_package = "shop";  // not ours
/* An order;
   message Not { } */
message Order {
  option (shop.kept) = { days: 3; };
  int64 id = 1 [(shop.note) = { text: "a ; b }" }];
  repeated Line lines = 2;
  map<string, Money> prices = 3;
  oneof payer { string person = 4; Firm firm = 5; }
  message Line { string sku = 1; }
  enum State { option allow_alias = true; NEW = 0; PAID = 1; }
  reserved 9, 10 to 12;
  reserved "old";
}
service Shop { rpc Buy (Order) returns (Order) { option deprecated = true; } }
"""


def test_a_proto_file_is_outlined_message_by_message() -> None:
    assert outline(proto(ORDER)) == {
        "syntax": "proto3",
        "package": "shop",
        'import "money.proto"': "imported",
        "Order": "message",
        "Order.id": "int64 = 1",
        "Order.lines": "repeated Line = 2",
        "Order.prices": "map<string, Money> = 3",
        "Order.person": "string = 4 of oneof payer",
        "Order.firm": "Firm = 5 of oneof payer",
        "Order.Line": "message",
        "Order.Line.sku": "string = 1",
        "Order.State": "enum",
        "Order.State.NEW": "= 0",
        "Order.State.PAID": "= 1",
    }


def test_a_field_of_another_number_or_type_is_told() -> None:
    after = ORDER.replace("int64 id = 1", "string id = 7").replace("string sku = 1;", "")

    assert differences(proto(ORDER), proto(after)) == (
        Difference("Order.id", "int64 = 1", "string = 7"),
        Difference("Order.Line.sku", "string = 1", None),
    )


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("message A {", "A is not closed"),
        ("message A", "the text ends after `message A`"),
        ("message A { id = 1; }", "A: field `id` has no type"),
        ("message A { repeated id = 1; }", "A: field `id` has no type"),
        ("message A { int32 id; }", "`int32 id` is no field"),
        ("hello;", "`hello` is no statement"),
    ],
)
def test_a_broken_proto_file_is_told(text: str, wrong: str) -> None:
    with pytest.raises(BrokenSchema, match=wrong):
        outline(proto(text))


# Both


def test_a_schema_of_another_type_has_nothing_in_common() -> None:
    found = differences(avro(field("id", "int")), proto("message Order { int32 id = 1; }"))

    assert Difference("id", "int", None) in found
    assert Difference("Order.id", None, "int32 = 1") in found


def test_a_registered_schema_that_is_not_understood_stops_nothing() -> None:
    assert differences(proto("hello;"), proto("message A {}")) == ()


VALUES = st.recursive(
    st.sampled_from([None, True, 3, "int", "record", "type", "name", "fields", "items", "array"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "name", "fields", "items", "properties", "required", "oneOf"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([SchemaType.AVRO, SchemaType.JSON]))
def test_any_json_is_a_schema_or_a_broken_one(node: Any, type: SchemaType) -> None:
    try:
        found = outline(Schema(type, json.dumps(node)))
    except BrokenSchema:
        return
    assert found


WORDS = st.sampled_from([*"A{};=1[]<>", '"x"', "message", "enum", "oneof", "map", "option"])


@given(st.lists(WORDS))
def test_any_words_are_a_proto_file_or_a_broken_one(words: list[str]) -> None:
    with suppress(BrokenSchema):
        outline(proto(" ".join(words)))
