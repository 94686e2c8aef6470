"""Streams in this process, on the shared Spark: positions, stopping, bad records, failures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.admin import groups, topics
from headrace.errors import (
    AlreadyRunning,
    BadRecord,
    DataLoss,
    DefinitionError,
    NoBrokersAvailable,
    SchemaMismatch,
    TooManyBadRecords,
    UnknownTopicOrPartition,
)
from headrace.runtime.progress import BatchDone, Event, Started, Warned
from headrace.runtime.status import reports

from .conftest import Bench

STREAM = """
pipeline: NAME
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  schema: "id BIGINT NOT NULL, amount INT"
transform:
  - sql: SELECT id, amount * 2 AS doubled FROM source WHERE amount > 0
sink:
  connector_type: kafka
  topic: TOPIC.out
  key: id
"""


def _rows(*ids: int) -> list[dict[str, int]]:
    return [{"id": number, "amount": 1} for number in ids]


def _ids(bench: Bench) -> list[int]:
    return sorted(value["id"] for value in bench.values(f"{bench.topic}.out"))


def test_a_second_run_continues_where_the_first_stopped(bench: Bench, spark: SparkSession) -> None:
    definition = headrace.load(bench.write(STREAM))
    bench.produce(_rows(1, 2, 3))
    assert definition.run(spark=spark, once=True).records == 3
    bench.produce(_rows(4))
    summary = definition.run(spark=spark, once=True)
    assert (summary.records, summary.written, summary.bad) == (1, 1, 0)
    assert _ids(bench) == [1, 2, 3, 4]


def test_the_group_shows_the_position_after_every_batch(bench: Bench, spark: SparkSession) -> None:
    """CO-12: Spark commits to no group, so the pipeline does."""
    file = bench.write(STREAM.replace("earliest", "earliest\n  batch_size: 2"))
    bench.produce(_rows(*range(7)))
    seen: list[int] = []

    def listen(event: Event) -> None:
        if isinstance(event, BatchDone):
            committed = groups.committed(bench.cluster, bench.name)
            assert committed == event.positions
            seen.append(event.records)

    headrace.load(file).run(spark=spark, once=True, on_event=listen)
    assert sum(seen) == 7
    assert max(seen) <= 2
    assert bench.lag(bench.name) == 0


def test_a_position_that_a_crash_kept_from_the_group_is_shown_by_the_next_run(
    bench: Bench, spark: SparkSession
) -> None:
    definition = headrace.load(bench.write(STREAM))
    bench.produce(_rows(1, 2, 3))
    definition.run(spark=spark, once=True)
    groups.delete(bench.cluster, [bench.name])
    definition.run(spark=spark, once=True)
    assert bench.lag(bench.name) == 0
    assert groups.committed(bench.cluster, bench.name)


def test_a_lost_state_folder_is_told_before_records_are_read_again(
    bench: Bench, spark: SparkSession, tmp_path: Path
) -> None:
    bench.produce(_rows(1))
    headrace.load(bench.write(STREAM)).run(spark=spark, once=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".headrace").mkdir()
    file = elsewhere / "pipeline.yaml"
    file.write_text((bench.folder / "pipeline.yaml").read_text())
    events: list[Event] = []
    headrace.load(file).run(spark=spark, once=True, on_event=events.append)
    warnings = [event.text for event in events if isinstance(event, Warned)]
    assert any(
        f"group {bench.name} has a position" in text and "earliest" in text for text in warnings
    )


def test_stopping_finishes_the_batch_in_hand_and_begins_no_other(
    bench: Bench, spark: SparkSession
) -> None:
    """Each batch is one record; stopped in the middle, nothing is doubled by the next run."""
    file = bench.write(STREAM.replace("earliest", "earliest\n  batch_size: 1"))
    bench.produce(_rows(*range(12)))
    third = threading.Event()
    batches: list[BatchDone] = []

    def listen(event: Event) -> None:
        if isinstance(event, BatchDone):
            batches.append(event)
            if len(batches) == 3:
                third.set()

    run = headrace.load(file).prepare(spark=spark, on_event=listen).start()
    assert third.wait(120)
    run.stop()
    stopped = run.wait()
    assert stopped.records < 12
    assert len(_ids(bench)) == stopped.records
    rest = headrace.load(file).run(spark=spark, once=True)
    assert stopped.records + rest.records == 12
    assert _ids(bench) == list(range(12))


def test_a_stream_takes_what_comes_while_it_runs(bench: Bench, spark: SparkSession) -> None:
    started, done = threading.Event(), threading.Event()
    seen = [0]

    def listen(event: Event) -> None:
        if isinstance(event, Started):
            started.set()
        if isinstance(event, BatchDone):
            seen[0] += event.records
            if seen[0] >= 5:
                done.set()

    run = headrace.load(bench.write(STREAM)).prepare(spark=spark, on_event=listen).start()
    assert started.wait(120)
    for number in range(5):
        bench.produce(_rows(number))
    assert done.wait(120)
    run.stop()
    assert run.wait().written == 5


def test_two_runs_of_one_pipeline_do_not_run_at_once(bench: Bench, spark: SparkSession) -> None:
    definition = headrace.load(bench.write(STREAM))
    started = threading.Event()

    def listen(event: Event) -> None:
        if isinstance(event, Started):
            started.set()

    run = definition.prepare(spark=spark, on_event=listen).start()
    assert started.wait(120)
    with pytest.raises(AlreadyRunning) as refused:
        definition.run(spark=spark)
    assert refused.value.exit_code == 4
    run.stop()
    run.wait()


def test_bad_data_fail_stops_at_the_record_and_names_it(bench: Bench, spark: SparkSession) -> None:
    file = bench.write(STREAM.replace("earliest", "earliest\n  bad_data: fail"))
    bench.produce([*_rows(1), "no", *_rows(2)], partition=1)
    with pytest.raises(BadRecord) as stopped:
        headrace.load(file).run(spark=spark, once=True)
    error = stopped.value
    assert (error.topic, error.partition, error.offset) == (bench.topic, 1, 1)
    assert "NOT_JSON" in error.reason
    assert error.exit_code == 4


def test_too_many_bad_records_stop_the_batch_before_anything_is_written(
    bench: Bench, spark: SparkSession
) -> None:
    limited = STREAM.replace("earliest", "earliest\n  max_errors_per_batch: 1")
    bench.produce([*_rows(1), "bad", "worse"], partition=0)
    with pytest.raises(TooManyBadRecords) as stopped:
        headrace.load(bench.write(limited)).run(spark=spark, once=True)
    assert (stopped.value.count, stopped.value.limit) == (2, 1)
    assert f"{bench.topic}[0]@1" in str(stopped.value)
    assert bench.read(f"{bench.topic}.out") == []
    assert bench.read(f"{bench.topic}.dlq") == []

    raised = bench.write(limited.replace("batch: 1", "batch: 2"))
    headrace.load(raised).run(spark=spark, once=True)
    assert _ids(bench) == [1]
    assert len(bench.read(f"{bench.topic}.dlq")) == 2


def test_a_missing_topic_is_named_before_spark_starts(bench: Bench) -> None:
    file = bench.write(STREAM.replace("topic: TOPIC\n", "topic: TOPIC.nowhere\n"))
    with pytest.raises(UnknownTopicOrPartition) as refused:
        headrace.load(file).run()
    assert f"{bench.topic}.nowhere" in str(refused.value)
    assert refused.value.exit_code == 4


def test_a_broker_that_is_not_there_is_worth_a_retry(bench: Bench) -> None:
    file = bench.write(STREAM.replace("SERVERS", "127.0.0.1:1"))
    with pytest.raises(NoBrokersAvailable) as refused:
        headrace.load(file).run()
    assert refused.value.exit_code == 3


def test_sql_that_only_spark_can_refuse_is_a_fault_of_the_definition(
    bench: Bench, spark: SparkSession
) -> None:
    file = bench.write(STREAM.replace("amount * 2", "no_such_function(amount)"))
    with pytest.raises(DefinitionError) as refused:
        headrace.load(file).run(spark=spark, once=True)
    assert "no_such_function" in str(refused.value)
    assert "pipeline.yaml:10" in str(refused.value)
    assert refused.value.exit_code == 2


def test_records_lost_to_retention_stop_the_stream_unless_told_otherwise(
    bench: Bench, spark: SparkSession, delete_records: Callable[[str, dict[int, int]], None]
) -> None:
    """CO-10: the position has fallen off the log."""
    file = bench.write(STREAM)
    bench.produce(_rows(1, 2), partition=0)
    headrace.load(file).run(spark=spark, once=True)
    bench.produce(_rows(3, 4, 5), partition=0)
    delete_records(bench.topic, {0: 4})
    with pytest.raises(DataLoss) as lost:
        headrace.load(file).run(spark=spark, once=True)
    assert lost.value.exit_code == 4
    assert f"{bench.topic}[0] offsets 2 to 3 (2 records)" in str(lost.value)
    file = bench.write(STREAM.replace("earliest", "earliest\n  on_data_loss: reset"))
    headrace.load(file).run(spark=spark, once=True)
    assert _ids(bench) == [1, 2, 5]


def test_rows_that_no_longer_fit_the_table_are_told_as_that(
    bench: Bench, spark: SparkSession
) -> None:
    delta = STREAM[: STREAM.index("sink:")] + "sink:\n  connector_type: delta\n  path: table\n"
    bench.produce(_rows(1))
    headrace.load(bench.write(delta)).run(spark=spark, once=True)
    bench.produce(_rows(2))
    changed = bench.write(delta.replace("amount * 2", "'text'"))
    with pytest.raises(SchemaMismatch):
        headrace.load(changed).run(spark=spark, once=True)


def test_status_lists_what_ran_here(bench: Bench, spark: SparkSession) -> None:
    definition = headrace.load(bench.write(STREAM))
    bench.produce([*_rows(1, 2), "bad"])
    definition.run(spark=spark, once=True)
    bench.produce(_rows(3, 4))
    (report,) = reports(definition.project)
    assert (report.pipeline, report.state, report.mode) == (bench.name, "stopped", "stream")
    assert (report.records, report.written, report.dead_letters) == (3, 2, 1)
    assert report.lag == 2
    assert report.rate is not None
    assert {(each["topic"], each["group"]) for each in report.positions} == {
        (bench.topic, bench.name)
    }


def test_preview_shows_rows_and_bad_records_and_moves_nothing(
    bench: Bench, spark: SparkSession
) -> None:
    definition = headrace.load(bench.write(STREAM))
    bench.produce([*_rows(1), "bad"])
    shown = definition.preview(spark=spark)
    assert shown.columns == ("id", "doubled")
    assert shown.rows == ({"id": 1, "doubled": 2},)
    assert [bad.error for bad in shown.bad] == ["NOT_JSON"]
    assert groups.committed(bench.cluster, bench.name) == {}
    assert not topics.exists(bench.cluster, f"{bench.topic}.out")
    assert not definition.state.folder.exists()


def test_a_source_alone_can_be_checked_and_previewed_but_not_run(
    bench: Bench, spark: SparkSession
) -> None:
    source = """
connector_type: kafka
bootstrap_server: SERVERS
topic: TOPIC
schema: "id BIGINT"
"""
    bench.produce([{"id": 7}])
    definition = headrace.load(bench.write(source))
    assert definition.check() == []
    assert definition.preview(spark=spark).rows == ({"id": 7},)
    with pytest.raises(DefinitionError):
        definition.run(spark=spark)
