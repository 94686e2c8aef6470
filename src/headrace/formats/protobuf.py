"""Protobuf messages: plain ones by a `.proto` file or a class, and framed ones by a registry.

Spark has no Protobuf of its own that goes by many schemas at once, so messages are read and written
by functions over Arrow batches (`protobuf_reading`, `protobuf_writing`), which run in its Python
workers. What is to be done is decided here, on the driver: which message of a schema it is, and how
its fields become columns (`protobuf_types`). The frame is judged in SQL, as it is for all formats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.formats.encoding import ELEMENTS, VALUES, Encoding, Fields, listed, one_value
from headrace.formats.framing import SIZES, Frame, Frames, header, hexadecimal
from headrace.formats.known import Known
from headrace.formats.options import Part, Wanted
from headrace.formats.reading import Reading, Steps, cases
from headrace.model.schema import Column, Schema, literal
from headrace.model.types import SqlField, fields_of, struct

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from pyspark.sql import SparkSession

    from headrace.formats import protobuf_reading
    from headrace.formats.protobuf_schemas import Messages
    from headrace.formats.protobuf_wire import Field

# What the one column of a key is called in the message around it.
_ONLY_FIELD = "value"


@dataclass(frozen=True)
class Written:
    """Messages of one schema; without a registry the `id` is empty."""

    id: str
    messages: Messages
    message: str

    @property
    def descriptor(self) -> Descriptor:
        return self.messages.message(self.message)


@dataclass(frozen=True)
class ProtobufReading:
    """Without `frames` messages are plain, and there is one writer."""

    schema: Schema
    part: Part
    writers: tuple[Written, ...]
    message: str
    frames: Frames | None = None
    scalar: bool = False

    @property
    def name(self) -> str:
        return f"Protobuf {self.message}"

    @cached_property
    def _function(self) -> str:
        parts = (repr((each.id, each.message, each.messages.files)) for each in self.writers)
        return _named("read", self.schema.ddl(), str(self.schema.required), *parts)

    @property
    def messages(self) -> protobuf_reading.Messages:
        """What workers go by."""
        from headrace.formats import protobuf_reading
        from headrace.formats.protobuf_types import arrow_struct

        glue = self.frames is not None and self.frames.framing is Framing.GLUE
        writers = tuple(self._writer(each) for each in self.writers)
        columns = arrow_struct(fields_of(self.schema))
        return protobuf_reading.Messages(columns, writers, self.frames is not None, glue)

    def register(self, spark: SparkSession) -> None:
        from headrace.formats import protobuf_reading

        if self.frames is not None:
            self.frames.register(spark)
        result = f"struct<{protobuf_reading.FAULT}: string, {_struct_ddl(self.schema)}>"
        _register(spark, self._function, protobuf_reading.function(self.messages), result)

    def _writer(self, written: Written) -> Any:
        from headrace.formats import protobuf_reading
        from headrace.formats.protobuf_types import fields_for

        message = written.descriptor
        fields, _ = fields_for(message, fields_of(self.schema))
        if self.frames is None:
            return protobuf_reading.Writer(b"", (), fields)
        head = header(self.frames.framing, written.id)
        return protobuf_reading.Writer(head, _index(message, self.frames.framing), fields)

    def steps(self, source: str, prefix: str) -> Steps:
        made = f"{prefix}proto"
        if self.frames is None or self.frames.framing is Framing.CONFLUENT:
            return ((made, f"{self._function}({source})"),)
        # What was compressed is not any more, behind the same frame.
        whole = f"concat(substr({source}, 1, {SIZES[Framing.GLUE]}), {self.frames.payload(prefix)})"
        return (*self.frames.steps(source, prefix), (made, f"{self._function}({whole})"))

    def fault(self, source: str, prefix: str) -> str:
        found = f"{prefix}proto.__fault"
        return found if self.frames is None else self.frames.fault(source, found, prefix)

    def row(self, prefix: str) -> str:
        return f"{prefix}proto"

    def reason(self, code: str, source: str) -> str:
        what, message = f"the {self.part}", f"a message {self.message}"
        required = ", ".join(self.schema.required)
        missing = f"a field that must be there{f', as {required} must,' if required else ''} is not"
        sentences = {
            "NOT_PROTOBUF": literal(f"{what} is not {message}"),
            "MISSING_FIELD": literal(f"{what} is {message}, but {missing}"),
            "OUT_OF_RANGE": literal(
                f"{what} is {message} with a number, time or date that its column cannot hold"
            ),
            "BAD_MESSAGE_INDEX": literal(
                f"{what} is not {message} by its message index; `message` names another one"
            ),
        }
        framed = self.frames.sentences(source) if self.frames is not None else {}
        return cases(code, {**sentences, **framed})


@dataclass(frozen=True)
class ProtobufEncoding:
    """Messages of one schema. With `only` a message has one field for a value that is no struct."""

    written: Written
    rows: Schema
    required: tuple[tuple[str, ...], ...] = ()
    frame: Frame | None = None
    only: bool = False
    content_type: str = "application/x-protobuf"

    @property
    def name(self) -> str:
        return f"Protobuf {self.written.message}"

    @cached_property
    def _function(self) -> str:
        parts = (self.written.message, repr(self.written.messages.files))
        return _named("write", self.rows.ddl(), *parts)

    @property
    def fields(self) -> tuple[Field, ...]:
        """What workers go by."""
        from headrace.formats.protobuf_types import fields_for

        return fields_for(self.written.descriptor, fields_of(self.rows), writing=True)[0]

    def register(self, spark: SparkSession) -> None:
        from headrace.formats import protobuf_writing

        if self.frame is not None:
            self.frame.register(spark)
        _register(spark, self._function, protobuf_writing.function(self.fields), "binary")

    def of_fields(self, fields: Fields) -> str:
        return self._framed(f"struct({listed(fields)})")

    def of_value(self, sql: str) -> str:
        if self.only:
            sql = f"IF({sql} IS NULL, NULL, struct({sql} AS {self.rows.names[0]}))"
        return self._framed(sql)

    def _framed(self, sql: str) -> str:
        message = f"{self._function}({sql})"
        if self.frame is None:
            return message
        index = _index(self.written.descriptor, self.frame.framing)
        mark = hexadecimal(_index_bytes(index, self.frame.framing))
        return self.frame.around(f"concat({mark}, {message})")


class ProtobufFormat:
    type: SchemaType | None = SchemaType.PROTOBUF

    def faults(self, wanted: Wanted) -> Iterator[str]:
        if wanted.registered and not wanted.gives_schema:
            return
        if wanted.schema_file is None and wanted.classpath is None:
            yield (
                "plain Protobuf needs its schema: `schema_file: order.proto` or "
                "`schema_classpath: shop.orders_pb2.Order`, or a `schema_registry`"
            )
            return
        try:
            written = _own(wanted)
            if wanted.schema is not None:
                yield from _unreadable(written.descriptor, wanted.schema)
            else:
                _columns(written.descriptor)
        except ValueError as error:
            yield f"{wanted.schema_file or wanted.classpath}: {error}"

    def columns(self, wanted: Wanted) -> Schema | None:
        if wanted.schema is not None or wanted.registered or not wanted.gives_schema:
            return wanted.schema
        try:
            return _columns(_own(wanted).descriptor)
        except ValueError:  # `faults` says it
            return None

    def reading(self, wanted: Wanted, source: str, known: Known | None) -> Reading:
        if known is None:
            written = _own(wanted)
            schema = wanted.schema or _columns(written.descriptor)
            return ProtobufReading(schema, wanted.part, (written,), written.message)
        message = _chosen(known, wanted)
        writers = tuple(_stored(each, message, wanted) for each in known.writers)
        frames = Frames.of(known, source, wanted.part, wanted.compression)
        name = message or "of any name"
        return ProtobufReading(known.columns, wanted.part, writers, name, frames)

    def columns_of(self, schema: StoredSchema, wanted: Wanted) -> tuple[Schema, bool]:
        return _columns(_stored(schema, wanted.message, wanted).descriptor), False

    def unreadable(self, writer: StoredSchema, columns: Schema, wanted: Wanted) -> list[str]:
        try:
            return _unreadable(_stored(writer, wanted.message, wanted).descriptor, columns)
        except ValueError as error:
            return [str(error)]

    def given(self, wanted: Wanted) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        from headrace.formats import protobuf_schemas

        if wanted.file is not None:
            return protobuf_schemas.text_of_file(wanted.file)
        if wanted.classpath is not None:
            return protobuf_schemas.texts_of(_own(wanted).messages)
        return None

    def made(self, name: str, rows: Schema, newest: StoredSchema | None = None) -> str:
        from headrace.formats import protobuf_made

        before = None
        if newest is not None and newest.type is SchemaType.PROTOBUF:
            before = _messages(newest).message()
            if protobuf_made.holds(before, _in_message(rows)):
                return newest.text
        return protobuf_made.made(name, _in_message(rows), before)

    def encoding(self, wanted: Wanted, rows: Schema, schema: StoredSchema | None) -> Encoding:
        from headrace.formats.protobuf_types import fields_for

        written = _own(wanted) if schema is None else _stored(schema, wanted.message, wanted)
        inside = _in_message(rows)
        _, faults = fields_for(written.descriptor, fields_of(inside), writing=True)
        if faults:
            raise ValueError("; ".join(faults))
        frame = Frame.of(schema, wanted) if schema is not None else None
        only = one_value(rows) is not None and fields_of(rows)[0].type.name != "STRUCT"
        # NULL for a value by itself is no message at all.
        required = () if only else tuple(_required(written.descriptor, fields_of(inside)))
        return ProtobufEncoding(written, inside, required, frame, only)


def _own(wanted: Wanted) -> Written:
    """By the file or the class of a definition. Raises ValueError."""
    from headrace.formats import protobuf_schemas

    if wanted.file is not None:
        messages = protobuf_schemas.of_file(wanted.file)
    else:
        assert wanted.classpath is not None  # that neither is there has been refused
        messages = protobuf_schemas.of_class(wanted.classpath, wanted.folder)
    return Written("", messages, messages.message(wanted.message).full_name)


def _messages(schema: StoredSchema) -> Messages:
    from headrace.formats import protobuf_schemas

    return protobuf_schemas.of_text(schema.text, schema.references)


def _stored(schema: StoredSchema, message: str | None, wanted: Wanted) -> Written:
    """The message of that name. Where the definition names none, a schema without it has its first
    instead: it may have been called otherwise.
    """
    messages = _messages(schema)
    try:
        name = messages.message(message).full_name
    except ValueError:
        if wanted.message is not None:
            raise
        name = messages.message().full_name
    return Written(schema.id, messages, name)


def _chosen(known: Known, wanted: Wanted) -> str | None:
    """The message that all records are: the one that is named, or the first of the newest."""
    newest = known.newest or (known.writers[-1] if known.writers else None)
    if wanted.message is not None or newest is None:
        return wanted.message
    return _messages(newest).message().full_name


def _columns(message: Descriptor) -> Schema:
    from headrace.formats.protobuf_types import columns_of

    return columns_of(message)


def _unreadable(message: Descriptor, columns: Schema) -> list[str]:
    from headrace.formats.protobuf_types import arrow_struct, fields_for

    fields = fields_of(columns)
    try:
        arrow_struct(fields)
    except ValueError as error:
        return [str(error)]
    return fields_for(message, fields)[1]


def _in_message(rows: Schema) -> Schema:
    """The fields of a message for rows: a value by itself becomes the only one."""
    only = one_value(rows)
    if only is None:
        return rows
    inside = fields_of(rows)[0].type
    if inside.name == "STRUCT":
        return Schema(tuple(Column(each.name, each.type.ddl) for each in inside.fields))
    return Schema((Column(_ONLY_FIELD, only.type, only.nullable),))


def _required(
    message: Descriptor, columns: tuple[SqlField, ...], above: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The fields that messages must have, and what lists and maps hold, which is never NULL."""
    from headrace.formats.protobuf_types import entry_of, field_of, is_map

    for column in columns:
        field, where, type = field_of(message, column.name), (*above, column.name), column.type
        assert field is not None  # that there is none has been refused
        if field.is_required:
            yield where
        if field.is_repeated:
            where = (*where, VALUES if is_map(field) else ELEMENTS)
            type = type.fields[-1].type
            yield where
            field = entry_of(field)[1] if is_map(field) else field
        if field.message_type is not None and type.name == "STRUCT":
            yield from _required(field.message_type, type.fields, where)


