"""Rows of a real PostgreSQL, onward by a column: as a batch, and as a stream of batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.admin.client import Clusters
from headrace.errors import AuthenticationFailure, DefinitionError
from headrace.runtime.progress import Summary
from headrace.sources.reader import Access
from headrace.testing.postgres import Database

SOURCE = """
pipeline: p
mode: MODE
source:
  connector_type: jdbc
  url: URL
  user: USER
  password: ${env:SHOP_PASSWORD}
REST
sink:
  connector_type: delta
  path: table
"""


@pytest.fixture
def shop(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.setenv("SHOP_PASSWORD", database.password)
    database.execute(
        'CREATE TABLE "Orders" (id SERIAL, amount NUMERIC(10, 2), placed TIMESTAMPTZ, '
        '"Local" TIMESTAMP, PRIMARY KEY (id))'
    )
    return database


class Reader:
    """A pipeline on the database, in a folder of its own."""

    def __init__(self, folder: Path, shop: Database, spark: SparkSession, mode: str, rest: str):
        text = SOURCE.replace("MODE", mode).replace("URL", shop.url).replace("USER", shop.user)
        lines = "\n".join(f"  {line}" for line in rest.strip().splitlines())
        folder.mkdir(exist_ok=True)
        (folder / "p.yaml").write_text(text.replace("REST", lines))
        self.definition = headrace.load(folder / "p.yaml")
        self._folder, self._spark = folder, spark

    def run(self) -> Summary:
        return self.definition.run(spark=self._spark, once=True)

    def pushed(self) -> str:
        """What of the condition on the column the database is asked for, in Spark's words."""
        source = self.definition.plan.sources[0]
        access = Access(self._spark, Clusters(), lambda _text: None)
        frame = source.batch(self._spark, source.newest(access, 1))
        return str(frame._jdf.queryExecution().executedPlan())

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        table = self._spark.read.format("delta").load(str(self._folder / "table"))
        return sorted(tuple(row) for row in table.selectExpr(*columns).collect())


def test_a_batch_reads_on_by_a_whole_number(
    shop: Database, spark: SparkSession, tmp_path: Path
) -> None:
    options = "table: Orders\ncolumn: id\npartitions: 2\nschema: id BIGINT, amount DOUBLE"
    reader = Reader(tmp_path, shop, spark, "batch", options)
    assert reader.run().records == 0
    shop.execute('INSERT INTO "Orders" (amount) SELECT n / 2.0 FROM generate_series(1, 5) n')
    assert reader.run().records == 5
    assert reader.run().records == 0
    shop.execute('UPDATE "Orders" SET amount = 99 WHERE id = 1')
    shop.execute('INSERT INTO "Orders" (amount) VALUES (7)')
    assert reader.run().records == 1
    assert reader.rows("id", "amount") == [(n, n / 2) for n in range(1, 6)] + [(6, 7.0)]
    shown = reader.definition.preview(spark=spark, scan=2)
    assert [row["id"] for row in shown.rows] == [5, 6]
    assert "*GreaterThanOrEqual(id,6), *LessThanOrEqual(id,6)" in reader.pushed()
    assert shop.password not in str(reader.definition.explain())


def test_a_stream_reads_on_by_a_timestamp_with_a_delay(
    shop: Database, spark: SparkSession, tmp_path: Path
) -> None:
    """A row in the hour that is not over is left for later; one without a time for ever."""
    options = """
query: SELECT id, placed FROM "Orders" -- all of them
column: placed
delay: 1h
start: 2026-01-01T01:00:00+01:00
"""
    reader = Reader(tmp_path, shop, spark, "stream", options)
    insert = 'INSERT INTO "Orders" (placed) VALUES'
    times = ["2025-12-31 23:59:59.999999+00", "2026-01-01 02:00:00+02", "2026-01-01 00:00:00.5+00"]
    shop.execute(f"{insert} {', '.join(f'({t!r})' for t in times)}, (now()), (NULL)")
    assert reader.run().records == 2
    shop.execute(f"{insert} ('2026-01-01 00:00:00.500001+00'), ('2026-01-01 00:00:00.4+00')")
    assert reader.run().records == 1
    assert "*GreaterThanOrEqual(placed," in reader.pushed()
    assert reader.rows("unix_micros(placed) - unix_micros(TIMESTAMP '2026-01-01 00:00:00Z')") == [
        (0,),
        (500_000,),
        (500_001,),
    ]


def test_a_timestamp_without_zone_reads_on_too(
    shop: Database, spark: SparkSession, tmp_path: Path
) -> None:
    reader = Reader(tmp_path, shop, spark, "batch", "table: public.Orders\ncolumn: Local")
    shop.execute('INSERT INTO "Orders" ("Local") VALUES (\'2026-03-29 02:30:00.000001\')')
    reader.run()
    shop.execute('INSERT INTO "Orders" ("Local") VALUES (\'2026-03-29 02:30:00.000002\')')
    assert reader.run().records == 1
    assert "*GreaterThanOrEqual(Local,2026-03-29T02:30:00.000002)" in reader.pushed()
    assert reader.rows("id", "CAST(Local AS STRING)") == [
        (1, "2026-03-29 02:30:00.000001"),
        (2, "2026-03-29 02:30:00.000002"),
    ]


def test_what_cannot_be_read_is_told(
    shop: Database, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for column, problem in (
        ("amount", r"column amount: it is decimal\(10,2\), which has no next value"),
        ("id\ndelay: 1s", "it is int, and `delay` needs a timestamp"),
        ("ID", "column ID: there is no such column"),
    ):
        reader = Reader(tmp_path / "p", shop, spark, "batch", f"table: Orders\ncolumn: {column}")
        with pytest.raises(DefinitionError, match=problem):
            reader.run()
    monkeypatch.setenv("SHOP_PASSWORD", "wrong")
    with pytest.raises(AuthenticationFailure) as refused:
        Reader(tmp_path / "p", shop, spark, "batch", "table: Orders\ncolumn: id").run()
    assert "wrong" not in str(refused.value)
