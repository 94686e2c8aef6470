"""The pipeline that is put through it: Kafka to Kafka and Delta, with dead letters."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from chaos import records, world
from chaos.history import OFFSET, PARTITION
from headrace.model.pipeline import Mode

NAME = "chaos"


class Sink(StrEnum):
    """`SPARK` is the control: Spark's own Kafka sink, which writes a batch again after a crash."""

    HEADRACE = "headrace"
    SPARK = "spark"


_GUARANTEES = {Sink.HEADRACE: "exactly_once", Sink.SPARK: "at_least_once"}

_BY = {
    Sink.HEADRACE: f"    transaction_timeout_ms: {1000 * world.TRANSACTION_SECONDS}\n",
    Sink.SPARK: "    writer: spark\n",
}

_TEXT = """
pipeline: {name}
mode: {mode}
guarantee: {guarantee}
source:
  connector_type: kafka
  bootstrap_server: {servers}
  topic: {source}
  auto_offset_reset: earliest
  include_metadata: true
  schema: "{schema}"
  dlq_topic: {dead}
{batch_size}transform:
  - sql: >-
      SELECT id, customer, note, _kafka_partition AS {partition}, _kafka_offset AS {offset}
      FROM source WHERE amount >= 0
sinks:
  out:
    connector_type: kafka
    topic: {out}
    key: customer
    max_request_bytes: {largest}
{by}  table:
    connector_type: delta
    path: {table}
"""


def text(servers: str, mode: Mode, sink: Sink, table: Path, batch_size: int) -> str:
    """The definition. A batch run has no size: it reads what is there."""
    return _TEXT.format(
        name=NAME,
        mode=mode,
        guarantee=_GUARANTEES[sink],
        servers=servers,
        source=world.IN,
        out=world.OUT,
        dead=world.DEAD,
        schema=records.SCHEMA,
        largest=records.LARGEST,
        partition=PARTITION,
        offset=OFFSET,
        table=table,
        batch_size=f"  batch_size: {batch_size}\n" if mode is Mode.STREAM else "",
        by=_BY[sink],
    )
