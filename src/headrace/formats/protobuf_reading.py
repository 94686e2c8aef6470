"""Protobuf messages to columns, over Arrow batches: what runs in Spark's Python workers to read.

A batch is parted by the schemas that its messages were written with, nearly always one. Each part
is decoded by ptars and put into the columns. One message that cannot be decoded fails ptars for
all: then halves are tried, and only that message is bad. What ptars reads otherwise than Protobuf's
own library is looked for, and those messages are written anew by that library first.

Pickled by value: a worker needs no Headrace. Nothing here may use other parts of it than
`protobuf_wire`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import struct_pb2
from google.protobuf.message import DecodeError

from headrace.formats.protobuf_wire import Codec, Field, Kind, Many, Value

# The field beside the columns that has the code of what is wrong with a message.
FAULT = "__fault"
NOT_PROTOBUF, MISSING, OUT_OF_RANGE = "NOT_PROTOBUF", "MISSING_FIELD", "OUT_OF_RANGE"
BAD_INDEX = "BAD_MESSAGE_INDEX"
# A message written twice is looked at by another library, once.
_DOUBTFUL = "doubtful"

CONFLUENT_SIZE, GLUE_SIZE = 5, 18
_LONGEST_VALUE = 2**31 - 1
# Messages inside of messages, in a message index.
_DEEPEST = 16

# What Protobuf's times may be: the years 1 to 9999.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_LONGEST = 315_576_000_000
_SECOND = 1_000_000_000


@dataclass(frozen=True)
class Writer:
    """Messages of one schema: the `head` of their frame, where the message stands in the schema,
    and its fields.
    """

    head: bytes
    path: tuple[int, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Messages:
    """What is read: the fields of plain messages are those of the only writer."""

    columns: pa.StructType
    writers: tuple[Writer, ...]
    framed: bool = False
    glue: bool = False

    @property
    def frame(self) -> int:
        return GLUE_SIZE if self.glue else CONFLUENT_SIZE


def function(messages: Messages) -> Callable[[pa.Array], pa.Array]:
    """For `arrow_udf`: BINARY to a struct of the columns and `FAULT`.

    It is NULL for a frame that no writer has; what becomes of that is for SQL to say.
    """
    made: list[Reader] = []

    def read(values: pa.Array) -> pa.Array:
        if not made:
            made.append(Reader(messages))
        return made[0].read(values)

    return read


class Reader:
    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._decoders = [Decoder(each.fields) for each in messages.writers]
        fields = [pa.field(FAULT, pa.string()), *messages.columns]
        self._type = pa.struct(fields)

    def read(self, values: pa.Array) -> pa.StructArray:
        if not len(values):
            return pa.nulls(0, self._type)
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        pieces, rows = [], []
        for numbers, piece in self._pieces(values):
            if numbers is None:
                return piece
            rows.append(numbers)
            pieces.append(piece)
        return self._assembled(len(values), pieces, rows)

    def _assembled(self, count: int, pieces: list[Any], rows: list[Any]) -> pa.StructArray:
        """Every row from its piece; one that is in none is NULL."""
        order = np.full(count, -1)
        begin = 0
        for numbers in rows:
            order[numbers] = np.arange(begin, begin + len(numbers))
            begin += len(numbers)
        if not pieces:
            return pa.nulls(count, self._type)
        return pa.concat_arrays(pieces).take(pa.array(order, mask=order < 0))

    def _pieces(self, values: pa.Array) -> Iterator[tuple[Any, pa.StructArray]]:
        """Rows, by their numbers or all of them, with what is read of them."""
        if not self._messages.framed:
            rows = _there(values)
            yield rows, self._decoded(0, values if rows is None else values.take(pa.array(rows)))
            return
        for which, rows, found in self._by_writer(values):
            yield from self._by_path(which, rows, found)

    def _by_writer(self, values: pa.Array) -> Iterator[tuple[int, Any, pa.Array]]:
        heads, long = _heads(values, self._messages.frame)
        if self._messages.glue:
            heads[:, 1] = 0  # SQL has inflated what was compressed
        for which, writer in enumerate(self._messages.writers):
            same = long & (heads == np.frombuffer(writer.head, np.uint8)).all(axis=1)
            if same.all():
                rows, found = None, values
            elif same.any():
                rows = np.flatnonzero(same)
                found = values.take(pa.array(rows))
            else:
                continue
            yield which, rows, found
            if rows is None:
                return

    def _by_path(
        self, which: int, rows: Any, found: pa.Array
    ) -> Iterator[tuple[Any, pa.StructArray]]:
        """Messages behind their frames: those that are the wanted one, and the others."""
        paths, begins = _paths(found, self._messages.frame, self._messages.glue)
        good = _is_path(paths, self._messages.writers[which].path)
        if good.all():
            yield rows, self._decoded(which, _from(found, begins))
            return
        numbers = np.arange(len(found)) if rows is None else rows
        if good.any():
            bodies = _from(found.take(pa.array(np.flatnonzero(good))), begins[good])
            yield numbers[good], self._decoded(which, bodies)
        yield numbers[~good], self._faulty(BAD_INDEX, int((~good).sum()))

    def _decoded(self, which: int, bodies: pa.Array) -> pa.StructArray:
        columns, faults = self._decoders[which].decode(bodies)
        return pa.StructArray.from_arrays([faults, *columns], fields=list(self._type))

    def _faulty(self, code: str, count: int) -> pa.StructArray:
        nothing = [pa.nulls(count, each.type) for each in self._messages.columns]
        codes = pa.repeat(code, count)
        return pa.StructArray.from_arrays([codes, *nothing], fields=list(self._type))


class Decoder:
    """Messages of one kind, without frames, to the columns."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._fields = fields
        self._codec = Codec(fields)

    def decode(self, bodies: pa.Array) -> tuple[list[pa.Array], pa.Array]:
        """The columns, and the code of what is wrong with each message."""
        batch, broken = self._parsed(bodies)
        found = _Conversion(len(bodies))
        columns = found.columns(self._fields, batch)
        doubtful = found.faults.pop(_DOUBTFUL, None)
        if doubtful is not None:
            return self._decode_again(bodies, np.flatnonzero(doubtful).tolist())
        if broken is not None:
            found.mark_broken(broken)
        return columns, found.codes()

    def _decode_again(self, bodies: pa.Array, rows: list[int]) -> tuple[list[pa.Array], pa.Array]:
        """With these messages as the library writes them: they have nothing twice any more, so this
        is done but once. The library may also call them broken.
        """
        instead = {row: self._codec.canonical(bodies[row].as_py()) for row in rows}
        columns, codes = self.decode(_replaced(bodies, instead))
        broken = _marks(len(bodies), instead)
        return columns, pc.if_else(pa.array(broken), NOT_PROTOBUF, codes)

    def _parsed(self, bodies: pa.Array) -> tuple[pa.RecordBatch, Any]:
        """All messages, in place of a broken one an empty one; and which are broken."""
        try:
            return self._codec.decode(bodies), None
        except ValueError:
            instead: dict[int, bytes | None] = {}
            self._search(bodies, 0, instead)
        return self._codec.decode(_replaced(bodies, instead)), _marks(len(bodies), instead)

    def _search(self, bodies: pa.Array, first: int, instead: dict[int, bytes | None]) -> None:
        """Halves of what fails, until it is one message."""
        if self._decodes(bodies):
            return
        if len(bodies) > 1:
            half = len(bodies) // 2
            self._search(bodies.slice(0, half), first, instead)
            self._search(bodies.slice(half), first + half, instead)
            return
        made = self._codec.canonical(bodies[0].as_py())
        ok = made is not None and self._decodes(pa.array([made], pa.binary()))
        instead[first] = made if ok else None

    def _decodes(self, bodies: pa.Array) -> bool:
        try:
            self._codec.decode(bodies)
        except ValueError:
            return False
        return True


