"""Incremental batches: from the stored position to the end seen at the start, and no further."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace
from headrace.admin import groups, places, topics
from headrace.admin.resets import Scope
from headrace.api import Definition
from headrace.errors import (
    AlreadyRunning,
    DataLoss,
    DefinitionError,
    PositionBeyondEnd,
    PositionsChanged,
)
from headrace.project import Project
from headrace.runtime import failpoints
from headrace.runtime.progress import BatchDone, Event, Warned
from headrace.testing import Crash, crash_at

from .conftest import Bench

BATCH = """
pipeline: NAME
mode: batch
guarantee: at_least_once
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


def _ids(spark: SparkSession, bench: Bench, table: str = "table") -> list[int]:
    rows = spark.read.format("delta").load(str(bench.folder / table)).collect()
    return sorted(row.id for row in rows)


def _versions(spark: SparkSession, path: Path) -> int:
    return spark.sql(f"DESCRIBE HISTORY delta.`{path}`").count()


def _with(option: str, text: str = BATCH) -> str:
    return text.replace("topic: TOPIC\n", f"topic: TOPIC\n  {option}\n", 1)


def _told(definition: Definition, spark: SparkSession) -> list[str]:
    """Runs it; what it warned of."""
    events: list[Event] = []
    definition.run(spark=spark, on_event=events.append)
    return [event.text for event in events if isinstance(event, Warned)]


def test_each_run_reads_only_what_is_new_and_nothing_new_writes_nothing(
    bench: Bench, spark: SparkSession
) -> None:
    """CO-20: the first run begins at the earliest record, though nobody said so."""
    definition = headrace.load(bench.write(BATCH))
    bench.produce(_rows(1, 2), partition=1)
    events: list[Event] = []
    definition.run(spark=spark, on_event=events.append)
    assert [(event.batch, event.records) for event in events if isinstance(event, BatchDone)] == [
        (1, 2)
    ]
    table = spark.read.format("delta").load(str(definition.state.offsets))
    assert table.dtypes[:3] == [("topic", "string"), ("partition", "int"), ("max_offset", "bigint")]
    stored = {(row.topic, row.partition): row.max_offset for row in table.collect()}
    assert stored == {(bench.topic, 0): -1, (bench.topic, 1): 1}

    bench.produce(_rows(3, 4, 5))
    assert definition.run(spark=spark).records == 3
    assert _ids(spark, bench) == [1, 2, 3, 4, 5]
    assert bench.lag(bench.name) == 0

    # Somebody who resets the group does not move the pipeline.
    groups.delete(bench.cluster, [bench.name])
    paths = [bench.folder / "table", definition.state.offsets]
    before = [_versions(spark, path) for path in paths]
    assert definition.run(spark=spark).records == 0
    assert [_versions(spark, path) for path in paths] == before
    assert bench.lag(bench.name) == 0


def test_a_partition_added_since_is_read_from_its_beginning(
    bench: Bench, spark: SparkSession
) -> None:
    """A first run at the end of the topic does not mean that new partitions begin at theirs."""
    definition = headrace.load(bench.write(_with("auto_offset_reset: latest")))
    bench.produce(_rows(1))
    definition.run(spark=spark)
    topics.grow(bench.cluster, bench.topic, 3)
    bench.produce(_rows(2, 3), partition=2)
    definition.run(spark=spark)
    assert _ids(spark, bench) == [2, 3]


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

    told = _told(headrace.load(bench.write(_with("on_data_loss: reset"))), spark)
    assert any("(2 records)" in text for text in told)
    assert _ids(spark, bench) == [1, 4]


# The table of offsets


