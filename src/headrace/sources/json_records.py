"""What the sources that read JSON have in common: records of a declared schema, or of any shape."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.formats import json as json_format
from headrace.formats import unstructured
from headrace.formats.reading import Reading
from headrace.model.schema import Column, Schema
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Type

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


def reading(options: Options) -> Reading:
    """How records are read; that there is a schema, or that they need none, has been checked."""
    schema = declared(options)
    assert schema is not None
    if options["json_unstructured"]:
        return unstructured.VariantReading(schema.names[0])
    return json_format.JsonReading(schema)
