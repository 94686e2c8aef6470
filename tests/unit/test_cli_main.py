"""The command table: help for everything, exit codes, and readers that go away."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer

from headrace.cli import main

COMMAND = [sys.executable, "-m", "headrace.cli.main"]


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "dev",
        "dev start",
        "dev stop",
        "dev kill",
        "jars",
        "topics",
        "topics create",
        "topics describe",
        "topics offsets",
        "topics alter",
        "topics delete",
        "groups",
        "groups describe",
        "groups reset",
        "groups delete",
        "schemas",
        "schemas show",
        "schemas register",
        "schemas check",
        "schemas delete",
        "produce",
        "consume",
    ],
)
def test_a_command_that_needs_more_prints_its_usage(
    arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """GS-07"""
    assert main._run(arguments.split()) == 2
    assert f"Usage: headrace {arguments}".rstrip() in capsys.readouterr().out


@pytest.mark.parametrize("arguments", ["nosuch", "topics nosuch", "topics list --nosuch"])
def test_what_does_not_exist_is_told_on_stderr(
    arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """GS-07"""
    assert main._run(arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "nosuch" in err


@pytest.mark.parametrize("arguments", ["jars list -o json", "jars list", "--help", "--version"])
def test_a_reader_that_has_enough_is_no_failure(arguments: str) -> None:
    """GS-07: as in `headrace jars list | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*COMMAND, *arguments.split()],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_table_names_every_verb_of_every_module() -> None:
    whole = typer.main.get_command(main.command_table([]))
    listed = [verb for verbs in main.COMMANDS.values() for verb in verbs]

    assert sorted(whole.commands) == sorted(listed)  # type: ignore[attr-defined]
    for verb in listed:
        assert verb in typer.main.get_command(main.command_table([verb])).commands  # type: ignore[attr-defined]


def test_checking_a_pipeline_loads_no_kafka_client() -> None:
    program = (
        "import sys; from headrace.cli.main import _run; code = _run(['check', 'nowhere.yaml'])\n"
        "sys.exit(code if not {'confluent_kafka', 'kafka', 'pyspark'} & sys.modules.keys() else 99)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 2


def test_help_loads_neither_spark_nor_the_client_of_registries() -> None:
    program = (
        "import sys; from headrace.cli.main import _run; code = _run(['--help'])\n"
        "heavy = {'pyspark', 'httpx2', 'authlib', 'confluent_kafka.schema_registry'}\n"
        "sys.exit(99 if heavy & sys.modules.keys() else code)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0
