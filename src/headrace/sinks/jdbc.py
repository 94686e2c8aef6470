"""The JDBC sink: rows appended to a table of a database, or merged into it by their keys.

Rows go through Spark's own JDBC writer, whose tasks write side by side into a table for this batch
alone; one transaction then moves them and notes the batch in `headrace_batches`, beside the target.
A batch that is noted is skipped, so nothing is doubled, and readers see a whole batch or none.
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.errors import DatabaseUnavailable, SchemaMismatch, UnknownTable
from headrace.model import pipeline as model
from headrace.model.jdbc import CONNECTION, address, table_fault
from headrace.model.schema import quote
from headrace.sinks import changes
from headrace.sinks.changes import DELETED, Changes
from headrace.sinks.dialects import NOTES, ROW, Postgres
from headrace.sinks.writer import Batch, NotScripted, SinkContext, column_twice
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Setting, Spec, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.types import StructField


@dataclass(frozen=True)
class JdbcSink:
    sink: model.Sink
    context: SinkContext

    CARRIED: ClassVar[bool] = True
    REPLAY_SAFE: ClassVar[bool] = True
    SPEC: ClassVar[Spec] = Spec(
        "sink",
        "jdbc",
        "Rows appended to a table of PostgreSQL, or merged into it by key.",
        (
            *CONNECTION,
            Option(
                "table",
                Type.TEXT,
                "The table, or schema and table, as the database has them.",
                required=True,
                example="orders",
                validate=table_fault,
            ),
            *changes.OPTIONS,
            Option(
                "create_table",
                Type.FLAG,
                "Make the table, with `key` as its primary key, when it does not exist.",
                default=True,
            ),
            Option(
                "batch_rows",
                Type.INTEGER,
                "How many rows go to the database at a time.",
                default=1000,
                minimum=1,
            ),
        ),
    )

    @staticmethod
    def check(options: Options, columns: tuple[str, ...] | None) -> Iterator[Diagnostic]:
        yield from column_twice(options, columns)
        yield from changes.faults(options, columns)

    @property
    def name(self) -> str:
        return self.sink.name

    @property
    def target(self) -> str:
        options = self.sink.options
        return f"PostgreSQL table {options['table']} at {address(options['url'])}"

    def settings(self) -> tuple[Setting, ...]:
        options = self.sink.options
        shown = ["url", "user", *(["password"] if options["password"] else []), "mode"]
        return (
            *(options.setting(name, name) for name in shown),
            *([options.setting("key", "key", ", ".join(self._key))] if self._key else []),
            options.setting("batchsize", "batch_rows"),
        )

    def reach(self, spark: SparkSession) -> None:
        with self._connected(spark) as database:
            there = database.rows(self._dialect.COLUMNS, self._dialect.target)
            if not there and not self.sink.options["create_table"]:
                raise UnknownTable(self._action, "the table does not exist")

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """
        1. tables   make those that are missing, drop what a crash left
        2. skip     a batch that is noted is in the target
        3. stage    Spark's tasks write the rows into a table of their own
        4. move     in one transaction: note the batch, and move its rows
        """
        found = self._found(rows)
        with self._connected(found.sparkSession) as database:
            columns = self._tables(database, found, batch)  # 1
            if self._is_noted(database, batch):  # 2
                return
            with self._staged(database, found, columns, batch) as staging:  # 3
                self._move(database, staging, list(columns.values()), batch)  # 4

    def scripted(self, rows: DataFrame, batch: Batch) -> None:  # noqa: ARG002
        if self.sink.options["mode"] == "upsert":
            raise NotScripted(self.name, "a merge by key is a transaction of the database")
        self._writer(rows).option("dbtable", self._dialect.target).save()

    @property
    def _key(self) -> tuple[str, ...]:
        key: tuple[str, ...] = self.sink.options["key"]
        return key

    @property
    def _dialect(self) -> Postgres:
        return Postgres(self.sink.options["table"])

    @property
    def _action(self) -> str:
        return f"writing `{self.name}` to {self.target}"

    def _found(self, rows: DataFrame) -> DataFrame:
        """A row for each change of the target, with `DELETED`."""
        if self.sink.options["mode"] == "upsert":
            return Changes.by(self.sink).of(rows)
        return changes.values(rows).selectExpr("*", f"false AS {DELETED}")

    # 1

    def _tables(self, database: Database, found: DataFrame, batch: Batch) -> dict[str, str]:
        """The columns of the rows, and what each is called in the target."""
        dialect = self._dialect
        types = {field.name: field.dataType for field in found.schema if field.name != DELETED}
        with database.transaction():
            database.rows(dialect.LOCK)
            if self.sink.options["create_table"] and not database.rows(
                dialect.COLUMNS, dialect.target
            ):
                key = [name for name in types if name.lower() in map(str.lower, self._key)]
                database.run(dialect.create_target(types, key))
            there = [str(name) for (name,) in database.rows(dialect.COLUMNS, dialect.target)]
            if not there:
                raise UnknownTable(self._action, "the table does not exist")
            database.run(dialect.create_notes)
            pattern = self._staging_prefix(batch).replace("_", "\\_") + "%"
            for (name,) in database.rows(dialect.LEFTOVERS, pattern, dialect.target):
                database.run(dialect.drop(str(name)))
        return self._matched(list(types), there)

    def _matched(self, columns: list[str], there: list[str]) -> dict[str, str]:
        by_lower = {name.lower(): name for name in there}
        matched = {
            column: column if column in there else by_lower.get(column.lower())
            for column in columns
        }
        missing = [column for column, name in matched.items() if name is None]
        if missing:
            raise SchemaMismatch(
                self._action,
                f"the table has no column {', '.join(missing)}; it has {', '.join(there)}",
                "add it to the table, or leave it out by a step",
            )
        return {column: name for column, name in matched.items() if name is not None}

    # 2

    def _is_noted(self, database: Database, batch: Batch) -> bool:
        newest = self._newest(database, batch.generation)
        return batch.id is not None and newest is not None and newest >= batch.id

    def newest(self, spark: SparkSession, generation: str) -> int | None:
        with self._connected(spark) as database:
            if not database.rows(self._dialect.COLUMNS, self._dialect.beside(NOTES)):
                return None
            return self._newest(database, generation)

    def _newest(self, database: Database, generation: str) -> int | None:
        noted = database.rows(self._dialect.noted, self.context.pipeline, self.name, generation)
        return max((int(number) for (number,) in noted), default=None)

    # 3

    @contextlib.contextmanager
    def _staged(
        self, database: Database, found: DataFrame, columns: dict[str, str], batch: Batch
    ) -> Iterator[str]:
        """The name is no other attempt's: of an earlier one, tasks may still be writing."""
        staging = self._staging_prefix(batch) + uuid.uuid4().hex[:8]
        with database.transaction():
            database.run(self._dialect.create_staging(staging, list(columns.values())))
        try:
            self._fill(staging, found, columns)
            yield staging
        finally:
            # Best effort: the next batch drops what is left.
            with contextlib.suppress(Exception), database.transaction():
                database.run(self._dialect.drop(staging))

    def _fill(self, staging: str, found: DataFrame, columns: dict[str, str]) -> None:
        named = (
            f"{self._stored(found.schema[column])} AS {quote(name)}"
            for column, name in columns.items()
        )
        rows = found.selectExpr(*named, DELETED, f"monotonically_increasing_id() AS {ROW}")
        try:
            self._writer(rows).option("dbtable", self._dialect.beside(staging)).save()
        except Exception as error:
            if f"{staging}_pkey" in str(error):
                raise DatabaseUnavailable(self._action, "a task was run twice by Spark") from error
            raise

    def _writer(self, rows: DataFrame) -> DataFrameWriter:
        writer = rows.write.format("jdbc").mode("append").options(**self._login())
        writer = writer.option("url", self.sink.options["url"])
        writer = writer.option("driver", self._dialect.DRIVER)
        return writer.option("batchsize", str(self.sink.options["batch_rows"]))

    def _stored(self, field: StructField) -> str:
        """What has no type of its own in the database goes as JSON."""
        name = quote(field.name)
        return f"to_json({name})" if self._dialect.type_of(field.dataType) == "JSONB" else name

    def _staging_prefix(self, batch: Batch) -> str:
        owner = "\0".join((self.context.pipeline, self.name, batch.generation))
        return f"headrace_staging_{hashlib.sha256(owner.encode()).hexdigest()[:16]}_"

    # 4

    def _move(self, database: Database, staging: str, columns: list[str], batch: Batch) -> None:
        dialect = self._dialect
        with database.transaction():
            # First, so that of two runs of one batch the second waits here, and then does nothing.
            if batch.id is not None and not self._note(database, batch):
                return
            if self.sink.options["mode"] == "append":
                database.run(dialect.append(staging, columns))
                return
            key = [name for name in columns if name.lower() in map(str.lower, self._key)]
            database.run(dialect.delete(staging, key))
            database.run(dialect.upsert(staging, columns, key))

    def _note(self, database: Database, batch: Batch) -> bool:
        """False when the batch is in the target already."""
        facts = (self.context.pipeline, self.name, batch.generation, batch.id, batch.positions)
        return database.run(self._dialect.note, *facts) == 1

    # The connection

    def _login(self) -> dict[str, str]:
        password = self.sink.options["password"]
        secret = {"password": str(password)} if password is not None else {}
        return {"user": self.sink.options["user"], **secret, **self._dialect.CONNECTION}

    @contextlib.contextmanager
    def _connected(self, spark: SparkSession) -> Iterator[Database]:
        database = Database(spark, self._dialect.DRIVER, self.sink.options["url"], self._login())
        try:
            yield database
        finally:
            database.close()