@dataclass
class _Place:
    """Which messages the values of an array belong to, worked out only if one is to be named."""

    count: int
    parent: _Place | None = None
    offsets: Any = None

    def rows(self) -> Any:
        if self.parent is None:
            return np.arange(self.count)
        return np.repeat(self.parent.rows(), np.diff(self.offsets))


@dataclass
class _Conversion:
    """One batch of ptars on its way into the columns, and what is found wrong in it."""

    count: int
    faults: dict[str, Any] = field(default_factory=dict)

    def columns(self, fields: tuple[Field, ...], batch: pa.RecordBatch) -> list[pa.Array]:
        place = _Place(self.count)
        return self._all(fields, batch.column, batch.schema, self.count, None, place)

    def codes(self) -> pa.Array:
        codes = pa.nulls(self.count, pa.string())
        for code in (OUT_OF_RANGE, MISSING, NOT_PROTOBUF):
            if code in self.faults:
                codes = pc.if_else(pa.array(self.faults[code]), code, codes)
        return codes

    def mark_broken(self, broken: Any) -> None:
        self.faults[NOT_PROTOBUF] = self.faults.get(NOT_PROTOBUF, False) | broken

    def _mark(self, code: str, wrong: Any, place: _Place) -> None:
        if wrong.any():
            marks = self.faults.setdefault(code, np.zeros(self.count, bool))
            marks[place.rows()[wrong]] = True

    def _all(
        self,
        fields: tuple[Field, ...],
        child: Callable[[int], pa.Array],
        types: Any,
        count: int,
        there: Any,
        place: _Place,
    ) -> list[pa.Array]:
        """The fields of messages, given their arrays, and which messages are `there`."""
        arrays = {
            each.number: child(types.get_field_index(each.on_wire))
            for each in fields
            if each.number
        }
        self._look_at_groups(fields, arrays, place)
        made = []
        for each in fields:
            if each.number:
                array = self._field(each, arrays[each.number], place)
            else:
                array = pa.nulls(count, each.type)
            if each.required and array.null_count:
                missing = _mask(array.is_null())
                self._mark(MISSING, missing if there is None else missing & there, place)
            made.append(array)
        return made

    def _look_at_groups(
        self, fields: tuple[Field, ...], arrays: dict[int, pa.Array], place: _Place
    ) -> None:
        """Of a oneof that was written more than once the last counts, and ptars has them all."""
        for group in {each.group for each in fields if each.group}:
            members = [arrays[each.number] for each in fields if each.group == group]
            if len(members) > 1:
                there = sum(_mask(each.is_valid()).astype(np.int8) for each in members)
                self._mark(_DOUBTFUL, there > 1, place)

    def _field(self, field: Field, array: pa.Array, place: _Place) -> pa.Array:
        if field.many is Many.LIST:
            inside = _Place(len(array.values), place, array.offsets.to_numpy())
            values = self._value(field.value, array.values, inside)
            return pa.ListArray.from_arrays(array.offsets, values, type=field.type)
        if field.many is Many.MAP:
            assert field.key is not None
            inside = _Place(len(array.keys), place, array.offsets.to_numpy())
            self._look_at_keys(array, place)
            keys = self._value(field.key, array.keys, inside)
            items = self._value(field.value, array.items, inside)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=field.type)
        made = self._value(field.value, array, place)
        return made if field.default is None else made.fill_null(field.default)

    def _look_at_keys(self, array: pa.MapArray, place: _Place) -> None:
        """Of entries with the same key the last counts, and ptars has them all."""
        offsets = array.offsets.to_numpy()
        if (np.diff(offsets) <= 1).all():
            return
        rows = np.repeat(np.arange(len(array)), np.diff(offsets))
        codes = array.keys.dictionary_encode()
        each = rows * (len(codes.dictionary) + 1) + codes.indices.to_numpy()
        _, first = np.unique(each, return_index=True)
        twice = np.ones(len(each), bool)
        twice[first] = False
        wrong = np.zeros(len(array), bool)
        wrong[rows[twice]] = True
        self._mark(_DOUBTFUL, wrong, place)

    def _value(self, value: Value, array: pa.Array, place: _Place) -> pa.Array:
        match value.kind:
            case Kind.PLAIN:
                return self._cast(array, value.type, place)
            case Kind.ENUM:
                return _enum(array, value)
            case Kind.MESSAGE:
                return self._message(value, array, place)
            case Kind.WRAPPED:
                return _under(array, self._cast(_unwrapped(array), value.type, place))
            case Kind.TIMESTAMP:
                return self._timestamp(value, array, place)
            case Kind.DURATION:
                return self._duration(value, array, place)
            case Kind.DATE:
                return self._date(value, array, place)
            case Kind.JSON:
                return self._json(value, array, place)
            case Kind.PRESENCE:
                return pc.if_else(array.is_valid(), True, None).cast(pa.bool_())

    def _message(self, value: Value, array: pa.StructArray, place: _Place) -> pa.Array:
        there = _mask(array.is_valid()) if array.null_count else None
        made = self._all(value.fields, array.field, array.type, len(array), there, place)
        nulls = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(made, fields=list(value.type), mask=nulls)

    def _cast(self, array: pa.Array, type: pa.DataType, place: _Place) -> pa.Array:
        if array.type == type:
            return array
        try:
            return array.cast(type)
        except pa.ArrowInvalid:
            wrong = np.zeros(len(array), bool)
            _search_casts(array, type, 0, wrong)
        self._mark(OUT_OF_RANGE, wrong, place)
        return pc.if_else(pa.array(wrong), None, array).cast(type)

    def _timestamp(self, value: Value, array: pa.StructArray, place: _Place) -> pa.Array:
        """Microseconds; what is finer is cut off, towards the past."""
        seconds, nanos = _numbers(array)
        wrong = (seconds < _FIRST_SECOND) | (seconds > _LAST_SECOND)
        wrong |= (nanos < 0) | (nanos >= _SECOND)
        self._mark(OUT_OF_RANGE, wrong, place)
        micros = np.where(wrong, 0, seconds) * 1_000_000 + nanos // 1_000
        return _under(array, pa.array(micros).cast(value.type))

    def _duration(self, value: Value, array: pa.StructArray, place: _Place) -> pa.Array:
        """Seconds, as a number with nine digits behind its point."""
        seconds, nanos = _numbers(array)
        wrong = (abs(seconds) > _LONGEST) | (abs(nanos) >= _SECOND)
        wrong |= ((seconds > 0) & (nanos < 0)) | ((seconds < 0) & (nanos > 0))
        self._mark(OUT_OF_RANGE, wrong, place)
        whole = pa.array(np.where(wrong, 0, seconds)).cast(pa.decimal128(28, 9))
        rest = pa.array(np.where(wrong, 0, nanos).astype(np.int64)).cast(pa.decimal128(19, 0))
        billionth = pa.scalar("0.000000001").cast(pa.decimal128(10, 9))
        made = pc.add(whole, pc.multiply(rest, billionth))
        return _under(array, made.cast(value.type))

    def _date(self, value: Value, array: pa.StructArray, place: _Place) -> pa.Array:
        """A date without its year, month or day is none."""
        year, month, day = (part.astype(np.int64) for part in _numbers(array))
        within = (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1)
        months = np.where(within, (year - 1970) * 12 + month - 1, 0).astype("M8[M]")
        days = months.astype("M8[D]") + np.where(within & (day <= 31), day - 1, 0)
        wrong = ~within | (day > 31) | (days.astype("M8[M]") != months)
        if array.null_count:
            wrong &= _mask(array.is_valid())
        self._mark(OUT_OF_RANGE, wrong, place)
        return _under(array, pa.array(days.astype(np.int64).astype(np.int32)).cast(value.type))

    def _json(self, value: Value, array: pa.Array, place: _Place) -> pa.Array:
        """By Protobuf's own library, value by value: there is no array that could hold these."""
        kind = getattr(struct_pb2, value.of)
        texts: list[str | None] = []
        wrong = np.zeros(len(array), bool)
        for number, each in enumerate(array.to_pylist()):
            text = None
            if each is not None:
                try:
                    text = json.dumps(_plain(kind.FromString(each)), ensure_ascii=False)
                except (DecodeError, RecursionError):
                    wrong[number] = True
            texts.append(text)
        self._mark(NOT_PROTOBUF, wrong, place)
        return pa.array(texts, value.type)


