"""The format JSON Schema: JSON whose schema a registry knows, with the frame that names it.

Messages tell their fields themselves, so all are read in the same way, as JSON is: the schemas say
which columns there are, and whether a message's schema can be one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import StoredSchema
from headrace.errors import InternalError
from headrace.formats import json_schema_types
from headrace.formats.encoding import Encoding, Fields, JsonEncoding, one_value
from headrace.formats.framing import Frame, Frames
from headrace.formats.json import JsonReading
from headrace.formats.json_schema_types import JsonSchema, misfits
from headrace.formats.json_schema_writing import Fit, fitted
from headrace.formats.known import Known
from headrace.formats.options import Wanted
from headrace.formats.reading import Reading, Steps, cases
from headrace.model.schema import Column, Schema, literal, quote
from headrace.model.types import SqlType, fields_of, parsed, struct

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What a message that is one value is put into, to be read as the others are.
_WHOLE = "value"


@dataclass(frozen=True)
class FramedJsonReading:
    """JSON behind a frame; `json` reads the payload."""

    schema: Schema
    frames: Frames
    scalar: bool = False
    name: str = "JSON"

    @property
    def json(self) -> JsonReading:
        if not self.scalar:
            return JsonReading(self.schema)
        (column,) = self.schema.columns
        return JsonReading(Schema((replace(column, name=_WHOLE),)))

    def register(self, spark: SparkSession) -> None:
        self.frames.register(spark)

    def steps(self, source: str, prefix: str) -> Steps:
        payload = self.frames.payload(prefix)
        before = self.frames.steps(source, prefix)
        return (*before, *self.json.steps(self._text(payload), prefix))

    def fault(self, source: str, prefix: str) -> str:
        payload = self.frames.payload(prefix)
        own = self.json.fault(self._text(payload), prefix)
        return self.frames.fault(source, own, prefix)

    def row(self, prefix: str) -> str:
        row = self.json.row(prefix)
        if not self.scalar:
            return row
        return f"named_struct({literal(self.schema.names[0])}, {row}.{quote(_WHOLE)})"

    def reason(self, code: str, source: str) -> str:
        ((_, payload),) = self.frames.steps(source, "")
        framing = self.frames.sentences(source)
        known = ", ".join(f"'{each}'" for each in framing)
        own = self.json.reason(code, self._text(payload))
        return f"IF({code} IN ({known}), {cases(code, framing)}, {own})"

    def _text(self, payload: str) -> str:
        """The bytes of an object."""
        if not self.scalar:
            return payload
        begin, end = (f"CAST({literal(text)} AS BINARY)" for text in (f'{{"{_WHOLE}":', "}"))
        return f"concat({begin}, {payload}, {end})"


@dataclass(frozen=True)
class FramedJsonEncoding:
    """JSON behind a frame, of rows that fit its schema."""

    frame: Frame
    fit: Fit
    json: JsonEncoding
    name: str
    content_type: str = "application/json"

    @property
    def required(self) -> tuple[tuple[str, ...], ...]:
        return self.fit.required

    def register(self, spark: SparkSession) -> None:
        self.frame.register(spark)

    def of_fields(self, fields: Fields) -> str:
        return self.frame.around(self.json.of_fields(fields))

    def of_value(self, sql: str) -> str:
        return self.frame.around(self.json.of_value(sql))


class JsonSchemaFormat:
    """Always by a registry."""

    type: SchemaType | None = SchemaType.JSON

    def faults(self, wanted: Wanted) -> Iterator[str]:
        try:
            given = self.given(wanted)
            if given is not None:
                _parsed(given[0], ()).type()
        except ValueError as fault:
            yield f"`{wanted.schema_file}` is no schema of JSON that rows can have: {fault}"

    def columns(self, wanted: Wanted) -> Schema | None:
        return wanted.schema

    def reading(self, wanted: Wanted, source: str, known: Known | None) -> Reading:
        if known is None:
            raise InternalError("JSON Schema is read without a registry")
        frames = Frames.of(known, source, wanted.part, wanted.compression)
        subjects = f" by subject {', '.join(wanted.subjects)}" if wanted.subjects else ""
        return FramedJsonReading(known.columns, frames, known.scalar, f"JSON{subjects}")

    def columns_of(self, schema: StoredSchema, wanted: Wanted) -> tuple[Schema, bool]:
        kind = _stored(schema).type()
        if kind.name != "STRUCT":
            return Schema((Column(wanted.column, kind.ddl),)), True
        return Schema(tuple(Column(each.name, each.type.ddl) for each in kind.fields)), False

    def unreadable(self, writer: StoredSchema, columns: Schema, wanted: Wanted) -> list[str]:
        try:
            own, scalar = self.columns_of(writer, wanted)
        except ValueError as fault:
            # What has been declared may still be there; each message is looked at by itself.
            return [] if wanted.schema is not None else [str(fault)]
        return list(misfits(_whole(own, scalar), _whole(columns, scalar)))

    def given(self, wanted: Wanted) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        if wanted.file is None:
            return None
        try:
            return wanted.file.read_text(encoding="utf-8"), ()
        except (OSError, UnicodeDecodeError) as fault:
            said = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8 text"
            raise ValueError(f"it cannot be read: {said}") from fault

    def made(self, name: str, rows: Schema, newest: StoredSchema | None = None) -> str:
        if newest is not None and newest.type is self.type and _covers(newest, rows):
            return newest.text
        return json.dumps(json_schema_types.made(name, rows))

    def encoding(self, wanted: Wanted, rows: Schema, schema: StoredSchema | None) -> Encoding:
        if schema is None:
            raise InternalError("JSON Schema is written without a registry")
        fit = fitted(_stored(schema), _written(rows))
        own = JsonEncoding(scalar=one_value(rows) is not None, drops_nulls=fit.drops_nulls)
        name = f"JSON by schema {schema.id}"
        return FramedJsonEncoding(Frame.of(schema, wanted), fit, own, name)


def _written(rows: Schema) -> SqlType:
    whole = one_value(rows)
    return parsed(whole.type) if whole is not None else struct(fields_of(rows))


def _covers(schema: StoredSchema, rows: Schema) -> bool:
    """Whether a schema takes all rows and says of each column what it is."""
    kind = _written(rows)
    try:
        own, fit = _stored(schema).type(), fitted(_stored(schema), kind)
    except ValueError:
        return False
    named = {each.name for each in own.fields}
    return not fit.required and {each.name for each in kind.fields} <= named


def _stored(schema: StoredSchema) -> JsonSchema:
    return _parsed(schema.text, schema.references)


@lru_cache(1_000)
def _parsed(text: str, references: tuple[tuple[str, str], ...]) -> JsonSchema:
    return JsonSchema.parse(text, references)


def _whole(columns: Schema, scalar: bool) -> SqlType:
    fields = fields_of(columns)
    return fields[0].type if scalar and len(fields) == 1 else struct(fields)
