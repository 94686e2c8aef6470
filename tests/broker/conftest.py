"""The command line against the shared broker: in this process, and as a process of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.admin.client import Cluster, connect
from headrace.cli import main
from headrace.cluster.dev import DevCluster
from headrace.testing.broker import kafka


@dataclass(frozen=True)
class Answer:
    """What a command did: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def value(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def headrace(
    kafka_cluster: DevCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Answer]:
    """`headrace("topics", "list")` runs that command in this process."""
    monkeypatch.setenv("HEADRACE_BOOTSTRAP_SERVER", kafka_cluster.bootstrap)

    def run(*arguments: object, stdin: str | bytes = b"") -> Answer:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        capsys.readouterr()
        code = main._run([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return run


@pytest.fixture
def headrace_process(kafka_cluster: DevCluster) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command as a process with pipes; whatever still runs at the end is ended."""
    started: list[subprocess.Popen[str]] = []
    environment = {**os.environ, "HEADRACE_BOOTSTRAP_SERVER": kafka_cluster.bootstrap}

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def cluster(kafka_cluster: DevCluster) -> Cluster:
    return connect(kafka_cluster.bootstrap)


@pytest.fixture(scope="session")
def three_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `three_brokers`."""
    return tmp_path_factory.mktemp("three")


@pytest.fixture(scope="session")
def three_brokers(three_folder: Path) -> Iterator[DevCluster]:
    """Three brokers for the whole run, with settings of their own. Leave all of them running."""
    settings = {
        "num.partitions": "8",
        "default.replication.factor": "2",
        "log.retention.check.interval.ms": "500",
    }
    with kafka(brokers=3, folder=three_folder, config=settings) as dev:
        yield dev
