"""The impulse source as a stream of Spark's: numbers that become due as time passes.

A Python data source of Spark, whose reader lives in a process of its own for as long as the query
runs. Only numbers come from here; the columns are made of them in the JVM.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

_ROWS_AT_ONCE = 1 << 16
Offset = dict[str, dict[str, int]]


class Impulse(DataSource):
    """Its options: `topic`, by which the offset is named, `rate`, `count` and `partitions`."""

    def schema(self) -> str:
        return "n BIGINT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return ImpulseReader(
            str(self.options["topic"]),
            int(self.options["rate"]),
            int(self.options.get("count", 0)),
            int(self.options["partitions"]),
        )


class Numbers(InputPartition):
    """From `start` up to, and not with, `end`."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end


class ImpulseReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`count` of 0 means no end. Time is counted from the first question for an offset."""

    def __init__(self, topic: str, rate: int, count: int, partitions: int) -> None:
        self._topic, self._rate, self._count = topic, rate, count
        self._partitions = partitions
        self._once = False
        self._origin: tuple[int, float] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        return self._offset(0)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._once = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Offset:  # noqa: ARG002, N802
        at = self._number(start)
        first, began = self._origin = self._origin or (at, time.monotonic())
        seconds = 1 if self._once else time.monotonic() - began
        due = first + int(seconds * self._rate)
        if self._count:
            due = self._count if self._once else min(due, self._count)
        return self._offset(max(due, at))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Numbers]:
        first, last = self._number(start), self._number(end)
        size = -(-(last - first) // self._partitions)
        return [Numbers(at, min(at + size, last)) for at in range(first, last, size or 1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import numpy as np

        assert isinstance(partition, Numbers)
        for first in range(partition.start, partition.end, _ROWS_AT_ONCE):
            numbers = np.arange(first, min(first + _ROWS_AT_ONCE, partition.end))
            yield pa.RecordBatch.from_pydict({"n": numbers})

    def _offset(self, number: int) -> Offset:
        return {self._topic: {"0": number}}

    def _number(self, offset: dict[str, Any]) -> int:
        return int(offset[self._topic]["0"])
