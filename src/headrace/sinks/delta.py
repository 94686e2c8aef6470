"""The Delta sink: rows appended to a Delta table on a path, or merged into it by their keys.

Each batch carries its id into the table's own log, so that a batch that is written again after a
crash is recognised there and skipped. An old batch that comes again can thus not undo a newer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.errors import SchemaMismatch
from headrace.formats.delta_log import transaction
from headrace.model import pipeline as model
from headrace.model.schema import quote
from headrace.sinks import changes
from headrace.sinks.changes import DELETED, Changes
from headrace.sinks.writer import Batch, NotScripted, SinkContext, column_twice, unknown_partitions
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Setting, Spec, Type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession

# Delta takes these from the session for MERGE, which has no options of its own.
_TXN = "spark.databricks.delta.write."
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_WIDENING = "delta.enableTypeWidening"


@dataclass(frozen=True)
class DeltaSink:
    sink: model.Sink
    context: SinkContext

    CARRIED: ClassVar[bool] = True
    REPLAY_SAFE: ClassVar[bool] = True
    SPEC: ClassVar[Spec] = Spec(
        "sink",
        "delta",
        "Rows appended to a Delta table, or merged into it by key.",
        (
            Option(
                "path",
                Type.TEXT,
                "The table's folder; a relative one is beside the pipeline file.",
                required=True,
                example="tables/orders",
            ),
            *changes.OPTIONS,
            Option(
                "partition_by",
                Type.LIST,
                "Columns that the table is partitioned by; they count when the table is made.",
                default=(),
                example="[country]",
            ),
            Option(
                "merge_schema",
                Type.FLAG,
                "Add columns that the rows have and the table has not; without it they are an "
                "error.",
                default=False,
            ),
            Option(
                "widen_types",
                Type.FLAG,
                "With `merge_schema`, let the types of columns become wider, as INT to BIGINT. The "
                "first time, the table gets Delta's feature `typeWidening`, which its readers must "
                "know.",
                default=False,
            ),
            Option(
                "max_files_per_batch",
                Type.INTEGER,
                "With `mode: append`, how many tasks write a batch, and so how many files it makes "
                "at most in each partition of the table. Default: as many as read it.",
                minimum=1,
                example="4",
            ),
        ),
    )

    @staticmethod
    def check(options: Options, columns: tuple[str, ...] | None) -> Iterator[Diagnostic]:
        yield from changes.faults(options, columns)
        if options["mode"] == "upsert" and "max_files_per_batch" in options:
            message = "`max_files_per_batch` is of use only with `mode: append`"
            yield Diagnostic("CONFLICT", message, options.at("max_files_per_batch"))
        if options["widen_types"] and not options["merge_schema"]:
            message = "`widen_types` is of use only with `merge_schema: true`"
            yield Diagnostic("CONFLICT", message, options.at("widen_types"))
        if columns is None:
            return
        yield from column_twice(options, columns)
        yield from unknown_partitions(options, columns)

    @property
    def name(self) -> str:
        return self.sink.name

    @property
    def path(self) -> str:
        return self.context.located(self.sink.options["path"])

    @property
    def target(self) -> str:
        return f"Delta table {self.path}"

    def settings(self) -> tuple[Setting, ...]:
        options = self.sink.options
        shown = ("mode", "key") if options["mode"] == "upsert" else ("mode",)
        return (
            options.setting("path", "path", self.path),
            *(options.setting(name, name, _words(options[name])) for name in shown),
        )

    def write(self, rows: DataFrame, batch: Batch) -> None:
        if self.sink.options["mode"] == "upsert":
            self._merge(rows, batch)
        else:
            self._append(changes.values(rows), batch)

    def scripted(self, rows: DataFrame, batch: Batch) -> None:
        if self.sink.options["mode"] == "upsert":
            raise NotScripted(self.name, "a merge by key looks at the table that is there")
        self._append(rows, batch)

    def _append(self, rows: DataFrame, batch: Batch) -> None:
        files = self.sink.options["max_files_per_batch"]
        self._let_widen(rows)
        writer = self._writer(rows.coalesce(files) if files else rows).mode("append")
        for name, value in self._transaction(batch).items():
            writer = writer.option(name, value)
        if batch.positions is not None:
            writer = writer.option("userMetadata", batch.positions)
        if self.sink.options["merge_schema"]:
            writer = writer.option("mergeSchema", "true")
        writer.save(self.path)

    def _merge(self, rows: DataFrame, batch: Batch) -> None:
        from delta.tables import DeltaTable

        found = Changes.by(self.sink).of(rows)
        columns = [column for column in found.columns if column != DELETED]
        # Nothing happens here if there is a table.
        self._writer(found.drop(DELETED).limit(0)).mode("ignore").save(self.path)
        # Before the table is looked at: a merge goes by the properties that it has then.
        self._let_widen(found.drop(DELETED))
        spark = found.sparkSession
        table = DeltaTable.forPath(spark, self.path)
        self._refuse_new_columns(columns, table.toDF().columns)
        same = " AND ".join(f"old.{quote(key)} = new.{quote(key)}" for key in self._key)
        taken: dict[str, str | Column] = {
            quote(column): f"new.{quote(column)}" for column in columns
        }
        merge = (
            table.alias("old")
            .merge(found.alias("new"), same)
            .whenMatchedDelete(f"new.{DELETED}")
            .whenMatchedUpdate(set=taken)
            .whenNotMatchedInsert(f"NOT new.{DELETED}", taken)
        )
        if self.sink.options["merge_schema"]:
            merge = merge.withSchemaEvolution()
        with _configured(spark, self._merge_settings(batch)):
            merge.execute()

    def _let_widen(self, rows: DataFrame) -> None:
        """Delta widens types only in a table that allows it; one is changed when it first must."""
        from delta.tables import DeltaTable

        spark = rows.sparkSession
        if not (self.sink.options["widen_types"] and DeltaTable.isDeltaTable(spark, self.path)):
            return
        table = DeltaTable.forPath(spark, self.path)
        old, new = _types(table.toDF()), _types(rows)
        if all(old.get(name, kind) == kind for name, kind in new.items()):
            return
        (detail,) = table.detail().collect()
        if detail.properties.get(_WIDENING) != "true":
            allowed = f"SET TBLPROPERTIES ('{_WIDENING}' = 'true')"
            spark.sql(f"ALTER TABLE delta.{quote(self.path)} {allowed}")

    def _writer(self, rows: DataFrame) -> DataFrameWriter:
        writer = rows.write.format("delta")
        partition_by = self.sink.options["partition_by"]
        return writer.partitionBy(*partition_by) if partition_by else writer

    def _transaction(self, batch: Batch) -> dict[str, str]:
        """What makes the table skip a batch that it has."""
        if batch.id is None:
            return {}
        return {
            "txnAppId": self._application(batch.generation),
            "txnVersion": str(batch.id),
        }

    def _application(self, generation: str) -> str:
        return f"headrace.{self.context.pipeline}.{self.name}.{generation}"

    def newest(self, spark: SparkSession, generation: str) -> int | None:
        return transaction(spark, self.path, self._application(generation))

    def _merge_settings(self, batch: Batch) -> dict[str, str]:
        settings = {_TXN + name: value for name, value in self._transaction(batch).items()}
        if batch.positions is not None:
            settings[_METADATA] = batch.positions
        return settings

    def _refuse_new_columns(self, columns: list[str], known: list[str]) -> None:
        there = {column.lower() for column in known}
        new = [column for column in columns if column.lower() not in there]
        if new and not self.sink.options["merge_schema"]:
            raise SchemaMismatch(
                f"writing `{self.name}` to {self.target}",
                f"the table has no column {', '.join(new)}",
                "set `merge_schema: true` to add it, or leave it out by a step",
            )

    @property
    def _key(self) -> tuple[str, ...]:
        key: tuple[str, ...] = self.sink.options["key"]
        return key


@contextmanager
def _configured(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """`settings` for the length of the block; each query of a stream has a session of its own."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def _types(rows: DataFrame) -> dict[str, str]:
    return {each.name.lower(): each.dataType.simpleString() for each in rows.schema}


def _words(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ", ".join(value)