def _index(message: Descriptor, framing: Framing) -> tuple[int, ...]:
    from headrace.formats import protobuf_schemas

    if framing is Framing.GLUE:
        return protobuf_schemas.glue_index_of(message)
    return protobuf_schemas.index_of(message)


def _index_bytes(index: tuple[int, ...], framing: Framing) -> bytes:
    if framing is Framing.GLUE:
        return _varint(index[0])
    if index == (0,):
        return b"\x00"
    return b"".join(_varint(each << 1) for each in (len(index), *index))


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _struct_ddl(schema: Schema) -> str:
    return struct(fields_of(schema)).ddl.removeprefix("STRUCT<").removesuffix(">")


def _named(what: str, *parts: str) -> str:
    """The same name for the same function, so that the same plan has the same text."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"headrace_{what}_{digest[:16]}"


def _register(spark: SparkSession, name: str, function: Callable[..., Any], result: str) -> None:
    from pyspark import cloudpickle
    from pyspark.sql.pandas.functions import arrow_udf

    from headrace.formats import protobuf_reading, protobuf_wire, protobuf_writing

    for module in (protobuf_wire, protobuf_reading, protobuf_writing):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    # Not by a number for its kind, of which Spark warns: the hints of the function say it.
    spark.udf.register(name, arrow_udf(function, result))  # type: ignore[call-overload]
