"""Every accepted case in slices and crashed at each point; straight where slices do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.admin.client import connect
from headrace.cluster.dev import DevCluster
from headrace.testing import Crash, crash_at
from headrace.testing.postgres import PostgresServer

from .case import CASES, Case, CaseRun, multiset

ALL = [Case(folder.name) for folder in sorted(CASES.iterdir()) if folder.is_dir()]


def _with(schedule: str) -> list[Case]:
    return [case for case in ALL if schedule in case.schedules]


@pytest.fixture
def begin(
    kafka_cluster: DevCluster,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unique: Callable[[str], str],
    request: pytest.FixtureRequest,
) -> Callable[[Case], CaseRun]:
    def make(case: Case) -> CaseRun:
        prefix = unique(case.name)
        monkeypatch.setenv("HEADRACE_BOOTSTRAP_SERVER", kafka_cluster.bootstrap)
        monkeypatch.setenv("CASE", prefix)
        folder = tmp_path / prefix
        folder.mkdir()
        monkeypatch.setenv("CASE_FOLDER", str(folder))
        database = None
        if case.needs_database:
            server: PostgresServer = request.getfixturevalue("postgres_server")
            database = server.database(prefix)
            monkeypatch.setenv("CASE_DATABASE", database.url)
            monkeypatch.setenv("PGUSER", database.user)
            monkeypatch.setenv("PGPASSWORD", database.password)
        return CaseRun(case, prefix, folder, connect(kafka_cluster.bootstrap), spark, database)

    return make


@pytest.mark.parametrize("case", _with("straight"), ids=lambda case: case.name)
def test_a_case_run_straight_through_gives_exactly_its_output(
    case: Case, begin: Callable[[Case], CaseRun]
) -> None:
    run = begin(case)
    run.produce(case.input)
    run.run()
    _assert_exact(run)


@pytest.mark.parametrize("case", _with("slices"), ids=lambda case: case.name)
def test_a_case_run_in_slices_gives_the_same_output(
    case: Case, begin: Callable[[Case], CaseRun]
) -> None:
    run = begin(case)
    half = max(len(case.input) // 2, 1)
    for start in range(0, len(case.input), half):
        run.produce(case.input[start : start + half])
        run.run()
    _assert_exact(run)


@pytest.mark.parametrize("case", _with("crash"), ids=lambda case: case.name)
def test_a_case_crashed_at_each_point_loses_nothing_and_keeps_its_promise(
    case: Case, begin: Callable[[Case], CaseRun]
) -> None:
    for point in begin(case).points:
        run = begin(case)
        run.produce(case.input)
        with crash_at(point), pytest.raises(Crash):
            run.run()
        run.run()
        _assert_nothing_lost(run, point)


def _assert_exact(run: CaseRun) -> None:
    output, dead = run.found()
    for sink, lines in run.case.expected("output").items():
        assert multiset(output[sink]) == multiset(lines), sink
    expected = run.case.expected("dead")
    assert {topic: multiset(lines) for topic, lines in dead.items()} == {
        topic: multiset(lines) for topic, lines in expected.items()
    }


def _assert_nothing_lost(run: CaseRun, point: str) -> None:
    """Each record is there; where exactly once is promised, each is there once."""
    output, dead = run.found()
    for sink, lines in run.case.expected("output").items():
        found, wanted = multiset(output[sink]), multiset(lines)
        assert set(found) == set(wanted), (point, sink)
        assert all(found[line] >= wanted[line] for line in wanted), (point, sink)
        if sink in run.exact:
            assert found == wanted, (point, sink)
    for topic, lines in run.case.expected("dead").items():
        assert set(multiset(dead[topic])) == set(multiset(lines)), (point, topic)
