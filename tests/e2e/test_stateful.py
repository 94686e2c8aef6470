"""Streams that remember: windows, sums, duplicates and joins, over restarts and kill -9."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.admin import records
from headrace.errors import StateChanged
from headrace.runtime.status import reports

from .conftest import Bench
from .test_processes import WAIT_SECONDS, Running, run

__all__ = ["run"]

SOURCE = """
pipeline: NAME
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  schema: "id BIGINT NOT NULL, k STRING, at TIMESTAMP"
  watermark: {column: at, delay: 10 minutes}
"""
MANY = (
    SOURCE
    + """
transform:
  - name: windows
    sql: |
      SELECT date_format(window.start, 'HH:mm') AS start, k, count(*) AS n FROM source
      GROUP BY window(at, '5 minutes'), k
  - {name: totals, sql: "SELECT k, count(*) AS n FROM source GROUP BY k"}
  - {name: firsts, deduplicate: {by: [id]}, from: source}
  - {name: kinds, sql: SELECT DISTINCT k FROM source}
sinks:
  windows: {connector_type: kafka, topic: TOPIC.windows, from: windows}
  totals: {connector_type: kafka, topic: TOPIC.totals, from: totals}
  firsts: {connector_type: kafka, topic: TOPIC.firsts, from: firsts}
  kinds: {connector_type: kafka, topic: TOPIC.kinds, from: kinds}
"""
)


def row(number: int, k: str, at: str) -> dict[str, Any]:
    return {"id": number, "k": k, "at": f"2026-03-01T{at}:00Z"}


def counted(values: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(value.values()) for value in values)


def test_windows_sums_and_duplicates_over_a_restart(bench: Bench, spark: SparkSession) -> None:
    file = bench.write(MANY)
    bench.produce([row(1, "a", "00:01"), row(2, "a", "00:02"), row(3, "b", "00:06"), "bad"])
    first = headrace.load(file).run(spark=spark, once=True)
    assert (first.records, first.bad, first.late) == (4, 1, 0)
    assert bench.values(f"{bench.topic}.windows") == []  # nothing is final yet
    assert counted(bench.values(f"{bench.topic}.totals")) == [("a", 2), ("b", 1)]

    # A row again, one that is new to an open window, and an hour that ends both windows.
    bench.produce([row(1, "a", "00:01"), row(4, "a", "00:03"), row(5, "c", "01:00")])
    second = headrace.load(file).run(spark=spark, once=True)
    assert (second.records, second.bad, second.late) == (3, 0, 0)
    windows = [("00:00", "a", 4), ("00:05", "b", 1)]
    assert counted(bench.values(f"{bench.topic}.windows")) == windows
    totals = counted(bench.values(f"{bench.topic}.totals"))
    assert totals == [("a", 2), ("a", 4), ("b", 1), ("c", 1)]
    firsts = [value["id"] for value in bench.values(f"{bench.topic}.firsts")]
    assert sorted(firsts) == [1, 2, 3, 4, 5]
    assert counted(bench.values(f"{bench.topic}.kinds")) == [("a",), ("b",), ("c",)]
    assert len(bench.read(f"{bench.topic}.dlq")) == 1
    # What a batch without records wrote, as the watermark had moved, is counted, too.
    assert second.written == len(windows) + 2 + 2 + 1

    # Too late for its window and for what is remembered of ids; in time for sums without an end.
    bench.produce([row(6, "a", "00:04")])
    third = headrace.load(file).run(spark=spark, once=True)
    assert (third.records, third.late) == (1, 2)
    assert counted(bench.values(f"{bench.topic}.windows")) == windows
    assert ("a", 5) in counted(bench.values(f"{bench.topic}.totals"))
    (report,) = reports(headrace.load(file).project)
    assert (report.records, report.dead_letters, report.late) == (8, 1, 2)
    assert report.lag == 0


@pytest.mark.long
def test_state_is_right_after_kill_9_and_with_other_cores(
    bench: Bench, run: Callable[..., Running]
) -> None:
    """Exactly once, so that no window may come twice, either."""
    file = bench.write(
        "guarantee: exactly_once"
        + SOURCE.replace("watermark:", "batch_size: 120\n  watermark:")
        + """
transform:
  - name: windows
    sql: |
      SELECT date_format(window.start, 'HH:mm') AS start, k, count(*) AS n FROM source
      GROUP BY window(at, '5 minutes'), k
  - {name: totals, sql: "SELECT k, count(*) AS n FROM source GROUP BY k"}
sinks:
  windows: {connector_type: kafka, topic: TOPIC.windows, from: windows}
  totals: {connector_type: kafka, topic: TOPIC.totals, from: totals}
