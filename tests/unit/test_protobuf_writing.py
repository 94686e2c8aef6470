"""Rows to Protobuf messages: as workers write them, the schemas made for them, and the format."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry._sync.mock_schema_registry_client import (
    MockSchemaRegistryClient,
)
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor import Descriptor
from google.protobuf.message_factory import GetMessageClass
from tests import protobuf_samples as samples

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.admin.stores import RegistryAddress
from headrace.formats import protobuf_made, protobuf_reading, protobuf_writing
from headrace.formats import protobuf_schemas as schemas
from headrace.formats.encoding import WHOLE
from headrace.formats.known import Known
from headrace.formats.options import Part, Wanted
from headrace.formats.protobuf import ProtobufEncoding, ProtobufFormat, ProtobufReading
from headrace.formats.protobuf_types import arrow_struct, columns_of, fields_for
from headrace.model.schema import Column, Schema
from headrace.model.types import fields_of

PROTOBUF = ProtobufFormat()
REGISTRY = RegistryAddress("confluent", "http://localhost:1", None, None)
GLUE = RegistryAddress("glue", None, None, None)
FRAMED = Wanted(Part.VALUE, "confluent_protobuf", Path(), registry=REGISTRY)


def message_of(text: str) -> Descriptor:
    return schemas.of_text('syntax = "proto3";' + text).message()


def stored(text: str, id: str = "7") -> StoredSchema:
    return StoredSchema(id, SchemaType.PROTOBUF, text)


def write(descriptor: Descriptor, columns: str, *rows: dict[str, Any] | None) -> list[Any]:
    """Messages by the library's understanding of them."""
    schema = Schema.parse(columns)
    fields, faults = fields_for(descriptor, fields_of(schema), writing=True)
    assert not faults
    array = pa.array(rows, arrow_struct(fields_of(schema)))
    made = protobuf_writing.function(fields)(array)
    kind = GetMessageClass(descriptor)
    return [None if each is None else kind.FromString(each) for each in made.to_pylist()]


def test_rows_fit_fields_of_other_types() -> None:
    message = message_of(
        "message A { uint64 u = 1; uint32 v = 2; double d = 3; string s = 4; E e = 5; bytes b = 6;"
        " optional int32 o = 7; } enum E { ZERO = 0; ONE = 1; }"
    )
    columns = "u BIGINT, v INT, d INT, s DECIMAL(5, 2), e STRING, b STRING, o TINYINT"
    row = {"u": 1, "v": 2, "d": 3, "s": Decimal("1.50"), "e": "ONE", "b": "x", "o": 0}
    made, unknown, nothing, null = write(message, columns, row, {"e": "9"}, {}, None)
    assert made == type(made)(u=1, v=2, d=3, s="1.50", e=1, b=b"x", o=0)
    assert unknown.e == 9
    assert nothing == type(made)()
    assert null is None


@pytest.mark.parametrize(
    ("columns", "row", "fault"),
    [
        ("u BIGINT", {"u": -1}, "`u` does not fit its field"),
        ("e STRING", {"e": "TWO"}, "`e` has a name that its enum has not"),
        ("l ARRAY<INT>", {"l": [1, None]}, "`l` has NULL among its values"),
        ("m MAP<STRING, INT>", {"m": [("a", None)]}, "`m` has NULL among its values"),
        ("n STRUCT<l: ARRAY<INT>>", {"n": {"l": [None]}}, "`n.l` has NULL among its values"),
        ("d DECIMAL(38, 10)", {"d": Decimal("1e20")}, "`d` does not fit its field"),
    ],
)
def test_values_that_no_message_can_hold_are_named(
    columns: str, row: dict[str, Any], fault: str
) -> None:
    message = message_of(
        """
        import "google/protobuf/duration.proto";
        message A { uint64 u = 1; E e = 2; repeated int32 l = 3; map<string, int32> m = 4; A n = 5;
                    google.protobuf.Duration d = 6; }
        enum E { ZERO = 0; }
        """
    )
    with pytest.raises(ValueError, match=fault):
        write(message, columns, row)