def _offsets(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.format("delta").load(str(path))


def test_a_table_that_is_shared_edited_and_deleted_says_where_to_begin(
    bench: Bench, spark: SparkSession
) -> None:
    """Rows by hand are understood; a pipeline touches no row of another; 64 bits are kept."""
    path = bench.folder / "meta" / "kafka_offsets"
    name = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {name} (topic STRING, partition INT, max_offset BIGINT) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES ('{bench.topic}', 0, 0), ('others', 0, 3000000000)")
    text = _with("metadata_table: ./meta/kafka_offsets")
    one = headrace.load(bench.write(text))
    bench.produce(_rows(1, 2), partition=0)
    bench.produce(_rows(3, 4), partition=1)
    one.run(spark=spark)
    assert _ids(spark, bench) == [2, 3, 4]
    assert not one.state.offsets.exists()
    own = (
        bench.write(text, "two.yaml")
        .read_text()
        .replace(f"pipeline: {bench.name}", f"pipeline: two-{bench.name}")
        .replace("path: table", "path: second")
    )
    (bench.folder / "two.yaml").write_text(own)
    two = headrace.load(bench.folder / "two.yaml")
    two.run(spark=spark)
    assert _ids(spark, bench, "second") == [1, 2, 3, 4]
    rows = [
        (row.topic, row.partition, row.max_offset, row.pipeline)
        for row in _offsets(spark, path).collect()
    ]
    assert sorted(rows, key=str) == sorted(
        [
            ("others", 0, 3_000_000_000, None),
            *((bench.topic, part, 1, bench.name) for part in (0, 1)),
            *((bench.topic, part, 1, f"two-{bench.name}") for part in (0, 1)),
        ],
        key=str,
    )

    mine = f"pipeline = '{bench.name}'"
    spark.sql(f"DELETE FROM {name} WHERE {mine} AND partition = 1")
    spark.sql(f"UPDATE {name} SET max_offset = 0 WHERE {mine} AND partition = 0")
    one.run(spark=spark)
    assert Counter(_ids(spark, bench)) == {2: 2, 3: 2, 4: 2}
    assert two.run(spark=spark).records == 0

    # A row by hand comes after what the pipeline wrote itself, and counts.
    spark.sql(
        f"INSERT INTO {name} (topic, partition, max_offset) "
        f"VALUES ('{bench.topic}', 0, 2147483647000)"
    )
    with pytest.raises(PositionBeyondEnd, match=r"\[0\].*2147483647001"):
        one.run(spark=spark)
    shutil.rmtree(path)
    assert one.run(spark=spark).records == 4


def test_a_row_that_could_mean_two_sources_is_refused(bench: Bench, spark: SparkSession) -> None:
    sources = (
        BATCH.replace("source:\n", "sources:\n  a: &source\n")
        .replace("  connector_type: kafka", "    connector_type: kafka")
        .replace("  bootstrap_server", "    bootstrap_server")
        .replace("  topic:", "    topic:")
        .replace("  schema: ", "    metadata_table: shared.offsets\n    schema: ")
        .replace("sink:\n", "  b: {<<: *source, consumer_group: second}\nsink:\n  from: both\n")
    )
    step = "transform:\n  - {name: both, sql: SELECT * FROM a UNION ALL SELECT * FROM b}\n"
    definition = headrace.load(bench.write(sources + step))
    bench.produce(_rows(1))
    definition.run(spark=spark)
    assert _ids(spark, bench) == [1, 1]
    # A name is a table of the project folder.
    path = bench.folder / ".headrace" / "tables" / "shared" / "offsets"
    spark.sql(
        f"INSERT INTO delta.`{path}` (topic, partition, max_offset) VALUES ('{bench.topic}', 0, 1)"
    )
    with pytest.raises(DefinitionError, match="could be of `a` and `b`"):
        definition.run(spark=spark)


def test_a_table_that_cannot_keep_offsets_is_refused(bench: Bench, spark: SparkSession) -> None:
    path = bench.folder / "narrow"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (topic STRING, partition INT, max_offset INT) USING delta"
    )
    definition = headrace.load(bench.write(_with("metadata_table: ./narrow")))
    with pytest.raises(DefinitionError, match="max_offset INT"):
        definition.run(spark=spark)


def test_without_commit_or_stored_offsets_no_position_moves(
    bench: Bench, spark: SparkSession
) -> None:
    definition = headrace.load(bench.write(BATCH))
    bench.produce(_rows(1, 2))
    for _ in range(2):
        assert definition.run(spark=spark, commit=False).written == 2
    assert not definition.state.offsets.exists()
    assert not (definition.state.folder / "journal.json").exists()
    assert bench.name not in groups.names(bench.cluster)
    assert _ids(spark, bench) == [1, 1, 2, 2]
    definition.run(spark=spark)
    assert Counter(_ids(spark, bench)) == {1: 3, 2: 3}

    always = headrace.load(bench.write(_with("store_offsets: false")))
    assert always.run(spark=spark).records == 2
    stream = headrace.load(bench.write(BATCH.replace("mode: batch", "mode: stream")))
    with pytest.raises(DefinitionError, match="is a stream"):
        stream.run(spark=spark, commit=False)


# Crashes

TWO_SINKS = BATCH.replace(
    "sink:\n", "sinks:\n  out: {connector_type: kafka, topic: TOPIC.out}\n"
).replace("  connector_type: delta\n  path: table", "  lake: {connector_type: delta, path: table}")


