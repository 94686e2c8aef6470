"""The console sink: the first rows of each batch on standard output, to look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.model import pipeline as model
from headrace.sinks.writer import Batch, SinkContext
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Setting, Spec, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class ConsoleSink:
    sink: model.Sink
    context: SinkContext

    CARRIED: ClassVar[bool] = False
    REPLAY_SAFE: ClassVar[bool] = False
    SPEC: ClassVar[Spec] = Spec(
        "sink",
        "console",
        "The first rows of each batch on standard output.",
        (
            Option(
                "rows",
                Type.INTEGER,
                "How many rows of a batch to show.",
                default=20,
                minimum=1,
            ),
            Option(
                "format",
                Type.CHOICE,
                "`json` prints an object a line, `table` draws a table.",
                default="table",
                choices=("table", "json"),
            ),
        ),
    )

    @staticmethod
    def check(options: Options, columns: tuple[str, ...] | None) -> Iterator[Diagnostic]:  # noqa: ARG004
        return iter(())

    @property
    def name(self) -> str:
        return self.sink.name

    @property
    def target(self) -> str:
        return "standard output"

    def settings(self) -> tuple[Setting, ...]:
        return ()

    def write(self, rows: DataFrame, batch: Batch) -> None:  # noqa: ARG002
        # Showing a few rows would compute only these, and the others would miss in the counts.
        kept = rows.persist()
        try:
            kept.count()
            self._print(kept)
        finally:
            kept.unpersist()

    def scripted(self, rows: DataFrame, batch: Batch) -> None:  # noqa: ARG002
        rows.show(self.sink.options["rows"], truncate=False)

    def _print(self, rows: DataFrame) -> None:
        limit: int = self.sink.options["rows"]
        if self.sink.options["format"] == "table":
            rows.show(limit, truncate=40)
            return
        from pyspark.sql.functions import struct, to_json

        everything = to_json(struct("*"), {"ignoreNullFields": "false"})
        for (line,) in rows.limit(limit).select(everything).collect():
            print(line, flush=True)
