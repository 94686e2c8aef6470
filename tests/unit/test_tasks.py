"""`executor_count`: how many tasks work side by side, and who decides it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.definitions import SINK, SOURCE, faults, pipeline, planned

from headrace.plan import tasks
from headrace.plan.explain import explain
from headrace.runtime.session import settings
from headrace.spec import Setting


def started(folder: Path, text: str, master: str | None = None) -> dict[str, Setting]:
    found = settings(pipeline(folder, text, SOURCE, SINK), master)
    return {setting.name: setting for setting in found}


@pytest.mark.parametrize(
    ("master", "count"),
    [("local", 1), ("local[3]", 3), ("local[3,2]", 3), ("local[*]", 7), ("local[*,2]", 7)],
)
def test_a_local_master_says_how_many_tasks_run_at_once(
    master: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert tasks.is_local(master)
    assert tasks.local_tasks(master) == count


def test_a_count_becomes_the_local_master(tmp_path: Path) -> None:
    found = started(tmp_path, "executor_count: 3\n")
    assert found["spark.master"].value == "local[3]"
    assert found["spark.master"].origin.startswith("executor_count (")
    assert found["spark.sql.shuffle.partitions"].value == "3"


def test_without_a_count_all_cores_work(tmp_path: Path) -> None:
    assert started(tmp_path, "")["spark.master"].value == "local[*]"


def test_a_local_master_that_is_asked_for_wins_and_says_so(tmp_path: Path) -> None:
    found = started(tmp_path, "executor_count: 3\n", "local[5]")
    assert found["spark.master"].value == "local[5]"
    assert "wins over executor_count" in found["spark.master"].origin


@pytest.mark.parametrize(
    ("text", "master", "name", "value"),
    [
        ("", "spark://h:7077", "spark.cores.max", "6"),
        ("", "yarn", "spark.executor.instances", "6"),
        ("spark: {spark.executor.cores: 4}\n", "k8s://h", "spark.executor.instances", "2"),
        ("spark: {spark.executor.instances: 9}\n", "yarn", "spark.executor.instances", "9"),
    ],
)
def test_on_a_cluster_a_count_becomes_executors_unless_they_are_counted_already(
    tmp_path: Path, text: str, master: str, name: str, value: str
) -> None:
    found = started(tmp_path, f"executor_count: 6\n{text}", master)
    assert found["spark.master"].origin == "--master"
    assert found[name].value == value


def test_a_count_of_none_is_refused(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "executor_count: 0\n", SOURCE, SINK)
    assert (fault.code, fault.span.line) == ("BAD_VALUE", 1)


@pytest.mark.parametrize(
    ("text", "master", "words"),
    [
        ("executor_count: 3\n", None, "tasks: 3 at once, by local[3] (executor_count ("),
        ("executor_count: 3\n", "yarn", "tasks: 3 at once, by executor_count at yarn"),
        ("", "yarn", "tasks: one a core of the executors at yarn"),
        ("", None, "tasks: one a core, by local[*] (--master (default))"),
    ],
)
def test_explain_says_what_decides_and_that_partitions_bound_it(
    tmp_path: Path, text: str, master: str | None, words: str
) -> None:
    plan = planned(tmp_path, text, SOURCE, SINK)
    session = settings(plan.pipeline, master)
    first, bound = explain(plan, session)["side_by_side"]
    assert first.startswith(words)
    assert "tasks beyond the number of partitions have nothing to read" in bound
    assert explain(plan, session, {"source": 4})["side_by_side"][1] == (
        "`source`: 4 partitions, each read by one task at a time"
    )