def _there(values: pa.Array) -> Any:
    """The numbers of the rows that are not NULL; None if all are there."""
    return np.flatnonzero(_mask(values.is_valid())) if values.null_count else None


def _mask(booleans: pa.Array) -> Any:
    return booleans.to_numpy(zero_copy_only=False)


def _numbers(array: pa.StructArray) -> Any:
    return (array.field(number).to_numpy() for number in range(array.type.num_fields))


def _under(array: pa.StructArray, values: pa.Array) -> pa.Array:
    """The values where there is a message."""
    return pc.if_else(array.is_valid(), values, None) if array.null_count else values


def _unwrapped(array: pa.StructArray) -> pa.Array:
    inside = array.field(0)
    return inside.fill_null(0.0) if pa.types.is_floating(inside.type) else inside


def _enum(array: pa.Array, value: Value) -> pa.Array:
    """Names, and for a number without one the number as text; or just the numbers."""
    if value.type != pa.string():
        return array.cast(value.type)
    names = pa.array([name for name, _ in value.numbers], pa.string())
    numbers = pa.array([number for _, number in value.numbers], pa.int32())
    found = names.take(pc.index_in(array, numbers))
    if found.null_count == array.null_count:
        return found
    return pc.coalesce(found, array.cast(pa.string()))


