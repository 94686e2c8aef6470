"""`headrace sql` by script: where statements come from, how rows are printed, and exit codes."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.cli.sql import Form, show
from headrace.errors import EXIT_DEFINITION
from headrace.shell.result import Result

VIEWS = "SELECT name, query FROM system.views ORDER BY name"
SETUP = """
CREATE TABLE gen WITH ( connector = 'impulse' );
CREATE VIEW v AS SELECT n FROM gen; CREATE VIEW w AS SELECT 'a, "b"' AS x FROM gen
"""


class Answer:
    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["sql", *arguments])
        self.code = ended.value.code
        self.out, self.err = capsys.readouterr()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_statements_come_from_files_commands_and_stdin(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.sql").write_text(SETUP, encoding="utf-8-sig")
    (folder / "b.sql").write_text("SHOW VIEWS")
    answer = Answer(capsys, "-f", "a.sql", "-f", "b.sql")
    assert answer.code == 0
    assert answer.err.splitlines() == [
        "table gen is created",
        "view v is created",
        "view w is created",
    ]
    assert answer.out.splitlines()[:2] == ["name  query", "v     SELECT n FROM gen"]
    monkeypatch.setattr(sys, "stdin", io.StringIO(VIEWS))
    assert (
        Answer(capsys, "-f", "-", "-o", "json").out
        == Answer(capsys, "-c", "SET rows = 3", "-c", VIEWS, "-o", "json").out
    )


def test_rows_are_json_and_csv_as_they_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Answer(capsys, "-c", SETUP)
    expected = [["v", "SELECT n FROM gen"], ["w", "SELECT 'a, \"b\"' AS x FROM gen"]]
    found = json.loads(Answer(capsys, "-c", VIEWS, "-o", "json").out)
    assert found == [dict(zip(("name", "query"), row, strict=True)) for row in expected]
    text = Answer(capsys, "-c", VIEWS, "-o", "csv").out
    assert list(csv.reader(text.splitlines())) == [["name", "query"], *expected]
    assert folder.joinpath(".headrace", "catalog.db").exists()


def test_a_fault_has_its_place_and_nothing_is_done(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.sql").write_text("CREATE VIEW v AS SELECT 1 AS x FROM gen;\nSHOW VEIWS;\n")
    answer = Answer(capsys, "-f", "bad.sql")
    assert answer.code == EXIT_DEFINITION
    lines = answer.err.splitlines()
    assert lines[0].startswith("bad.sql:1:37 UNKNOWN_TABLE `gen` is not a table")
    assert lines[1].startswith("bad.sql:2:6 ")
    assert answer.out == ""
    assert Answer(capsys, "-c", "SHOW VIEWS").out == "name  query\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-f", "nowhere.sql"), "DefinitionError reading nowhere.sql: No such file or directory"),
        (("-f", "."), "DefinitionError reading .: Is a directory"),
        (("-f", "latin.sql"), "DefinitionError latin.sql is not UTF-8 text at byte 1"),
        (("-f", "a.sql", "-c", "SET"), "DefinitionError --file and --command exclude each other"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    (folder / "latin.sql").write_bytes(b"-\xe9")
    answer = Answer(capsys, *arguments)
    assert answer.code == EXIT_DEFINITION
    assert answer.err.splitlines()[0] == said


def test_values_are_printed_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    rows: tuple[tuple[object, ...], ...] = (
        (None, True, 1234567, Decimal("1.50"), {"a": [1, None]}, "x\n\x1b[31m"),
        ("", False, 2, Decimal("10"), [], "é"),
    )
    result = Result(("n", "n", "Number", "d", "nested", "t"), rows, note="2 rows", warnings=("w",))
    show(result)
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "n     n       Number     d  nested            t",
        'NULL  true   1234567  1.50  {"a": [1, null]}  x\\n\\x1b[31m',
        "      false        2    10  []                é",
    ]
    assert printed.err == "warning: w\n2 rows\n"
    show(result, Form.CSV)
    assert capsys.readouterr().out.splitlines()[1].startswith(",true,1234567,1.50,")
    show(result, Form.JSON)
    first = json.loads(capsys.readouterr().out)[0]
    assert first["n_2"] is True
    assert first["nested"] == {"a": [1, None]}


def test_a_script_that_selects_nothing_needs_no_spark(folder: Path) -> None:
    code = (
        "import sys; from headrace.cli.main import main\n"
        "try: main(['sql', '-c', sys.argv[1]])\n"
        "finally: print({'pyspark', 'prompt_toolkit'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, SETUP + "; EXPLAIN v; SHOW VIEWS; DESCRIBE v"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
