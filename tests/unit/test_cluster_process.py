"""Processes known by pid and command line, and logs read from their end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headrace.cluster.daemon import last_error
from headrace.cluster.logs import Follower, tail
from headrace.cluster.node import Node
from headrace.cluster.process import ended, runs, wait_until

ASLEEP = "import sys; sys.stdin.read()"


def test_a_process_is_known_by_an_argument_of_its_command_line() -> None:
    with subprocess.Popen([sys.executable, "-c", ASLEEP, "mark"], stdin=subprocess.PIPE) as child:
        assert wait_until(lambda: runs(child.pid, "mark"), seconds=10)
        assert not runs(child.pid, "another mark")
        assert not ended(child.pid)
        child.kill()
        assert wait_until(lambda: ended(child.pid), seconds=10)
        assert not runs(child.pid, "mark")


def test_a_pid_file_that_names_another_program_is_not_believed(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    with subprocess.Popen([sys.executable, "-c", ASLEEP], stdin=subprocess.PIPE) as other:
        (tmp_path / "pid").write_text(f"{other.pid}\n")

        assert node.pid is None
        assert node.crashed
        node.kill()
        node.ask_to_stop()
        assert other.poll() is None
        other.kill()


def test_a_node_without_a_pid_file_is_stopped_not_crashed(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)

    assert node.pid is None
    assert not node.crashed


def test_the_last_error_is_told_with_its_exception() -> None:
    log = (
        "2026-01-01 10:00:00,000 ERROR an older one (A)\n"
        "2026-01-01 10:00:01,000 INFO  starting (B)\n"
        "2026-01-01 10:00:02,000 ERROR Exiting due to a fatal exception (Kafka)\n"
        "java.lang.RuntimeException: outer\n"
        "\tat org.example.Thing.run(Thing.java:1)\n"
        "Caused by: java.net.BindException: Address already in use\n"
        "2026-01-01 10:00:03,000 INFO  shutting down (B)\n"
    )

    assert last_error(log) == (
        "Exiting due to a fatal exception (Kafka): "
        "Caused by: java.net.BindException: Address already in use"
    )
    assert last_error(log + "Caused by: java.io.EOFException\n") == last_error(log)
    assert last_error("2026-01-01 10:00:01,000 INFO  all is well (B)\n") is None


def test_tail_gives_the_last_lines_of_a_file(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    assert tail(log, 2) == []
    log.write_text("a\nb\nc\n")

    assert tail(log, 2) == ["b", "c"]


def test_following_gives_whole_lines_and_outlives_a_rollover(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("old\n")
    follower = Follower(log)

    with log.open("a") as handle:
        handle.write("new\nha")
    assert follower.news() == ["new"]
    with log.open("a") as handle:
        handle.write("lf\n")
    assert follower.news() == ["half"]
    log.write_text("x\n")
    assert follower.news() == ["x"]
