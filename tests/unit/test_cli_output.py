"""How values become tables: whole, aligned, and harmless."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.cli import output
from headrace.cli.output import Format


def table(capsys: pytest.CaptureFixture[str], rows: list[dict[str, Any]], *columns: str) -> str:
    output.emit_rows(rows, columns, Format.TABLE)
    return capsys.readouterr().out


def test_numbers_stand_right_and_all_else_left(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [
        {"name": "a", "lag": 1},
        {"name": "bcdef", "lag": 1000},
        {"name": "x", "lag": None},
    ]

    assert table(capsys, rows, "name", "lag") == (
        "NAME    LAG\n"
        "a         1\n"
        "bcdef  1000\n"
        "x         -\n"
    )  # fmt: skip


def test_a_table_is_not_cut_to_a_narrow_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert "x" * 100 in table(capsys, [{"name": "x" * 100, "log": "y" * 50}], "name", "log")


def test_headings_are_there_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert table(capsys, [], "name", "lag") == "NAME  LAG\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("two\nlines", r"two\nlines"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("[bold]:smile:", "[bold]:smile:"),
        (19.99, "19.99"),
        (True, "yes"),
        ([1, 2], "1,2"),
    ],
)
def test_a_value_is_shown_as_it_is_and_never_rules_the_screen(
    capsys: pytest.CaptureFixture[str], value: object, shown: str
) -> None:
    assert table(capsys, [{"v": value}], "v").splitlines()[1] == shown


def test_wide_letters_take_two_columns(capsys: pytest.CaptureFixture[str]) -> None:
    shown = table(capsys, [{"a": "日本", "b": "x"}, {"a": "ab", "b": "x"}], "a", "b")

    assert shown.splitlines()[1:] == ["日本  x", "ab    x"]


def test_things_are_counted_in_words() -> None:
    assert [output.counted(n, "topic") for n in (0, 1, 2)] == ["0 topics", "1 topic", "2 topics"]
