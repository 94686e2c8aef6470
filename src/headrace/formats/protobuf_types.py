"""Which columns a Protobuf message has, and how each field becomes its column, and back.

`columns_of` gives the columns that follow from a descriptor; `fields_for` matches columns with a
descriptor, by name, into the tree that workers go by (`formats.protobuf_wire`).
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from headrace.formats.protobuf_wire import Field, Kind, Many, Value
from headrace.model.schema import Column, Schema
from headrace.model.types import SqlField, SqlType, array, struct

_UINT64 = SqlType("DECIMAL", size=(20, 0))
_DURATION = SqlType("DECIMAL", size=(21, 9))
_BY_TYPE = {
    FieldDescriptor.TYPE_DOUBLE: SqlType("DOUBLE"),
    FieldDescriptor.TYPE_FLOAT: SqlType("FLOAT"),
    FieldDescriptor.TYPE_INT64: SqlType("BIGINT"),
    FieldDescriptor.TYPE_SINT64: SqlType("BIGINT"),
    FieldDescriptor.TYPE_SFIXED64: SqlType("BIGINT"),
    FieldDescriptor.TYPE_UINT64: _UINT64,
    FieldDescriptor.TYPE_FIXED64: _UINT64,
    FieldDescriptor.TYPE_INT32: SqlType("INT"),
    FieldDescriptor.TYPE_SINT32: SqlType("INT"),
    FieldDescriptor.TYPE_SFIXED32: SqlType("INT"),
    FieldDescriptor.TYPE_UINT32: SqlType("BIGINT"),
    FieldDescriptor.TYPE_FIXED32: SqlType("BIGINT"),
    FieldDescriptor.TYPE_BOOL: SqlType("BOOLEAN"),
    FieldDescriptor.TYPE_STRING: SqlType("STRING"),
    FieldDescriptor.TYPE_BYTES: SqlType("BINARY"),
    FieldDescriptor.TYPE_ENUM: SqlType("STRING"),
}
# Messages that stand for one value.
_SPECIAL = {
    "google.protobuf.Timestamp": (Kind.TIMESTAMP, SqlType("TIMESTAMP")),
    "google.protobuf.Duration": (Kind.DURATION, _DURATION),
    "google.type.Date": (Kind.DATE, SqlType("DATE")),
    "google.protobuf.Struct": (Kind.JSON, SqlType("STRING")),
    "google.protobuf.Value": (Kind.JSON, SqlType("STRING")),
    "google.protobuf.ListValue": (Kind.JSON, SqlType("STRING")),
}
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_ARROW = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}
_FLOATS = (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE)
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL")
# What may be read into columns of other types, and written from them. Numbers that are too large
# for one are found as they come.
_READ_AS = {
    "INT": {*_INTEGERS, "DOUBLE", "STRING"},
    "BIGINT": {*_INTEGERS, "STRING"},
    "DECIMAL": {*_INTEGERS, "STRING"},
    "FLOAT": {"DOUBLE"},
    "STRING": {"BINARY", "DECIMAL"},
    "BINARY": {"STRING"},
}
_WRITTEN_FROM = {
    "INT": set(_INTEGERS),
    "BIGINT": set(_INTEGERS),
    "DECIMAL": set(_INTEGERS),
    "DOUBLE": {"FLOAT", "TINYINT", "SMALLINT", "INT"},
    "STRING": {"DECIMAL"},
    "BINARY": {"STRING"},
}


_COLUMN_OF = {Many.LIST: "ARRAY", Many.MAP: "MAP"}
_DECLARE = "declare the columns that are needed with `schema`, without it or as deep as they go"


def columns_of(message: Descriptor) -> Schema:
    """The columns of a message. Raises ValueError with every field that cannot be one."""
    faults: list[str] = []
    columns = [
        Column(each.name, each.type.ddl) for each in _natural_fields(message, (message,), faults)
    ]
    if not columns and not faults:
        faults.append(f"{message.full_name} has no fields")
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            faults.append(f"`{column.name}` is there twice, in large and small letters")
        seen.add(column.name.lower())
    if faults:
        raise ValueError("; ".join(faults))
    return Schema(tuple(columns))


def fields_for(
    message: Descriptor, columns: tuple[SqlField, ...], writing: bool = False
) -> tuple[tuple[Field, ...], list[str]]:
    """The fields of the columns, and what does not fit. Read, a column that the message has not is
    NULL; written, it does not fit.
    """
    matching = _Matching(writing)
    fields = tuple(matching.fields(message, columns, ""))
    return fields, matching.faults


def arrow_type(type: SqlType) -> pa.DataType:
    """Raises ValueError for a type that no message can have."""
    match type.name:
        case "DECIMAL":
            return pa.decimal128(*type.size)
        case "ARRAY":
            return pa.list_(arrow_type(type.fields[0].type))
        case "MAP":
            key, value = type.fields
            return pa.map_(arrow_type(key.type), arrow_type(value.type))
        case "STRUCT":
            return arrow_struct(type.fields)
    if type.name not in _ARROW:
        raise ValueError(f"{type.words} is no type of Protobuf")
    return _ARROW[type.name]


def arrow_struct(fields: tuple[SqlField, ...]) -> pa.StructType:
    return pa.struct([pa.field(each.name, arrow_type(each.type)) for each in fields])


def field_of(message: Descriptor, column: str) -> FieldDescriptor | None:
    """The field of this very name, or else one in other letters."""
    exact = message.fields_by_name.get(column)
    others = (each for each in message.fields if each.name.lower() == column.lower())
    return exact or next(others, None)


def is_map(field: FieldDescriptor) -> bool:
    entry = field.message_type
    return bool(field.is_repeated and entry is not None and entry.GetOptions().map_entry)


def entry_of(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor]:
    """The key and the value of a map."""
    assert field.message_type is not None
    key, value = field.message_type.fields
    return key, value


def _natural_fields(
    message: Descriptor, above: tuple[Descriptor, ...], faults: list[str]
) -> Iterator[SqlField]:
    for field in message.fields:
        kind = _natural(field, above, faults)
        if kind is not None:
            yield SqlField(field.name, kind)


def _natural(
    field: FieldDescriptor, above: tuple[Descriptor, ...], faults: list[str]
) -> SqlType | None:
    if is_map(field):
        key, value = (_natural(each, above, faults) for each in entry_of(field))
        if key is None or value is None:
            return None
        return SqlType("MAP", fields=(SqlField("key", key), SqlField("value", value)))
    value = _natural_value(field, above, faults)
    return array(value) if value is not None and field.is_repeated else value


def _natural_value(
    field: FieldDescriptor, above: tuple[Descriptor, ...], faults: list[str]
) -> SqlType | None:
    if field.type == FieldDescriptor.TYPE_GROUP:
        faults.append(f"`{field.full_name}` is a group; {_DECLARE}")
        return None
    message = field.message_type
    if message is None:
        return _BY_TYPE[field.type]
    if message.full_name in _SPECIAL:
        return _SPECIAL[message.full_name][1]
    if message.full_name in _WRAPPERS:
        return _BY_TYPE[message.fields[0].type]
    if message in above:
        inside = f"`{field.full_name}` is inside of what it is itself, {message.full_name}"
        faults.append(f"{inside}; {_DECLARE}")
        return None
    fields = tuple(_natural_fields(message, (*above, message), faults))
    return struct(fields) if fields else SqlType("BOOLEAN")


class _Matching:
    """Columns and fields side by side, and what does not fit."""

    def __init__(self, writing: bool) -> None:
        self.faults: list[str] = []
        self._writing = writing

    def fields(
        self, message: Descriptor, columns: tuple[SqlField, ...], path: str
    ) -> Iterator[Field]:
        for column in columns:
            field = field_of(message, column.name)
            name = f"{path}{column.name}"
            if field is not None:
                made = self._field(field, column, name)
                if made is not None:
                    yield made
            elif self._writing:
                self.faults.append(f"{message.full_name} has no field for `{name}`")
            else:
                nothing = arrow_type(column.type)
                absent = Value(Kind.PLAIN, nothing)
                yield Field(column.name, nothing, absent, required=not column.nullable)
        if self._writing:
            written = {each.name.lower() for each in columns}
            for field in message.fields:
                if field.is_required and field.name.lower() not in written:
                    missing = f"{message.full_name} requires `{field.name}`"
                    self.faults.append(f"{missing}, and there is no column for it")

    def _field(self, field: FieldDescriptor, column: SqlField, path: str) -> Field | None:
        many = Many.MAP if is_map(field) else Many.LIST if field.is_repeated else Many.ONE
        if many is not Many.ONE and column.type.name != _COLUMN_OF[many]:
            self._refuse(field, column.type, path)
            return None
        key, value = None, None
        if many is Many.MAP:
            keys, values = entry_of(field)
            key = self._value(keys, column.type.fields[0].type, f"{path}.key")
            value = self._value(values, column.type.fields[1].type, f"{path}.value")
        elif many is Many.LIST:
            value = self._value(field, column.type.fields[0].type, path)
        else:
            value = self._value(field, column.type, path)
        if value is None or (many is Many.MAP and key is None):
            return None
        oneof = field.containing_oneof
        group = oneof.name if oneof is not None and len(oneof.fields) > 1 else ""
        zero_unset = self._writing and field.type in _FLOATS and not field.has_presence
        return Field(
            column.name,
            arrow_type(column.type),
            value,
            field.number,
            many,
            key,
            present=field.has_presence or zero_unset,
            required=field.is_required or not (column.nullable or self._writing),
            group=group,
            default=None if group else _default(field, value),
            zero_unset=zero_unset,
        )

    def _value(self, field: FieldDescriptor, wanted: SqlType, path: str) -> Value | None:
        message = field.message_type
        if field.type == FieldDescriptor.TYPE_GROUP:
            self.faults.append(f"`{path}` is a group, which cannot be read")
            return None
        if message is None:
            return self._scalar(field, wanted, path)
        if wanted.name == "STRUCT" and message.fields:
            inside = tuple(self.fields(message, wanted.fields, f"{path}."))
            return Value(Kind.MESSAGE, arrow_type(wanted), fields=inside)
        if message.full_name in _WRAPPERS:
            inner = self._scalar(message.fields[0], wanted, path)
            return inner and Value(Kind.WRAPPED, inner.type, inner.wire)
        kind, natural = _SPECIAL.get(message.full_name, (Kind.PRESENCE, SqlType("BOOLEAN")))
        fits = natural.name == wanted.name.removesuffix("_LTZ")
        if not fits or (kind is Kind.PRESENCE and message.fields):
            self._refuse(field, wanted, path)
            return None
        if kind is Kind.JSON and self._writing:
            self.faults.append(f"`{path}` is {message.full_name}, which cannot be written")
        return Value(kind, arrow_type(wanted), of=message.name)

    def _scalar(self, field: FieldDescriptor, wanted: SqlType, path: str) -> Value | None:
        natural = _BY_TYPE[field.type]
        if field.enum_type is not None and wanted.name in ("STRING", "INT", "BIGINT"):
            # Of two names for the same number the first comes first.
            numbers = tuple((each.name, each.number) for each in field.enum_type.values)
            return Value(Kind.ENUM, arrow_type(wanted), field.type, numbers=numbers)
        others = (_WRITTEN_FROM if self._writing else _READ_AS).get(natural.name, set())
        if field.enum_type is not None or wanted.name not in {natural.name, *others}:
            self._refuse(field, wanted, path)
            return None
        cut = wanted.name == "DECIMAL" and natural.name != "STRING" and wanted.size[1] > 0
        if cut and self._writing:
            self._refuse(field, wanted, path)
            return None
        return Value(Kind.PLAIN, arrow_type(wanted), field.type)

    def _refuse(self, field: FieldDescriptor, wanted: SqlType, path: str) -> None:
        self.faults.append(f"`{path}` is {wanted.words}, and in its message {_words(field)}")


def _default(field: FieldDescriptor, value: Value) -> Any:
    """What an unset field means by its schema, where that says so."""
    if field.is_repeated or not (field.has_default_value and field.has_presence):
        return None
    default: Any = field.default_value
    if field.enum_type is not None and value.type == pa.string():
        return field.enum_type.values_by_number[default].name
    if pa.types.is_decimal(value.type):
        return Decimal(default)
    return pa.scalar(default).cast(value.type).as_py()


def _words(field: FieldDescriptor) -> str:
    if is_map(field):
        return "a map"
    many = "repeated " if field.is_repeated else ""
    kind = field.message_type or field.enum_type
    if kind is not None:
        return f"{many}{kind.full_name}"
    return f"{many}{_NAMES[field.type]}"


_NAMES = {
    value: name.removeprefix("TYPE_").lower()
    for name, value in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}
