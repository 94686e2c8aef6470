"""A user's folder with a development cluster in it, and the commands that are run there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Folder:
    """A user's folder, and the commands run in it."""

    path: Path

    def headrace(self, *arguments: object, **environment: str) -> Answer:
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.path,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    @staticmethod
    def command(*arguments: object) -> list[str]:
        return [sys.executable, "-m", "headrace.cli.main", *map(str, arguments)]

    def up(self, *arguments: object) -> str:
        """Start the cluster on free ports; its address."""
        answer = self.headrace("dev", "up", "--port", 0, *arguments)
        assert answer.code == 0, answer.err
        return answer.out.strip()

    def status(self) -> Any:
        return self.headrace("dev", "status", "-o", "json").value

    @property
    def processes(self) -> list[int]:
        """Every process whose command line names this folder, whatever the pid files say."""
        listed = subprocess.run(
            ["ps", "-eww", "-o", "pid=,command="], capture_output=True, text=True, check=True
        )
        lines = [line.split(None, 1) for line in listed.stdout.splitlines()]
        mark = f"{self.path}/.headrace/"
        return [int(pid) for pid, command in lines if mark in command]
