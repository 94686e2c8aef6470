"""Files of a folder: what they hold, how they appear, and what a crash leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.batches import Batches, deletion

from headrace.sinks.files import FilesSink, Folder
from headrace.sinks.writer import Batch


@pytest.fixture
def batches(tmp_path: Path, spark: SparkSession) -> Batches:
    return Batches(tmp_path, spark)


def names(folder: Path, pattern: str) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))


ROWS: list[Any] = [{"id": n, "name": "ab"[n % 2], "amount": n} for n in range(6)]


@pytest.mark.parametrize(
    ("options", "ending"),
    [
        ("format: parquet\npartition_by: [name]", "snappy.parquet"),
        ("format: json\ncompression: gzip", "json.gz"),
        ("format: csv", "csv"),
    ],
)
def test_each_batch_is_in_the_folder_once(
    options: str, ending: str, batches: Batches, spark: SparkSession
) -> None:
    batches.define(f"connector_type: files\npath: out\n{options}")
    batches.write([*ROWS, deletion("1")], 0)
    batches.write(ROWS, 0)  # again, after a crash
    batches.write([{"id": 7, "name": "a", "amount": 7}], 1)
    batches.write([{"id": 7, "name": "a", "amount": 7}], 1)
    batches.write(ROWS, 0)
    batches.write([deletion("1")], 2)  # no rows, no file
    out = batches.folder / "out"
    reader = spark.read.option("header", "true").format(options.split()[1])
    found = reader.load(str(out)).selectExpr("int(id)", "name", "int(amount)").collect()
    assert sorted(map(tuple, found)) == [*((n, "ab"[n % 2], n) for n in range(6)), (7, "a", 7)]
    files = names(out, "name=*/[!.]*" if "partition_by" in options else "[!._]*")
    assert all(name.endswith(f".{ending}") and "shop.sink-life-" in name for name in files)
    assert len(files) == (3 if "partition_by" in options else 2)


def test_csv_is_as_other_programs_read_it(batches: Batches) -> None:
    batches.define("connector_type: files\npath: out\nformat: csv\nheader: false")
    batches.write([{"id": 1, "name": 'a, "b"', "amount": None}], 0)
    (file,) = (batches.folder / "out").glob("*.csv")
    assert file.read_text() == '1,"a, \\"b\\"",\n'


class Crash(Exception):
    pass


class CrashingFolder(Folder):
    """Fails as a process would that is killed just before its `moves`-th move."""

    def __init__(self, spark: SparkSession, path: str, moves: int) -> None:
        super().__init__(spark, path)
        self.left = moves

    def move(self, old: str, new: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise Crash
        super().move(old, new)


def test_a_crash_at_each_move_is_mended_by_the_batch_that_comes_again(
    batches: Batches, spark: SparkSession
) -> None:
    def frame(count: int) -> DataFrame:
        return spark.createDataFrame([(n, n % 3) for n in range(count)], "id INT, part INT")

    batches.schema = "id INT, part INT"
    # The first move makes the note; before it nothing counts, after it the batch is decided.
    for crash in (1, 2, 4):
        path = batches.folder / f"out{crash}"
        batches.define(f"connector_type: files\npath: {path}\nformat: json\npartition_by: part")
        (sink,) = batches.definition.plan.sinks
        assert isinstance(sink, FilesSink)
        with pytest.raises(Crash):
            sink.deliver(frame(6), Batch(0, "life"), CrashingFolder(spark, str(path), crash))
        # What comes again may come in other files: what was decided stands.
        again = frame(6) if crash > 1 else frame(6).repartition(5)
        if crash == 4:
            sink.write(frame(0), Batch(0, "another life"))
        sink.write(again, Batch(0, "life"))
        sink.write(frame(3), Batch(1, "life"))
        found = spark.read.json(str(path)).collect()
        assert sorted(row.id for row in found) == [0, 0, 1, 1, 2, 2, 3, 4, 5], crash
        notes = names(path, "_headrace/shop.sink/[!.]*")
        assert f"_headrace/shop.sink/life-{1:019}.note" in notes, crash
        assert len(notes) == (2 if crash == 4 else 1), crash
