"""Protobuf schemas with about everything that there is in them, and random messages of these."""

from __future__ import annotations

import random
import string
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from headrace.formats import protobuf_schemas
from headrace.formats.protobuf_types import is_map

COMMON = """
syntax = "proto3";
package shop.common;
import "google/type/date.proto";
message Money { string currency = 1; int64 units = 2; sfixed32 nanos = 3; }
message Day { google.type.Date day = 1; }
enum Colour { COLOUR_UNKNOWN = 0; RED = 1; CRIMSON = 5; BLUE = -7; }
"""

ORDER = """
syntax = "proto3";
package shop;
import "common.proto";
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";

message Order {
  int32 i32 = 1;
  int64 i64 = 2;
  uint32 u32 = 3;
  uint64 u64 = 4;
  sint32 s32 = 5;
  sint64 s64 = 6;
  fixed32 f32 = 7;
  fixed64 f64 = 8;
  sfixed32 sf32 = 9;
  sfixed64 sf64 = 10;
  float real = 11;
  double number = 12;
  bool paid = 13;
  string customer = 14;
  bytes picture = 15;
  optional int32 maybe_i32 = 16;
  optional string maybe_text = 17;
  optional double maybe_number = 18;
  optional bool maybe_flag = 19;
  optional bytes maybe_bytes = 20;
  common.Colour colour = 21;
  optional common.Colour maybe_colour = 22;
  repeated common.Colour colours = 23;
  common.Money total = 24;
  repeated common.Money parts = 25;
  map<string, int64> counts = 26;
  map<int32, common.Money> prices = 27;
  map<bool, string> words = 28;
  map<uint64, common.Colour> shades = 29;
  oneof payment {
    string card = 30;
    int64 cash = 31;
    common.Money voucher = 32;
    google.protobuf.Empty nothing = 33;
  }
  repeated string tags = 34;
  repeated sint64 steps = 35;
  repeated bytes blobs = 36;
  repeated double weights = 37;
  google.protobuf.Timestamp at = 38;
  repeated google.protobuf.Timestamp times = 39;
  google.protobuf.Duration lasted = 40;
  google.protobuf.StringValue w_text = 41;
  google.protobuf.Int64Value w_long = 42;
  google.protobuf.UInt64Value w_ulong = 43;
  google.protobuf.BoolValue w_flag = 44;
  google.protobuf.BytesValue w_bytes = 45;
  google.protobuf.DoubleValue w_number = 46;
  google.protobuf.Any any = 47;
  google.protobuf.FieldMask mask = 48;
  common.Day day = 49;
  Line line = 50;
  message Line {
    int32 number = 1;
    repeated Item items = 2;
    message Item { string sku = 1; optional uint32 count = 2; map<string, Empty> marks = 3; }
    message Empty {}
  }
  google.protobuf.Struct extra = 51;
}
message Refund { string order = 1; }
"""

LEGACY = """
syntax = "proto2";
package old;
message Record {
  required int64 id = 1;
  optional string name = 2 [default = "nobody"];
  optional int32 count = 3 [default = 7];
  repeated int32 numbers = 4;
  repeated int32 packed = 5 [packed = true];
  enum Kind { A = 1; B = 2; }
  optional Kind kind = 6 [default = B];
  optional uint64 large = 7 [default = 18446744073709551615];
  optional Inner inner = 8;
  repeated Inner inners = 9;
  message Inner { required string code = 1; optional double rate = 2; }
}
"""

REFERENCES = (("common.proto", COMMON),)

# Seconds that Protobuf allows, of the years 1 to 9999.
_SECONDS = (-62_135_596_800, 253_402_300_799)
_LONGEST = 315_576_000_000


@lru_cache
def order() -> Descriptor:
    return protobuf_schemas.of_text(ORDER, REFERENCES).message("shop.Order")


@lru_cache
def legacy() -> Descriptor:
    return protobuf_schemas.of_text(LEGACY).message()


def messages(descriptor: Descriptor, count: int, seed: int = 0) -> list[Message]:
    made = random.Random(seed)
    return [_message(made, GetMessageClass(descriptor)()) for _ in range(count)]


def _message(made: random.Random, message: Message) -> Message:
    if message.DESCRIPTOR.full_name in _SPECIAL:
        _SPECIAL[message.DESCRIPTOR.full_name](made, message)
        return message
    left_out = {
        number
        for oneof in message.DESCRIPTOR.oneofs
        for number in made.sample([field.number for field in oneof.fields], len(oneof.fields) - 1)
    }
    for field in message.DESCRIPTOR.fields:
        if field.number not in left_out and (field.is_required or made.random() < 0.6):
            _set(made, message, field)
    return message


def _set(made: random.Random, message: Message, field: Any) -> None:
    if is_map(field):
        _set_map(made, getattr(message, field.name), field)
    elif field.is_repeated:
        values = getattr(message, field.name)
        for _ in range(made.randrange(4)):
            if field.message_type is not None:
                _message(made, values.add())
            else:
                values.append(_value(made, field))
    elif field.message_type is not None:
        inside = getattr(message, field.name)
        inside.SetInParent()
        _message(made, inside)
    else:
        setattr(message, field.name, _value(made, field))


def _set_map(made: random.Random, values: Any, field: FieldDescriptor) -> None:
    assert field.message_type is not None
    key, value = field.message_type.fields
    # One entry, as the order of several is for a library to choose.
    if made.random() < 0.7:
        if value.message_type is not None:
            _message(made, values[_value(made, key)])
        else:
            values[_value(made, key)] = _value(made, value)


def _value(made: random.Random, field: FieldDescriptor) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_DOUBLE:
            return made.choice([0.0, -0.0, 1.5, made.uniform(-1e300, 1e300), float("inf")])
        case FieldDescriptor.TYPE_FLOAT:
            return made.choice([0.0, -0.0, 0.25, float(made.randrange(10**6)), float("-inf")])
        case FieldDescriptor.TYPE_BOOL:
            return made.random() < 0.5
        case FieldDescriptor.TYPE_STRING:
            return _text(made)
        case FieldDescriptor.TYPE_BYTES:
            return made.randbytes(made.randrange(9))
        case FieldDescriptor.TYPE_ENUM:
            assert field.enum_type is not None
            return made.choice([each.number for each in field.enum_type.values])
    return _integer(made, field)


def _integer(made: random.Random, field: FieldDescriptor) -> int:
    low, high = {
        FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
        FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
        FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
        FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    }[field.cpp_type]
    return made.choice([0, 1, low, high, made.randint(low, high), made.randrange(1000)])


def _text(made: random.Random) -> str:
    letters = string.ascii_letters + "äß€😀 \n\0"
    return "".join(made.choices(letters, k=made.randrange(12)))


def _timestamp(made: random.Random, message: Any) -> None:
    message.seconds = made.choice([0, -1, *_SECONDS, made.randint(*_SECONDS)])
    message.nanos = made.choice([0, 999_999_000, made.randrange(10**6) * 1_000])


def _duration(made: random.Random, message: Any) -> None:
    sign = made.choice([-1, 1])
    message.seconds = sign * made.choice([0, 1, _LONGEST - 1, made.randrange(_LONGEST)])
    message.nanos = sign * made.choice([0, 1, 999_999_999])


def _date(made: random.Random, message: Any) -> None:
    message.year, message.month = made.randint(1, 9999), made.randint(1, 12)
    message.day = made.randint(1, 28)


def _struct(made: random.Random, message: Any) -> None:
    message.update({"a": made.randrange(9), "b": [None, True, "x", {"deep": 1.5}]})


_SPECIAL = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.Struct": _struct,
    "google.type.Date": _date,
}
