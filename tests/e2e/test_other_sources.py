"""Files, logs, Delta tables, made-up rows and Python classes as sources: as streams, as batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.errors import BadRecord, DefinitionError, PathNotFound, SourceChanged
from headrace.formats.deadletter import HEADER_PREFIX
from headrace.runtime.progress import Event, Summary, Warned

from .conftest import Bench

SINK = """
sink:
  connector_type: delta
  path: table
"""
MODES = pytest.mark.parametrize("mode", ["stream", "batch"])


@dataclass
class Desk:
    """A folder with a pipeline into a Delta table, and what it says."""

    folder: Path
    spark: SparkSession
    warnings: list[str] = field(default_factory=list)

    def write(self, mode: str, source: str, rest: str = SINK, **values: object) -> None:
        text = f"pipeline: p\nmode: {mode}\nsource:\n{source.strip(chr(10))}\n{rest}"
        for name, value in values.items():
            text = text.replace(name, str(value))
        (self.folder / "p.yaml").write_text(text)

    def run(self) -> Summary:
        definition = headrace.load(self.folder / "p.yaml")
        return definition.run(spark=self.spark, once=True, on_event=self._hear)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Warned):
            self.warnings.append(event.text)

    def preview(self) -> Any:
        return headrace.load(self.folder / "p.yaml").preview(spark=self.spark)

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        table = self.spark.read.format("delta").load(str(self.folder / "table"))
        return sorted((tuple(row) for row in table.selectExpr(*columns).collect()), key=str)

    def file(self, name: str, *lines: str | bytes, mode: str = "wb") -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        with path.open(mode) as file:
            for line in lines:
                file.write((line.encode() if isinstance(line, str) else line) + b"\n")
        return path


@pytest.fixture
def desk(tmp_path: Path, spark: SparkSession) -> Desk:
    return Desk(tmp_path, spark)


# Files

JSON = """
  connector_type: files
  path: in
  schema: "id BIGINT NOT NULL, name STRING"
  include_metadata: true
  bad_data: skip