def _search_casts(array: pa.Array, type: pa.DataType, first: int, wrong: Any) -> None:
    try:
        array.cast(type)
    except pa.ArrowInvalid:
        if len(array) == 1:
            wrong[first] = True
            return
        half = len(array) // 2
        _search_casts(array.slice(0, half), type, first, wrong)
        _search_casts(array.slice(half), type, first + half, wrong)


def _replaced(bodies: pa.Array, instead: dict[int, bytes | None]) -> pa.Array:
    """With other messages in some rows, and an empty one for none."""
    every = bodies.to_pylist()
    for row, made in instead.items():
        every[row] = made or b""
    return pa.array(every, pa.binary())


def _marks(count: int, instead: dict[int, bytes | None]) -> Any:
    """The rows that have none."""
    marks = np.zeros(count, bool)
    marks[[row for row, made in instead.items() if made is None]] = True
    return marks


def _bytes_of(values: pa.Array) -> tuple[Any, Any]:
    """The bytes of all values, and where each begins and the last ends."""
    _, offsets, data = values.buffers()
    where = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    first, end = where[0], where[-1]
    return np.frombuffer(data or b"", np.uint8)[first:end], where.astype(np.int64) - first


def _heads(values: pa.Array, size: int) -> tuple[Any, Any]:
    """The first bytes of each value, and which values are long enough."""
    data, offsets = _bytes_of(values)
    long = np.diff(offsets) >= size
    if values.null_count:
        long &= _mask(values.is_valid())
    heads = np.zeros((len(values), size), np.uint8)
    heads[long] = data[offsets[:-1][long][:, None] + np.arange(size)]
    return heads, long


