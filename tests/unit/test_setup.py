"""`make setup`: what it says when it cannot work, and when it has nothing to do."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETUP = ROOT / "tools" / "setup.py"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What set-up needs of a clone, in a folder of its own."""
    for folder in ("tools", "requirements", "src"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def run_setup(clone: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, clone / "tools" / "setup.py"],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_setup_parses_on_pythons_that_are_too_old() -> None:
    ast.parse(SETUP.read_text(), feature_version=(3, 4))
    assert "f'" not in SETUP.read_text()
    assert 'f"' not in SETUP.read_text()


def test_a_python_too_old_is_told_in_one_sentence() -> None:
    program = (
        "import sys, runpy; sys.version_info = (3, 8, 1, 'final', 0);"
        f"runpy.run_path({str(SETUP)!r}, run_name='__main__')"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert answer.returncode != 0
    assert answer.stderr.startswith("Headrace needs Python 3.11 or newer")
    assert answer.stderr.count("\n") == 1


def test_without_java_nothing_is_made_and_the_command_to_install_it_is_told(clone: Path) -> None:
    answer = run_setup(clone, JAVA_HOME=str(clone / "no-java"))

    assert answer.returncode != 0
    assert answer.stderr.startswith("Headrace needs Java 17 or newer")
    assert "install it:" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert not (clone / ".venv").exists()


def test_locks_name_no_address_and_pin_every_package_with_a_hash() -> None:
    for lock in (ROOT / "requirements").glob("*.lock"):
        text = lock.read_text()
        assert "://" not in text
        entries = [line for line in text.splitlines() if line and line[0].isalnum()]
        assert all("==" in line and line.endswith("\\") for line in entries)


def test_ci_calls_make_test_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"

    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-1] == "exec make test"