class Database:
    """A connection from the driver's JVM, which has the JDBC driver among its jars already."""

    def __init__(
        self, spark: SparkSession, driver: str, url: str, properties: dict[str, str]
    ) -> None:
        jvm: Any = spark._jvm
        given = jvm.java.util.Properties()
        for name, value in properties.items():
            given.setProperty(name, value)
        # Asked by its name: which driver answers an address is not left to chance.
        registry = jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry
        registry.register(driver)
        self._connection = registry.get(driver).connect(url, given)
        self._connection.setAutoCommit(False)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is run inside, or nothing of it."""
        try:
            yield
            self._connection.commit()
        except BaseException:
            with contextlib.suppress(Exception):
                self._connection.rollback()
            raise

    def run(self, sql: str, *values: object) -> int:
        """How many rows the statement changed."""
        return int(self._prepared(sql, values).executeUpdate())

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        result = self._prepared(sql, values).executeQuery()
        width = int(result.getMetaData().getColumnCount())
        found = []
        while result.next():
            found.append(tuple(result.getObject(number + 1) for number in range(width)))
        result.getStatement().close()
        return found

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()

    def _prepared(self, sql: str, values: tuple[object, ...]) -> Any:
        statement = self._connection.prepareStatement(sql)
        for number, value in enumerate(values, start=1):
            statement.setObject(number, value)
        return statement
