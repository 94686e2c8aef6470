"""Debezium's changes in Avro, by a registry's schemas.

Connect writes what a column means beside its type, as `connect.name`. Where Avro has a logical type
that means the same, it is put there (`meant`), and Avro's own reading does the rest. Times with a
zone are texts, and are made times afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import StoredSchema
from headrace.formats import debezium_values as values
from headrace.formats.avro import AvroFormat
from headrace.formats.known import Known
from headrace.formats.options import ChangeRules, Wanted
from headrace.formats.reading import Reading, Steps
from headrace.model.schema import Column, Schema, literal, quote
from headrace.model.types import SqlType, fields_of, parsed, struct

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AVRO = AvroFormat()
_ZONED = ("io.debezium.time.ZonedTimestamp", "io.debezium.time.IsoTimestamp")
# What Connect calls a type, and what Avro does, after the type that a column must have for it.
_LOGICAL = {
    "io.debezium.time.Date": ("DATE", "date"),
    "io.debezium.time.Timestamp": ("TIMESTAMP", "timestamp-millis"),
    "io.debezium.time.MicroTimestamp": ("TIMESTAMP", "timestamp-micros"),
}
# Columns that are made of a text, if it is a text that comes.
_OF_TEXT = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "VARIANT")


@dataclass(frozen=True)
class AvroEnvelopes:
    """`texts` are the columns whose values come as texts and are to be something else."""

    columns: Schema
    texts: frozenset[str]
    rules: ChangeRules
    avro: Reading

    @classmethod
    def of(cls, wanted: Wanted, source: str, known: Known) -> AvroEnvelopes:
        seen = [each for each in (known.newest, *known.writers) if each is not None]
        texts = _texts(known.columns, seen)
        inside = replace(
            known,
            columns=_envelope(known.columns, texts, wanted.changes),
            writers=tuple(_meant(each, known.columns) for each in known.writers),
            newest=_meant(known.newest, known.columns) if known.newest is not None else None,
        )
        avro = _AVRO.reading(replace(wanted, schema=None), source, inside)
        return cls(known.columns, texts, wanted.changes, avro)

    @property
    def name(self) -> str:
        return f"Debezium's changes in {self.avro.name}"

    def register(self, spark: SparkSession) -> None:
        self.avro.register(spark)

    def steps(self, source: str, prefix: str) -> Steps:
        return (*self.avro.steps(source, prefix), (f"{prefix}change", self.avro.row(prefix)))

    def value(self, column: Column, image: str, prefix: str) -> str:  # noqa: ARG002
        text = f"{image}.{quote(column.name)}"
        if column.name not in self.texts:
            return text
        if column.type == "VARIANT":
            return f"try_parse_json({text})"
        return f"CAST(try_cast({text} AS TIMESTAMP) AS {column.type})"

    def key(self) -> str:
        """Keys of Avro are read by their own schemas: with `key_format`."""
        return f"CAST(NULL AS {struct(fields_of(_image(self.columns, self.texts))).ddl})"

    def fault(self, source: str, prefix: str) -> str:
        return self.avro.fault(source, prefix)

    def row_fault(self, prefix: str) -> str:
        made = [each for each in self.columns.columns if each.name in self.texts]
        return values.row_fault(_image(self.columns, self.texts), made, prefix)

    def reason(self, code: str, source: str) -> str:
        texts = ", ".join(sorted(self.texts))
        required = ", ".join(self.columns.required)
        sentences = {
            "UNAVAILABLE_VALUE": values.NOT_SENT.rstrip(": "),
            "WRONG_TYPE": f"does not fit the schema: a text is not what it should be in {texts}",
            "MISSING_FIELD": f"without a value for one of: {required}",
        }
        whens = " ".join(f"WHEN '{at}' THEN {literal(said)}" for at, said in sentences.items())
        return f"CASE {code} {whens} ELSE {self.avro.reason(code, source)} END"


def columns_of(schema: StoredSchema, wanted: Wanted) -> Schema:
    """The columns of the table whose changes are written with a schema; ValueError if it is none
    of Debezium's.
    """
    row = _row(schema, None, wanted)
    zoned = {name for name, told in _told(schema).items() if told.get("connect.name") in _ZONED}
    columns = (
        Column(each.name, "TIMESTAMP" if each.name in zoned else each.type.ddl)
        for each in row.fields
    )
    return Schema(tuple(columns))


def unreadable(writer: StoredSchema, columns: Schema, wanted: Wanted) -> list[str]:
    try:
        texts = _texts(columns, [writer])
        _row(writer, columns, wanted)
    except ValueError as fault:
        return [str(fault)]
    envelope = _envelope(columns, texts, wanted.changes)
    return _AVRO.unreadable(_meant(writer, columns), envelope, wanted)


def _row(schema: StoredSchema, columns: Schema | None, wanted: Wanted) -> SqlType:
    """The type of `after`."""
    if schema.type is not SchemaType.AVRO:
        raise ValueError(f"it is {schema.type}, and changes of Debezium are read by Avro's schemas")
    found, _ = _AVRO.columns_of(_meant(schema, columns), wanted)
    types = {each.name: parsed(each.type) for each in found.columns}
    if not {"op", "before", "after"} <= set(types) or types["after"].name != "STRUCT":
        raise ValueError("it is no envelope of Debezium, with `op`, `before` and `after`")
    return types["after"]


def _envelope(columns: Schema, texts: frozenset[str], rules: ChangeRules) -> Schema:
    """What Avro's reading is asked for."""
    image = struct(fields_of(_image(columns, texts))).ddl
    fields = [Column("op", "STRING"), Column("before", image), Column("after", image)]
    if rules.change_columns:
        fields.append(Column("source", values.SOURCE))
    return Schema(tuple(fields))


