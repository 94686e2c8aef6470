"""The format Avro: plain messages by a schema of the definition, or framed ones by a registry's.

What schemas mean is in `avro_schema` and `avro_types`, reading in `avro_resolution` and
`avro_reading`, writing in `avro_writing`. Here they are put together as a `Format`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import StoredSchema
from headrace.errors import InternalError
from headrace.formats import avro_schema, avro_types
from headrace.formats.avro_reading import AvroReading, Writer
from headrace.formats.avro_resolution import Resolution, resolved, with_mark
from headrace.formats.avro_schema import AvroSchema, Record, alone
from headrace.formats.avro_writing import AvroEncoding
from headrace.formats.encoding import Encoding
from headrace.formats.framing import Frame, Frames
from headrace.formats.known import Known
from headrace.formats.options import Part, Wanted
from headrace.formats.reading import Reading
from headrace.model.schema import Column, Schema
from headrace.model.types import SqlType, fields_of, struct


class AvroFormat:
    type: SchemaType | None = SchemaType.AVRO

    def faults(self, wanted: Wanted) -> Iterator[str]:
        try:
            given = _given(wanted)
            if given is None or wanted.registered:
                return
            target = _target(_columns(given, wanted), _is_scalar(given))
        except ValueError as fault:
            yield str(fault)
            return
        found = resolved(given, target, given)
        yield from found if isinstance(found, list) else ()

    def columns(self, wanted: Wanted) -> Schema | None:
        if wanted.schema is not None or wanted.registered:
            return wanted.schema
        try:
            given = _given(wanted)
            return _columns(given, wanted) if given is not None else None
        except ValueError:
            return None  # which is a fault

    def reading(self, wanted: Wanted, source: str, known: Known | None) -> Reading:
        return _plain(wanted) if known is None else _framed(wanted, source, known)

    def columns_of(self, schema: StoredSchema, wanted: Wanted) -> tuple[Schema, bool]:
        found = _stored(schema)
        return _columns(found, replace(wanted, schema=None)), _is_scalar(found)

    def unreadable(self, writer: StoredSchema, columns: Schema, wanted: Wanted) -> list[str]:  # noqa: ARG002
        try:
            scalar = _is_scalar(_stored(writer)) and len(columns.columns) == 1
        except ValueError as fault:
            return [str(fault)]
        found = _resolved(_source(writer), _target(columns, scalar), None)
        return found if isinstance(found, list) else []

    def given(self, wanted: Wanted) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        text = _text(wanted)
        return None if text is None else (text, ())

    def made(self, name: str, rows: Schema, newest: StoredSchema | None = None) -> str:
        if newest is None or newest.type is not self.type:
            return json.dumps(avro_types.made(name, rows))
        before = _stored(newest)
        kept = AvroEncoding(before, rows)
        if not kept.faults() and not kept.required:
            return newest.text
        return json.dumps(avro_types.made(name, rows, before))

    def encoding(self, wanted: Wanted, rows: Schema, schema: StoredSchema | None) -> Encoding:
        if schema is not None:
            name, frame = f"Avro by {_words(schema)}", Frame.of(schema, wanted)
            made = AvroEncoding(_stored(schema), rows, frame, name)
        else:
            made = AvroEncoding(_given(wanted) or _parsed(self.made("row", rows), ()), rows)
        faults = made.faults()
        if faults:
            raise ValueError("; ".join(faults))
        return made


def _plain(wanted: Wanted) -> Reading:
    given = _given(wanted)
    if given is None:
        raise InternalError("Avro without a schema has not been refused")
    columns, scalar = _columns(given, wanted), _is_scalar(given)
    target = _target(columns, scalar)
    found = resolved(given, target, given)
    if isinstance(found, list):
        raise InternalError(f"Avro that does not fit has not been refused: {'; '.join(found)}")
    writers = (Writer(None, "its schema", found),)
    return AvroReading(columns, with_mark(target).ddl, writers, wanted.part, scalar=scalar)


def _framed(wanted: Wanted, source: str, known: Known) -> Reading:
    """By all schemas that are known; those that do not fit the columns are refused, too."""
    target = _target(known.columns, known.scalar)
    newest = _source(known.newest) if known.newest is not None else None
    writers, refused = [], {**known.refused}
    for each in known.writers:
        found = _resolved(_source(each), target, newest)
        if isinstance(found, Resolution):
            writers.append(Writer(each.id, _words(each), found))
        else:
            refused.setdefault(each.id, "; ".join(found))
    frames = Frames.of(replace(known, refused=refused), source, wanted.part, wanted.compression)
    subjects = f" by subject {', '.join(wanted.subjects)}" if wanted.subjects else ""
    return AvroReading(
        known.columns,
        with_mark(target).ddl,
        tuple(writers),
        wanted.part,
        frames,
        known.scalar,
        f"Avro{subjects}",
    )


# A schema of a registry with what it refers to.
_Source = tuple[str, tuple[tuple[str, str], ...]]


def _source(schema: StoredSchema) -> _Source:
    return schema.text, schema.references


def _stored(schema: StoredSchema) -> AvroSchema:
    return _parsed(*_source(schema))


@lru_cache(1_000)
def _parsed(text: str, references: tuple[tuple[str, str], ...]) -> AvroSchema:
    return avro_schema.parsed(text, references)


@lru_cache(1_000)
def _resolved(writer: _Source, target: SqlType, newest: _Source | None) -> Resolution | list[str]:
    """As the function of that name; every look at a source asks for it again."""
    return resolved(_parsed(*writer), target, _parsed(*newest) if newest is not None else None)


def _text(wanted: Wanted) -> str | None:
    """The schema that a definition gives, inline or by a file."""
    if wanted.avro_schema is not None or wanted.file is None:
        return wanted.avro_schema
    try:
        return wanted.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        said = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8 text"
        raise ValueError(f"reading {wanted.schema_file}: {said}") from fault


def _given(wanted: Wanted) -> AvroSchema | None:
    text = _text(wanted)
    if text is None:
        return None
    try:
        return _parsed(text, ())
    except ValueError as fault:
        place = "`avro_schema`" if wanted.avro_schema is not None else f"`{wanted.schema_file}`"
        raise ValueError(f"{place} is no schema of Avro: {fault}") from fault


def _is_scalar(schema: AvroSchema) -> bool:
    return not isinstance(alone(schema.root), Record)


def _columns(schema: AvroSchema, wanted: Wanted) -> Schema:
    """The declared ones, or those of the schema."""
    root = alone(schema.root)
    if wanted.schema is not None:
        return wanted.schema
    try:
        if not isinstance(root, Record):
            return Schema((Column(wanted.column, avro_types.sql_type(root).ddl),))
        return Schema(tuple(Column(each.name, each.type.ddl) for each in avro_types.fields(root)))
    except ValueError as fault:
        option = "schema" if wanted.part is Part.VALUE else "key_schema"
        hint = f"declare the columns that are wanted, without it, with `{option}`"
        raise ValueError(f"{fault}; {hint}") from fault


def _target(columns: Schema, scalar: bool) -> SqlType:
    """The type of a message: that of the one column, or a struct of all."""
    fields = fields_of(columns)
    if scalar and len(fields) == 1:
        return fields[0].type
    return struct(tuple(replace(each, nullable=True) for each in fields))


def _words(schema: StoredSchema) -> str:
    if schema.subject is None:
        return f"schema {schema.id}"
    return f"schema {schema.id}, version {schema.version} of {schema.subject}"
