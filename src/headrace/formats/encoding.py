"""How a row becomes the bytes of a message: what a format is to the Kafka sink.

An `Encoding` gives SQL for the bytes of a struct. What is not SQL, a function over Arrow batches,
it makes known to the session first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.model.schema import Column, Schema, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Names of fields, and SQL for each.
Fields = list[tuple[str, str]]
# The name of the one column of rows whose messages are one value, and no set of fields.
WHOLE = ""
# The names of what is inside of arrays and maps, in `Encoding.required`.
ELEMENTS, VALUES = "[]", "{}"
# What a query that must stop at a row fails with; the rest of the text is JSON.
ROW_REFUSED = "HEADRACE_ROW_REFUSED "


class Encoding(Protocol):
    """One format with one schema."""

    @property
    def name(self) -> str:
        """What it is called in an explanation: `JSON`, `Avro by subject orders-value`."""
        ...

    @property
    def content_type(self) -> str:
        """The media type of the messages, for envelopes."""
        ...

    @property
    def required(self) -> tuple[tuple[str, ...], ...]:
        """The fields that must have a value by its schema, and may have none in the rows: each by
        its name, or by those of the structs around it and its own; what an array or a map holds is
        named `ELEMENTS` or `VALUES`. Rows without one are refused.
        """
        ...

    def register(self, spark: SparkSession) -> None:
        """Make functions known that its SQL calls; may be called again and again."""
        ...

    def of_fields(self, fields: Fields) -> str:
        """SQL, BINARY, for a message of these fields."""
        ...

    def of_value(self, sql: str) -> str:
        """SQL, BINARY, for a message that is one value: a struct, or a key of one column."""
        ...


@dataclass(frozen=True)
class JsonEncoding:
    """`scalar` says that a message is one value, which may be other than an object. Fields without
    a value are null in it, or with `drops_nulls` left out.
    """

    scalar: bool = False
    name: str = "JSON"
    content_type: str = "application/json"
    required: tuple[tuple[str, ...], ...] = ()
    drops_nulls: bool = False

    def register(self, spark: SparkSession) -> None:
        """All of it is SQL."""

    def of_fields(self, fields: Fields) -> str:
        return self.of_value(f"struct({listed(fields)})")

    def of_value(self, sql: str) -> str:
        if not self.scalar:
            return f"CAST({self._to_json(sql)} AS BINARY)"
        # Spark's function takes no plain values, and a list of one is that value in brackets.
        in_brackets = self._to_json(f"array({sql})")
        text = f"regexp_extract({in_brackets}, '(?s)^.(.*).$')"
        return f"CAST(IF(({sql}) IS NULL, NULL, {text}) AS BINARY)"

    def _to_json(self, sql: str) -> str:
        return f"to_json({sql}, map('ignoreNullFields', '{str(self.drops_nulls).lower()}'))"


def one_value(rows: Schema) -> Column | None:
    """The column of rows whose messages are one value, as those of a key of one column are."""
    return rows.columns[0] if rows.names == (WHOLE,) else None


def listed(fields: Fields) -> str:
    return ", ".join(f"{sql} AS {quote(name)}" for name, sql in fields)
