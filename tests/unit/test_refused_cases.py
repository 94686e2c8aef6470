"""Every folder of `tests/cases/refused` is a definition with faults, and exactly these."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit import golden

from headrace.api import load
from headrace.spans import Severity

REFUSED = Path(__file__).parents[1] / "cases" / "refused"
CASES = sorted(folder for folder in REFUSED.iterdir() if folder.is_dir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_refused_case_has_exactly_the_expected_faults(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(case)
    found = load(next(Path().glob("pipeline.*"))).check()
    assert any(fault.severity is Severity.ERROR for fault in found)
    golden.check(case / "expected.txt", "".join(f"{fault}\n" for fault in found))


def test_there_are_refused_cases() -> None:
    written = [next(case.glob("pipeline.*")).suffix for case in CASES]
    assert len(written) >= 60
    assert {".yaml", ".sql"} == set(written)


SOURCES = Path(__file__).parents[2] / "src" / "headrace"
# Warnings, and what is said about a file before or after it is examined.
ELSEWHERE = {
    *("STATE_GROWS", "UNUSED", "NO_EFFECT", "FAILURE_STOPS", "STAYS_BEHIND"),
    *("MISSING_SINK", "NO_SAMPLE", "NOT_READ", "YAML_TOO_LARGE", "VIEWS_TOO_DEEP"),
    # What the shell says about its catalog.
    *("IN_USE", "UNKNOWN_SECRET", "UNKNOWN_SETTING", "WRONG_KIND"),
}


def test_every_code_has_a_case() -> None:
    codes = set()
    for path in SOURCES.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        codes |= set(re.findall(r'(?:(?:Diagnostic|_fault)\(\s*|code=)"([A-Z0-9_]+)"', text))
        codes |= {f"UNKNOWN_{what.upper()}" for what in re.findall(r'\bunknown\(\s*"(\w+)"', text)}
    seen = {
        line.split(" ", 2)[1]
        for case in CASES
        for line in (case / "expected.txt").read_text(encoding="utf-8").splitlines()
    }
    assert codes - ELSEWHERE <= seen
