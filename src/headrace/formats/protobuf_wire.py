"""Protobuf messages as the workers see them: which fields they have, and what each becomes.

A `Field` is one column of a message. The driver makes a tree of them for a descriptor and columns
(`formats.protobuf_types`); a worker makes an `excerpt` of the schema by it: a descriptor with
the same numbers on the wire that has no more than these fields. So what is not asked for is
skipped, an enum comes as its number, a time as seconds and nanoseconds, and what only Protobuf's
own library understands as bytes. ptars turns messages of this excerpt into Arrow arrays and back.

Pickled by value: a worker needs no Headrace. Nothing here may use other parts of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import ptars
import pyarrow as pa
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message import DecodeError

INT32, INT64 = FieldDescriptorProto.TYPE_INT32, FieldDescriptorProto.TYPE_INT64
FLOATS = (FieldDescriptorProto.TYPE_FLOAT, FieldDescriptorProto.TYPE_DOUBLE)
BYTES, MESSAGE = FieldDescriptorProto.TYPE_BYTES, FieldDescriptorProto.TYPE_MESSAGE


class Kind(StrEnum):
    """What a value is. `PRESENCE` is a message without fields, `WRAPPED` one around a value."""

    PLAIN = "plain"
    ENUM = "enum"
    MESSAGE = "message"
    WRAPPED = "wrapped"
    TIMESTAMP = "timestamp"
    DURATION = "duration"
    DATE = "date"
    JSON = "json"
    PRESENCE = "presence"


class Many(StrEnum):
    ONE = "one"
    LIST = "list"
    MAP = "map"


# The fields of an entry of a map.
ENTRY = ("key", "value")
# What messages that stand for one value have on the wire, by their fields' numbers.
_PARTS = {
    Kind.TIMESTAMP: (INT64, INT32),
    Kind.DURATION: (INT64, INT32),
    Kind.DATE: (INT32, INT32, INT32),
}


@dataclass(frozen=True)
class Value:
    """`wire` is a type of Protobuf, for `WRAPPED` that of the value inside. `of` names the message
    of JSON. `numbers` are those of an enum, by the names that they have.
    """

    kind: Kind
    type: pa.DataType
    wire: int = MESSAGE
    fields: tuple[Field, ...] = ()
    numbers: tuple[tuple[str, int], ...] = ()
    of: str = ""


@dataclass(frozen=True)
class Field:
    """One column of a message; `number` 0 says that messages do not have it.

    `present` says that it is known whether a message has it; without, a field that was not written
    has the value that its type begins with. `group` is the oneof that it belongs to. Of a field
    with `zero_unset` a zero is written by writing nothing; ptars would do so for -0.0, too.
    """

    name: str
    type: pa.DataType
    value: Value
    number: int = 0
    many: Many = Many.ONE
    key: Value | None = None
    present: bool = False
    required: bool = False
    group: str = ""
    default: Any = None
    zero_unset: bool = False

    @property
    def on_wire(self) -> str:
        return f"f{self.number}"


class Codec:
    """Messages of one excerpt, in ptars and in Protobuf's own library."""

    def __init__(self, fields: tuple[Field, ...], writing: bool = False) -> None:
        pool = descriptor_pool.DescriptorPool()
        pool.Add(excerpt(fields, writing))
        descriptor = pool.FindMessageTypeByName("excerpt.M0")
        self._class = message_factory.GetMessageClass(descriptor)
        self._handler = ptars.HandlerPool([descriptor.file]).get_for_message(descriptor)

    def decode(self, messages: pa.BinaryArray) -> pa.RecordBatch:
        """Raises ValueError if one of them is no message."""
        try:
            return self._handler.array_to_record_batch(messages)
        except BaseException as error:
            raise _as_fault(error) from error

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        try:
            return self._handler.record_batch_to_array(rows)
        except BaseException as error:
            raise _as_fault(error) from error

    def canonical(self, message: bytes) -> bytes | None:
        """The same message as Protobuf's own library writes it, which ptars understands also where
        a oneof was written twice, or a key of a map; None if it is none.
        """
        try:
            return self._class.FromString(message).SerializeToString()
        except DecodeError:
            return None


def _as_fault(error: BaseException) -> BaseException:
    # A panic of Rust, which Python has as no Exception.
    return ValueError(str(error)) if type(error).__name__ == "PanicException" else error


def excerpt(fields: tuple[Field, ...], writing: bool = False) -> FileDescriptorProto:
    """For `writing`, maps are lists of entries, as they are on the wire: ptars leaves out a zero
    that is the key or the value of a map, which nobody else does.
    """
    file = FileDescriptorProto(name="excerpt.proto", package="excerpt", syntax="proto3")
    _Excerpt(file, writing).add_message(fields)
    return file


@dataclass(frozen=True)
class _Excerpt:
    file: FileDescriptorProto
    writing: bool

    def add_message(self, fields: tuple[Field, ...]) -> str:
        name = f"M{len(self.file.message_type)}"
        message = self.file.message_type.add(name=name)
        there = sorted((each for each in fields if each.number), key=lambda each: each.number)
        for group in dict.fromkeys(each.group for each in there if each.group):
            message.oneof_decl.add(name=group)
        for each in there:
            self._add_field(message, each)
        return f".excerpt.{name}"

    def _add_field(self, message: DescriptorProto, field: Field) -> None:
        made = message.field.add(name=field.on_wire, number=field.number)
        made.label = FieldDescriptorProto.LABEL_OPTIONAL
        if field.many is Many.MAP:
            made.label = FieldDescriptorProto.LABEL_REPEATED
            made.type = MESSAGE
            made.type_name = self._add_entry(message, field)
            return
        self._set_type(made, field.value)
        if field.many is Many.LIST:
            made.label = FieldDescriptorProto.LABEL_REPEATED
        elif field.group:
            names = [each.name for each in message.oneof_decl]
            made.oneof_index = names.index(field.group)
        elif field.present:
            _make_optional(message, made)

    def _add_entry(self, message: DescriptorProto, field: Field) -> str:
        name = f"F{field.number}Entry"
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = not self.writing
        assert field.key is not None
        for number, value in enumerate((field.key, field.value), start=1):
            made = entry.field.add(name=ENTRY[number - 1], number=number)
            made.label = FieldDescriptorProto.LABEL_OPTIONAL
            self._set_type(made, value)
            if self.writing:
                _make_optional(entry, made)
        return f".excerpt.{message.name}.{name}"

    def _set_type(self, made: FieldDescriptorProto, value: Value) -> None:
        match value.kind:
            case Kind.PLAIN:
                made.type = value.wire  # type: ignore[assignment]
            case Kind.ENUM:
                made.type = INT32
            case Kind.JSON | Kind.PRESENCE:
                made.type = BYTES
            case Kind.MESSAGE:
                made.type = MESSAGE
                made.type_name = self.add_message(value.fields)
            case _:
                made.type = MESSAGE
                made.type_name = self.add_message(parts(value))


def _make_optional(message: DescriptorProto, made: FieldDescriptorProto) -> None:
    """As `optional` is written down: a oneof of its own, after the others. A message needs none."""
    if made.type != MESSAGE:
        made.proto3_optional = True
        made.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{made.name}")


def parts(value: Value) -> tuple[Field, ...]:
    """The fields of a message that stands for one value. For floats see `Field.zero_unset`."""
    wires = _PARTS.get(value.kind, (value.wire,))
    return tuple(
        Field(
            f"part{number}",
            value.type,
            Value(Kind.PLAIN, value.type, wire),
            number,
            present=wire in FLOATS,
        )
        for number, wire in enumerate(wires, start=1)
    )