ROWS = Schema.parse(
    "id BIGINT NOT NULL, name STRING, small SMALLINT, price DECIMAL(9, 2), at TIMESTAMP, day DATE, "
    "address STRUCT<street: STRING, geo: STRUCT<x: DOUBLE>>, lines ARRAY<STRUCT<n: INT>>, "
    "rates MAP<STRING, FLOAT>, Tags ARRAY<STRING>, raw BINARY, paid BOOLEAN, "
    "places MAP<INT, STRUCT<n: INT>>"
)
MADE = """syntax = "proto3";

package headrace;

import "google/protobuf/timestamp.proto";
import "google/type/date.proto";

message Orders {
  optional int64 id = 1;
  optional string name = 2;
  optional int32 small = 3;
  optional string price = 4;
  google.protobuf.Timestamp at = 5;
  google.type.Date day = 6;
  message AddressRecord {
    optional string street = 1;
    message GeoRecord {
      optional double x = 1;
    }
    GeoRecord geo = 2;
  }
  AddressRecord address = 7;
  message LinesRecord {
    optional int32 n = 1;
  }
  repeated LinesRecord lines = 8;
  map<string, float> rates = 9;
  repeated string Tags = 10;
  optional bytes raw = 11;
  optional bool paid = 12;
  message PlacesRecord {
    optional int32 n = 1;
  }
  map<int32, PlacesRecord> places = 13;
}
"""


def test_a_schema_is_made_for_rows() -> None:
    assert PROTOBUF.made("headrace.Orders", ROWS) == MADE
    columns, scalar = PROTOBUF.columns_of(stored(MADE), FRAMED)
    assert not scalar
    same = {"small", "price"}
    expected = [each.type for each in ROWS.columns if each.name not in same]
    got = [each.type for each in columns.columns if each.name not in same]
    parsed = Schema.parse(Schema(tuple(columns.columns)).ddl())
    assert len(got) == len(expected)
    assert [each.name for each in parsed.columns] == list(ROWS.names)
    assert PROTOBUF.unreadable(stored(MADE), ROWS, FRAMED) == []


def test_fields_keep_their_numbers_and_numbers_are_not_used_again() -> None:
    before = schemas.of_text(
        """
        syntax = "proto3";
        message Orders { reserved 9, 20 to 22; int64 id = 4; string gone = 2; Inner inner = 3;
                         map<string, Inner> places = 5;
                         message Inner { int32 a = 2; int32 b = 1; } }
        """
    ).message()
    rows = Schema.parse(
        "new STRING, id BIGINT, inner STRUCT<c: INT, a: INT>, places MAP<STRING, STRUCT<b: INT>>"
    )
    text = protobuf_made.made("Orders", rows, before)
    message = schemas.of_text(text).message()
    assert {each.name: each.number for each in message.fields} == {
        "new": 23,
        "id": 4,
        "inner": 3,
        "places": 5,
    }
    inner = message.fields_by_name["inner"].message_type
    assert inner is not None
    assert {each.name: each.number for each in inner.fields} == {"c": 3, "a": 2}
    assert "reserved 2, 9, 20 to 22;" in text
    assert "reserved 1;" in text
    # Once more with a field less: what was reserved stays so.
    again = protobuf_made.made("Orders", Schema.parse("id BIGINT, last INT"), message)
    assert "reserved 2, 3, 5, 9, 20 to 22, 23;" in again
    assert "last = 24;" in again


@pytest.mark.parametrize(
    ("rows", "stays"),
    [
        ("id BIGINT, colour STRING", True),
        ("id BIGINT, colour STRING, price DECIMAL(9, 2), inner STRUCT<n: SMALLINT>", True),
        ("id BIGINT, other INT", False),
        ("id BIGINT, inner STRUCT<n: INT, m: INT>", False),
        ("number BIGINT", False),
    ],
)
def test_the_newest_schema_stays_if_it_has_a_field_for_every_column(rows: str, stays: bool) -> None:
    text = """
        syntax = "proto3"; package shop;
        message Order { int64 id = 1; Colour colour = 2; string price = 3; Inner inner = 4;
                        int32 number = 5; oneof o { int32 x = 6; int32 y = 7; } }
        enum Colour { NONE = 0; RED = 1; }
        message Inner { int32 n = 1; }
    """
    made = PROTOBUF.made("headrace.Orders", Schema.parse(rows), stored(text))
    assert (made == text) is stays


