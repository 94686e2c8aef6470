"""Every folder of `tests/cases/refused` is a definition with faults, and exactly these."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.api import load
from headrace.spans import Severity
from tests.unit import golden

REFUSED = Path(__file__).parents[1] / "cases" / "refused"
CASES = sorted(folder for folder in REFUSED.iterdir() if folder.is_dir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_refused_case_has_exactly_the_expected_faults(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(case)
    found = load("pipeline.yaml").check()
    assert any(fault.severity is Severity.ERROR for fault in found)
    golden.check(case / "expected.txt", "".join(f"{fault}\n" for fault in found))


def test_there_are_refused_cases() -> None:
    assert len(CASES) >= 20
