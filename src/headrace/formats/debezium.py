"""Changes of a database's table as Debezium tells them: `op`, the row `before` and the row `after`.

What was inserted, updated or read by a snapshot gives the row as it is now. What was deleted gives
a deletion (`formats.carried`) whose columns tell which row it was: those of the record's key or, if
that cannot be read, those of `before`. It thus goes through steps as rows do, and deletes by its
key at the end. The tombstone after it says the same once more, which matters where Kafka's
compaction has left nothing else.

`Envelopes` is how the change in a message is found, in one language; the rest is the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from headrace.admin.stored_schemas import StoredSchema
from headrace.errors import InternalError
from headrace.formats import debezium_avro
from headrace.formats.carried import TOMBSTONE
from headrace.formats.debezium_avro import AvroEnvelopes
from headrace.formats.debezium_json import JsonEnvelopes
from headrace.formats.encoding import Encoding
from headrace.formats.known import Known
from headrace.formats.options import ChangeRules, Wanted
from headrace.formats.reading import Reading, Steps, cases
from headrace.formats.unregistered import Unregistered
from headrace.model.schema import Column, Schema, literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGE_COLUMNS = (
    Column("_change_op", "STRING"),
    Column("_change_time", "TIMESTAMP"),
    Column("_change_position", "STRING"),
)
_ROW_OPS = ("c", "u", "r")
_REASONS = {
    "NOT_A_CHANGE": "'the value is no change of a row: it has no op'",
    "UNKNOWN_OP": "'the op is none of c, u, d and r'",
    "TRUNCATE": "'the table was truncated; rows that were read from it are not deleted by that'",
    "MESSAGE": "'the value is a message of the database, and no change of a row'",
    "NO_AFTER": "'the change has no row in after'",
    "NO_KEY": "'the deletion has neither a key nor a row in before'",
}


class Envelopes(Protocol):
    """How a change is read. Its images of rows may have other types than the columns."""

    @property
    def name(self) -> str: ...

    def register(self, spark: SparkSession) -> None:
        """As `Reading.register`."""
        ...

    def steps(self, source: str, prefix: str) -> Steps:
        """The last is the change: a struct with `op`, `before`, `after`, and `source` if that is
        asked for. What the fields of `source` are is up to the database.
        """
        ...

    def value(self, column: Column, image: str, prefix: str) -> str:
        """SQL for the value of a column in an image of a row; NULL where it has not its type."""
        ...

    def key(self) -> str:
        """SQL for an image with what the record's key, the column `key`, says; or NULL."""
        ...

    def fault(self, source: str, prefix: str) -> str:
        """As `Reading.fault`: why there is no change to be found in a message."""
        ...

    def row_fault(self, prefix: str) -> str:
        """SQL for the code of what is wrong with the row in the column `image`, or NULL; `now` is
        what `value` made of it.
        """
        ...

    def reason(self, code: str, source: str) -> str:
        """As `Reading.reason`, for the codes of both."""
        ...


@dataclass(frozen=True)
class DebeziumReading:
    columns: Schema
    rules: ChangeRules
    envelopes: Envelopes
    scalar: bool = False

    @property
    def name(self) -> str:
        return self.envelopes.name

    @property
    def schema(self) -> Schema:
        return with_change_columns(self.columns, self.rules)

    def register(self, spark: SparkSession) -> None:
        self.envelopes.register(spark)

    def steps(self, source: str, prefix: str) -> Steps:
        change, image = f"{prefix}change", f"{prefix}image"
        deletes = f"{source} IS NULL OR {change}.op = 'd'"
        return (
            *self.envelopes.steps(source, prefix),
            (image, f"IF({deletes}, {self._old(f'{change}.before')}, {change}.after)"),
            (f"{prefix}now", f"IF({image} IS NULL, NULL, {self._row(image, prefix)})"),
        )

    def _old(self, before: str) -> str:
        """SQL for an image of a row that is gone. All that is known makes a row of it; but what
        passes by the author's filters must have nothing beyond its key that SQL could fail on.
        """
        key = self.envelopes.key()
        first, second = (before, key) if self.rules.deletes == "rows" else (key, before)
        return f"coalesce({first}, {second})"

    def fault(self, source: str, prefix: str) -> str:
        op, now = f"{prefix}change.op", f"{prefix}now"
        delete = f"'{TOMBSTONE}'" if self.rules.deletes == "delete" else "NULL"
        unknown = f"{now} IS NULL"
        unknown += " AND key IS NULL" if self.rules.deletes == "delete" else ""
        found = [
            f"WHEN {op} IS NULL THEN 'NOT_A_CHANGE'",
            f"WHEN {op} = 'd' THEN IF({unknown}, 'NO_KEY', {delete})",
            f"WHEN {op} = 't' THEN 'TRUNCATE'",
            f"WHEN {op} = 'm' THEN 'MESSAGE'",
            f"WHEN {op} NOT IN {_ROW_OPS} THEN 'UNKNOWN_OP'",
            f"WHEN {now} IS NULL THEN 'NO_AFTER'",
        ]
        missing = " OR ".join(f"{now}.{quote(name)} IS NULL" for name in self.columns.required)
        unfit = self.envelopes.row_fault(prefix)
        if missing:
            unfit = f"coalesce({unfit}, IF({missing}, 'MISSING_FIELD', NULL))"
        change = f"CASE {' '.join(found)} ELSE {unfit} END"
        return f"coalesce({self.envelopes.fault(source, prefix)}, {change})"

    def row(self, prefix: str) -> str:
        return f"{prefix}now"

    def deleted(self, prefix: str) -> str:
        return f"{prefix}now"

    def reason(self, code: str, source: str) -> str:
        return f"coalesce({cases(code, _REASONS)}, {self.envelopes.reason(code, source)})"

    def _row(self, image: str, prefix: str) -> str:
        """SQL for the columns, each as it is declared."""
        parts = [
            f"{literal(each.name)}, {self.envelopes.value(each, image, prefix)}"
            for each in self.columns.columns
        ]
        if self.rules.change_columns:
            change = f"{prefix}change"
            facts = (f"coalesce({change}.op, 'd')", _time(change), _position(f"{change}.source"))
            parts += [
                f"{literal(each.name)}, {sql}"
                for each, sql in zip(CHANGE_COLUMNS, facts, strict=True)
            ]
        return f"named_struct({', '.join(parts)})"


