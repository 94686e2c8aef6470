"""What a Delta table holds after batches: rows, files, columns, and the notes of its commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.batches import Batches, deletion

from headrace.errors import SchemaMismatch


@pytest.fixture
def batches(tmp_path: Path, spark: SparkSession) -> Batches:
    return Batches(tmp_path, spark)


def rows(batches: Batches) -> list[tuple[Any, ...]]:
    table = batches.spark.read.format("delta").load(str(batches.folder / "orders"))
    return sorted(tuple(row) for row in table.collect())


MORE = """
transform:
  - sql: SELECT id, name, amount, amount * 2 AS twice FROM source
"""


@pytest.mark.parametrize("mode", ["mode: append", "mode: upsert\nkey: id"])
def test_a_column_that_the_table_has_not_is_an_error_or_added(batches: Batches, mode: str) -> None:
    sink = f"connector_type: delta\npath: orders\n{mode}\n"
    batches.define(sink)
    batches.write([{"id": 1, "name": "a", "amount": 1}], 0)
    batches.define(sink, MORE)
    with pytest.raises(SchemaMismatch, match=r"writing `sink` to Delta table .*orders"):
        batches.write([{"id": 2, "name": "b", "amount": 2}], 1)
    batches.define(sink + "merge_schema: true", MORE)
    batches.write([{"id": 2, "name": "b", "amount": 2}], 1)
    assert rows(batches) == [(1, "a", 1, None), (2, "b", 2, 4)]
    batches.define(sink)
    batches.write([{"id": 3}], 2)
    assert rows(batches)[2] == (3, None, None, None)


@pytest.mark.parametrize("mode", ["mode: append", "mode: upsert\nkey: id"])
def test_a_type_that_became_wider_is_an_error_or_widens_the_table(
    batches: Batches, mode: str
) -> None:
    sink = f"connector_type: delta\npath: orders\n{mode}\nmerge_schema: true\n"
    batches.define(sink)
    batches.write([{"id": 1, "name": "a", "amount": 1}], 0)
    batches.schema = "id BIGINT, name STRING, amount BIGINT"
    batches.define(sink)
    with pytest.raises(SchemaMismatch) as refused:
        batches.write([{"id": 2, "name": "b", "amount": 3_000_000_000}], 1)
    assert "widen_types: true" in (refused.value.hint or "")
    batches.define(sink + "widen_types: true")
    for number in (1, 2):
        row = {"id": number + 1, "name": "b", "amount": 3_000_000_000}
        batches.write([row], number)
    assert rows(batches) == [(1, "a", 1), (2, "b", 3_000_000_000), (3, "b", 3_000_000_000)]
    # One change of its properties, and none while types stay as they are.
    table = batches.folder / "orders"
    history = batches.spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()
    assert [each.operation for each in history].count("SET TBLPROPERTIES") == 1


def test_a_batch_is_appended_once_in_few_files_with_a_note_of_the_positions(
    batches: Batches,
) -> None:
    batches.define("connector_type: delta\npath: orders\nmax_files_per_batch: 1")
    batch = [{"id": n, "name": None, "amount": n} for n in range(10)]
    for _ in range(2):
        batches.write([*batch, deletion("3")], 7, positions='{"orders": {"0": 11}}')
    assert rows(batches) == [(n, None, n) for n in range(10)]
    table = batches.folder / "orders"
    assert len(list(table.glob("*.parquet"))) == 1
    (commit,) = batches.spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()
    assert commit.userMetadata == '{"orders": {"0": 11}}'
