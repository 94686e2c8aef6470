"""The JDBC source: rows of a table or a query of a database, onward by a column that grows.

A batch reads the rows whose column lies between the highest value that was read before and the
highest that is there now; Spark's own JDBC reader sends the condition to the database. The position
is that value as a whole number: of a timestamp, its microseconds. Rows that are changed later, or
that appear below the position, are not seen.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.errors import DefinitionError
from headrace.formats.carried import COLUMN, located
from headrace.model import pipeline as model
from headrace.model.jdbc import (
    CONNECTION,
    POSTGRES_DRIVER,
    address,
    quoted,
    quoted_table,
    table_fault,
)
from headrace.model.offsets import Offsets, Range
from headrace.model.schema import Schema, literal, quote, schema_fault
from headrace.sources.plain import PlainSource, name_clashes, unchecked_not_null
from headrace.sources.reader import Access
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Setting, Spec, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_WHOLE = ("tinyint", "smallint", "int", "bigint")
# The type of a column of times, and the moment from which its microseconds are counted.
_EPOCHS = {
    "timestamp": "TIMESTAMP '1970-01-01 00:00:00Z'",
    "timestamp_ntz": "TIMESTAMP_NTZ '1970-01-01 00:00:00'",
}
_FETCH_ROWS = 10_000


def _start_fault(text: str) -> str | None:
    try:
        _position(text)
    except ValueError:
        return "must be a whole number, or a time such as 2026-01-01T00:00:00Z"
    return None


def _position(text: str) -> int:
    """A value of the column as a position: a number itself, a time in microseconds."""
    if text.lstrip("-").isdecimal():
        return int(text)
    time = datetime.datetime.fromisoformat(text)
    aware = time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
    return round(aware.timestamp() * 1_000_000)


@dataclass(frozen=True)
class JdbcSource(PlainSource):
    STREAMS: ClassVar[bool] = False
    REPLAYS: ClassVar[bool] = False
    SPEC: ClassVar[Spec] = Spec(
        "source",
        "jdbc",
        "Rows of PostgreSQL, onward by a column that grows.",
        (
            *CONNECTION,
            Option(
                "table",
                Type.TEXT,
                "The table, or schema and table, as the database has them.",
                example="orders",
                validate=table_fault,
            ),
            Option(
                "query",
                Type.TEXT,
                "A SELECT of the database's own SQL, in place of `table`.",
                example="SELECT * FROM orders WHERE paid",
            ),
            Option(
                "column",
                Type.TEXT,
                "The column that grows: a whole number or a timestamp, best unique. Rows where it "
                "is NULL are never read. A timestamp without time zone is taken as UTC.",
                required=True,
                example="id",
            ),
            Option(
                "schema",
                Type.TEXT,
                "The columns to read and their types, as in CREATE TABLE. Default: all, as the "
                "database has them; SQL is then checked when the pipeline runs.",
                example='"id BIGINT, customer STRING, amount DOUBLE"',
                validate=schema_fault,
            ),
            Option(
                "start",
                Type.TEXT,
                "A first run begins with this value of the column. Default: with the lowest.",
                example="2026-01-01T00:00:00Z",
                validate=_start_fault,
            ),
            Option(
                "delay",
                Type.DURATION,
                "With a timestamp: rows are read when they are this old, so that a transaction "
                "which commits late is not missed. Default: none.",
                example="30s",
            ),
            Option(
                "partitions",
                Type.INTEGER,
                "How many tasks read side by side, each a part of the range.",
                default=1,
                minimum=1,
            ),
        ),
    )

    @staticmethod
    def check(options: Options) -> Iterator[Diagnostic]:
        given = {"table", "query"} & {*options.values, *options.meant}
        if not given:
            message = "the jdbc source needs `table` or `query`"
            yield Diagnostic("MISSING_OPTION", message, options.span, "add `table: orders`")
        elif "table" in options and "query" in options:
            message = "`table` and `query` cannot stand together"
            yield Diagnostic("CONFLICT", message, options.at("query"), "keep one of them")
        if options["schema"] is not None:
            yield from name_clashes(options)
            yield from unchecked_not_null(options)

    @staticmethod
    def columns(options: Options, doubtful: bool = False) -> tuple[str, ...] | None:  # noqa: ARG004
        return None if options["schema"] is None else Schema.parse(options["schema"]).names

    @property
    def column(self) -> str:
        return str(self.options["column"])

    @property
    def topic(self) -> str:
        return self.options["table"] or self.name

    @property
    def origin(self) -> str:
        what = f"table {self.options['table']}" if self.options["table"] else "a query"
        return f"rows of {what} at {address(self.options['url'])}, onward by {self.column}"

    @property
    def shape(self) -> str:
        return str(self.options["schema"] or "the columns that the database has")

    def first(self, mode: model.Mode) -> Setting:  # noqa: ARG002
        return self.options.setting("start", "start", self.options["start"] or "the lowest value")

    def settings(self, mode: model.Mode) -> tuple[Setting, ...]:  # noqa: ARG002
        optional = ("password", "table", "query", "delay")
        shown = ("url", "user", *(name for name in optional if name in self.options))
        return tuple(self.options.setting(name, name) for name in (*shown, "column", "partitions"))

    def find(self, access: Access, stored: Offsets) -> Range:
        low, high = self._bounds(access.spark, self._relation, self._old_enough)
        if low is None or high is None:
            return Range({}, {}, unit="values")
        first = low if self.options["start"] is None else _position(self.options["start"])
        start = stored.get(self.key, first)
        return self.span_of(start, max(high + 1, start), "values")

    def newest(self, access: Access, count: int) -> Range:
        column = quoted(self.column)
        last = f"ORDER BY {column} DESC NULLS LAST LIMIT {count}"
        newest = f"(SELECT {column} FROM {self._relation} AS every {last})"
        low, high = self._bounds(access.spark, newest)
        if low is None or high is None:
            return Range({}, {}, unit="values")
        return self.span_of(low, high + 1, "values")

    def batch(self, spark: SparkSession, found: Range) -> DataFrame:
        rows = self._rows(spark)
        kind = self._kind(rows)
        start, end = found.start.get(self.key, 0), found.end.get(self.key, 0)
        if start == end:
            return rows.where("false")
        size = -(-(end - start) // self.options["partitions"])
        parts = [
            rows.where(self._between(kind, begin, min(begin + size, end)))
            for begin in range(start, end, size)
        ]
        return reduce(lambda one, other: one.unionAll(other), parts)

    def decode(self, raw: DataFrame, originals: int | None = None) -> DataFrame:  # noqa: ARG002
        kind, column = self._kind(raw), quote(self.column)
        time = column if kind == "timestamp" else "NULL"
        place = located(literal(self.topic), offset=_number(kind, column), timestamp=time)
        if self.options["schema"] is None:
            return raw.selectExpr("*", f"{place} AS {COLUMN}")
        declared = Schema.parse(self.options["schema"]).columns
        columns = [f"CAST({quote(c.name)} AS {c.type}) AS {quote(c.name)}" for c in declared]
        return raw.selectExpr(*columns, f"{place} AS {COLUMN}")

    @property
    def _relation(self) -> str:
        """What stands in FROM, in the database's SQL."""
        if self.options["table"]:
            return quoted_table(self.options["table"])
        return f"({self.options['query']}\n)"  # the line break ends a comment

    @property
    def _old_enough(self) -> str:
        if not self.options["delay"]:
            return ""
        return f"WHERE {quoted(self.column)} <= now() - interval '{self.options['delay']} ms'"

    def _reader(self, spark: SparkSession) -> DataFrameReader:
        # Spark writes times into SQL in the zone of its session; the database must read them so.
        zone = literal(str(spark.conf.get("spark.sql.session.timeZone")))
        login = {"url": self.options["url"], "user": self.options["user"]}
        if self.options["password"] is not None:
            login["password"] = self.options["password"]
        return spark.read.format("jdbc").options(
            **login,
            driver=POSTGRES_DRIVER,
            preferTimestampNTZ="true",
            sessionInitStatement=f"SET TIME ZONE {zone}",
            fetchsize=str(_FETCH_ROWS),
        )

    def _rows(self, spark: SparkSession) -> DataFrame:
        return self._reader(spark).option("dbtable", f"{self._relation} AS rows").load()

    def _bounds(
        self, spark: SparkSession, relation: str, where: str = ""
    ) -> tuple[int | None, int | None]:
        """The lowest and the highest value of the column, as positions; None without any."""
        kind, column = self._kind(self._rows(spark)), quoted(self.column)
        both = f"SELECT min({column}) AS low, max({column}) AS high"
        asked = f"({both} FROM {relation} AS every {where}) AS bounds"
        found = self._reader(spark).option("dbtable", asked).load()
        row: Any = found.selectExpr(_number(kind, "low"), _number(kind, "high")).first()
        return row[0], row[1]

    def _kind(self, rows: DataFrame) -> str:
        """The type of the column, by Spark's name, if it can grow."""
        kind = dict(rows.dtypes).get(self.column)
        if kind is None:
            raise self._fault("there is no such column", f"known: {', '.join(rows.columns)}")
        if kind not in (*_WHOLE, *_EPOCHS):
            hint = "name a column of whole numbers or timestamps, or cast it in a `query`"
            raise self._fault(f"it is {kind}, which has no next value", hint)
        if kind in _WHOLE and self.options["delay"]:
            hint = "remove `delay`, or name a column of timestamps"
            raise self._fault(f"it is {kind}, and `delay` needs a timestamp", hint)
        return kind

    def _fault(self, problem: str, hint: str) -> DefinitionError:
        where = f"source `{self.name}` at {self.options.at('column')}"
        return DefinitionError(f"{where}: column {self.column}: {problem}", hint=hint)

    def _between(self, kind: str, start: int, end: int) -> str:
        """SQL for the rows from `start` up to, and not with, `end`, in the column's own type."""
        column = quote(self.column)
        return f"{column} >= {_value(kind, start)} AND {column} <= {_value(kind, end - 1)}"


def _number(kind: str, column: str) -> str:
    """SQL for the position of a value."""
    if kind in _EPOCHS:
        return f"timestampdiff(MICROSECOND, {_EPOCHS[kind]}, {column})"
    return f"CAST({column} AS BIGINT)"


def _value(kind: str, position: int) -> str:
    """SQL for the value at a position."""
    if kind in _EPOCHS:
        return f"timestampadd(MICROSECOND, {position}L, {_EPOCHS[kind]})"
    return f"CAST({position}L AS {kind})"
