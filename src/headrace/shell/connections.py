"""`test_connection('name')`: is what a connection leads to there, and does it let us in?

A test is a row of checks, from the address to the permission. Each says what was tried and, when it
fails, what to do about it; after a failure that the others depend on, they are not tried. Every
check has its time, so that a test never hangs, whatever the other side does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from headrace.catalog import Catalog
from headrace.errors import HeadraceError
from headrace.project import Project
from headrace.shell.known import Connection, Known
from headrace.shell.threads import within

CHECK_SECONDS = 15.0
TEST_SECONDS = 40.0


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Step:
    """One check that was made; `cure` is what to do where it failed."""

    check: str
    result: Outcome
    detail: str
    cure: str | None = None


@dataclass(frozen=True)
class Report:
    """What a test found, in the order in which it was tried."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("check", "result", "detail", "cure")

    connection: str
    steps: tuple[Step, ...]

    @property
    def ok(self) -> bool:
        return all(step.result is not Outcome.FAILED for step in self.steps)

    @property
    def failure(self) -> Step | None:
        """The first check that failed."""
        return next((step for step in self.steps if step.result is Outcome.FAILED), None)

    @property
    def rows(self) -> list[tuple[str, str, str, str | None]]:
        return [(step.check, str(step.result), step.detail, step.cure) for step in self.steps]


class Failed(Exception):
    """Raised by a check: what is wrong, and what to do about it."""

    def __init__(self, detail: str, cure: str | None = None) -> None:
        super().__init__(detail)
        self.cure = cure


@dataclass(frozen=True)
class Check:
    """Something to try; `run` says in words what it found. The rest depends on a `vital` one."""

    name: str
    run: Callable[[], str]
    vital: bool = True


def test_connection(project: Project, name: str) -> Report:
    """Test a connection or a table of the catalog; DefinitionError where there is none."""
    connection = Known.of(Catalog.of(project)).connection(name)
    return examine(connection, project.root)


def examine(connection: Connection, folder: Path, seconds: float = TEST_SECONDS) -> Report:
    """Test it within `seconds`; relative paths begin at `folder`. Changes nothing anywhere."""
    steps = _steps(checks(connection, folder), seconds)
    return Report(connection.name, tuple(_shown(step, connection) for step in steps))


def _shown(step: Step, connection: Connection) -> Step:
    """Without the values of secrets, which an address or the name of a topic may be."""
    cure = step.cure and connection.hide(step.cure)
    return replace(step, detail=connection.hide(step.detail), cure=cure)


def checks(connection: Connection, folder: Path) -> Iterator[Check]:
    """What there is to try, by the kind of connector."""
    from headrace.shell import database_checks, file_checks, kafka_checks

    if connection.connector == "kafka":
        return kafka_checks.checks(connection)
    if connection.connector == "jdbc":
        return database_checks.checks(connection)
    if connection.connector in file_checks.CONNECTORS:
        return file_checks.checks(connection, folder)
    return iter([Check("address", lambda: "there is nothing to reach")])


def _steps(planned: Iterator[Check], seconds: float) -> Iterator[Step]:
    deadline = time.monotonic() + seconds
    given_up = False
    for check in planned:
        if given_up:
            yield Step(check.name, Outcome.NOT_TRIED, "what comes before it failed")
            continue
        step = _step(check, min(CHECK_SECONDS, deadline - time.monotonic()))
        yield step
        given_up = check.vital and step.result is Outcome.FAILED


def _step(check: Check, seconds: float) -> Step:
    try:
        return Step(check.name, Outcome.OK, within(check.run, seconds))
    except Failed as failure:
        return Step(check.name, Outcome.FAILED, str(failure), failure.cure)
    except HeadraceError as failure:
        return Step(check.name, Outcome.FAILED, str(failure), failure.hint)
    except TimeoutError:  # before OSError, of which it is one
        detail = f"no answer in {max(seconds, 0):.0f} s"
        cure = "something takes packets and does not answer: look for a firewall or an overload"
        return Step(check.name, Outcome.FAILED, detail, cure)
    except OSError as failure:
        cure = "something changed while it was looked at: try again"
        return Step(check.name, Outcome.FAILED, str(failure), cure)
