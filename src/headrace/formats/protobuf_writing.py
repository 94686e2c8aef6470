"""Columns to Protobuf messages, over Arrow batches: what runs in Spark's Python workers to write.

Pickled by value: a worker needs no Headrace. Nothing here may use other parts of it than
`protobuf_wire`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from headrace.formats.protobuf_wire import ENTRY, FLOATS, Codec, Field, Kind, Many, Value, parts

# What a query fails with at a row that no message can be made of; the rest of the text is JSON.
_ROW_REFUSED = "HEADRACE_ROW_REFUSED "
_ARROW = {
    FieldDescriptorProto.TYPE_DOUBLE: pa.float64(),
    FieldDescriptorProto.TYPE_FLOAT: pa.float32(),
    FieldDescriptorProto.TYPE_INT64: pa.int64(),
    FieldDescriptorProto.TYPE_SINT64: pa.int64(),
    FieldDescriptorProto.TYPE_SFIXED64: pa.int64(),
    FieldDescriptorProto.TYPE_UINT64: pa.uint64(),
    FieldDescriptorProto.TYPE_FIXED64: pa.uint64(),
    FieldDescriptorProto.TYPE_INT32: pa.int32(),
    FieldDescriptorProto.TYPE_SINT32: pa.int32(),
    FieldDescriptorProto.TYPE_SFIXED32: pa.int32(),
    FieldDescriptorProto.TYPE_UINT32: pa.uint32(),
    FieldDescriptorProto.TYPE_FIXED32: pa.uint32(),
    FieldDescriptorProto.TYPE_BOOL: pa.bool_(),
    FieldDescriptorProto.TYPE_STRING: pa.string(),
    FieldDescriptorProto.TYPE_BYTES: pa.binary(),
}


def function(fields: tuple[Field, ...]) -> Callable[[pa.Array], pa.Array]:
    """For `arrow_udf`: a struct of the columns to BINARY."""
    made: list[Encoder] = []

    def write(rows: pa.Array) -> pa.Array:
        if not made:
            made.append(Encoder(fields))
        try:
            return made[0].encode(rows)
        except ValueError as fault:
            told = {"error": "NOT_PROTOBUF", "message": str(fault)}
            raise ValueError(_ROW_REFUSED + json.dumps(told)) from fault

    return write


class Encoder:
    """Rows with columns that have these names, to messages without frames."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._fields = fields
        self._codec = Codec(fields, writing=True)

    def encode(self, rows: pa.StructArray) -> pa.BinaryArray:
        """NULL for NULL. Raises ValueError with the column whose value no message can hold."""
        arrays, names = _fields(self._fields, rows, "")
        encoded = self._codec.encode(pa.RecordBatch.from_arrays(arrays, names=names))
        return pc.if_else(rows.is_valid(), encoded, None) if rows.null_count else encoded


def _fields(
    fields: tuple[Field, ...], rows: pa.StructArray, path: str
) -> tuple[list[pa.Array], list[str]]:
    # Not `rows.field`, which knows nothing of the part of its children that rows is.
    children = dict(zip((each.name for each in rows.type), rows.flatten(), strict=True))
    arrays = [_field(each, children[each.name], f"{path}{each.name}") for each in fields]
    return arrays, [each.on_wire for each in fields]


def _field(field: Field, array: pa.Array, path: str) -> pa.Array:
    if field.many is Many.ONE:
        made = _value(field.value, array, path)
        return _without_zeros(made) if field.zero_unset else made
    if field.many is Many.MAP:
        array = _as_list(array)
    there = array.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.where(there, np.diff(array.offsets.to_numpy()), 0)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    inside = array.flatten()
    if field.many is Many.LIST:
        values = _value(field.value, _whole(inside, path), path)
        return pa.ListArray.from_arrays(offsets, values)
    assert field.key is not None
    keys, items = inside.flatten()
    entry = [
        _value(field.key, keys, path),
        _value(field.value, _whole(items, path), path),
    ]
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(entry, names=ENTRY))


def _as_list(array: pa.MapArray) -> pa.ListArray:
    """Its entries as structs: not all of Arrow's functions take maps."""
    entry = [pa.field("key", array.type.key_type, False), pa.field("value", array.type.item_type)]
    return array.cast(pa.list_(pa.struct(entry)))


