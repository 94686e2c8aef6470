"""A state folder that is older than its targets: refused, since they would skip what is new."""

from __future__ import annotations

import shutil

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.errors import StateIsOld

from .conftest import Bench

PIPELINE = """
pipeline: NAME
mode: MODE
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  schema: "id BIGINT NOT NULL"
  bad_data: skip
sinks:
  lake: {connector_type: delta, path: table}
  export: {connector_type: files, format: json, path: export}
"""


def _ids(spark: SparkSession, bench: Bench) -> list[int]:
    table = spark.read.format("delta").load(str(bench.folder / "table"))
    return sorted(row.id for row in table.collect())


@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_a_state_folder_from_a_backup_is_refused_and_nothing_is_lost(
    mode: str, bench: Bench, spark: SparkSession
) -> None:
    definition = headrace.load(bench.write(PIPELINE.replace("MODE", mode)))
    state, backup = definition.state.folder, bench.folder / "backup"
    for number in (1, 2):
        bench.produce([{"id": number}])
        definition.run(spark=spark, once=True)
        if number == 1:
            shutil.copytree(state, backup)
    newest = bench.folder / "newest"
    state.rename(newest)
    shutil.copytree(backup, state)
    bench.produce([{"id": 3}])
    with pytest.raises(StateIsOld) as refused:
        definition.run(spark=spark, once=True)
    assert "sink `lake`" in str(refused.value)
    assert _ids(spark, bench) == [1, 2]
    shutil.rmtree(state)
    newest.rename(state)
    definition.run(spark=spark, once=True)
    assert _ids(spark, bench) == [1, 2, 3]
    exported = spark.read.schema("id BIGINT").json(str(bench.folder / "export"))
    assert sorted(row.id for row in exported.collect()) == [1, 2, 3]


def test_a_sink_that_comes_to_another_query_is_refused(bench: Bench, spark: SparkSession) -> None:
    """Its new query counts batches from 0, and the table would skip them."""
    text = PIPELINE.replace("MODE", "stream").replace("path: table}", "path: table, from: source}")
    bench.produce([{"id": 1}])
    definition = headrace.load(bench.write(text))
    definition.run(spark=spark, once=True)
    bench.produce([{"id": 2}])
    definition.run(spark=spark, once=True)
    moved = text.replace("sinks:", "transform: [{name: other, sql: SELECT * FROM source}]\nsinks:")
    first = "  export: {connector_type: files, format: json, path: export, from: other}\n"
    lines = moved.splitlines(keepends=True)
    lake = next(line for line in lines if "lake:" in line)
    rearranged = moved.replace(lines[-1], "").replace(lake, first + lake)
    bench.produce([{"id": 3}])
    with pytest.raises(StateIsOld, match="sink `lake`"):
        headrace.load(bench.write(rearranged)).run(spark=spark, once=True)
    assert _ids(spark, bench) == [1, 2]
