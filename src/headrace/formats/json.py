"""JSON records with a declared schema.

`decode` turns raw Kafka rows into the schema's columns plus the hidden column of `formats.carried`.
`from_json` alone would let records pass as good that are not: text after the object is ignored, and
so is a second object; bytes that are no text become question marks; a field that must be there may
be missing. Each is a code here, and a sentence that says which field is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.formats.carried import COLUMN, ERROR, TOMBSTONE, carried, told
from headrace.model.schema import Column, Schema, literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CORRUPT = "__corrupt"
# What can be wrong before there is a text to parse.
NO_TEXT = {
    "NULL_VALUE": "the record has no value",
    "EMPTY_VALUE": "the value is empty",
    "NOT_UTF8": "the value is not UTF-8 text",
}
_TEXT = "trim(CAST(value AS STRING))"
# Not LIKE '{%}', for which Spark counts the characters of the whole text.
_IN_BRACES = f"startswith({_TEXT}, '{{') AND endswith({_TEXT}, '}}')"
_CARRIED_VALUE = f"{COLUMN}.value"
# Two objects in one message, as from a producer of JSON lines. Only those that look like it are
# parsed again, as an array, which two objects without a comma are not.
_LOOKS_LIKE_TWO = " OR ".join(
    f"contains(CAST(value AS STRING), '}}{gap}{{')" for gap in ("", " ", "\\n", "\\r\\n")
)
# For records that fit no schema, a second look at each field says which one is wrong; it is taken
# only for bad records, but the code for it is generated for all, so very wide schemas do without.
_FIELDS_NAMED = 64


def decode(
    raw: DataFrame,
    schema: Schema,
    metadata: tuple[str, ...] = (),
    tombstones: bool = True,
    originals: int | None = None,
) -> DataFrame:
    """The schema's columns, `metadata` expressions and the hidden column; a row for each record.

    Without `tombstones` a record that has no value is a bad one.

    The columns of a bad record are all NULL, also those that could be read: the author's SQL is
    evaluated for them too, and must find nothing there that it could fail on.
    """
    parsed = raw.selectExpr("*", f"{_from_json(schema, 'value')} AS __json")
    judged = parsed.selectExpr("*", f"{_error(schema, tombstones)} AS __error")
    row = judged.selectExpr("*", "IF(__error IS NULL, __json, NULL) AS __row")
    columns = [f"__row.{quote(name)} AS {quote(name)}" for name in schema.names]
    return row.selectExpr(*columns, *metadata, f"{carried('__error', originals)} AS {COLUMN}")


def whole(schema: Schema) -> str:
    """SQL for the value as one struct, among the `metadata` of `decode`; NULL for no value."""
    fields = ", ".join(f"{literal(name)}, __row.{quote(name)}" for name in schema.names)
    return f"IF(__row IS NULL, NULL, named_struct({fields}))"


def reason(schema: Schema) -> str:
    """SQL for a sentence about a bad record, over rows that carry the hidden column.

    It parses the record once more for each field, so it belongs where only bad records come.
    """
    cases = [
        *(f"WHEN '{code}' THEN '{text}'" for code, text in NO_TEXT.items()),
        "WHEN 'NOT_JSON' THEN 'the value is not valid JSON'",
        "WHEN 'NOT_AN_OBJECT' THEN 'the value is not one JSON object'",
        f"WHEN 'WRONG_TYPE' THEN {_wrong_fields(schema)}",
        f"WHEN 'MISSING_FIELD' THEN {_missing_fields(schema)}",
    ]
    return told(f"CASE {ERROR} {' '.join(cases)} END")


def _from_json(schema: Schema, value: str) -> str:
    ddl = f"{schema.ddl()}, {CORRUPT} STRING"
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}')"
    return f"from_json(CAST({value} AS STRING), {literal(ddl)}, {options})"


def _error(schema: Schema, tombstones: bool) -> str:
    """SQL for the code of what is wrong with a record, or NULL. Good records pass every question,
    so these are cheap ones; what costs is asked only of a record that already looks bad.
    """
    missing = " OR ".join(f"__json.{quote(name)} IS NULL" for name in schema.required)
    corrupt = (
        f"CASE WHEN try_parse_json({_TEXT}) IS NULL THEN 'NOT_JSON' "
        f"WHEN NOT ({_IN_BRACES}) THEN 'NOT_AN_OBJECT' ELSE 'WRONG_TYPE' END"
    )
    cases = [
        f"WHEN value IS NULL THEN {no_value(tombstones)}",
        "WHEN length(value) = 0 THEN 'EMPTY_VALUE'",
        "WHEN NOT is_valid_utf8(CAST(value AS STRING)) THEN 'NOT_UTF8'",
        f"WHEN __json IS NULL OR __json.{CORRUPT} IS NOT NULL THEN {corrupt}",
        f"WHEN NOT ({_IN_BRACES}) THEN 'NOT_AN_OBJECT'",
        f"WHEN ({_LOOKS_LIKE_TWO}) AND try_parse_json(concat('[', {_TEXT}, ']')) IS NULL "
        "THEN 'NOT_AN_OBJECT'",
    ]
    if missing:
        cases.append(f"WHEN {missing} THEN 'MISSING_FIELD'")
    return f"CASE {' '.join(cases)} END"


def no_value(tombstones: bool) -> str:
    """A tombstone deletes what has its key; without a key there is nothing that it could mean."""
    return f"IF(key IS NULL, 'NULL_VALUE', '{TOMBSTONE}')" if tombstones else "'NULL_VALUE'"


def _wrong_fields(schema: Schema) -> str:
    if len(schema.columns) > _FIELDS_NAMED:
        return "'a field does not fit the schema'"
    fields = ", ".join(_wrong_field(column) for column in schema.columns)
    return f"concat('does not fit the schema: ', concat_ws(', ', {fields}))"


def _wrong_field(column: Column) -> str:
    alone = _from_json(Schema((column,)), _CARRIED_VALUE)
    label = literal(f"{column.name} is not {column.type}")
    return f"IF({alone}.{CORRUPT} IS NULL, NULL, {label})"


def _missing_fields(schema: Schema) -> str:
    if not schema.required:
        return "'a field is missing'"
    parsed = _from_json(schema, _CARRIED_VALUE)
    names = ", ".join(
        f"IF(found.{quote(name)} IS NULL, {literal(name)}, NULL)" for name in schema.required
    )
    # An array of one, as a name for what is parsed once and looked at several times.
    return (
        f"concat('without a value for: ', "
        f"transform(array({parsed}), found -> concat_ws(', ', {names}))[0])"
    )
