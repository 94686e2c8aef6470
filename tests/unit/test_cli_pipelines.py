"""`check`, `explain` and `new`: exit codes, formats, and what they do not import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.definitions import CONSOLE, SINK, SOURCE, steps, write

from headrace.cli.main import main
from headrace.errors import EXIT_DEFINITION

WRONG = SOURCE + steps("SELECT nme FROM source") + SINK


class Answer:
    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        self.code = ended.value.code
        self.out, self.err = capsys.readouterr()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_without_faults_is_ok(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, SOURCE + SINK)
    answer = Answer(capsys, "check", "p.yaml")
    assert (answer.code, answer.out, answer.err) == (0, "", "p.yaml: ok\n")


def test_warnings_do_not_fail_a_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, SOURCE + steps("SELECT 1 AS x") + CONSOLE)
    answer = Answer(capsys, "check", "p.yaml")
    assert answer.code == 0
    assert answer.out.startswith("p.yaml:2:3 UNUSED warning: ")


def test_faults_are_lines_of_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, WRONG)
    answer = Answer(capsys, "check", "p.yaml")
    assert answer.code == EXIT_DEFINITION
    assert answer.out == (
        "p.yaml:7:17 UNKNOWN_COLUMN `nme` is not a column of this step's input "
        "(did you mean `name`?)\n"
    )


def test_faults_are_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, WRONG)
    answer = Answer(capsys, "check", "p.yaml", "--format", "json")
    assert answer.code == EXIT_DEFINITION
    assert json.loads(answer.out) == [
        {
            "file": "p.yaml",
            "line": 7,
            "column": 17,
            "code": "UNKNOWN_COLUMN",
            "severity": "error",
            "message": "`nme` is not a column of this step's input",
            "hint": "did you mean `name`?",
        }
    ]


def test_faults_are_annotations_for_github(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, SOURCE + SINK.replace("out", '"100%"'), "a,b.yaml")
    answer = Answer(capsys, "check", "a,b.yaml", "--format", "github")
    assert answer.code == EXIT_DEFINITION
    first, *rest = answer.out.splitlines()
    assert first.startswith("::error file=a%2Cb.yaml,line=1,col=1,title=BAD_NAME::")
    assert rest[0].startswith("::error file=a%2Cb.yaml,line=8,col=11,title=BAD_VALUE::")
    assert "100%25" in rest[0]


def test_all_files_of_a_folder_are_checked_and_one_that_cannot_be_read_is_a_fault(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, SOURCE + SINK, "a.yaml")
    write(folder, WRONG, "b.yml")
    (folder / "c.yaml").write_bytes(b"\xff")
    answer = Answer(capsys, "check", "missing.yaml", ".")
    assert answer.code == EXIT_DEFINITION
    places = [" ".join(line.split()[:2]) for line in answer.out.splitlines()]
    assert places == [
        "missing.yaml:1:1 NOT_READ",
        "b.yml:7:17 UNKNOWN_COLUMN",
        "c.yaml:1:1 NOT_UTF8",
    ]


def test_a_folder_without_pipelines_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Answer(capsys, "check", str(folder)).code == EXIT_DEFINITION


def test_explain_gives_the_plan_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, SOURCE + SINK)
    answer = Answer(capsys, "explain", "p.yaml", "-o", "json")
    assert answer.code == 0
    story = json.loads(answer.out)
    assert [stage["stage"] for stage in story["queries"][0]["stages"]] == [
        *("Read", "Decode", "Refuse", "SetAside", "Write")
    ]


@pytest.mark.parametrize("text", [WRONG, SOURCE])
def test_explain_needs_a_pipeline_that_can_run(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    write(folder, text)
    answer = Answer(capsys, "explain", "p.yaml")
    assert (answer.code, answer.out) == (EXIT_DEFINITION, "")
    assert "p.yaml:" in answer.err


def test_a_new_pipeline_has_no_faults(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Answer(capsys, "new", "orders").code == 0
    checked = Answer(capsys, "check", "orders.yaml")
    assert (checked.code, checked.err) == (0, "orders.yaml: ok\n")
    assert "NAME" not in (folder / "orders.yaml").read_text()


def test_new_never_writes_over_a_file_unless_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "mine", "orders.yaml")
    assert Answer(capsys, "new", "orders").code == EXIT_DEFINITION
    assert (folder / "orders.yaml").read_text() == "mine"
    assert Answer(capsys, "new", "orders", "--force").code == 0
    assert (folder / "orders.yaml").read_text() != "mine"


@pytest.mark.parametrize("name", ["../x", "a b", "", ".hidden", "x" * 200])
def test_new_refuses_names_that_are_no_names(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert Answer(capsys, "new", name).code == EXIT_DEFINITION
    assert list(folder.iterdir()) == []


SPARK = ("pyspark", "py4j", "pandas", "pyarrow", "delta")
KAFKA = ("confluent_kafka", "kafka")
PROBE = """
import sys
from headrace.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    assert not ended.code, ended.code
print([name for name in {heavy} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], SPARK),
        (["run", "--help"], SPARK + KAFKA),
        (["check", "p.yaml"], SPARK + KAFKA),
        (["explain", "p.yaml"], SPARK + KAFKA),
    ],
)
def test_checking_and_explaining_import_nothing_heavy(
    folder: Path, arguments: list[str], heavy: tuple[str, ...]
) -> None:
    write(folder, SOURCE + steps("SELECT id FROM source") + SINK)
    command = [sys.executable, "-c", PROBE.format(heavy=heavy), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", ["check", "explain", "preview", "run", "new", "tune"])
def test_a_verb_without_arguments_prints_its_help(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """GS-07."""
    answer = Answer(capsys, verb)
    assert answer.code == EXIT_DEFINITION
    assert f"Usage: headrace {verb}" in answer.out