def test_columns_that_no_message_can_have_are_all_named() -> None:
    rows = Schema.parse("`a b` INT, v VARIANT, l ARRAY<ARRAY<INT>>, m MAP<DOUBLE, INT>, n STRING")
    with pytest.raises(ValueError, match="no name of a Protobuf field") as error:
        PROTOBUF.made("A", rows)
    for each in ("`a b` is no name", "`v` is VARIANT", "`l` is ARRAY<INT>", "DOUBLE for keys"):
        assert each in str(error.value)
    assert "`n`" not in str(error.value)


def test_rows_that_do_not_fit_a_schema_are_refused_with_every_column() -> None:
    text = 'syntax = "proto2"; message A { required int64 id = 1; required B b = 2; }'
    text += "message B { required int32 n = 1; optional google.protobuf.Struct s = 2; }"
    text = text.replace("message A", 'import "google/protobuf/struct.proto"; message A')
    rows = Schema.parse("b STRUCT<s: STRING>, other INT")
    with pytest.raises(ValueError, match="A has no field for `other`") as error:
        PROTOBUF.encoding(FRAMED, rows, stored(text))
    assert "A requires `id`, and there is no column for it" in str(error.value)
    assert "B requires `n`" in str(error.value)
    assert "`b.s` is google.protobuf.Struct, which cannot be written" in str(error.value)
    encoding = PROTOBUF.encoding(FRAMED, Schema.parse("id BIGINT, b STRUCT<n: INT>"), stored(text))
    assert encoding.required == (("id",), ("b",), ("b", "n"))


def test_what_lists_and_maps_hold_must_be_there() -> None:
    text = """
        syntax = "proto2";
        message A { repeated string tags = 1; repeated A all = 2; map<string, B> by = 3; }
        message B { required int32 n = 1; }
    """
    rows = Schema.parse(
        "tags ARRAY<STRING>, all ARRAY<STRUCT<tags: ARRAY<STRING>>>, BY MAP<STRING, STRUCT<n: INT>>"
    )
    assert PROTOBUF.encoding(FRAMED, rows, stored(text)).required == (
        ("tags", "[]"),
        ("all", "[]"),
        ("all", "[]", "tags", "[]"),
        ("BY", "{}"),
        ("BY", "{}", "n"),
    )


def test_keys_of_one_column_are_messages_of_one_field() -> None:
    key = replace(FRAMED, part=Part.KEY)
    rows = Schema((Column(WHOLE, "BIGINT"),))
    text = PROTOBUF.made("headrace.OrdersKey", rows)
    assert "optional int64 value = 1;" in text
    sql = PROTOBUF.encoding(key, rows, stored(text)).of_value("id")
    assert "IF(id IS NULL, NULL, struct(id AS value))" in sql
    whole = Schema((Column(WHOLE, "STRUCT<a: INT>"),))
    text = PROTOBUF.made("headrace.OrdersKey", whole)
    assert "optional int32 a = 1;" in text
    assert "(k))" in PROTOBUF.encoding(key, whole, stored(text)).of_value("k")


NESTED = 'syntax = "proto3"; message A { message B { int32 x = 1; } } message C { int32 y = 1; }'


@pytest.mark.parametrize(
    ("message", "rows", "mark"), [("A.B", "x INT", "040000"), ("C", "y INT", "0202")]
)
def test_messages_are_marked_with_their_place(message: str, rows: str, mark: str) -> None:
    wanted = replace(FRAMED, message=message)
    encoding = PROTOBUF.encoding(wanted, Schema.parse(rows), stored(NESTED))
    assert f"concat(X'0000000007', concat(X'{mark}', " in encoding.of_fields([("x", "x")])
    glue = replace(wanted, format="protobuf", registry=GLUE)
    id = "00000000-0000-0000-0000-00000000000a"
    encoding = PROTOBUF.encoding(glue, Schema.parse(rows), stored(NESTED, id))
    place = {"A.B": "01", "C": "02"}[message]
    sql = encoding.of_fields([("x", "x")])
    assert f"concat(X'{'0300' + '0' * 31}A', concat(X'{place}', " in sql