"""
    )
    rows = [row(n, "abc"[n % 3], f"{n // 240:02}:{n // 4 % 60:02}") for n in range(960)]
    bench.produce(rows, partition=0)
    victim = run(file, "--master", "local[2]")
    victim.await_(lambda: len(victim.of("BatchDone")) >= 4)
    assert victim.end(signal.SIGKILL) == -signal.SIGKILL
    last = run(file, "--once", "--master", "local[3]")
    assert last.process.wait(WAIT_SECONDS) == 0, "".join(last.lines)

    expected = Counter((_five(each["at"]), each["k"]) for each in rows)
    windows = counted(bench.values(f"{bench.topic}.windows"))
    final = {(start, k): n for start, k, n in windows}
    assert len(windows) == len(final)
    # Those that the watermark, ten minutes behind the last row at 03:59, has left behind.
    assert final == {key: n for key, n in expected.items() if key[0] < "03:45"}
    newest = {value["k"]: value["n"] for value in bench.values(f"{bench.topic}.totals")}
    assert newest == Counter(each["k"] for each in rows)


def _five(at: str) -> str:
    """The start of its window of five minutes."""
    hour, minute = at[11:13], int(at[14:16])
    return f"{hour}:{minute - minute % 5:02}"


JOIN = """
pipeline: NAME
sources:
  orders: &kafka
    connector_type: kafka
    bootstrap_server: SERVERS
    topic: TOPIC
    auto_offset_reset: earliest
    schema: "id BIGINT NOT NULL, k STRING, at TIMESTAMP"
    watermark: {column: at, delay: 10 minutes}
  payments:
    <<: *kafka
    topic: TOPIC.payments
transform:
  - name: paid
    sql: |
      SELECT o.id, v.label, p.k AS paid
      FROM orders o
      JOIN (VALUES ('a', 'first'), ('b', 'second')) AS v(k, label) ON v.k = o.k
      LEFT JOIN payments p
        ON p.id = o.id AND p.at BETWEEN o.at AND o.at + INTERVAL 30 MINUTES
sink: {connector_type: kafka, topic: TOPIC.out}
"""


def test_an_outer_join_gives_up_waiting_when_the_watermark_has_passed(
    bench: Bench, spark: SparkSession, topic: Callable[..., str]
) -> None:
    file = bench.write(JOIN.replace("TOPIC.payments", payments := topic("payments")))

    def pay(*rows: dict[str, Any]) -> None:
        batch = [records.Record(json.dumps(each).encode()) for each in rows]
        records.produce(bench.cluster, payments, batch).raise_if_rejected()

    bench.produce([row(1, "a", "00:01"), row(2, "b", "00:02"), row(3, "none", "00:02")])
    pay(row(1, "card", "00:05"))
    headrace.load(file).run(spark=spark, once=True)
    assert counted(bench.values(f"{bench.topic}.out")) == [(1, "first", "card")]
    # One source alone moves no watermark: the other may still bring what is older.
    bench.produce([row(4, "a", "02:00")])
    headrace.load(file).run(spark=spark, once=True)
    assert len(bench.values(f"{bench.topic}.out")) == 1
    # After a restart a source counts again when it has brought something new.
    pay(row(9, "cash", "02:00"))
    bench.produce([row(5, "none", "02:01")])
    summary = headrace.load(file).run(spark=spark, once=True)
    unpaid = {"id": 2, "label": "second"}
    assert unpaid in [
        {name: value for name, value in each.items() if value is not None}
        for each in bench.values(f"{bench.topic}.out")
    ]
    assert len(bench.values(f"{bench.topic}.out")) == 2
    assert summary.written == 1


def test_a_query_that_does_not_fit_its_state_says_so(bench: Bench, spark: SparkSession) -> None:
    text = SOURCE + "transform:\n  - sql: SELECT k, count(*) AS n FROM source GROUP BY k\n"
    text += "sink: {connector_type: kafka, topic: TOPIC.out}\n"
    bench.produce([row(1, "a", "00:01")])
    headrace.load(bench.write(text)).run(spark=spark, once=True)
    bench.produce([row(2, "a", "00:01")])
    counting = "SELECT k, count(*) AS n FROM source GROUP BY k"
    for other in (
        "SELECT id, max(k) AS m FROM source GROUP BY id",
        "SELECT DISTINCT k FROM source",
    ):
        changed = text.replace(counting, other)
        with pytest.raises(StateChanged) as raised:
            headrace.load(bench.write(changed)).run(spark=spark, once=True)
        assert bench.name in str(raised.value)
    assert headrace.load(bench.write(text)).run(spark=spark, once=True).records == 1
