"""Records as they are: key and value in bytes, beside what Kafka knows of them.

No record is bad, so the hidden column says nothing but where a row came from; a step may still
refuse one later. A record without a value is a row whose `value` is NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.formats.carried import COLUMN, carried, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS: tuple[str, ...] = ("key", "value", "timestamp", "partition", "offset", "topic", "headers")
_NONE = "CAST(NULL AS STRING)"


def decode(
    raw: DataFrame, metadata: tuple[str, ...] = (), originals: int | None = None
) -> DataFrame:
    """`COLUMNS`, `metadata` expressions and the hidden column; a row for each record."""
    return raw.selectExpr(*COLUMNS, *metadata, f"{carried(_NONE, originals)} AS {COLUMN}")


def reason() -> str:
    """SQL for a sentence about a bad record: only a step can have one to tell."""
    return told(_NONE)
