"""JSON records without a schema: each is one VARIANT, whatever JSON it holds.

Spark's parser takes the first value of a text and ignores what follows. So a text is parsed as the
first of two elements of an array; where the second, a number that follows from the text, is not
found next, there was something else after the first value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.formats.carried import COLUMN, ERROR, carried, told
from headrace.formats.json import NO_TEXT, no_value
from headrace.model.schema import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMN_NAME = "value"
# SQL for the whole value, among the `metadata` of `decode`.
WHOLE = "__value"
_MARK = "xxhash64(value)"
_TEXT = "try_validate_utf8(CAST(value AS STRING))"
_NOT_ONE_VALUE = "the value is not one valid JSON value, or has a field twice"


def decode(
    raw: DataFrame,
    name: str = COLUMN_NAME,
    metadata: tuple[str, ...] = (),
    tombstones: bool = True,
    originals: int | None = None,
) -> DataFrame:
    """The value as column `name`, `metadata` expressions and the hidden column.

    Without `tombstones` a record that has no value is a bad one. JSON's own null is a value.
    """
    both = f"try_parse_json(concat('[', {_TEXT}, ',', {_MARK}, ']'))"
    parsed = raw.selectExpr("*", f"{both} AS __json")
    judged = parsed.selectExpr("*", f"{_error(tombstones)} AS __error")
    value = f"IF(__error IS NULL, variant_get(__json, '$[0]'), NULL) AS {WHOLE}"
    row = judged.selectExpr("*", value)
    hidden = f"{carried('__error', originals)} AS {COLUMN}"
    return row.selectExpr(f"{WHOLE} AS {quote(name)}", *metadata, hidden)


def reason() -> str:
    """SQL for a sentence about a bad record, over rows that carry the hidden column."""
    cases = {**NO_TEXT, "NOT_JSON": _NOT_ONE_VALUE}
    told_by = " ".join(f"WHEN '{code}' THEN '{text}'" for code, text in cases.items())
    return told(f"CASE {ERROR} {told_by} END")


def _error(tombstones: bool) -> str:
    """SQL for the code of what is wrong with a record, or NULL."""
    return (
        f"CASE WHEN value IS NULL THEN {no_value(tombstones)} "
        "WHEN length(value) = 0 THEN 'EMPTY_VALUE' "
        f"WHEN {_TEXT} IS NULL THEN 'NOT_UTF8' "
        f"WHEN NOT try_variant_get(__json, '$[1]', 'bigint') <=> {_MARK} THEN 'NOT_JSON' END"
    )