"""


@MODES
def test_each_file_of_a_folder_is_read_once(desk: Desk, mode: str) -> None:
    desk.write(mode, JSON)
    desk.file("in/a [1].json", '{"id":1,"name":"x"}', "", '{"id":"?"}', b"\xff\xfe")
    desk.file("in/deep/b.json", '{"id":2}\r')
    desk.file("in/_hidden.json", '{"id":9}')
    first = desk.run()
    assert (first.records, first.written, first.bad) == (4, 2, 2)
    desk.file("in/c.json", '{"id":3}')
    second = desk.run()
    assert (second.records, second.written) == (1, 1)
    assert desk.run().records == 0
    found = desk.rows("id", "name", "_file_path")
    folder = str(desk.folder / "in")
    assert found == [
        (1, "x", f"{folder}/a [1].json"),
        (2, None, f"{folder}/deep/b.json"),
        (3, None, f"{folder}/c.json"),
    ]
    shown = desk.preview()
    assert (len(shown.rows), len(shown.bad), shown.scanned) == (3, 2, None)


def test_a_file_that_changed_is_told_and_not_read_again(desk: Desk) -> None:
    desk.write("batch", JSON)
    desk.file("in/empty.json")
    (desk.folder / "in/empty.json").write_text("")
    path = desk.file("in/a.json", '{"id":1}')
    desk.run()
    assert desk.warnings == []
    desk.file("in/a.json", '{"id":1}', '{"id":2}')
    desk.file("in/empty.json", '{"id":3}')
    desk.run()
    assert desk.rows("id") == [(1,), (3,)]
    (warning,) = desk.warnings
    assert warning.startswith(f"{path} had 9 bytes when it was read and has 18 now")


CSV = """
  connector_type: files
  path: in/*.csv
  format: csv
  header: true
  delimiter: ";"
  schema: "id BIGINT NOT NULL, Name STRING, amount DOUBLE"
  dlq_topic: TOPIC.dlq
  bootstrap_server: SERVERS
"""


def test_csv_lines_that_do_not_fit_are_dead_letters(desk: Desk, bench: Bench) -> None:
    desk.write("stream", CSV, SERVERS=bench.cluster.bootstrap, TOPIC=bench.topic)
    header = '\ufeff"ID";"name";amount'
    good = ["1;a;2.5", '2;"b;""c""";', "3;;1"]
    bad = {
        "x;a;y": ("WRONG_TYPE", "does not fit the schema: id is not BIGINT, amount is not DOUBLE"),
        "1;a": ("FIELD_COUNT", "the line does not have 3 fields separated by `;`"),
        "1;a;2;3": ("FIELD_COUNT", "the line does not have 3 fields separated by `;`"),
        ";a;2": ("MISSING_FIELD", "without a value for: id"),
    }
    path = desk.file("in/a.csv", header, *good, *bad, b"1;\xff;2")
    summary = desk.run()
    assert (summary.records, summary.written, summary.bad) == (8, 3, 5)
    assert desk.rows("id", "name", "amount") == [(1, "a", 2.5), (2, 'b;"c"', None), (3, None, 1.0)]
    letters = {}
    for record in bench.read(f"{bench.topic}.dlq"):
        facts = {
            name.removeprefix(HEADER_PREFIX): (v or b"").decode() for name, v in record.headers
        }
        letters[record.value] = facts["error"], facts["message"]
        assert facts["topic"] == str(path)
    expected = {line.encode(): reason for line, reason in bad.items()}
    assert letters == expected | {b"1;\xff;2": ("NOT_UTF8", "the line is not UTF-8 text")}


def test_a_bad_line_stops_a_pipeline_that_has_no_place_for_it(desk: Desk) -> None:
    desk.write("batch", JSON.replace("  bad_data: skip\n", ""))
    path = desk.file("in/a.json", '{"id":1}', "no")
    with pytest.raises(BadRecord) as bad:
        desk.run()
    assert str(path) in str(bad.value)
    desk.write("batch", JSON.replace("path: in", "path: nowhere"))
    with pytest.raises(PathNotFound, match="nowhere"):
        desk.run()


@MODES
def test_parquet_comes_with_its_place(desk: Desk, mode: str) -> None:
    source = """
  connector_type: files
  path: in
  format: parquet
  schema: "id BIGINT, extra STRING"
  include_metadata: true
"""
    desk.write(mode, source)
    folder = str(desk.folder / "in")
    desk.spark.range(3).coalesce(1).write.parquet(folder)
    assert desk.run().records == 3
    desk.spark.range(3, 5).coalesce(1).write.mode("append").parquet(folder)
    assert desk.run().records == 2
    assert desk.rows("id", "extra", "_file_offset") == [(i, None, i % 3) for i in range(5)]


# Logs; what is found when they are rotated is in tests/unit/test_log_source.py


def test_appended_lines_of_a_log_are_read_when_they_are_complete(desk: Desk) -> None:
    source = """
  connector_type: log
  path: "*.log"
  include_metadata: true
"""
    desk.write("stream", source)
    log = desk.file("app.log", "one", "two\r")
    assert desk.run().records == 2
    with log.open("ab") as file:
        file.write(b"three\nfo")
    log.rename(desk.folder / "app.log.1")
    desk.file("app.log", "four")
    desk.file("other.log", "", "five")
    assert desk.run().records == 4
    assert desk.rows("value", "_file_offset") == [
        ("", 0),
        ("five", 1),
        ("four", 0),
        ("one", 0),
        ("three", 9),
        ("two", 4),
    ]
    assert [warning.replace(str(desk.folder), "") for warning in desk.warnings] == [
        "/app.log is another file now; the old one is read to its end"
    ]
    shown = desk.preview()
    assert sorted(row["value"] for row in shown.rows) == ["", "five", "four"]


# Delta

DELTA = """
  connector_type: delta
  path: from
"""


def _append(desk: Desk, *ids: int) -> None:
    rows = desk.spark.createDataFrame([(i, i % 2) for i in ids], "id BIGINT, even INT")
    rows.coalesce(1).write.format("delta").mode("append").partitionBy("even").save(
        str(desk.folder / "from")
    )


@MODES
def test_rows_appended_to_a_delta_table(desk: Desk, mode: str) -> None:
    desk.write(mode, DELTA)
    with pytest.raises(PathNotFound):
        desk.run()
    table = f"delta.`{desk.folder / 'from'}`"
    _append(desk, 1, 2)
    desk.spark.sql(f"DELETE FROM {table} WHERE id = 2")
    assert desk.run().records == 1
    _append(desk, 3)
    desk.spark.sql(f"OPTIMIZE {table}")
    _append(desk, 4, 5)
    assert desk.run().records == 3
    assert desk.rows("id", "even") == [(1, 1), (3, 1), (4, 0), (5, 1)]
    assert len(desk.preview().rows) == 4


def test_a_commit_that_changes_rows_is_refused_by_its_version(desk: Desk) -> None:
    desk.write("batch", DELTA)
    table = f"delta.`{desk.folder / 'from'}`"
    _append(desk, 1)
    desk.run()
    _append(desk, 2)
    desk.spark.sql(f"UPDATE {table} SET id = 7 WHERE id = 1")
    with pytest.raises(SourceChanged, match=r"version 2 \(UPDATE\)"):
        desk.run()
    desk.write("batch", DELTA + "  skip_change_commits: true\n")
    desk.run()
    assert desk.rows("id") == [(1,), (2,)]


# Impulse

IMPULSE = """
  connector_type: impulse
  rate: 2
  count: 5
  partitions: 2
  fields:
    id: n
    at: at
    half: n % 2 = 0
    x: round(rand() * 100, 3)
    y: round(RAND( ) * 100, 3)
"""


def test_made_up_rows_are_the_same_in_a_stream_and_in_a_batch(desk: Desk, tmp_path: Path) -> None:
    made = {}
    for mode in ("stream", "batch"):
        (tmp_path / mode).mkdir()
        own = Desk(tmp_path / mode, desk.spark)
        own.write(mode, IMPULSE)
        assert own.run().records == 5
        assert own.run().records == 0
        made[mode] = own.rows("id", "half", "x", "y", "unix_millis(at) AS at")
        assert len(own.preview().rows) == 5
    assert made["stream"] == made["batch"]
    rows = made["stream"]
    assert [row[4] - rows[0][4] for row in rows] == [0, 500, 1000, 1500, 2000]
    assert len({row[2] for row in rows} | {row[3] for row in rows}) == 10
    assert all(0 <= row[2] < 100 for row in rows)


# Python

CLASS = """
from pyspark.sql.datasource import DataSource, DataSourceReader, SimpleDataSourceStreamReader


class Letters(DataSource):
    def schema(self):
        return "letter STRING"

    def reader(self, schema):
        return Reader(self.options["text"])

    def simpleStreamReader(self, schema):
        return Stream(self.options["text"])


class Reader(DataSourceReader):
    def __init__(self, text):
        self.text = text

    def read(self, partition):
        return iter([(letter,) for letter in self.text])


class Stream(SimpleDataSourceStreamReader):
    def __init__(self, text):
        self.text = text

    def initialOffset(self):
        return {"at": 0}

    def read(self, start):
        return iter(self.readBetweenOffsets(start, {"at": 2})), {"at": 2}

    def readBetweenOffsets(self, start, end):
        return iter([(letter,) for letter in self.text[start["at"]:end["at"]]])


class Nothing(DataSource):
    pass
"""
PYTHON = """
  connector_type: python
  class: NAME.Letters
  options: {text: abc}
"""


def test_rows_of_a_python_class(desk: Desk) -> None:
    desk.file("letters_stream.py", CLASS)
    desk.write("stream", PYTHON, NAME="letters_stream")
    assert [desk.run().records, desk.run().records] == [2, 0]
    assert desk.rows("letter") == [("a",), ("b",)]


def test_a_python_class_is_read_whole_by_each_batch(desk: Desk) -> None:
    desk.file("letters_batch.py", CLASS)
    desk.write("batch", PYTHON, NAME="letters_batch")
    assert [desk.run().records, desk.run().records] == [3, 3]
    assert len(desk.warnings) == 2
    assert "all of it is read" in desk.warnings[0]
    desk.write("batch", PYTHON.replace("Letters", "Nothing"), NAME="letters_batch")
    with pytest.raises(DefinitionError, match="it has no reader"):
        desk.run()
    desk.write("batch", PYTHON.replace("Letters", "Missing"), NAME="letters_batch")
    with pytest.raises(DefinitionError, match="cannot be imported"):
        desk.run()