@pytest.mark.parametrize(
    ("point", "twice", "told"),
    [
        # Delta comes last and has the run, so nothing is written again.
        ("write.done", 0, "all of it was written"),
        # The first sink is written, the second is not: the first gets all of it again.
        ("write.sink", 1, "may get it twice: dead letters in TOPIC.dlq, `out`"),
    ],
)
def test_after_a_crash_it_is_told_what_may_be_twice(
    bench: Bench, spark: SparkSession, point: str, twice: int, told: str
) -> None:
    definition = headrace.load(bench.write(TWO_SINKS))
    bench.produce(_rows(1, 2), partition=0)
    with crash_at(point), pytest.raises(Crash):
        definition.run(spark=spark)
    # What has come since, and a partition that is new, belong to the next range.
    topics.grow(bench.cluster, bench.topic, 3)
    bench.produce(_rows(3), partition=2)
    (warning,) = _told(definition, spark)
    assert f"run 1 was cut off: {bench.topic}[0] 0 to 1 (2 records)" in warning
    assert told.replace("TOPIC", bench.topic) in warning
    assert _ids(spark, bench) == [1, 2, 3]
    found = Counter(value["id"] for value in bench.values(f"{bench.topic}.out"))
    assert found == {1: 1 + twice, 2: 1 + twice, 3: 1}
    assert _told(definition, spark) == []


def test_a_table_edited_after_a_crash_counts_more_than_the_run(
    bench: Bench, spark: SparkSession
) -> None:
    definition = headrace.load(bench.write(BATCH))
    bench.produce(_rows(1, 2), partition=0)
    definition.run(spark=spark)
    bench.produce(_rows(3), partition=0)
    with crash_at("batch.noted"), pytest.raises(Crash):
        definition.run(spark=spark)
    spark.sql(f"UPDATE delta.`{definition.state.offsets}` SET max_offset = 0 WHERE partition = 0")
    (warning,) = _told(definition, spark)
    assert "run 2 was cut off" in warning
    assert "was changed since, and counts" in warning
    assert _ids(spark, bench) == [1, 2, 2, 3]


def test_a_sink_heals_the_table_when_the_state_folder_is_gone(
    bench: Bench, spark: SparkSession
) -> None:
    definition = headrace.load(bench.write(_with("metadata_table: ./meta/offsets")))
    table = bench.folder / "meta" / "offsets"
    bench.produce(_rows(1, 2), partition=0)
    definition.run(spark=spark)
    bench.produce(_rows(3), partition=0)
    with crash_at("write.done"), pytest.raises(Crash):
        definition.run(spark=spark)
    shutil.rmtree(definition.state.folder)
    bench.produce(_rows(4), partition=0)
    told = _told(definition, spark)
    assert any("has its run 2, which the table of offsets lacks" in text for text in told)
    assert _ids(spark, bench) == [1, 2, 3, 4]

    # With the table gone as well.
    shutil.rmtree(definition.state.folder)
    shutil.rmtree(table)
    assert any("its positions are stored now" in text for text in _told(definition, spark))
    assert _ids(spark, bench) == [1, 2, 3, 4]

    # An edit is not healed away, though the state folder is new again.
    spark.sql(f"UPDATE delta.`{table}` SET max_offset = 1 WHERE partition = 0")
    shutil.rmtree(definition.state.folder)
    assert _told(definition, spark) == []
    assert _ids(spark, bench) == [1, 2, 3, 3, 4, 4]


def test_of_two_runs_at_once_one_stores_its_positions(bench: Bench, spark: SparkSession) -> None:
    file = bench.write(_with("metadata_table: ./meta/offsets"))
    first = headrace.load(file)
    elsewhere = bench.folder / "elsewhere"
    elsewhere.mkdir()
    second = Definition(file, Project(elsewhere))
    bench.produce(_rows(1))

    def both() -> None:
        failpoints.arm(None)
        with pytest.raises(AlreadyRunning):
            headrace.load(file).run(spark=spark)
        second.run(spark=spark)

    failpoints.arm(failpoints.Armed("write.done", 1, both))
    with pytest.raises(PositionsChanged):
        first.run(spark=spark)
    assert (
        sum(row.max_offset for row in _offsets(spark, bench.folder / "meta/offsets").collect())
        == -1
    )
    assert first.run(spark=spark).records == 0


# Seeing and moving


