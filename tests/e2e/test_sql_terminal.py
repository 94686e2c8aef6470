"""`headrace sql` as a person uses it: in a terminal, key by key."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pexpect
import pytest

from headrace.cluster.dev import DevCluster

SECONDS = 30
UP, TAB, ENTER = "\x1b[A", "\t", "\r"
CLEAR, LEAVE = "\x03", "\x04"  # Ctrl-C, Ctrl-D


class Shell:
    """The command in a pseudo-terminal of 100 columns."""

    def __init__(self, folder: Path) -> None:
        words = ["-m", "headrace.cli.main", "sql"]
        # A real terminal says where its cursor is when it is asked; this one cannot.
        environment = {**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"}
        environment |= {"NO_COLOR": "1", "COLUMNS": "100"}
        self.process = pexpect.spawn(
            sys.executable,
            words,
            cwd=str(folder),
            env=environment,
            encoding="utf-8",
            dimensions=(50, 100),
            timeout=SECONDS,
        )
        self.see("headrace>")

    def type(self, keys: str) -> None:
        self.process.send(keys)

    def do(self, text: str, *answers: str) -> None:
        """Type a line, and see these texts one after the other before the next prompt.

        The line itself is drawn more than once, so an answer must not be a part of it.
        """
        self.type(text + ENTER)
        for answer in answers:
            self.see(answer.replace("\n", "\r\n"))
        self.see("headrace>")

    def see(self, text: str) -> None:
        self.process.expect_exact(text)

    def left(self) -> int:
        self.process.expect(pexpect.EOF)
        self.process.close()
        return int(self.process.exitstatus or 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".headrace").mkdir()
    return tmp_path


@pytest.fixture
def mute() -> Iterator[tuple[str, threading.Event]]:
    """A server that takes connections and says nothing, and whether someone has come."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        held, came = [], threading.Event()

        def accept() -> None:
            while True:
                try:
                    held.append(server.accept())
                except OSError:
                    return
                came.set()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}", came
        server.shutdown(socket.SHUT_RDWR)


def test_a_session_in_a_terminal(folder: Path, kafka_cluster: DevCluster) -> None:
    shell = Shell(folder)
    # A statement goes on until its semicolon, and says what was done.
    shell.type("CREATE CONNECTION shop TO kafka (" + ENTER)
    shell.see("...")
    shell.type(f"bootstrap_servers = '{kafka_cluster.bootstrap}', topic = 'orders'," + ENTER)
    shell.see("...")
    shell.do("type = 'source', format = 'json' );", "connection shop is created")
    # Names and options are completed.
    shell.type("SELECT status FROM system.kafka_br" + TAB)
    shell.see("okers")  # only what is new is drawn
    shell.do(" WHERE connection = 'shop';", "status\n──────\nup\n")
    shell.type("CREATE CONNECTION two TO kafka ( boot" + TAB)
    shell.see("strap_servers =")
    shell.type(CLEAR)
    shell.see("headrace>")
    # Commands of the shell.
    shell.do("\\d", "shop │ connection", "(1 row)")
    shell.do("\\timing", "timing is on")
    pointed = "SELECT nme FROM system.connections;\n       ^\n"
    shell.do("SELECT nme FROM system.connections;", "time: ", pointed, "sql:1:8 UNKNOWN_COLUMN")
    shell.do("\\x on", "a line for each value: on")
    shell.do("SELECT test_connection('shop');", "check  │ address\n", "check  │ brokers", "time: ")
    shell.type(LEAVE)
    assert shell.left() == 0


def test_history_is_there_in_the_next_shell_without_secrets(folder: Path) -> None:
    first = Shell(folder)
    first.do("SELECT name FROM system.views;", "0 rows")
    first.do("CREATE SECRET word AS 'hunter2';", "secret word is")
    first.type("\\q" + ENTER)
    assert first.left() == 0
    assert "hunter2" not in (folder / ".headrace" / "sql_history").read_text()
    second = Shell(folder)
    second.type(UP)
    second.see("\\q")
    second.type(UP)
    second.see("SELECT name FROM system.views;")
    second.do("", "0 rows")
    second.type("\\q" + ENTER)
    assert second.left() == 0


def test_ctrl_c_stops_a_query_and_the_shell_goes_on(
    folder: Path, mute: tuple[str, threading.Event]
) -> None:
    address, came = mute
    shell = Shell(folder)
    made = f"CREATE CONNECTION silent TO kafka ( bootstrap_servers = '{address}', topic = 'x', "
    shell.do(made + "type = 'source', format = 'json' );", "connection silent is created")
    shell.type("SELECT * FROM system.kafka_topics;" + ENTER)
    assert came.wait(SECONDS)
    shell.process.sendintr()
    shell.see("stopped")
    shell.see("headrace>")
    shell.do("\\d", "silent │ connection")
    shell.type("\\q" + ENTER)
    assert shell.left() == 0