def _image(columns: Schema, texts: frozenset[str]) -> Schema:
    return Schema(
        tuple(
            Column(each.name, "STRING" if each.name in texts else each.type)
            for each in columns.columns
        )
    )


def _texts(columns: Schema, seen: list[StoredSchema]) -> frozenset[str]:
    """The columns that the first schema which has them has as texts, and that are to be others."""
    of_text = {each.name for each in columns.columns if each.type in _OF_TEXT}
    found: dict[str, bool] = {}
    for schema in seen:
        for name, told in _told(schema).items():
            found.setdefault(name, told["type"] == "string")
    return frozenset(name for name in of_text if found.get(name))


def _told(schema: StoredSchema) -> dict[str, dict[str, Any]]:
    """What a schema tells of each column of the table, as an object with its `type`."""
    try:
        images = {each["name"]: each for each in json.loads(schema.text)["fields"]}
        # Of two images that are alike, the first is described and the second names it.
        rows = [_not_null(images[name]["type"]) for name in ("before", "after")]
        row = next(each for each in rows if "fields" in each)
        return {each["name"]: _not_null(each["type"]) for each in row["fields"]}
    except (KeyError, TypeError, ValueError, StopIteration):
        return {}


def _not_null(kind: Any) -> dict[str, Any]:
    """The one type of a union with null, as an object."""
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    return kind if isinstance(kind, dict) else {"type": kind}


def _meant(schema: StoredSchema, columns: Schema | None) -> StoredSchema:
    """The schema with Avro's logical types where Connect's names mean the same. Where there are
    `columns`, only those that are times and dates are taken for such.
    """
    types = None if columns is None else tuple((each.name, each.type) for each in columns.columns)
    return replace(schema, text=_meant_text(schema.text, types))


@lru_cache(1_000)
def _meant_text(text: str, types: tuple[tuple[str, str], ...] | None) -> str:
    known = dict(types) if types is not None else None
    return json.dumps(_with_logical(json.loads(text), known, ""))


def _with_logical(node: Any, types: Mapping[str, str] | None, column: str) -> Any:
    if isinstance(node, list):
        return [_with_logical(each, types, column) for each in node]
    if not isinstance(node, dict):
        return node
    inside = node["name"] if "type" in node and "fields" not in node and "name" in node else column
    made = {name: _with_logical(each, types, inside) for name, each in node.items()}
    wanted, logical = _LOGICAL.get(node.get("connect.name", ""), ("", ""))
    declared = wanted if types is None else types.get(column, "")
    if not wanted or wanted not in declared:
        return made
    local = "local-" if "TIMESTAMP_NTZ" in declared else ""
    return {**made, "logicalType": local + logical}