def test_positions_are_shown_moved_and_rebuilt(bench: Bench, spark: SparkSession) -> None:
    definition = headrace.load(bench.write(BATCH))
    bench.produce(_rows(1, 2, 3), partition=0)
    definition.run(spark=spark)
    bench.produce(_rows(4), partition=0)
    with definition.offsets(spark=spark) as offsets:
        first, other = offsets.show()
        assert (first.position, first.max_offset, first.earliest, first.end, first.lag) == (
            3,
            2,
            0,
            4,
            1,
        )
        assert (other.position, other.lag) == (0, 0)
        (move,) = offsets.moves(places.AtOffset(1), [Scope(bench.topic, (0,))])
        assert (move.partition, move.old, move.new) == (0, 3, 1)
        offsets.move([move])
    definition.run(spark=spark)
    assert _ids(spark, bench) == [1, 2, 2, 3, 3, 4]

    shutil.rmtree(definition.state.offsets)
    with definition.offsets(spark=spark) as offsets:
        found, moves = offsets.rebuilt()
        assert (found.note.run, found.version) == (2, 1)
        offsets.move(moves, found.note)
        older, back = offsets.rebuilt(as_of=0)
        assert (older.note.run, [(move.old, move.new) for move in back]) == (1, [(4, 3)])
        with pytest.raises(DefinitionError, match="no source reads"):
            offsets.moves(places.Earliest(), [Scope("others")])
    assert definition.run(spark=spark).records == 0


def test_the_command_line_shows_and_moves_positions(bench: Bench, spark: SparkSession) -> None:
    definition = headrace.load(bench.write(BATCH))
    bench.produce(_rows(1, 2, 3), partition=1)
    with crash_at("write.done"), pytest.raises(Crash):
        definition.run(spark=spark)

    def offsets(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headrace.cli.main", "offsets", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    shown = offsets("show", str(definition.path), "-o", "json")
    assert shown.returncode == 0, shown.stderr
    assert [
        (row["partition"], row["position"], row["lag"]) for row in json.loads(shown.stdout)
    ] == [
        (0, None, 0),
        (1, None, 3),
    ]
    assert f"run 1 was cut off; the next one begins with {bench.topic}[1] 0 to 2" in shown.stderr
    moved = offsets("edit", str(definition.path), "--to-latest", "-t", f"{bench.topic}:1", "--yes")
    assert moved.returncode == 0, moved.stderr
    assert "will not be finished" in moved.stderr
    assert moved.stdout.split()[-4:] == [bench.topic, "1", "-", "3"]
    _told(definition, spark)
    assert _ids(spark, bench) == [1, 2, 3]

    stream = bench.write(BATCH.replace("mode: batch", "mode: stream"), "stream.yaml")
    refused = offsets("edit", str(stream), "--to-earliest")
    assert refused.returncode == 2
    assert "is a stream" in refused.stderr


# Streams


def test_a_stream_is_shown_where_its_checkpoint_stands(bench: Bench, spark: SparkSession) -> None:
    text = _with("auto_offset_reset: earliest").replace("mode: batch", "mode: stream")
    definition = headrace.load(bench.write(text))
    bench.produce(_rows(1, 2), partition=0)
    definition.run(spark=spark, once=True)
    bench.produce(_rows(3), partition=0)
    assert [(each.partition, each.position, each.lag) for each in definition.standing()] == [
        (0, 2, 1),
        (1, 0, 0),
    ]


LOG = """
pipeline: NAME
trigger: 200ms
guarantee: exactly_once
source:
  connector_type: log
  path: app.log
  format: json
  schema: "id BIGINT"
  bad_data: skip
sink:
  connector_type: delta
  path: table
"""


def test_a_source_that_spark_cannot_follow_is_polled(bench: Bench, spark: SparkSession) -> None:
    log = bench.folder / "app.log"
    log.write_text('{"id": 1}\n{"id": 2}\n')
    definition = headrace.load(bench.write(LOG))
    with crash_at("write.done"), pytest.raises(Crash):
        definition.run(spark=spark)
    events: list[Event] = []
    run = definition.prepare(spark=spark, on_event=events.append)

    def more() -> None:
        failpoints.arm(failpoints.Armed("batch.closed", 1, run.stop))
        with log.open("a") as file:
            file.write('{"id": 3}\n')

    failpoints.arm(failpoints.Armed("batch.closed", 1, more))
    summary = run.wait()
    failpoints.arm(None)
    assert _ids(spark, bench) == [1, 2, 3]
    assert summary.records == 1
