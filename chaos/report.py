"""What came of an ordeal, as data, as Markdown and as a few lines to print."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from chaos import checks, history
from chaos.checks import Truth
from chaos.history import Seen, Source
from chaos.world import Expected

EXAMPLES = 5
_TABLE = "table"


@dataclass(frozen=True)
class Check:
    """How many exceptions one check found for one reader, and the first of them."""

    name: str
    reader: str
    found: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Histories:
    """What the readers saw; `aborted` counts records that are in the topics and not committed."""

    live: Sequence[Seen]
    final: Sequence[Seen]
    rows: Sequence[Source]
    aborted: int


@dataclass(frozen=True)
class Report:
    seed: int
    mode: str
    sink: str
    records: int
    out: int
    dead: int
    filtered: int
    kills: int
    lost: int
    doubled: int
    reordered: int
    aborted: int
    longest_stall_seconds: float
    minutes: float
    happened: dict[str, int]
    short: tuple[str, ...]
    checks: tuple[Check, ...]
    stuck: tuple[str, ...] = ()
    gave_up: tuple[str, ...] = ()
    lives: tuple[str, ...] = field(default=(), repr=False)

    @property
    def kept(self) -> bool:
        """Whether each record is where it must be, once and in order, for every reader."""
        return not any(check.found for check in self.checks)

    @property
    def complete(self) -> bool:
        """Whether all that was planned has happened, and no driver was stuck."""
        return not (self.short or self.stuck)

    @property
    def convicting(self) -> bool:
        """What the control must show: records that are doubled, and none that is lost."""
        return self.doubled > 0 and self.lost == 0


def judge(expected: Expected, seen: Histories) -> tuple[Check, ...]:
    """Every check, for each reader that it concerns."""
    found: list[Check] = []
    for name, each in (("live", seen.live), ("final", seen.final)):
        found += _content(name, expected.topics, each)
        found.append(_check("reordered", name, checks.reordered(each)))
        found.append(_check("nonmonotonic", name, checks.nonmonotonic(each)))
    found.append(_check("inconsistent", "both", checks.inconsistent(seen.live, seen.final)))
    found.append(_check("vanished", "both", checks.vanished(seen.live, seen.final)))
    found.append(_check("skipped", "both", checks.skipped(seen.live, seen.final)))
    rows = [Seen(0, _TABLE, 0, number, source, 0) for number, source in enumerate(seen.rows)]
    found += _content(_TABLE, expected.rows, rows)
    return tuple(found)


def _content(reader: str, truth: Truth, seen: Sequence[Seen]) -> Iterator[Check]:
    yield _check("lost", reader, checks.lost(truth, seen))
    yield _check("doubled", reader, checks.doubled(seen))
    yield _check("unexpected", reader, checks.unexpected(truth, seen))


def _check(name: str, reader: str, exceptions: Sequence[Any]) -> Check:
    return Check(name, reader, len(exceptions), tuple(map(str, exceptions[:EXAMPLES])))


def worst(found: Iterable[Check], name: str) -> int:
    """The most exceptions that any reader has for a check."""
    return max(check.found for check in found if check.name == name)


def counts(expected: Expected, topic: str | None) -> int:
    return sum(target == topic for target in expected.topics.values())


def stall(seen: Histories) -> float:
    return round(history.longest_stall(seen.live), 1)


# As text


def keep(report: Report, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{report.mode}-{report.sink}"
    (folder / f"{name}.json").write_text(json.dumps(asdict(report), indent=2) + "\n")
    text = f"# Chaos: {report.mode}, {_TITLES[report.sink]}\n\n"
    text += "Made by `make chaos`; not edited by hand.\n\n"
    (folder / f"{name}.md").write_text(text + "\n".join(markdown(report)) + "\n")


_TITLES = {"headrace": "exactly once", "spark": "the control with Spark's own sink"}


def summary(report: Report) -> str:
    return (
        f"kills {report.kills}, crashes and troubles {sum(report.happened.values())}, "
        f"records {report.records:,} = out {report.out:,} + dead letters {report.dead:,} + "
        f"filtered {report.filtered:,}, lost {report.lost:,}, doubled {report.doubled:,}, "
        f"reordered {report.reordered:,}, longest stall {report.longest_stall_seconds:.0f} s, "
        f"seed {report.seed}"
    )


def markdown(report: Report) -> Iterator[str]:
    yield summary(report) + "."
    yield ""
    yield f"{report.minutes:.0f} minutes. Records of aborted transactions: {report.aborted:,}."
    yield ""
    yield "| check | reader | exceptions |"
    yield "|---|---|---:|"
    for check in report.checks:
        yield f"| {check.name} | {check.reader} | {check.found:,} |"
    yield ""
    yield "| what happened | times |"
    yield "|---|---:|"
    for name, times in sorted(report.happened.items()):
        yield f"| {name} | {times} |"
    for title, lines in _remarks(report):
        yield f"\n## {title}\n"
        yield from (f"- {line}" for line in lines)


def _remarks(report: Report) -> Iterator[tuple[str, Iterable[str]]]:
    examples = [
        f"{check.name}, {check.reader}: {'; '.join(check.examples)}"
        for check in report.checks
        if check.found
    ]
    for title, lines in (
        ("Exceptions, the first of each", examples),
        ("Planned, and not done", report.short),
        ("Drivers that were stuck", report.stuck),
        ("Drivers that ended with an error", report.gave_up),
    ):
        if lines:
            yield title, lines
