"""Lines of CSV with a declared schema.

`decode` turns raw rows, a line each, into the schema's columns plus the hidden column of
`formats.carried`. `from_csv` alone would give a line with too few or too many fields, or with a
field of the wrong type, as a row with NULLs; here each is a code and a sentence. A quote inside a
quoted field is doubled, as RFC 4180 has it; a field cannot hold a line break. An empty field is
NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.formats.carried import COLUMN, ERROR, carried, told
from headrace.model.schema import Column, Schema, literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CORRUPT = "__corrupt"
NESTED = ("ARRAY", "MAP", "STRUCT", "VARIANT", "BINARY")
_TEXT = "CAST(value AS STRING)"
_CARRIED_VALUE = f"{COLUMN}.value"
# A file's first field may follow a byte order mark, and then keeps its quotes.
_AROUND_NAME = literal(' "\ufeff')
# As in `formats.json`: a second look at each field is generated for all records.
_FIELDS_NAMED = 64


def decode(
    raw: DataFrame,
    schema: Schema,
    delimiter: str,
    metadata: tuple[str, ...] = (),
    originals: int | None = None,
) -> DataFrame:
    """The schema's columns, `metadata` expressions and the hidden column; a row for each line."""
    parsed = raw.selectExpr("*", f"{_from_csv(schema, 'value', delimiter)} AS __csv")
    judged = parsed.selectExpr("*", f"{_error(schema, delimiter)} AS __error")
    row = judged.selectExpr("*", "IF(__error IS NULL, __csv, NULL) AS __row")
    columns = [f"__row.{quote(name)} AS {quote(name)}" for name in schema.names]
    return row.selectExpr(*columns, *metadata, f"{carried('__error', originals)} AS {COLUMN}")


def is_header(schema: Schema, delimiter: str) -> str:
    """SQL, over raw rows, for whether a line names the schema's columns in their order."""
    first = schema.names[0].lower()
    # Most lines are told apart by their beginning, and are not parsed twice.
    begins = f"instr(lower(left({_TEXT}, {len(first) + 2})), {literal(first)}) > 0"
    fields = _from_csv(_as_text(schema), "value", delimiter)
    same = " AND ".join(
        f"lower(trim(BOTH {_AROUND_NAME} FROM {fields}.{quote(name)})) <=> {literal(name.lower())}"
        for name in schema.names
    )
    return f"({begins} AND {same})"


def reason(schema: Schema, delimiter: str) -> str:
    """SQL for a sentence about a bad record, over rows that carry the hidden column."""
    count = len(schema.columns)
    expected = literal(f"the line does not have {count} fields separated by `{delimiter}`")
    cases = [
        "WHEN 'NOT_UTF8' THEN 'the line is not UTF-8 text'",
        f"WHEN 'FIELD_COUNT' THEN {expected}",
        f"WHEN 'WRONG_TYPE' THEN {_wrong_fields(schema, delimiter)}",
        f"WHEN 'MISSING_FIELD' THEN {_missing_fields(schema, delimiter)}",
    ]
    return told(f"CASE {ERROR} {' '.join(cases)} END")


def _from_csv(schema: Schema, value: str, delimiter: str) -> str:
    ddl = literal(f"{schema.ddl()}, {CORRUPT} STRING")
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT,
        "sep": delimiter,
        "escape": '"',
    }
    pairs = ", ".join(f"'{name}', {literal(setting)}" for name, setting in options.items())
    return f"from_csv(CAST({value} AS STRING), {ddl}, map({pairs}))"


def _as_text(schema: Schema, but: Column | None = None) -> Schema:
    """The same columns, all of them STRING except for one."""
    return Schema(
        tuple(each if each == but else Column(each.name, "STRING") for each in schema.columns)
    )


def _error(schema: Schema, delimiter: str) -> str:
    """SQL for the code of what is wrong with a line, or NULL; for good lines cheap."""
    as_text = _from_csv(_as_text(schema), "value", delimiter)
    missing = " OR ".join(f"__csv.{quote(name)} IS NULL" for name in schema.required)
    cases = [
        f"WHEN NOT is_valid_utf8({_TEXT}) THEN 'NOT_UTF8'",
        f"WHEN __csv IS NULL OR __csv.{CORRUPT} IS NOT NULL "
        f"THEN IF({as_text}.{CORRUPT} IS NULL, 'WRONG_TYPE', 'FIELD_COUNT')",
    ]
    if missing:
        cases.append(f"WHEN {missing} THEN 'MISSING_FIELD'")
    return f"CASE {' '.join(cases)} END"


def _wrong_fields(schema: Schema, delimiter: str) -> str:
    if len(schema.columns) > _FIELDS_NAMED:
        return "'a field does not fit the schema'"
    fields = ", ".join(_wrong_field(schema, column, delimiter) for column in schema.columns)
    return f"concat('does not fit the schema: ', concat_ws(', ', {fields}))"


def _wrong_field(schema: Schema, column: Column, delimiter: str) -> str:
    alone = _from_csv(_as_text(schema, column), _CARRIED_VALUE, delimiter)
    label = literal(f"{column.name} is not {column.type}")
    return f"IF({alone}.{CORRUPT} IS NULL, NULL, {label})"


def _missing_fields(schema: Schema, delimiter: str) -> str:
    if not schema.required:
        return "'a field is missing'"
    parsed = _from_csv(schema, _CARRIED_VALUE, delimiter)
    names = ", ".join(
        f"IF({parsed}.{quote(name)} IS NULL, {literal(name)}, NULL)" for name in schema.required
    )
    return f"concat('without a value for: ', concat_ws(', ', {names}))"
