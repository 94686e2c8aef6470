"""Pipelines in SQL by script, as a user has them: looked at, started, stopped and gone wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from headrace.cluster.ports import free_ports
from headrace.cluster.process import wait_until
from headrace.errors import NoBrokersAvailable, PipelineEnded
from headrace.project import Project
from headrace.runtime.state import PipelineState
from headrace.shell.result import Result
from headrace.shell.session import Session

from .conftest import Bench

WAIT_SECONDS = 300

SOURCE = """
CREATE CONNECTION kafka_source TO kafka (
    bootstrap_servers = 'SERVERS', topic = 'TOPIC', type = 'source', format = 'json'
);
CREATE TABLE events_with_metadata (
    id BIGINT,
    message TEXT,
    _kafka_topic TEXT,
    _kafka_partition INT,
    _kafka_offset BIGINT,
    _kafka_timestamp TIMESTAMP,
    _kafka_key BYTEA,
    _kafka_headers JSON
) WITH ( connector = 'kafka_source', include_metadata = 'true' );
CREATE CONNECTION kafka_sink TO kafka (
    bootstrap_servers = 'SERVERS', topic = 'TOPIC.out', type = 'sink', format = 'json'
);
"""
# As the reference has them, word for word.
MONITORING = """
SELECT
    id,
    message,
    _kafka_partition,
    _kafka_offset,
    _kafka_timestamp
FROM events_with_metadata
WHERE _kafka_partition = 0;

SELECT
    _kafka_partition,
    MAX(_kafka_offset) as latest_offset,
    COUNT(*) as messages_processed,
    MAX(_kafka_timestamp) as latest_message_time
FROM events_with_metadata
GROUP BY _kafka_partition;

SELECT * FROM system.connections
WHERE name = 'kafka_source';

SELECT * FROM system.kafka_consumer_groups
WHERE group_id = 'my-application-group';

SELECT test_connection('kafka_source');

SELECT * FROM system.kafka_brokers
WHERE connection = 'kafka_source';

