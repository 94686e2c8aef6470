"""Which Java is taken, and what is said when none will do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cluster.java import find_java, install_command
from headrace.errors import JavaMissing

SOURCE = Path(__file__).parents[2] / "src"


def install_java(home: Path, version: str, code: int = 0) -> Path:
    """A `java` that says it is of that version, as Java does: on stderr."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\nexit {code}\n"
    )
    java.chmod(0o755)
    return java


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return monkeypatch


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_java_17_and_newer_are_found_on_the_path(
    version: str, tmp_path: Path, no_java: pytest.MonkeyPatch
) -> None:
    java = install_java(tmp_path / "jdk", version)
    no_java.setenv("PATH", str(java.parent))

    assert find_java() == java


def test_java_home_comes_before_the_path(tmp_path: Path, no_java: pytest.MonkeyPatch) -> None:
    no_java.setenv("PATH", str(install_java(tmp_path / "path", "17.0.1").parent))
    java = install_java(tmp_path / "home", "21.0.1")
    no_java.setenv("JAVA_HOME", str(tmp_path / "home"))

    assert find_java() == java


@pytest.mark.parametrize(("version", "said"), [("11.0.2", "Java 11"), ("1.8.0_392", "Java 8")])
def test_an_older_java_is_refused_by_its_version(
    version: str, said: str, tmp_path: Path, no_java: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path / "old", version)
    no_java.setenv("JAVA_HOME", str(tmp_path / "old"))

    with pytest.raises(JavaMissing) as refused:
        find_java()

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("no_java")
def test_no_java_at_all_is_one_sentence_with_the_command_to_install_it() -> None:
    with pytest.raises(JavaMissing) as missing:
        find_java()

    assert "JAVA_HOME" in str(missing.value)
    assert missing.value.hint == f"install it: {install_command()}"


def test_a_java_home_without_java_is_not_passed_over(
    tmp_path: Path, no_java: pytest.MonkeyPatch
) -> None:
    no_java.setenv("PATH", str(install_java(tmp_path / "path", "17").parent))
    no_java.setenv("JAVA_HOME", str(tmp_path / "nothing"))

    with pytest.raises(JavaMissing, match="has no bin/java"):
        find_java()


def test_a_stand_in_that_does_not_run_is_no_java(
    tmp_path: Path, no_java: pytest.MonkeyPatch
) -> None:
    no_java.setenv("PATH", str(install_java(tmp_path / "stub", "17", code=1).parent))

    with pytest.raises(JavaMissing, match="does not run"):
        find_java()


@pytest.mark.parametrize("module", ["headrace.cluster.java", "headrace.cluster.jars"])
def test_set_up_can_import_it_before_any_package_is_installed(module: str) -> None:
    program = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import {module}"

    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)
