"""The Delta sink: rows appended to a Delta table on a path.

In a stream each batch carries its id into the table's own log, so that a batch that is written
again after a crash is recognised there and skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.model import pipeline as model
from headrace.sinks.writer import Batch, SinkContext, column_twice
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Setting, Spec, Type, unknown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class DeltaSink:
    sink: model.Sink
    context: SinkContext

    CARRIED: ClassVar[bool] = False
    REPLAY_SAFE: ClassVar[bool] = True
    SPEC: ClassVar[Spec] = Spec(
        "sink",
        "delta",
        "Rows appended to a Delta table.",
        (
            Option(
                "path",
                Type.TEXT,
                "The table's folder; a relative one is beside the pipeline file.",
                required=True,
                example="tables/orders",
            ),
            Option(
                "partition_by",
                Type.LIST,
                "Columns that the table is partitioned by; they count when the table is made.",
                default=(),
                example="[country]",
            ),
        ),
    )

    @staticmethod
    def check(options: Options, columns: tuple[str, ...] | None) -> Iterator[Diagnostic]:
        if columns is None:
            return
        yield from column_twice(options, columns)
        known = {column.lower() for column in columns}
        for name in options["partition_by"] or ():
            if name.lower() not in known:
                where = "of these rows"
                yield unknown("column", name, columns, options.at("partition_by"), where)

    @property
    def name(self) -> str:
        return self.sink.name

    @property
    def path(self) -> str:
        path: str = self.sink.options["path"]
        return path if "://" in path else str(self.context.folder / path)

    @property
    def target(self) -> str:
        return f"Delta table {self.path}"

    def settings(self) -> tuple[Setting, ...]:
        return (self.sink.options.setting("path", "path", self.path),)

    def write(self, rows: DataFrame, batch: Batch) -> None:
        writer = rows.write.format("delta").mode("append")
        partition_by = self.sink.options["partition_by"]
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        if batch.id is not None:
            application = f"headrace.{self.context.pipeline}.{self.name}.{batch.generation}"
            writer = writer.option("txnAppId", application).option("txnVersion", str(batch.id))
        writer.save(self.path)
