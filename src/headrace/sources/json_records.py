"""What the sources that read JSON have in common: records of a declared schema, or of any shape."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.model.schema import Schema
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