class DebeziumFormat(Unregistered):
    """JSON by declared columns, or Avro by the schemas of a registry."""

    def faults(self, wanted: Wanted) -> Iterator[str]:
        if wanted.schema is None or not wanted.changes.change_columns:
            return
        added = {each.name for each in CHANGE_COLUMNS}
        for name in wanted.schema.names:
            if name.lower() in added:
                yield f"the table has a column `{name}`, which `change_columns` adds"

    def columns(self, wanted: Wanted) -> Schema | None:
        return with_change_columns(wanted.schema, wanted.changes) if wanted.schema else None

    def reading(self, wanted: Wanted, source: str, known: Known | None) -> Reading:
        columns = known.columns if known is not None else wanted.schema
        assert columns is not None  # JSON without columns has been refused
        if known is not None:
            envelopes: Envelopes = AvroEnvelopes.of(wanted, source, known)
        else:
            envelopes = JsonEnvelopes(columns, wanted.changes)
        return DebeziumReading(columns, wanted.changes, envelopes)

    def columns_of(self, schema: StoredSchema, wanted: Wanted) -> tuple[Schema, bool]:
        found = debezium_avro.columns_of(schema, wanted)
        for fault in self.faults(replace(wanted, schema=found)):
            raise ValueError(fault)
        return found, False

    def unreadable(self, writer: StoredSchema, columns: Schema, wanted: Wanted) -> list[str]:
        return debezium_avro.unreadable(writer, columns, wanted)

    def encoding(self, wanted: Wanted, rows: Schema, schema: StoredSchema | None) -> Encoding:  # noqa: ARG002
        raise InternalError("a sink was asked to write changes of Debezium")


def with_change_columns(columns: Schema, rules: ChangeRules) -> Schema:
    return Schema((*columns.columns, *CHANGE_COLUMNS)) if rules.change_columns else columns


def _time(change: str) -> str:
    return f"timestamp_millis({change}.source.ts_ms)"


def _position(source: str) -> str:
    """SQL for a text that is greater for a later change of a row: the place in PostgreSQL's log, in
    MySQL's, in SQL Server's or in Oracle's.
    """
    mysql = (f"{source}.file", _padded(f"{source}.pos", 20), _padded(f"{source}.row", 10))
    server = (
        f"{source}.commit_lsn",
        f"{source}.change_lsn",
        _padded(f"{source}.event_serial_no", 10),
    )
    return (
        f"CASE WHEN {source}.lsn IS NOT NULL THEN {_padded(f'{source}.lsn', 20)} "
        f"WHEN {source}.file IS NOT NULL THEN concat_ws(':', {', '.join(mysql)}) "
        f"WHEN {source}.commit_lsn IS NOT NULL THEN concat_ws(':', {', '.join(server)}) "
        f"WHEN {source}.scn IS NOT NULL THEN {_padded(f'{source}.scn', 20)} END"
    )


def _padded(number: str, digits: int) -> str:
    return f"lpad(CAST({number} AS STRING), {digits}, '0')"
