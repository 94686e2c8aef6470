"""Incremental batches: from the stored position to the end seen at the start, and no further."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.admin import groups, topics
from headrace.errors import DataLoss
from headrace.runtime.progress import Event, Warned

from .conftest import Bench

BATCH = """
pipeline: NAME
mode: batch
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  schema: "id BIGINT NOT NULL"
sink:
  connector_type: delta
  path: table
"""


def _rows(*ids: int) -> list[dict[str, int]]:
    return [{"id": number} for number in ids]


def _ids(spark: SparkSession, bench: Bench) -> list[int]:
    table = spark.read.format("delta").load(str(bench.folder / "table"))
    return sorted(row.id for row in table.collect())


def _versions(spark: SparkSession, bench: Bench) -> int:
    path = bench.folder / "table"
    return spark.sql(f"DESCRIBE HISTORY delta.`{path}`").count()


def test_each_run_reads_only_what_is_new(bench: Bench, spark: SparkSession) -> None:
    """CO-20: the first run begins at the earliest record, though nobody said so."""
    definition = headrace.load(bench.write(BATCH))
    bench.produce(_rows(1, 2, 3))
    assert definition.run(spark=spark).records == 3
    bench.produce(_rows(4, 5))
    assert definition.run(spark=spark).records == 2
    assert _ids(spark, bench) == [1, 2, 3, 4, 5]
    assert bench.lag(bench.name) == 0


def test_a_run_with_nothing_new_writes_nothing(bench: Bench, spark: SparkSession) -> None:
    definition = headrace.load(bench.write(BATCH))
    bench.produce(_rows(1))
    definition.run(spark=spark)
    before = _versions(spark, bench)
    assert definition.run(spark=spark).records == 0
    assert _versions(spark, bench) == before


def test_positions_are_a_table_of_last_offsets(bench: Bench, spark: SparkSession) -> None:
    definition = headrace.load(bench.write(BATCH))
    bench.produce(_rows(1, 2), partition=1)
    definition.run(spark=spark)
    table = spark.read.format("delta").load(str(definition.state.offsets))
    assert table.columns[:3] == ["topic", "partition", "max_offset"]
    assert dict(table.dtypes)["max_offset"] == "bigint"
    stored = {(row.topic, row.partition): row.max_offset for row in table.collect()}
    assert stored == {(bench.topic, 0): -1, (bench.topic, 1): 1}


def test_a_partition_added_since_is_read_from_its_beginning(
    bench: Bench, spark: SparkSession
) -> None:
    """A first run at the end of the topic does not mean that new partitions begin at theirs."""
    latest = BATCH.replace("topic: TOPIC\n", "topic: TOPIC\n  auto_offset_reset: latest\n", 1)
    definition = headrace.load(bench.write(latest))
    bench.produce(_rows(1))
    definition.run(spark=spark)
    topics.grow(bench.cluster, bench.topic, 3)
    bench.produce(_rows(2, 3), partition=2)
    definition.run(spark=spark)
    assert _ids(spark, bench) == [2, 3]


def test_a_group_reset_by_an_operator_does_not_move_the_pipeline(
    bench: Bench, spark: SparkSession
) -> None:
    definition = headrace.load(bench.write(BATCH))
    bench.produce(_rows(1, 2))
    definition.run(spark=spark)
    groups.delete(bench.cluster, [bench.name])
    definition.run(spark=spark)
    assert _ids(spark, bench) == [1, 2]


def test_lost_records_are_named_and_counted(
    bench: Bench, spark: SparkSession, delete_records: Callable[[str, dict[int, int]], None]
) -> None:
    bench.produce(_rows(1), partition=0)
    headrace.load(bench.write(BATCH)).run(spark=spark)
    bench.produce(_rows(2, 3, 4), partition=0)
    delete_records(bench.topic, {0: 3})
    with pytest.raises(DataLoss) as lost:
        headrace.load(bench.write(BATCH)).run(spark=spark)
    assert f"{bench.topic}[0] offsets 1 to 2 (2 records)" in str(lost.value)

    reset = BATCH.replace("topic: TOPIC\n", "topic: TOPIC\n  on_data_loss: reset\n", 1)
    events: list[Event] = []
    headrace.load(bench.write(reset)).run(spark=spark, on_event=events.append)
    assert any(isinstance(event, Warned) and "(2 records)" in event.text for event in events)
    assert _ids(spark, bench) == [1, 4]
