"""The shell's own side, without a terminal: what ends a statement, what is shown and kept."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from rich.cells import cell_len

from headrace.catalog import Catalog
from headrace.cli import sql_screen
from headrace.cli.sql_screen import Layout
from headrace.cli.sql_terminal import (
    COMMANDS,
    CatalogCompleter,
    SafeHistory,
    Terminal,
    finished,
    keeps,
    pointed,
    statements,
)
from headrace.project import Project
from headrace.shell.session import Session

MADE = (
    "CREATE CONNECTION made TO impulse ( type = 'source' );"
    "CREATE TABLE ticks ( n BIGINT ) WITH ( connector = 'made' );"
)
BLOCK = "CREATE PIPELINE p AS BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;"


# What ends a statement


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("", True),
        ("  \n", True),
        ("\\d orders", True),
        ("SELECT 1;", True),
        ("SELECT 1; ", True),
        ("SELECT 1; -- and that was it", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 1 -- ;", False),
        ("CREATE PIPELINE p AS BEGIN INSERT INTO a SELECT 1;", False),
        (BLOCK, True),
        ("SELECT CASE WHEN a THEN 1 END;", True),
    ],
)
def test_enter_ends_a_statement_at_its_semicolon(text: str, ends: bool) -> None:
    assert finished(text) is ends


def test_statements_stay_where_they_stood() -> None:
    text = f"SELECT 1;\n  SELECT ';';{BLOCK}\n-- no more"
    found = list(statements(text))
    assert [each.strip() for each in found] == ["SELECT 1;", "SELECT ';';", BLOCK, "-- no more"]
    for each in found:
        at = len(each) - len(each.lstrip(" \n"))
        assert text[at : len(each)] == each[at:]
        assert each[:at].count("\n") == text[:at].count("\n")


def test_a_fault_is_pointed_at() -> None:
    assert pointed("SELECT a,\n\tb FROM", 2, 4, 80) == [" b FROM", "   ^"]
    assert pointed("", 1, 1, 80) == ["", "^"]
    long = "SELECT " + "a, " * 20 + "wrong FROM t"
    shown, mark = pointed(long, 1, long.index("wrong") + 1, 40)
    assert len(shown) <= 40
    assert shown[mark.index("^") :].startswith("wrong")


# What is shown


def test_a_table_is_as_wide_as_its_values() -> None:
    rows = [(1, "a", None), (200, "long", True)]
    assert sql_screen.lines(["id", "text", "flag"], rows, 80) == [
        " id │ text │ flag",
        "────┼──────┼─────",
        "  1 │ a    │ NULL",
        "200 │ long │ true",
    ]


def test_values_are_cut_only_where_the_screen_ends() -> None:
    rows = [("x" * 50, "y" * 20, "short")]
    shown = sql_screen.lines(["a", "b", "c"], rows, 60)
    assert max(map(cell_len, shown)) == 60
    assert shown[2] == f"{'x' * 28}… │ {'y' * 20} │ short"
    narrow = sql_screen.lines(["a", "b", "c"], rows, 30)
    assert all(cell_len(line) <= 30 for line in narrow)
    assert narrow[2].endswith("│ short")


def test_wide_letters_and_line_breaks_keep_the_columns_straight() -> None:
    shown = sql_screen.lines(["a", "b"], [("日本語", "two\nlines"), ("é", "\x1b[31mred")], 80)
    assert shown[2:] == ["日本語 │ two\\nlines", "é      │ \\x1b[31mred"]


def test_rows_that_fit_no_screen_have_a_line_for_each_value() -> None:
    columns = [f"column_{number}" for number in range(12)]
    shown = sql_screen.lines(columns, [tuple(range(12))], 60)
    assert shown[0].startswith("─ row 1 ─")
    assert shown[1] == "column_0  │ 0"
    assert len(shown) == 13
    assert sql_screen.lines(columns, [tuple(range(12))], 60, Layout.OFF)[0].startswith("column_0 │")
    assert sql_screen.lines(["a"], [(1,)], 60, Layout.ON)[1] == "a │ 1"


def test_values_are_shown_as_data_has_them() -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    values: list[tuple[Any, str]] = [
        (None, "NULL"),
        (False, "false"),
        ([1, "ü"], '[1, "ü"]'),
        ({"at": moment}, '{"at": "2026-01-02 03:04:05+00:00"}'),
        (1.5, "1.5"),
    ]
    assert [sql_screen.cell(value) for value, _ in values] == [text for _, text in values]


# Commands


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    session = Session(Project(tmp_path))
    yield Terminal(session)
    session.close()


def test_commands_of_the_shell(
    terminal: Terminal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(text: str) -> str:
        terminal.do(text)
        out, err = capsys.readouterr()
        return str(out + err)

    assert "made" in said(f"{MADE}\nCREATE VIEW v AS SELECT n AS one FROM ticks;")
    listed = ["made  │ connection", "ticks │ table", "v     │ view", "(3 rows)"]
    assert said("\\d").splitlines()[2:] == listed
    assert "one" in said("\\d v")
    assert "impulse" in said("\\dc")
    assert "there is no command \\timng" in said("\\timng")
    assert "did you mean \\timing?" in said("\\timng")
    assert "timing is on" in said("\\timing")
    assert "time: " in said("\\dv;")
    assert "timing is off" in said("\\timing off")
    assert "`maybe` cannot stand here" in said("\\timing maybe")
    assert "on" in said("\\x")
    assert "─ row 1 ─" in said("\\d")
    assert "off" in said("\\x")
    help = said("\\?")
    assert all(command.usage in help for command in COMMANDS.values())
    rows = tmp_path / "rows.txt"
    assert "rows.txt" in said(f"\\o {rows}")
    assert "made" not in said("\\d")
    assert "the screen" in said("\\o")
    assert "made  │ connection" in rows.read_text()
    script = tmp_path / "more.sql"
    view = "CREATE VIEW later AS SELECT * FROM ticks;"
    script.write_text(f"{view}\n{view}")
    assert f"{script}:2:13 NAME_TWICE" in said(f"\\i {script}")
    assert "later" not in said("\\dv")  # of a text with a fault nothing is done
    assert "reading" in said("\\i nowhere.sql")
    assert not terminal.left
    said("\\q")
    assert terminal.left


def test_a_fault_of_a_statement_is_shown_with_its_line(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.do(f"{MADE} CREATE VIEW b AS\nSELECT y FROM ticks;")
    err = capsys.readouterr().err
    assert "SELECT y FROM ticks;\n       ^\n" in err
    assert "sql:2:8 UNKNOWN_COLUMN" in err
    terminal.do("\\dt")
    assert "ticks" in capsys.readouterr().out  # typed one by one, the first is done


# History and completion


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("CREATE SECRET s AS 'hunter2';", False),
        ("create or replace secret s as 'hunter2';", False),
        ("CREATE SECRET IF NOT EXISTS s AS 'hunter2';", False),
        ("SELECT 1; CREATE SECRET s\nAS 'hunter2'", False),
        ("CREATE SECRET s FROM ENV 'X';", True),
        ("DROP SECRET s;", True),
        ("SELECT secret FROM t;", True),
        ("  ", False),
    ],
)
def test_the_value_of_a_secret_is_not_remembered(text: str, kept: bool) -> None:
    assert keeps(text) is kept


def test_history_is_the_owners_and_hides_passwords(tmp_path: Path) -> None:
    history = SafeHistory(Project(tmp_path))
    assert not (tmp_path / ".headrace").exists()  # to look makes nothing
    history.append_string("CREATE SECRET s AS 'hunter2';")
    history.append_string("CREATE CONNECTION c TO jdbc ( password = 'hunter2' );")
    history.append_string("SELECT 1;")
    file = tmp_path / ".headrace" / "sql_history"
    assert "hunter2" not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert history.get_strings()[-1] == "SELECT 1;"
    assert not any("hunter2" in each for each in history.get_strings())
    again = SafeHistory(Project(tmp_path))
    assert next(iter(again.load_history_strings())) == "SELECT 1;"


def test_completion_follows_the_catalog(tmp_path: Path) -> None:
    catalog = Catalog.of(Project(tmp_path))
    completer = CatalogCompleter(catalog)

    def completed(text: str) -> list[str]:
        found = completer.get_completions(Document(text), CompleteEvent())
        return [text[: len(text) + each.start_position] + each.text for each in found]

    assert completed("SELECT * FROM fi") == []
    catalog.put("view", "first_view", "CREATE VIEW first_view AS SELECT 1 AS one")
    assert completed("SELECT * FROM fi") == ["SELECT * FROM first_view"]
    assert completed("\\ti") == ["\\timing"]
    assert completed("\\d fi") == ["\\d first_view"]
    catalog.file.write_bytes(b"no database")
    assert completed("SELECT * FROM fi") == []