def test_the_same_schema_is_the_same_text_and_another_is_not() -> None:
    known = Known(Framing.CONFLUENT, ROWS, (stored(MADE),), stored(MADE))
    one, two = (PROTOBUF.reading(FRAMED, "s", known) for _ in range(2))
    assert one.steps("value", "__") == two.steps("value", "__")
    more = known.with_writers(stored(MADE, "8"))
    assert PROTOBUF.reading(FRAMED, "s", more).steps("value", "__") != one.steps("value", "__")


def test_a_message_that_is_not_named_is_the_first_of_the_newest() -> None:
    old = stored('syntax = "proto3"; message Old { int32 id = 1; }', "1")
    new = stored('syntax = "proto3"; message X { message In {} int32 id = 1; }', "2")
    known = Known(Framing.CONFLUENT, Schema.parse("id INT"), (old, new), new)
    reading = PROTOBUF.reading(FRAMED, "s", known)
    assert isinstance(reading, ProtobufReading)
    assert [each.message for each in reading.writers] == ["Old", "X"]
    named = replace(FRAMED, message="In")
    assert PROTOBUF.unreadable(old, Schema.parse("id INT"), named) == [
        "it has no message `In`; there is Old"
    ]


def test_faults_of_plain_definitions(tmp_path: Path) -> None:
    (tmp_path / "a.proto").write_text('syntax = "proto3"; message A { A a = 1; int32 id = 2; }')
    (tmp_path / "b.proto").write_text("message")
    plain = Wanted(Part.VALUE, "protobuf", tmp_path)
    (missing,) = PROTOBUF.faults(plain)
    assert "plain Protobuf needs its schema" in missing
    (recursive,) = PROTOBUF.faults(replace(plain, schema_file="a.proto"))
    assert recursive.startswith("a.proto: `A.a` is inside of what it is itself")
    (broken,) = PROTOBUF.faults(replace(plain, schema_file="b.proto"))
    assert broken.startswith("b.proto: b.proto:1:8: Expected")
    (nowhere,) = PROTOBUF.faults(replace(plain, schema_file="c.proto"))
    assert nowhere == "c.proto: there is no such file"
    (other,) = PROTOBUF.faults(replace(plain, schema_file="a.proto", message="B"))
    assert other == "a.proto: it has no message `B`; there is A"
    declared = replace(plain, schema_file="a.proto", schema=Schema.parse("id STRING, x INT"))
    assert list(PROTOBUF.faults(declared)) == []
    wrong = replace(declared, schema=Schema.parse("id BOOLEAN, v VARIANT"))
    assert list(PROTOBUF.faults(wrong)) == ["VARIANT is no type of Protobuf"]
    assert list(PROTOBUF.faults(FRAMED)) == []
    assert PROTOBUF.columns(declared) == declared.schema
    assert PROTOBUF.columns(plain) is None
    assert PROTOBUF.columns(FRAMED) is None


class Registry:
    """confluent-kafka's own serializers, and the registry of theirs that lives in memory."""

    def __init__(self) -> None:
        self.client = MockSchemaRegistryClient({"url": "mock://"})
        self.context = SerializationContext("t", MessageField.VALUE)

    def serialized(self, messages: list[Any]) -> tuple[list[bytes], StoredSchema]:
        kind = type(messages[0])
        serializer = ProtobufSerializer(kind, self.client, {"use.deprecated.format": False})
        made = [serializer(each, self.context) for each in messages]
        latest: Any = self.client.get_latest_version("t-value")
        references = tuple(
            (each.name, self._text(self.client.get_version(each.subject, each.version)))
            for each in latest.schema.references or ()
        )
        id = str(int.from_bytes(made[0][1:5], "big"))
        schema = StoredSchema(id, SchemaType.PROTOBUF, self._text(latest), references)
        return made, schema

    def _text(self, registered: Any) -> str:
        return str(registered.schema.schema_str)

    def deserialized(self, kind: Any, messages: list[bytes]) -> list[Any]:
        deserializer = ProtobufDeserializer(kind, {"use.deprecated.format": False}, self.client)
        return [deserializer(each, self.context) for each in messages]


