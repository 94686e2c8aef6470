"""Pipelines as processes: killed, stopped by signals, and with the broker gone for a while."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headrace.admin.client import connect
from headrace.cluster.dev import DevCluster
from headrace.testing import kafka

from .conftest import Bench

STREAM = """
pipeline: NAME
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  batch_size: 500
  schema: "id BIGINT NOT NULL, amount INT"
transform:
  - sql: SELECT id FROM source WHERE amount > 0
sinks:
  out:
    connector_type: kafka
    topic: TOPIC.out
  table:
    connector_type: delta
    path: table
"""

WAIT_SECONDS = 180
_HEADRACE = (sys.executable, "-m", "headrace.cli.main")


class Running:
    """A `headrace run` and what it has told so far, one event a line."""

    def __init__(self, file: Path, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "headrace.cli.main",
                "run",
                str(file),
                "--progress",
                "json",
                *arguments,
            ],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self.events: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["event"] == kind]

    def await_(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert self.process.poll() is None, "".join(self.lines)
            assert time.monotonic() < deadline, "".join(self.lines)
            time.sleep(0.05)

    @property
    def records(self) -> int:
        return sum(event["records"] for event in self.of("BatchDone"))

    def end(self, number: int) -> int:
        """Send a signal and wait for the exit code; no child may be left then."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(number)
        code = self.process.wait(WAIT_SECONDS)
        self._reader.join(10)
        gone, alive = psutil.wait_procs(children, timeout=30)
        assert gone
        assert not alive
        return code


@pytest.fixture
def run() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(file: Path, *arguments: str, **environment: str) -> Running:
        started.append(Running(file, *arguments, **environment))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            os.killpg(each.process.pid, signal.SIGKILL)
            each.process.wait()


def _rows(count: int, start: int = 0) -> list[dict[str, int]]:
    return [{"id": number, "amount": 1} for number in range(start, start + count)]


def _table_ids(spark: SparkSession, bench: Bench) -> list[int]:
    rows = spark.read.format("delta").load(str(bench.folder / "table")).collect()
    return sorted(row.id for row in rows)


def _out_ids(bench: Bench) -> list[int]:
    return [value["id"] for value in bench.values(f"{bench.topic}.out")]


@pytest.mark.long
def test_a_stream_killed_again_and_again_loses_nothing(
    bench: Bench, run: Callable[..., Running], spark: SparkSession
) -> None:
    """DS-01: kill -9 in the middle, death before a commit; then a run that finishes.

    The Delta table has each record once. Deaths at every other point are those of accepted cases.
    """
    file = bench.write(STREAM)
    bench.produce([*_rows(3000), "bad"])
    victim = run(file)
    victim.await_(lambda: len(victim.of("BatchDone")) >= 2)
    assert victim.end(signal.SIGKILL) == -signal.SIGKILL
    dying = run(file, HEADRACE_FAILPOINT="write.sink:2")
    assert dying.process.wait(WAIT_SECONDS) == -signal.SIGKILL
    assert run(file, "--once").process.wait(WAIT_SECONDS) == 0
    assert set(_out_ids(bench)) == set(range(3000))
    assert _table_ids(spark, bench) == list(range(3000))
    assert len({record.value for record in bench.read(f"{bench.topic}.dlq")}) == 1
    assert bench.lag(bench.name) == 0


def test_ctrl_c_finishes_the_batch_in_hand_and_exits_in_order(
    bench: Bench, run: Callable[..., Running]
) -> None:
    file = bench.write(STREAM)
    bench.produce(_rows(3000))
    running = run(file)
    running.await_(lambda: len(running.of("BatchDone")) >= 2)
    assert running.end(signal.SIGINT) == 0
    assert running.of("Stopping")
    (summary,) = running.of("Summary")
    # Everything that was written was also committed: what is out is what was reported.
    assert sorted(_out_ids(bench)) == sorted(set(_out_ids(bench)))
    assert len(_out_ids(bench)) == summary["records"]


class Feeder:
    """Produces numbered rows until told to stop, through whatever happens to the broker."""

    def __init__(self, bench: Bench) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bench.cluster.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 240_000,
                "log_level": 0,
            }
        )
        self._topic = bench.topic
        self._stop = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.wait(0.01):
            self._producer.produce(self._topic, json.dumps({"id": self.sent, "amount": 1}))
            self.sent += 1
            self._producer.poll(0)

    def finish(self) -> int:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(240) == 0
        return self.sent


def test_a_broker_that_dies_for_a_while_needs_no_restart_by_hand(
    tmp_path: Path, run: Callable[..., Running], spark: SparkSession
) -> None:
    """RE-02 for one broker: killed with -9 during a run, gone for 20 s, started again."""
    with kafka() as cluster:
        bench = _bench_on(cluster, tmp_path)
        running = run(bench.write(STREAM))
        feeder = Feeder(bench)
        running.await_(lambda: running.records > 200)
        cluster.kill(1)
        time.sleep(20)  # the length of the outage is what is tested
        cluster.start(1)
        before = running.records
        running.await_(lambda: running.records > before + 100)
        sent = feeder.finish()
        running.await_(lambda: running.records >= sent)
        assert running.end(signal.SIGTERM) == 0
        assert running.of("Stopping")
        assert set(_out_ids(bench)) == set(range(sent))
        assert _table_ids(spark, bench) == list(range(sent))


def _bench_on(cluster: DevCluster, folder: Path) -> Bench:
    from headrace.admin import topics

    handle = connect(cluster.bootstrap)
    topics.create(handle, "orders", partitions=2)
    return Bench(handle, "orders", folder)


def test_a_failing_run_prints_one_sentence_and_no_java(
    bench: Bench, run: Callable[..., Running]
) -> None:
    file = bench.write(STREAM.replace("batch_size: 500", "bad_data: fail"))
    bench.produce(["bad"])
    failed = run(file, "--once")
    assert failed.process.wait(WAIT_SECONDS) == 4
    failed._reader.join(10)
    text = "".join(line for line in failed.lines if not line.startswith("{"))
    assert text.startswith("BadRecord")
    assert "→" in text
    assert "\tat " not in text
    assert "Exception" not in text
    assert "Traceback" not in text