WITH consumption_stats AS (
    SELECT
        DATE_TRUNC('minute', _kafka_timestamp) as minute,
        COUNT(*) as messages,
        AVG(EXTRACT(EPOCH FROM (NOW() - _kafka_timestamp))) as lag_seconds
    FROM events_with_metadata
    WHERE _kafka_timestamp > NOW() - INTERVAL '1 hour'
    GROUP BY DATE_TRUNC('minute', _kafka_timestamp)
)
SELECT * FROM consumption_stats
ORDER BY minute DESC;
"""


@dataclass
class Desk:
    """A project folder, the command line in it, and whatever it starts."""

    bench: Bench

    @property
    def folder(self) -> Path:
        return self.bench.folder

    def sql(self, text: str, code: int = 0, form: str = "json") -> Told:
        """`headrace sql` on a file, in a process of its own."""
        file = self.bench.write(text, "script.sql")
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli.main", "sql", "-f", file.name, "-o", form],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return Told(done.stdout, done.stderr)

    def session(self, spark: SparkSession | None = None, **options: Any) -> Session:
        return Session(Project(self.folder), spark=spark, **options)

    def processes(self) -> list[psutil.Process]:
        """All that was started in this folder and lives."""
        return [each for each in psutil.process_iter() if _works_in(each, self.folder)]

    def is_quiet(self) -> bool:
        """Whether nothing is left running; a JVM ends a moment after its pipeline."""
        return wait_until(lambda: self.processes() == [], WAIT_SECONDS)

    def state(self, pipeline: str) -> PipelineState:
        return PipelineState(Project(self.folder).state(pipeline))

    def await_rows(self, count: int) -> list[Any]:
        """What is in the topic that pipelines write to, once it is so much."""
        wait_until(lambda: len(self.written()) >= count, WAIT_SECONDS, pause=0.5)
        return self.written()

    def written(self) -> list[Any]:
        topic = f"{self.bench.topic}.out"
        known = self.bench.cluster.admin.list_topics(timeout=30).topics
        return self.bench.values(topic) if topic in known else []


@dataclass
class Told:
    out: str
    err: str

    @property
    def tables(self) -> list[list[dict[str, Any]]]:
        """The rows of each statement that gave some."""
        found, at, decoder = [], 0, json.JSONDecoder()
        while at < len(self.out.rstrip()):
            value, at = decoder.raw_decode(self.out, at)
            found.append(value)
            at += 1
        return found


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == folder.resolve()
    except (psutil.Error, OSError):
        return False


def _is_spark(process: psutil.Process) -> bool:
    try:
        return "org.apache.spark.deploy.SparkSubmit" in process.cmdline()
    except psutil.Error:
        return False


@pytest.fixture
def desk(bench: Bench) -> Iterator[Desk]:
    desk = Desk(bench)
    (desk.folder / ".headrace").mkdir()
    yield desk
    for process in desk.processes():
        process.kill()
    psutil.wait_procs(desk.processes(), timeout=30)


def rows(count: int, start: int = 1) -> list[dict[str, Any]]:
    return [{"id": number, "message": f"m{number}"} for number in range(start, start + count)]


def one(session: Session, text: str) -> Result:
    (result,) = session.run(text)
    return result


def test_kafka_to_a_preview_with_all_queries_of_the_reference(desk: Desk) -> None:
    desk.bench.produce(rows(30), partition=0)
    desk.bench.produce([*rows(20, 31), "broken"], partition=1)
    beside = "SELECT partitions, count(*) AS n FROM events_with_metadata JOIN system.kafka_topics"
    told = desk.sql(
        SOURCE
        + MONITORING
        + f"{beside} ON topic = _kafka_topic WHERE connection = 'kafka_sink' GROUP BY ALL;"
        + "SELECT id, id, 12345678901234567.89 AS exact FROM events_with_metadata "
        + "ORDER BY id DESC LIMIT 1;"
        + "SET rows = 2; SET scan = 10; SELECT id FROM events_with_metadata;"
        + "VALUES (1, 'a'), (2, 'b'), (3, 'c')"
    )
    first, lag, connections, groups, test, brokers, rate, joined, last, few, listed = told.tables
    assert [row["id"] for row in first] == list(range(1, 31))
    metadata = ["_kafka_partition", "_kafka_offset", "_kafka_timestamp"]
    assert list(first[0]) == ["id", "message", *metadata]
    told_lag = {row["_kafka_partition"]: row["messages_processed"] for row in lag}
    assert told_lag == {0: 30, 1: 20}
    assert (connections[0]["name"], connections[0]["status"]) == ("kafka_source", "ok")
    assert groups == []
    assert {row["result"] for row in test} == {"ok"}
    assert [row["status"] for row in brokers] == ["up"]
    assert sum(row["messages"] for row in rate) == 50
    assert joined == [{"partitions": 2, "n": 50}]
    assert last == [{"id": 50, "id_2": 50, "exact": "12345678901234567.89"}]
    assert len(few) == 2
    assert listed == [{"col1": 1, "col2": "a"}, {"col1": 2, "col2": "b"}]
    assert told.err.endswith("2 rows; and more: SET rows = all shows them\n")
    assert f"left out: {desk.bench.topic}[1]@20 NOT_JSON" in told.err
    assert "2 rows; and more: SET rows = all shows them; not all of `events_with_meta" in told.err
    assert told.err.count("starting Spark …") == 1
    # Looking has moved and made nothing.
    assert list(desk.folder.glob(".headrace/state/*/")) == []
    assert desk.written() == []
    assert desk.is_quiet()


def test_impulse_to_kafka_by_an_insert_that_is_kept_and_started(desk: Desk) -> None:
    told = desk.sql(
        SOURCE
        + "CREATE TABLE ticks WITH ( connector = 'impulse', count = 100, rate = 1000 );"
        + "CREATE TABLE out WITH ( connector = 'kafka_sink' );"
        + "INSERT INTO out SELECT n AS id, 'tick' AS message FROM ticks;"
        + "SHOW PIPELINES;"
    )
    assert "kept as pipeline into_out; into_out runs as process" in told.err
    (shown,) = told.tables
    told_of = {key: shown[0][key] for key in ("name", "state", "sinks")}
    assert told_of == {"name": "into_out", "state": "running", "sinks": "out"}
    assert sorted(row["id"] for row in desk.await_rows(100)) == list(range(100))
    assert "into_out has stopped" in desk.sql("STOP PIPELINE into_out").err
    assert desk.is_quiet()


def test_kafka_to_kafka_is_started_replaced_paused_resumed_and_killed(desk: Desk) -> None:
    """Each statement in a process of its own: what one has made is there for the next."""
    desk.bench.produce(rows(10))
    desk.sql(SOURCE)
    desk.sql(
        "CREATE VIEW loud AS SELECT id, upper(message) AS message FROM events_with_metadata;"
        "CREATE PIPELINE shouting WITH ( sink = 'kafka_sink' ) AS SELECT * FROM loud WHERE id > 2;"
    )
    started = desk.sql("START PIPELINE shouting").err
    pid = desk.state("shouting").holder()
    assert f"shouting runs as process {pid}; STOP PIPELINE shouting ends it" in started
    assert {row["message"] for row in desk.await_rows(8)} == {f"M{n}" for n in range(3, 11)}

    # A second one is refused, the running one stays, and a new definition has to wait.
    again = desk.sql("START PIPELINE shouting", code=4).err
    assert f"AlreadyRunning pipeline shouting is running already (process {pid})" in again
    dropped = desk.sql("DROP CONNECTION kafka_source CASCADE", code=2).err
    assert f"IN_USE pipeline `shouting` runs (process {pid})" in dropped
    new = "SELECT id, message || '!' AS message FROM events_with_metadata"
    replaced = desk.sql(f"CREATE OR REPLACE VIEW loud AS {new}").err
    assert "shouting runs on as it was until it is restarted" in replaced
    desk.bench.produce(rows(1, 11))
    assert desk.await_rows(9)[-1]["message"] == "M11"

    paused = desk.sql("PAUSE PIPELINE shouting").err
    assert f"shouting is paused (process {pid} has ended)" in paused
    assert desk.is_quiet()
    told = desk.sql("SELECT name, state, written FROM system.pipelines; RESUME PIPELINE shouting")
    assert told.tables == [[{"name": "shouting", "state": "paused", "written": 9}]]
    desk.bench.produce(rows(1, 12))
    assert [row["message"] for row in desk.await_rows(10)][9:] == ["m12!"]

    resumed = desk.state("shouting").holder()
    assert resumed is not None
    os.kill(resumed, signal.SIGKILL)
    assert wait_until(lambda: not desk.state("shouting").running(), WAIT_SECONDS)
    told = desk.sql("SELECT state FROM system.pipelines; STOP PIPELINE shouting")
    assert told.tables == [[{"state": "killed"}]]
    assert "shouting was not running" in told.err
    once = "START PIPELINE shouting WITH ( once = true );"
    assert "shouting has ended: " in desk.sql(f"{once} DROP PIPELINE shouting PURGE").err
    assert not desk.state("shouting").folder.exists()
    assert desk.is_quiet()


def test_what_goes_wrong_at_the_start_is_told_by_its_own_name(desk: Desk) -> None:
    """Nobody answers, the topic is not there, the process is killed: none of it needs Spark."""
    (port,) = free_ports(1)
    away = f"127.0.0.1:{port}"
    query = "SELECT id FROM events_with_metadata"
    pipeline = f"CREATE PIPELINE p WITH ( sink = 'kafka_sink' ) AS {query}; START PIPELINE p"
    told = desk.sql(SOURCE.replace("SERVERS", away) + pipeline, code=3).err
    assert f"NoBrokersAvailable pipeline p has ended: no Kafka broker answers at {away}" in told
    assert "→ " in told
    assert "Traceback" not in told
    replaced = SOURCE.replace("'TOPIC'", "'TOPIC.nowhere'").replace("CREATE", "CREATE OR REPLACE")
    told = desk.sql(replaced + "START PIPELINE p", code=4).err
    assert f"UnknownTopicOrPartition pipeline p has ended: topic {desk.bench.topic}.nowhere" in told
    assert desk.sql("SELECT state FROM system.pipelines").tables == [[{"state": "failed"}]]

    def kill(told: str) -> None:
        match = re.search(r"starting as process (\d+)", told)
        if match:
            os.kill(int(match.group(1)), signal.SIGKILL)

    session = desk.session(tell=kill)
    with pytest.raises(PipelineEnded, match="its process got SIGKILL") as raised:
        one(session, "START PIPELINE p")
    assert raised.value.code == "SIGKILL"
    assert desk.is_quiet()


@pytest.fixture
def interrupted_by() -> Iterator[Callable[[Callable[[], bool]], None]]:
    """Sends Ctrl-C to this process once something is so."""
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def when(condition: Callable[[], bool]) -> None:
        def work() -> None:
            if wait_until(lambda: stop.is_set() or condition(), WAIT_SECONDS) and not stop.is_set():
                os.kill(os.getpid(), signal.SIGINT)

        threads.append(threading.Thread(target=work, daemon=True))
        threads[-1].start()

    yield when
    stop.set()
    for thread in threads:
        thread.join()


def test_a_select_can_be_interrupted_and_the_shell_goes_on(
    desk: Desk, spark: SparkSession, interrupted_by: Callable[[Callable[[], bool]], None]
) -> None:
    session = desk.session(spark)
    one(session, "CREATE TABLE ticks WITH ( connector = 'impulse', count = 100000 )")
    tracker = spark.sparkContext.statusTracker()
    interrupted_by(lambda: bool(tracker.getActiveStageIds()))
    forever = "SELECT count(*) AS n FROM ticks a CROSS JOIN ticks b WHERE hash(a.n, b.n) = 1"
    with pytest.raises(KeyboardInterrupt):
        one(session, forever)
    assert wait_until(lambda: not tracker.getActiveStageIds(), WAIT_SECONDS)
    assert one(session, "SELECT count(*) AS n FROM ticks").rows == ((100000,),)


def test_ctrl_c_while_spark_starts_leaves_no_jvm_behind(desk: Desk) -> None:
    command = [sys.executable, "-m", "headrace.cli.main", "sql", "-c", "SELECT 1"]
    with subprocess.Popen(command, cwd=desk.folder, stderr=subprocess.PIPE, text=True) as shell:
        assert shell.stderr is not None
        assert shell.stderr.readline() == "starting Spark …\n"
        assert wait_until(lambda: any(map(_is_spark, desk.processes())), WAIT_SECONDS)
        shell.send_signal(signal.SIGINT)
        assert shell.wait(WAIT_SECONDS) == 130
    assert desk.is_quiet()


def test_a_select_and_a_pipeline_without_a_sink_only_look(desk: Desk, spark: SparkSession) -> None:
    (port,) = free_ports(1)
    desk.bench.produce(rows(3))
    text = desk.bench.write(SOURCE, "setup.sql").read_text()
    session = desk.session(spark)
    list(session.run(text))
    one(session, "CREATE PIPELINE seen AS SELECT id FROM events_with_metadata WHERE id > 1")
    shown = one(session, "START PIPELINE seen")
    assert sorted(shown.rows) == [(2,), (3,)]
    assert shown.note is not None
    assert shown.note.startswith("seen has no sink, so nothing was started")
    assert not desk.state("seen").folder.exists()

    code = one(session, "EXPLAIN CODE INSERT INTO kafka_sink SELECT id FROM events_with_metadata")
    assert code.text is not None
    compile(code.text, "code.py", "exec")
    away = text.replace(desk.bench.cluster.bootstrap, f"127.0.0.1:{port}")
    list(session.run(away.replace("CREATE", "CREATE OR REPLACE")))
    with pytest.raises(NoBrokersAvailable):
        one(session, "SELECT * FROM events_with_metadata")
    (test,) = session.run("SELECT test_connection('kafka_source')")
    assert "failed" in {row[1] for row in test.rows}


def test_two_shells_at_once_on_one_catalog(desk: Desk) -> None:
    def create(letter: str) -> subprocess.Popen[bytes]:
        text = "".join(
            f"CREATE TABLE {letter}{number} WITH ( connector = 'impulse' );" for number in range(10)
        )
        command = [sys.executable, "-m", "headrace.cli.main", "sql", "-c", text]
        return subprocess.Popen(command, cwd=desk.folder, stderr=subprocess.DEVNULL)

    shells = [create(letter) for letter in "ab"]
    assert [shell.wait(WAIT_SECONDS) for shell in shells] == [0, 0]
    names = {row["name"] for row in desk.sql("SHOW TABLES").tables[0]}
    assert names == {f"{letter}{number}" for letter in "ab" for number in range(10)}
