"""What the sources that read JSON have in common: records of a declared schema, or of any shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.formats import json as json_format
from headrace.formats import unstructured
from headrace.model.schema import Column, Schema
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

UNSTRUCTURED = Option(
    "json_unstructured",
    Type.FLAG,
    "With JSON: each record is one value of any shape, in a column `value VARIANT` or in the one "
    "VARIANT that `schema` declares.",
    default=False,
    aliases=("json.unstructured",),
)


def declared(options: Options) -> Schema | None:
    """The columns of a record: those of `schema`, or the one value; None where nothing says it."""
    if options["schema"] is not None:
        return Schema.parse(options["schema"])
    if options["json_unstructured"]:
        return Schema((Column(unstructured.COLUMN_NAME, "VARIANT"),))
    return None


def faults(options: Options, form: str) -> Iterator[Diagnostic]:
    if not options["json_unstructured"]:
        return
    if form != "json":
        message = f"`json_unstructured` is about JSON, and the format is {form}"
        yield Diagnostic("CONFLICT", message, options.at("json_unstructured"), "remove it")
    elif options["schema"] is not None:
        types = [column.type for column in Schema.parse(options["schema"]).columns]
        if types != ["VARIANT"]:
            message = "with `json_unstructured` a record is one VARIANT, and the schema says more"
            hint = "remove one of them, or name the value: `schema: event VARIANT`"
            yield Diagnostic("CONFLICT", message, options.at("schema"), hint)


def decode(
    raw: DataFrame,
    options: Options,
    schema: Schema,
    metadata: tuple[str, ...],
    tombstones: bool,
    originals: int | None,
) -> DataFrame:
    """The columns, `metadata` expressions and the hidden column; a row for each record."""
    if options["json_unstructured"]:
        (name,) = schema.names
        return unstructured.decode(raw, name, metadata, tombstones, originals)
    return json_format.decode(raw, schema, metadata, tombstones, originals)


def whole(options: Options, schema: Schema) -> str:
    """SQL for the value as one, among the `metadata` of `decode`; NULL for no value."""
    return unstructured.WHOLE if options["json_unstructured"] else json_format.whole(schema)


def reason(options: Options, schema: Schema) -> str:
    """SQL for a sentence about a bad record, over rows that carry the hidden column."""
    return unstructured.reason() if options["json_unstructured"] else json_format.reason(schema)
