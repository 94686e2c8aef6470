"""JSON records with a declared schema.

`from_json` alone would let records pass as good that are not: text after the object is ignored, and
so is a second object; bytes that are no text become question marks; a field that must be there may
be missing. Each is a code here, and a sentence that says which field is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.admin.stored_schemas import StoredSchema
from headrace.formats.encoding import Encoding, JsonEncoding, one_value
from headrace.formats.known import Known
from headrace.formats.options import Wanted
from headrace.formats.reading import Reading, Steps, cases
from headrace.formats.unregistered import Unregistered
from headrace.formats.unstructured import NO_TEXT, VariantReading
from headrace.model.schema import Column, Schema, literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORRUPT = "__corrupt"
_NEXT_VALUE = r"\}\s*([^\s,}\]]|,\s*\{)"
# For records that fit no schema, a second look at each field says which one is wrong; it is taken
# only for bad records, but the code for it is generated for all, so very wide schemas do without.
FIELDS_NAMED = 64
# What a value is that is no JSON object, whatever fields it should have.
NO_OBJECT = {
    **NO_TEXT,
    "NOT_JSON": "'the value is not valid JSON'",
    "NOT_AN_OBJECT": "'the value is not one JSON object'",
}


@dataclass(frozen=True)
class JsonReading:
    schema: Schema
    name: str = "JSON"
    scalar: bool = False

    def register(self, spark: SparkSession) -> None:
        """All of it is SQL."""

    def steps(self, source: str, prefix: str) -> Steps:
        return ((f"{prefix}json", from_json(self.schema, source)),)

    def fault(self, source: str, prefix: str) -> str:
        """Cheap for good records; what costs is asked only of one that already looks bad."""
        json, text = f"{prefix}json", _trimmed(source)
        in_braces = _in_braces(text)
        corrupt = (
            f"CASE WHEN try_parse_json({text}) IS NULL THEN 'NOT_JSON' "
            f"WHEN NOT ({in_braces}) THEN 'NOT_AN_OBJECT' ELSE 'WRONG_TYPE' END"
        )
        found = [
            f"WHEN length({source}) = 0 THEN 'EMPTY_VALUE'",
            f"WHEN NOT is_valid_utf8(CAST({source} AS STRING)) THEN 'NOT_UTF8'",
            f"WHEN {json} IS NULL OR {json}.{CORRUPT} IS NOT NULL THEN {corrupt}",
            f"WHEN NOT ({in_braces}) THEN 'NOT_AN_OBJECT'",
            f"WHEN {_goes_on(source)} THEN 'NOT_AN_OBJECT'",
        ]
        missing = " OR ".join(f"{json}.{quote(name)} IS NULL" for name in self.schema.required)
        if missing:
            found.append(f"WHEN {missing} THEN 'MISSING_FIELD'")
        return f"CASE {' '.join(found)} END"

    def row(self, prefix: str) -> str:
        return f"{prefix}json"

    def reason(self, code: str, source: str) -> str:
        """It parses the record once more for each field."""
        sentences = {
            **NO_OBJECT,
            "WRONG_TYPE": _wrong_fields(self.schema, source),
            "MISSING_FIELD": _missing_fields(self.schema, source),
        }
        return cases(code, sentences)


class JsonFormat(Unregistered):
    """By declared columns, or of any shape."""

    def faults(self, wanted: Wanted) -> Iterator[str]:  # noqa: ARG002
        yield from ()

    def columns(self, wanted: Wanted) -> Schema | None:
        if wanted.schema is not None or not wanted.unstructured:
            return wanted.schema
        return VariantReading(wanted.column).schema

    def reading(self, wanted: Wanted, source: str, known: Known | None) -> Reading:  # noqa: ARG002
        schema = self.columns(wanted)
        assert schema is not None  # JSON without columns has been refused
        return VariantReading(schema.names[0]) if wanted.unstructured else JsonReading(schema)

    def encoding(self, wanted: Wanted, rows: Schema, schema: StoredSchema | None) -> Encoding:  # noqa: ARG002
        return JsonEncoding(scalar=one_value(rows) is not None)


def _trimmed(source: str) -> str:
    return f"trim(CAST({source} AS STRING))"


def _in_braces(text: str) -> str:
    # Not LIKE '{%}', for which Spark counts the characters of the whole text.
    return f"startswith({text}, '{{') AND endswith({text}, '}}')"


def _goes_on(source: str) -> str:
    """Whether something follows the object, as from a producer that puts several in one message.

    Spark's parser ignores it. A text whose first closing brace is its end has nothing after it. Of
    the others those are parsed again in which a brace is followed by what may begin another value:
    as the first of two elements of an array, of which the second must be found next.
    """
    text = _trimmed(source)
    before_end = f"CAST(substr({source}, 1, octet_length({source}) - 1) AS STRING)"
    mark = f"CAST(xxhash64({source}) AS STRING)"
    both = f"from_json(concat('[', {text}, ',', {mark}, ']'), 'ARRAY<STRING>')"
    return (
        f"contains({before_end}, '}}') AND {before_end} RLIKE {literal(_NEXT_VALUE)} "
        f"AND NOT get({both}, 1) <=> {mark}"
    )


def from_json(schema: Schema, value: str) -> str:
    """SQL for the fields of a JSON text, and `CORRUPT`, which is there if they do not fit."""
    ddl = f"{schema.ddl()}, {CORRUPT} STRING"
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}')"
    return f"from_json(CAST({value} AS STRING), {literal(ddl)}, {options})"


def _wrong_fields(schema: Schema, source: str) -> str:
    if len(schema.columns) > FIELDS_NAMED:
        return "'a field does not fit the schema'"
    fields = ", ".join(wrong_field(column, source) for column in schema.columns)
    return f"concat('does not fit the schema: ', concat_ws(', ', {fields}))"


def wrong_field(column: Column, source: str) -> str:
    """SQL that names a column where its field does not fit; NULL where it does."""
    alone = from_json(Schema((column,)), source)
    label = literal(f"{column.name} is not {column.type}")
    return f"IF({alone}.{CORRUPT} IS NULL, NULL, {label})"


def _missing_fields(schema: Schema, source: str) -> str:
    if not schema.required:
        return "'a field is missing'"
    parsed = from_json(schema, source)
    names = ", ".join(
        f"IF(found.{quote(name)} IS NULL, {literal(name)}, NULL)" for name in schema.required
    )
    # An array of one, as a name for what is parsed once and looked at several times.
    return (
        f"concat('without a value for: ', "
        f"transform(array({parsed}), found -> concat_ws(', ', {names}))[0])"
    )
