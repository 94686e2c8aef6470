"""`make chaos` in short: the crashes that tell most and a zombie; and the control."""

from __future__ import annotations

import uuid
from pathlib import Path

import psutil
from chaos.pipeline import Sink
from chaos.processes import marked
from chaos.report import Report
from chaos.run import perform
from chaos.schedule import Kill, Life, Trouble, Victim

SEED = 20
RECORDS = 6000


def at(failpoint: str, tasks: int = 2) -> Life:
    return Life(tasks, 500, failpoint=failpoint)


def result(folder: Path, lives: list[Life], sink: Sink) -> Report:
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    mark = uuid.uuid4().hex
    found = perform(lives, folder, RECORDS, SEED, sink=sink, mark=mark)
    assert marked(mark) == []
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
    assert found.short == ()
    assert found.stuck == ()
    assert found.records >= RECORDS
    assert found.records == found.out + found.dead + found.filtered
    return found


def test_each_record_is_seen_once_and_in_order_whatever_is_killed(tmp_path: Path) -> None:
    lives = [
        at("eos.committed:2", tasks=3),
        Life(
            1,
            500,
            failpoint="eos.produced:1@worker",
            trouble=Trouble.ZOMBIE,
            kill=Kill(Victim.ALL, batches=1, delay=0.3),
        ),
    ]
    found = result(tmp_path, lives, Sink.HEADRACE)
    assert [check for check in found.checks if check.found] == []
    assert found.kills == 1
    assert found.aborted > 0, "no transaction was cut off, so that nothing was proved"


def test_the_same_with_the_sink_of_spark_doubles_records_and_is_found_out(tmp_path: Path) -> None:
    """The control: without it, the test above might pass because it sees nothing."""
    found = result(tmp_path, [at("write.sink:2")], Sink.SPARK)
    wrong = {(check.name, check.reader) for check in found.checks if check.found}
    assert wrong >= {("doubled", "live"), ("doubled", "final")}
    # Without a key a record goes to another partition when it is written again.
    assert {name for name, _ in wrong} <= {"doubled", "reordered"}
    assert found.convicting
    assert found.aborted == 0