def _whole(values: pa.Array, path: str) -> pa.Array:
    if values.null_count:
        raise ValueError(f"`{path}` has NULL among its values, which Protobuf cannot have")
    return values


def _without_zeros(values: pa.Array) -> pa.Array:
    """A zero need not be written, but one below zero must."""
    bits = values.fill_null(0).to_numpy()
    plain = (bits == 0) & ~np.signbit(bits)
    return pc.if_else(pa.array(plain), None, values)


def _value(value: Value, array: pa.Array, path: str) -> pa.Array:
    match value.kind:
        case Kind.PLAIN:
            return _cast(array, value.wire, path)
        case Kind.ENUM:
            return _enum(array, value, path)
        case Kind.MESSAGE:
            arrays, names = _fields(value.fields, array, f"{path}.")
            return _struct(array, arrays, names)
        case Kind.WRAPPED:
            inside = _cast(array, value.wire, path)
            if value.wire in FLOATS:
                inside = _without_zeros(inside)
            return _parts(value, array, [inside])
        case Kind.TIMESTAMP:
            micros = array.cast(pa.int64()).fill_null(0).to_numpy()
            nanos = (micros % 1_000_000 * 1_000).astype(np.int32)
            return _parts(value, array, [pa.array(micros // 1_000_000), pa.array(nanos)])
        case Kind.DURATION:
            return _parts(value, array, _duration(array, path))
        case Kind.DATE:
            return _parts(value, array, _date(array))
        case Kind.PRESENCE:
            return pc.if_else(array, b"", None).cast(pa.binary())
        case Kind.JSON:
            raise ValueError(f"`{path}` cannot be written")


def _cast(array: pa.Array, wire: int, path: str) -> pa.Array:
    return _fitting(array, _ARROW[wire], path)  # type: ignore[index]


def _fitting(array: pa.Array, wanted: pa.DataType, path: str) -> pa.Array:
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid as error:
        raise ValueError(f"`{path}` does not fit its field: {error}") from error


def _enum(array: pa.Array, value: Value, path: str) -> pa.Array:
    """Numbers by their names; what is a number already stays one."""
    if not pa.types.is_string(array.type):
        return array.cast(pa.int32())
    names = pa.array([name for name, _ in value.numbers], pa.string())
    numbers = pa.array([number for _, number in value.numbers], pa.int32())
    found = numbers.take(pc.index_in(array, names))
    if found.null_count == array.null_count:
        return found
    others = pc.if_else(found.is_valid(), None, array)
    try:
        return pc.coalesce(found, others.cast(pa.int32()))
    except pa.ArrowInvalid as error:
        raise ValueError(f"`{path}` has a name that its enum has not: {error}") from error


def _duration(array: pa.Array, path: str) -> list[pa.Array]:
    exact = _fitting(array, pa.decimal128(21, 9), path).fill_null(0)
    whole = pc.trunc(exact)
    nanos = pc.multiply(pc.subtract(exact, whole).cast(pa.decimal128(10, 9)), _BILLION)
    return [whole.cast(pa.int64()), nanos.cast(pa.int32())]


_BILLION = pa.scalar(1_000_000_000).cast(pa.decimal128(19, 0)).cast(pa.decimal128(10, 0))


def _date(array: pa.Array) -> list[pa.Array]:
    days = array.cast(pa.int32()).fill_null(0).to_numpy().astype("M8[D]")
    months = days.astype("M8[M]")
    years = months.astype("M8[Y]")
    found = (
        years.astype(np.int64) + 1970,
        (months - years.astype("M8[M]")).astype(np.int64) + 1,
        (days - months.astype("M8[D]")).astype(np.int64) + 1,
    )
    return [pa.array(each.astype(np.int32)) for each in found]


def _parts(value: Value, array: pa.Array, arrays: list[pa.Array]) -> pa.Array:
    return _struct(array, arrays, [each.on_wire for each in parts(value)])


def _struct(array: pa.Array, arrays: list[Any], names: list[str]) -> pa.Array:
    nulls = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(arrays, names=names, mask=nulls)
