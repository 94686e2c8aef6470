"""Rows as messages: what the function of a `python_rows` step gets of a row, and gives back.

A row is a message of its columns, and a raw record is the bytes of its value. Where the source
includes metadata a message is `{data, metadata}`: what Kafka knows of the record stands in the
metadata, and only the rest in the data.
"""

from __future__ import annotations

from headrace.formats import raw

DATA, METADATA = "data", "metadata"
# What a source with `include_metadata` adds to the columns of the value, beside those two.
PREFIX = "_kafka_"


def has_metadata(columns: tuple[str, ...]) -> bool:
    return METADATA in columns and any(name.startswith(PREFIX) for name in columns)


def data_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that the data of a message holds."""
    if not has_metadata(columns):
        return columns
    return tuple(
        name for name in columns if name not in (DATA, METADATA) and not name.startswith(PREFIX)
    )


def is_raw(columns: tuple[str, ...]) -> bool:
    """Whether rows are records as they are in Kafka, whose messages are bytes."""
    return {*data_columns(columns)} == {*raw.COLUMNS}


def returned_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of what comes back, where the step declares none."""
    return ("value",) if is_raw(columns) else data_columns(columns)
