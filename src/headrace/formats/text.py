"""Text as it is: one column `value`. What is not UTF-8 is a bad record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.admin.stored_schemas import StoredSchema
from headrace.formats.encoding import Encoding, Fields
from headrace.formats.known import Known
from headrace.formats.options import Wanted
from headrace.formats.reading import Reading, Steps, cases
from headrace.formats.unregistered import Unregistered
from headrace.model.schema import Column, Schema, literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMN_NAME = "value"


@dataclass(frozen=True)
class TextReading:
    """`what` a record is in a sentence: a line, a key."""

    what: str = "line"
    column: str = COLUMN_NAME
    name: str = "text"
    scalar: bool = True

    @property
    def schema(self) -> Schema:
        return Schema((Column(self.column, "STRING"),))

    def register(self, spark: SparkSession) -> None:
        """All of it is SQL."""

    def steps(self, source: str, prefix: str) -> Steps:
        text = f"named_struct({literal(self.column)}, CAST({source} AS STRING))"
        return ((f"{prefix}text", text),)

    def fault(self, source: str, prefix: str) -> str:  # noqa: ARG002
        return f"IF(is_valid_utf8(CAST({source} AS STRING)), NULL, 'NOT_UTF8')"

    def row(self, prefix: str) -> str:
        return f"{prefix}text"

    def reason(self, code: str, source: str) -> str:  # noqa: ARG002
        return cases(code, {"NOT_UTF8": literal(f"the {self.what} is not UTF-8 text")})


class TextFormat(Unregistered):
    def faults(self, wanted: Wanted) -> Iterator[str]:  # noqa: ARG002
        yield from ()

    def columns(self, wanted: Wanted) -> Schema | None:
        return TextReading(column=wanted.column).schema

    def reading(self, wanted: Wanted, source: str, known: Known | None) -> Reading:  # noqa: ARG002
        return TextReading(wanted.part, wanted.column)

    def encoding(self, wanted: Wanted, rows: Schema, schema: StoredSchema | None) -> Encoding:  # noqa: ARG002
        return TextEncoding()


@dataclass(frozen=True)
class TextEncoding:
    """One value as text; bytes stay as they are."""

    name: str = "text"
    content_type: str = "text/plain"
    required: tuple[tuple[str, ...], ...] = ()

    def register(self, spark: SparkSession) -> None:
        """All of it is SQL."""

    def of_fields(self, fields: Fields) -> str:
        ((_, sql),) = fields
        return self.of_value(sql)

    def of_value(self, sql: str) -> str:
        return f"CAST(CAST({sql} AS STRING) AS BINARY)"