def _from(values: pa.Array, begins: Any) -> pa.Array:
    """What is left of each value behind its first bytes; nearly always the same number of them."""
    if (begins == begins[0]).all():
        # With an end: without one pyarrow reckons with a size below zero.
        return pc.binary_slice(values, int(begins[0]), _LONGEST_VALUE)
    each = zip(values.to_pylist(), begins.tolist(), strict=True)
    return pa.array([value[begin:] for value, begin in each], pa.binary())


def _paths(values: pa.Array, skip: int, glue: bool) -> tuple[Any, Any]:
    """The message index of each value, -1 after its end, and how many bytes come before the body.

    Confluent's is a list of numbers, after how many they are; one that is just a zero is the first
    message. Glue's is one number. An index that is none has -1 in the first place.
    """
    data, offsets = _bytes_of(values)
    at, ends = offsets[:-1] + skip, offsets[1:]
    first, after = _varints(data, at, ends)
    if glue:
        return first[:, None], after - offsets[:-1]
    count = np.where(first >= 0, _unzigzagged(first), -1)
    count = np.where(count > _DEEPEST, -1, count)
    paths = np.full((len(values), max(int(count.max(initial=0)), 1)), -1)
    paths[count == 0, 0] = 0
    for number in range(int(count.max(initial=0))):
        more = count > number
        index, then = _varints(data, after[more], ends[more])
        paths[more, number] = np.where(index >= 0, _unzigzagged(index), -2)
        after[more] = then
    paths[(paths == -2).any(axis=1)] = -1
    return paths, after - offsets[:-1]


def _is_path(paths: Any, wanted: tuple[int, ...]) -> Any:
    if paths.shape[1] < len(wanted):
        return np.zeros(len(paths), bool)
    padded = np.full(paths.shape[1], -1)
    padded[: len(wanted)] = wanted
    return (paths == padded).all(axis=1)


def _varints(data: Any, at: Any, ends: Any) -> tuple[Any, Any]:
    """The number that begins at each place, -1 if none does, and where it ends."""
    made, at = np.zeros(len(at), np.int64), at.copy()
    going = np.ones(len(at), bool)
    for shift in range(0, 35, 7):
        going &= at < ends
        byte = data[at[going]].astype(np.int64)
        made[going] |= (byte & 0x7F) << shift
        at[going] += 1
        more = np.zeros(len(at), bool)
        more[going] = byte >= 0x80
        done = going & ~more
        ends = np.where(done, -1, ends)
        going = more
        if not going.any():
            break
    made[ends >= 0] = -1
    return made, at


def _unzigzagged(number: Any) -> Any:
    return (number >> 1) ^ -(number & 1)


def _plain(message: Any) -> Any:
    """What JSON has for a Struct, a Value or a ListValue."""
    match message.DESCRIPTOR.name:
        case "Struct":
            return {name: _plain(each) for name, each in message.fields.items()}
        case "ListValue":
            return [_plain(each) for each in message.values]
    kind = message.WhichOneof("kind")
    if kind in (None, "null_value"):
        return None
    held = getattr(message, kind)
    if kind == "number_value":
        # JSON has no word for these; its library for Protobuf has none either.
        if not math.isfinite(held):
            return str(held)
        return int(held) if held.is_integer() and abs(held) < 2**53 else held
    return held if kind in ("string_value", "bool_value") else _plain(held)
