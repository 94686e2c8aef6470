"""What the columns of CREATE TABLE mean to the connector behind it.

As a source: which of them are metadata, which are the `schema` of its records, and what SQL sees
(`columns:`). As a sink: the columns that rows are written into, by position. Called by `compile`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from headrace.frontend.sql import dialect
from headrace.frontend.sql.options import flag, text_of
from headrace.frontend.sql.statements import Column, CreateTable, Fields, Fragment
from headrace.model.schema import quote
from headrace.sources import SOURCES
from headrace.spans import Diagnostic, Edit, Field, Node, Severity, Span

# The types that a column which is there by itself may be declared with; the first is its own.
Types = Mapping[str, tuple[str, ...]]
_HEADERS = "ARRAY<STRUCT<`key` STRING, `value` BINARY>>"
_KAFKA: Types = {
    "_kafka_topic": ("STRING",),
    "_kafka_partition": ("INT",),
    "_kafka_offset": ("BIGINT",),
    "_kafka_timestamp": ("TIMESTAMP",),
    "_kafka_key": ("BINARY", "STRING"),
    "_kafka_headers": (_HEADERS, "VARIANT"),
}
_FILE: Types = {
    "_file_path": ("STRING",),
    "_file_offset": ("BIGINT",),
    "_file_time": ("TIMESTAMP",),
}
METADATA: Mapping[str, Types] = {"kafka": _KAFKA, "files": _FILE, "log": _FILE}
_RAW: Types = {
    "key": ("BINARY", "STRING"),
    "value": ("BINARY", "STRING"),
    "timestamp": ("TIMESTAMP",),
    "partition": ("INT",),
    "offset": ("BIGINT",),
    "topic": ("STRING",),
    "headers": (_HEADERS,),
}
_TEXT: Types = {"value": ("STRING",)}
# PostgreSQL's names, in which the reader of a message is likelier to think.
_SAID = {"STRING": "TEXT", "BINARY": "BYTEA", "VARIANT": "JSON"}
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass
class Declared:
    """What a table's columns add to the options of its source."""

    fields: dict[str, Field] = field(default_factory=dict)
    faults: list[Diagnostic] = field(default_factory=list)


def of_source(table: CreateTable, connector: str, options: Fields) -> Declared:
    """`options` are those of the source by the names of its spec."""
    declared = Declared()
    if table.columns is not None:
        _Columns(table, connector, options, declared).declare(table.columns)
    if table.watermark is not None:
        declared.fields["watermark"] = _watermark(table)
    return declared


def of_sink(table: CreateTable, connector: str) -> tuple[Column, ...] | None:
    """The columns that rows are written into; None where any will do.

    A table that is read, too, may have columns that nobody writes.
    """
    if table.columns is None:
        return None
    unwritten = METADATA.get(connector, {})
    return tuple(
        column
        for column in table.columns
        if column.generated is None and column.name.text.lower() not in unwritten
    )


def faults_of_sink(columns: tuple[Column, ...]) -> Iterator[Diagnostic]:
    for column in columns:
        if not column.nullable:
            message = f"NOT NULL of `{column.name}` has no effect: what is written is not checked"
            hint = "say it in WHERE, or on the table that is read"
            yield Diagnostic("NO_EFFECT", message, column.name.span, hint, Severity.WARNING)


def key_of_raw(fields: Fields, span: Span) -> dict[str, Field]:
    """Of a sink that writes the bytes of its columns, the key is the column `key`."""
    if text_of(fields, "value", "") != "value" or "key" in fields:
        return {}
    return {"key": Field(span, Node("key", span))}


def bare(name: str) -> str:
    """A name as it stands in SQL: with quotes only where it needs them."""
    return name if _BARE.fullmatch(name) else quote(name)


def _fixed(connector: str, options: Fields) -> Types:
    """The columns of records that have no schema."""
    form = text_of(options, "format", "")
    if connector == "kafka" and form == "raw":
        return _RAW
    return _TEXT if connector in ("files", "log") and form == "text" else {}


