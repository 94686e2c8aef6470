"""JSON records without a schema: each is one VARIANT, whatever JSON it holds.

Spark's parser takes the first value of a text and ignores what follows. So a text is parsed as the
first of two elements of an array; where the second, a number that follows from the text, is not
found next, there was something else after the first value. JSON's own null is a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.formats.reading import Steps, cases
from headrace.model.schema import Column, Schema, literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMN_NAME = "value"
# What can be wrong before there is a text to parse.
NO_TEXT = {
    "EMPTY_VALUE": "'the value is empty'",
    "NOT_UTF8": "'the value is not UTF-8 text'",
}
_NOT_ONE_VALUE = "'the value is not one valid JSON value, or has a field twice'"


@dataclass(frozen=True)
class VariantReading:
    column: str = COLUMN_NAME
    name: str = "JSON"
    scalar: bool = True

    @property
    def schema(self) -> Schema:
        return Schema((Column(self.column, "VARIANT"),))

    def register(self, spark: SparkSession) -> None:
        """All of it is SQL."""

    def steps(self, source: str, prefix: str) -> Steps:
        both = f"concat('[', {_text(source)}, ',', {_mark(source)}, ']')"
        return ((f"{prefix}json", f"try_parse_json({both})"),)

    def fault(self, source: str, prefix: str) -> str:
        second = f"try_variant_get({prefix}json, '$[1]', 'bigint')"
        return (
            f"CASE WHEN length({source}) = 0 THEN 'EMPTY_VALUE' "
            f"WHEN {_text(source)} IS NULL THEN 'NOT_UTF8' "
            f"WHEN NOT {second} <=> {_mark(source)} THEN 'NOT_JSON' END"
        )

    def row(self, prefix: str) -> str:
        return f"named_struct({literal(self.column)}, variant_get({prefix}json, '$[0]'))"

    def reason(self, code: str, source: str) -> str:  # noqa: ARG002
        return cases(code, {**NO_TEXT, "NOT_JSON": _NOT_ONE_VALUE})


def _text(source: str) -> str:
    return f"try_validate_utf8(CAST({source} AS STRING))"


def _mark(source: str) -> str:
    return f"xxhash64({source})"
