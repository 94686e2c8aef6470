"""Lines of text as they are: one column `value`. A line that is not UTF-8 is a bad record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.formats.carried import COLUMN, ERROR, carried, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMN_NAME = "value"
_ERROR = "IF(is_valid_utf8(CAST(value AS STRING)), NULL, 'NOT_UTF8')"


def decode(
    raw: DataFrame, metadata: tuple[str, ...] = (), originals: int | None = None
) -> DataFrame:
    """The text, `metadata` expressions and the hidden column; a row for each raw one."""
    judged = raw.selectExpr("*", f"{_ERROR} AS __error")
    text = f"IF(__error IS NULL, CAST(value AS STRING), NULL) AS {COLUMN_NAME}"
    return judged.selectExpr(text, *metadata, f"{carried('__error', originals)} AS {COLUMN}")


def reason() -> str:
    """SQL for a sentence about a bad record, over rows that carry the hidden column."""
    return told(f"CASE {ERROR} WHEN 'NOT_UTF8' THEN 'the line is not UTF-8 text' END")