class _Columns:
    """The columns of one source table."""

    def __init__(
        self, table: CreateTable, connector: str, options: Fields, declared: Declared
    ) -> None:
        self.table = table
        self.connector = connector
        self.options = options
        self.declared = declared
        self.metadata = METADATA.get(connector, {})
        self.fixed = _fixed(connector, options)
        self.unknown: list[Column] = []

    def declare(self, columns: tuple[Column, ...]) -> None:
        plain = [column for column in columns if column.generated is None]
        told = [column for column in plain if column.name.text.lower() in self.metadata]
        own = [column for column in plain if column not in told]
        for column in told:
            self._check_type(column, self.metadata)
        if told and not flag(self.options, "include_metadata"):
            message = f"`{told[0].name}` is metadata, which this table does not ask for"
            hint = "add `include_metadata = true`"
            self._fault("UNKNOWN_COLUMN", message, told[0].name.span, hint)
            self.unknown += told
        if self.fixed:
            self._check_fixed(own)
        elif "schema" in SOURCES[self.connector].SPEC.names:
            self._schema(own)
        if told or len(plain) < len(columns) or not self._is_whole:
            self._visible(tuple(each for each in columns if each not in self.unknown))

    @property
    def _is_whole(self) -> bool:
        """Whether the source's own columns are those that were declared."""
        return "schema" in self.declared.fields

    def _check_fixed(self, own: list[Column]) -> None:
        for column in own:
            if column.name.text.lower() in self.fixed:
                self._check_type(column, self.fixed)
            else:
                form = text_of(self.options, "format", "")
                message = f"records of format {form} have no column `{column.name}`"
                hint = "they have " + ", ".join(self.fixed)
                self.unknown.append(column)
                self._fault("UNKNOWN_COLUMN", message, column.name.span, hint)

    def _check_type(self, column: Column, types: Types) -> None:
        allowed = types[column.name.text.lower()]
        if column.type is not None and column.type not in allowed:
            said = " or ".join(_SAID.get(each, each) for each in allowed)
            is_ = _SAID.get(column.type, column.type)
            message = f"`{column.name}` is {said}, and is declared {is_}"
            self._fault("WRONG_COLUMN_TYPE", message, column.name.span, f"declare it {said}")

    def _schema(self, own: list[Column]) -> None:
        given = self.options.get("schema")
        if given is not None:
            message = "the columns are declared twice: in CREATE TABLE, and as `schema`"
            self._fault("CONFLICT", message, given.key, "keep one of them")
        if not own:
            return
        text = ", ".join(
            f"{bare(column.name.text)} {column.type}{'' if column.nullable else ' NOT NULL'}"
            for column in own
        )
        span = own[0].name.span
        self.declared.fields["schema"] = Field(span, Node(text, span))

    def _visible(self, columns: tuple[Column, ...]) -> None:
        """`columns:` of the source, in the order of the declaration."""
        if not columns:
            return
        if any(c.type == "VARIANT" and c.name.text.lower() == "_kafka_headers" for c in columns):
            span = self.table.name.span
            self.declared.fields["metadata_headers"] = Field(span, Node("json", span))
        made = {column.name.text: self._expression(column) for column in columns}
        span = columns[0].name.span
        if all(node is None for node in made.values()):
            names = [Node(column.name.text, column.name.span) for column in columns]
            self.declared.fields["columns"] = Field(span, Node(names, span))
            return
        fields = {
            column.name.text: Field(
                column.name.span,
                made[column.name.text] or Node(bare(column.name.text), column.name.span),
            )
            for column in columns
        }
        self.declared.fields["columns"] = Field(span, Node(fields, span))

    def _expression(self, column: Column) -> Node | None:
        """What makes the column; None for one that is there as it is declared."""
        name = column.name
        if column.generated is not None:
            return self._generated(column, column.generated)
        own = {**self.metadata, **self.fixed}.get(name.text.lower(), ())
        if own:
            if column.type == "STRING" and own[0] == "BINARY":
                return Node(f"CAST({bare(name.text)} AS STRING)", name.span)
            return None
        if self._is_whole or column.type is None:
            return None
        return Node(f"CAST({bare(name.text)} AS {column.type})", name.span)

    def _generated(self, column: Column, written: Fragment) -> Node:
        made, faults = dialect.translate(written)
        self.declared.faults.extend(faults)
        if column.type is None:
            return Node(made.sql, made.span)
        before, after = "CAST((", f") AS {column.type})"
        end = len(made.span.raw)
        edits = (Edit(0, 0, before), *made.span.edits, Edit(end, end, after))
        return Node(f"{before}{made.sql}{after}", replace(made.span, edits=edits))

    def _fault(self, code: str, message: str, span: Span, hint: str) -> None:
        self.declared.faults.append(Diagnostic(code, message, span, hint))


def _watermark(table: CreateTable) -> Field:
    watermark = table.watermark
    assert watermark is not None
    fields = {
        "column": Field(watermark.span, Node(watermark.column.text, watermark.column.span)),
        "delay": Field(watermark.span, Node(f"{watermark.delay_ms}ms", watermark.span)),
    }
    return Field(watermark.span, Node(fields, watermark.span))
