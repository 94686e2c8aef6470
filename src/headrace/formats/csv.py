"""Lines of CSV with a declared schema.

`from_csv` alone would give a line with too few or too many fields, or with a
field of the wrong type, as a row with NULLs; here each is a code and a sentence. A quote inside a
quoted field is doubled, as RFC 4180 has it; a field cannot hold a line break. An empty field is
NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.admin.stored_schemas import StoredSchema
from headrace.formats.encoding import Encoding, Fields, listed
from headrace.formats.known import Known
from headrace.formats.options import Wanted
from headrace.formats.reading import Reading, Steps, cases
from headrace.formats.unregistered import Unregistered
from headrace.model.schema import Column, Schema, literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORRUPT = "__corrupt"
NESTED = ("ARRAY", "MAP", "STRUCT", "VARIANT", "BINARY")
# A file's first field may follow a byte order mark, and then keeps its quotes.
_AROUND_NAME = literal(' "\ufeff')
# As in `formats.json`: a second look at each field is generated for all records.
_FIELDS_NAMED = 64


@dataclass(frozen=True)
class CsvReading:
    schema: Schema
    delimiter: str = ","
    name: str = "CSV"
    scalar: bool = False

    def register(self, spark: SparkSession) -> None:
        """All of it is SQL."""

    def steps(self, source: str, prefix: str) -> Steps:
        return ((f"{prefix}csv", _from_csv(self.schema, source, self.delimiter)),)

    def fault(self, source: str, prefix: str) -> str:
        """Cheap for good lines; a bad one is parsed again."""
        csv = f"{prefix}csv"
        as_text = _from_csv(_as_text(self.schema), source, self.delimiter)
        missing = " OR ".join(f"{csv}.{quote(name)} IS NULL" for name in self.schema.required)
        found = [
            f"WHEN NOT is_valid_utf8(CAST({source} AS STRING)) THEN 'NOT_UTF8'",
            f"WHEN {csv} IS NULL OR {csv}.{CORRUPT} IS NOT NULL "
            f"THEN IF({as_text}.{CORRUPT} IS NULL, 'WRONG_TYPE', 'FIELD_COUNT')",
        ]
        if missing:
            found.append(f"WHEN {missing} THEN 'MISSING_FIELD'")
        return f"CASE {' '.join(found)} END"

    def row(self, prefix: str) -> str:
        return f"{prefix}csv"

    def reason(self, code: str, source: str) -> str:
        fields = f"{len(self.schema.columns)} fields separated by `{self.delimiter}`"
        sentences = {
            "NOT_UTF8": "'the line is not UTF-8 text'",
            "FIELD_COUNT": literal(f"the line does not have {fields}"),
            "WRONG_TYPE": _wrong_fields(self.schema, source, self.delimiter),
            "MISSING_FIELD": _missing_fields(self.schema, source, self.delimiter),
        }
        return cases(code, sentences)


class CsvFormat(Unregistered):
    def faults(self, wanted: Wanted) -> Iterator[str]:
        for column in wanted.schema.columns if wanted.schema is not None else ():
            if column.type.startswith(NESTED):
                yield f"`{column.name}` is {column.type}, which a field of csv cannot be"

    def columns(self, wanted: Wanted) -> Schema | None:
        return wanted.schema

    def reading(self, wanted: Wanted, source: str, known: Known | None) -> Reading:  # noqa: ARG002
        assert wanted.schema is not None  # CSV without columns has been refused
        return CsvReading(wanted.schema, wanted.delimiter)

    def encoding(self, wanted: Wanted, rows: Schema, schema: StoredSchema | None) -> Encoding:  # noqa: ARG002
        nested = [each.name for each in rows.columns if each.type.startswith(NESTED)]
        if nested:
            raise ValueError(f"{', '.join(nested)} cannot be a field of csv")
        return CsvEncoding(wanted.delimiter)


@dataclass(frozen=True)
class CsvEncoding:
    delimiter: str = ","
    name: str = "CSV"
    content_type: str = "text/csv"
    required: tuple[tuple[str, ...], ...] = ()

    def register(self, spark: SparkSession) -> None:
        """All of it is SQL."""

    def of_fields(self, fields: Fields) -> str:
        return self.of_value(f"struct({listed(fields)})")

    def of_value(self, sql: str) -> str:
        options = f"map('sep', {literal(self.delimiter)}, 'escape', '\"')"
        return f"CAST(to_csv({sql}, {options}) AS BINARY)"


def is_header(schema: Schema, delimiter: str) -> str:
    """SQL, over raw rows, for whether a line names the schema's columns in their order."""
    first = schema.names[0].lower()
    # Most lines are told apart by their beginning, and are not parsed twice.
    begins = f"instr(lower(left(CAST(value AS STRING), {len(first) + 2})), {literal(first)}) > 0"
    fields = _from_csv(_as_text(schema), "value", delimiter)
    same = " AND ".join(
        f"lower(trim(BOTH {_AROUND_NAME} FROM {fields}.{quote(name)})) <=> {literal(name.lower())}"
        for name in schema.names
    )
    return f"({begins} AND {same})"


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


def _wrong_fields(schema: Schema, source: str, delimiter: str) -> str:
    if len(schema.columns) > _FIELDS_NAMED:
        return "'a field does not fit the schema'"
    fields = ", ".join(_wrong_field(schema, column, source, delimiter) for column in schema.columns)
    return f"concat('does not fit the schema: ', concat_ws(', ', {fields}))"


def _wrong_field(schema: Schema, column: Column, source: str, delimiter: str) -> str:
    alone = _from_csv(_as_text(schema, column), source, delimiter)
    label = literal(f"{column.name} is not {column.type}")
    return f"IF({alone}.{CORRUPT} IS NULL, NULL, {label})"


def _missing_fields(schema: Schema, source: str, delimiter: str) -> str:
    if not schema.required:
        return "'a field is missing'"
    parsed = _from_csv(schema, source, delimiter)
    names = ", ".join(
        f"IF({parsed}.{quote(name)} IS NULL, {literal(name)}, NULL)" for name in schema.required
    )
    return f"concat('without a value for: ', concat_ws(', ', {names}))"
