"""Batches of a pipeline's sinks without a Kafka: records in, and the plan's own way to the sink."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.api import Definition, load
from headrace.runtime import rows, session, writing
from headrace.sinks.writer import Batch
from headrace.sources.reader import RAW
from headrace.testing import Message

SOURCE = """
pipeline: shop
mode: batch
source:
  connector_type: kafka
  bootstrap_server: unused:9092
  topic: orders
  schema: "{schema}"
"""


@dataclass
class Batches:
    """One pipeline, written to batch by batch; offsets go on from one to the next."""

    folder: Path
    spark: SparkSession
    schema: str = "id BIGINT, name STRING, amount INT"
    offsets: dict[int, int] = field(default_factory=dict)

    def define(self, sink: str, steps: str = "") -> Definition:
        """`sink` is its options, in lines that are not indented."""
        text = SOURCE.format(schema=self.schema) + steps + "\nsink:\n"
        file = self.folder / "pipeline.yaml"
        file.write_text(text + "".join(f"  {line}\n" for line in sink.strip().splitlines()))
        self.definition = load(file)
        assert self.definition.check() == []
        return self.definition

    def write(
        self,
        messages: Iterable[Message | dict[str, Any]],
        number: int | None,
        generation: str = "life",
        positions: str | None = None,
    ) -> None:
        """As a run would write its batch `number`."""
        query = self.definition.plan.queries[0]
        child = session.adopt(self.spark)
        raw = child.createDataFrame([self._record(each) for each in messages], RAW)
        frame = rows.build(child, query, {query.sources[0].name: raw})
        batch = Batch(number, generation, positions)
        writing.write(query, self.definition.pipeline.name, frame, batch)

    def _record(self, message: Message | dict[str, Any]) -> tuple[Any, ...]:
        if isinstance(message, dict):
            message = Message(message)
        offset = self.offsets.get(message.partition, 0)
        self.offsets[message.partition] = offset + 1
        now = datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.UTC)
        place = "orders", message.partition, offset, now, None
        return _bytes(message.key), _bytes(message.value), *place


def deletion(key: object, partition: int = 0) -> Message:
    """A tombstone."""
    text = key if isinstance(key, str | bytes) else json.dumps(key)
    return Message(None, key=text, partition=partition)


def _bytes(value: object) -> bytearray | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return bytearray(value)
    return bytearray((value if isinstance(value, str) else json.dumps(value)).encode())