@pytest.mark.parametrize("name", ["shop.Order", "old.Record", "Item"])
def test_both_ways_with_the_serializers_of_confluent(name: str) -> None:
    """10,000 random messages in all: theirs are read, and ours are theirs byte for byte."""
    order = schemas.of_text(samples.ORDER, samples.REFERENCES)
    record = samples.legacy()
    descriptor = record if name == "old.Record" else order.message(name)
    messages = samples.messages(descriptor, 3_334, seed=7)
    for each in messages:
        if name == "shop.Order":
            each.ClearField("extra")
        elif name == "old.Record":
            _without_defaults(each)
    registry = Registry()
    theirs, schema = registry.serialized(messages)
    wanted = replace(FRAMED, message=descriptor.full_name)
    columns, _ = PROTOBUF.columns_of(schema, wanted)
    columns = Schema(tuple(each for each in columns.columns if each.name != "extra"))
    known = Known(Framing.CONFLUENT, columns, (schema,), schema)
    reading = PROTOBUF.reading(wanted, "s", known)
    assert isinstance(reading, ProtobufReading)
    rows = protobuf_reading.function(reading.messages)(pa.array(theirs, pa.binary()))
    assert rows.field("__fault").null_count == len(theirs)
    encoding = PROTOBUF.encoding(wanted, columns, schema)
    assert isinstance(encoding, ProtobufEncoding)
    head = bytes.fromhex(
        "".join(encoding.of_fields([]).split("X'")[i].split("'")[0] for i in (1, 2))
    )
    written = protobuf_writing.function(encoding.fields)(rows).to_pylist()
    ours = [head + each for each in written]
    assert registry.deserialized(type(messages[0]), ours) == messages
    if name != "old.Record":  # whose numbers its library does not pack
        canonical = [each.SerializeToString(deterministic=True) for each in messages]
        assert ours == [head + each for each in canonical]


def _without_defaults(message: Any) -> None:
    """Fields that were not set come back as what the schema says they are."""
    for field in message.DESCRIPTOR.fields:
        if field.has_default_value and not message.HasField(field.name):
            setattr(message, field.name, field.default_value)


def test_columns_of_the_format_are_those_of_the_message() -> None:
    assert PROTOBUF.columns_of(stored(NESTED), replace(FRAMED, message="C"))[0] == columns_of(
        schemas.of_text(NESTED).message("C")
    )


IN_A_WORKER = """
import pickle, sys
sys.modules["headrace"] = None
import pyarrow as pa
read, write = pickle.loads(sys.stdin.buffer.read())
rows = read(pa.array([b"\\0\\0\\0\\0\\7\\2\\2\\x08\\5"], pa.binary()))
print(rows.to_pylist(), write(rows).to_pylist())
"""


def test_workers_need_no_headrace() -> None:
    from pyspark import cloudpickle

    from headrace.formats import protobuf_wire

    for module in (protobuf_wire, protobuf_reading, protobuf_writing):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    wanted = replace(FRAMED, message="C")
    rows = Schema.parse("y INT")
    known = Known(Framing.CONFLUENT, rows, (stored(NESTED),), stored(NESTED))
    reading = PROTOBUF.reading(wanted, "s", known)
    encoding = PROTOBUF.encoding(wanted, rows, stored(NESTED))
    assert isinstance(reading, ProtobufReading)
    assert isinstance(encoding, ProtobufEncoding)
    functions = (
        protobuf_reading.function(reading.messages),
        protobuf_writing.function(encoding.fields),
    )
    pickled = cloudpickle.dumps(functions)  # type: ignore[no-untyped-call]
    done = subprocess.run(
        [sys.executable, "-c", IN_A_WORKER], input=pickled, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "[{'__fault': None, 'y': 5}] [b'\\x08\\x05']"
