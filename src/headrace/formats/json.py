"""JSON records with a declared schema.

`decode` turns raw Kafka rows into the schema's columns plus the hidden column of `formats.carried`.
`from_json` alone would let records pass as good that are not: text after the object is ignored, and
so is a second object; bytes that are no text become question marks; a field that must be there may
be missing. Each is a code here, and a sentence that says which field is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.formats.carried import COLUMN, carried
from headrace.model.schema import Column, Schema, literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CORRUPT = "__corrupt"
_TEXT = "trim(CAST(value AS STRING))"
# Two objects in one message, as from a producer of JSON lines. Only those that look like it are
# parsed again, as an array, which two objects without a comma are not.
_LOOKS_LIKE_TWO = " OR ".join(
    f"contains(CAST(value AS STRING), '}}{gap}{{')" for gap in ("", " ", "\\n", "\\r\\n")
)
# For records that fit no schema, a second look at each field says which one is wrong; it is taken
# only for bad records, but the code for it is generated for all, so very wide schemas do without.
_FIELDS_NAMED = 64


def decode(raw: DataFrame, schema: Schema, metadata: tuple[str, ...] = ()) -> DataFrame:
    """The schema's columns, `metadata` expressions and the hidden column; a row for each record."""
    parsed = raw.selectExpr("*", f"{_from_json(schema)} AS __json")
    reasoned = parsed.selectExpr("*", f"{_error(schema)} AS __error")
    columns = [f"__json.{quote(name)} AS {quote(name)}" for name in schema.names]
    hidden = f"{carried('__error', _message(schema))} AS {COLUMN}"
    return reasoned.selectExpr(*columns, *metadata, hidden)


def _from_json(schema: Schema) -> str:
    ddl = f"{schema.ddl()}, {CORRUPT} STRING"
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}')"
    return f"from_json(CAST(value AS STRING), {literal(ddl)}, {options})"


def _error(schema: Schema) -> str:
    """SQL for the code of what is wrong with a record, or NULL; the cheap questions for good
    records.
    """
    missing = " OR ".join(f"__json.{quote(name)} IS NULL" for name in schema.required)
    corrupt = (
        f"CASE WHEN try_parse_json({_TEXT}) IS NULL THEN 'NOT_JSON' "
        f"WHEN {_TEXT} NOT LIKE '{{%}}' THEN 'NOT_AN_OBJECT' ELSE 'WRONG_TYPE' END"
    )
    cases = [
        "WHEN value IS NULL THEN 'NULL_VALUE'",
        "WHEN length(value) = 0 THEN 'EMPTY_VALUE'",
        "WHEN NOT is_valid_utf8(CAST(value AS STRING)) THEN 'NOT_UTF8'",
        f"WHEN __json IS NULL OR __json.{CORRUPT} IS NOT NULL THEN {corrupt}",
        f"WHEN {_TEXT} NOT LIKE '{{%}}' THEN 'NOT_AN_OBJECT'",
        f"WHEN ({_LOOKS_LIKE_TWO}) AND try_parse_json(concat('[', {_TEXT}, ']')) IS NULL "
        "THEN 'NOT_AN_OBJECT'",
    ]
    if missing:
        cases.append(f"WHEN {missing} THEN 'MISSING_FIELD'")
    return f"CASE {' '.join(cases)} END"


def _message(schema: Schema) -> str:
    """SQL for a sentence about it; only evaluated where there is an error."""
    missing = ", ".join(
        f"IF(__json.{quote(name)} IS NULL, {literal(name)}, NULL)" for name in schema.required
    )
    cases = [
        "WHEN 'NULL_VALUE' THEN 'the message has no value (a tombstone)'",
        "WHEN 'EMPTY_VALUE' THEN 'the value is empty'",
        "WHEN 'NOT_UTF8' THEN 'the value is not UTF-8 text'",
        "WHEN 'NOT_JSON' THEN 'the value is not valid JSON'",
        "WHEN 'NOT_AN_OBJECT' THEN 'the value is not one JSON object'",
        f"WHEN 'WRONG_TYPE' THEN {_wrong_fields(schema)}",
    ]
    if missing:
        cases.append(
            f"WHEN 'MISSING_FIELD' THEN concat('without a value for: ', concat_ws(', ', {missing}))"
        )
    return f"CASE __error {' '.join(cases)} END"


def _wrong_fields(schema: Schema) -> str:
    if len(schema.columns) > _FIELDS_NAMED:
        return "'a field does not fit the schema'"
    fields = ", ".join(_wrong_field(column) for column in schema.columns)
    return f"concat('does not fit the schema: ', concat_ws(', ', {fields}))"


def _wrong_field(column: Column) -> str:
    alone = _from_json(Schema((column,)))
    label = literal(f"{column.name} is not {column.type}")
    return f"IF({alone}.{CORRUPT} IS NULL, NULL, {label})"
