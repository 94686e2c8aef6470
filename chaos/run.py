"""`make chaos`: put a pipeline through it, and judge what its readers saw.

`--sink spark` is the control: the same schedule with Spark's own sink, which must double records;
if it does not, the schedule proves nothing. Exit code 0 means that what was expected was seen.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from chaos import report as reports
from chaos import schedule, table
from chaos.history import load
from chaos.ordeal import Ordeal, Say, Tally
from chaos.pipeline import Sink
from chaos.processes import guarded
from chaos.report import Histories, Report
from chaos.schedule import Life
from chaos.world import DEAD, OUT, Expected, World, world
from headrace.model.pipeline import Mode
from headrace.runtime.failpoints import IN_TASKS, POINTS

HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    mode, sink = Mode(options.mode), Sink(options.sink)
    points = schedule.points_of(POINTS, IN_TASKS, mode, sink is Sink.HEADRACE)
    lives = schedule.plan(seed, options.kills, options.each, points, mode)
    print(f"seed {seed}: {len(lives)} drivers, {options.records:,} records, {mode}, {sink}")
    folder = Path(options.folder or tempfile.mkdtemp(prefix="headrace-chaos-")).resolve()
    found = perform(lives, folder, options.records, seed, mode, sink, options.minutes * 60)
    reports.keep(found, options.results)
    print("\n" + "\n".join(reports.markdown(found)))
    right = found.complete and (found.kept if sink is Sink.HEADRACE else found.convicting)
    if right and options.folder is None:
        shutil.rmtree(folder)
    else:
        print(f"\nlogs and histories: {folder}")
    print("\n" + ("as it must be: " if right else "NOT as it must be: ") + reports.summary(found))
    return 0 if right else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="at least")
    parser.add_argument("--kills", type=int, default=50, help="with -9, at random moments")
    parser.add_argument("--each", type=int, default=5, help="how often each failpoint is hit")
    parser.add_argument("--seed", type=int, help="default: another one each time; it is printed")
    parser.add_argument("--sink", choices=list(Sink), default=Sink.HEADRACE)
    parser.add_argument("--mode", choices=[Mode.STREAM, Mode.BATCH], default=Mode.STREAM)
    parser.add_argument("--minutes", type=float, default=240, help="no driver begins later")
    parser.add_argument("--folder", help="keep logs and histories there; it must be empty")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    return parser


def perform(
    lives: list[Life],
    folder: Path,
    records: int,
    seed: int,
    mode: Mode = Mode.STREAM,
    sink: Sink = Sink.HEADRACE,
    seconds: float = 3600,
    say: Say = lambda text: print(text, flush=True),
    mark: str | None = None,
) -> Report:
    """The lives in a world of their own under `folder`; no process of it is left.

    Every process with the `mark` is ended, so that it must be no one else's.
    """
    mark = mark or uuid.uuid4().hex
    began = time.monotonic()
    with guarded(mark), world(folder, mark, seed) as where:
        ordeal = Ordeal(where, mode, sink, records, seed, say)
        with where.reader(folder / "live", "read_committed") as finish:
            ordeal.perform(lives, began + seconds)
            where.await_no_transaction()
            finish()
        where.read(folder / "final", "read_committed")
        where.read(folder / "uncommitted", "read_uncommitted")
        expected = where.expected()
        say("judging")
        seen = _histories(where, expected, ordeal.table)
    minutes = (time.monotonic() - began) / 60
    short = schedule.shortfalls(lives, ordeal.tally.done)
    return _report(expected, seen, ordeal.tally, short, seed, mode, sink, minutes)


def _histories(where: World, expected: Expected, rows: Path) -> Histories:
    live = list(load(where.folder / "live", expected.keys))
    final = list(load(where.folder / "final", expected.keys))
    with (where.folder / "uncommitted").open() as lines:
        everything = sum(1 for _ in lines)
    return Histories(live, final, table.sources(rows), everything - len(final))


def _report(
    expected: Expected,
    seen: Histories,
    tally: Tally,
    short: tuple[str, ...],
    seed: int,
    mode: Mode,
    sink: Sink,
    minutes: float,
) -> Report:
    found = reports.judge(expected, seen)
    return Report(
        seed=seed,
        mode=mode,
        sink=sink,
        records=len(expected.topics),
        out=reports.counts(expected, OUT),
        dead=reports.counts(expected, DEAD),
        filtered=reports.counts(expected, None),
        kills=tally.done[schedule.KILL],
        lost=reports.worst(found, "lost"),
        doubled=reports.worst(found, "doubled"),
        reordered=reports.worst(found, "reordered"),
        aborted=seen.aborted,
        longest_stall_seconds=reports.stall(seen),
        minutes=round(minutes, 1),
        happened={name: times for name, times in tally.done.items() if name != schedule.KILL},
        short=short,
        checks=found,
        stuck=tuple(tally.stuck),
        gave_up=tuple(tally.gave_up),
        lives=tuple(tally.lives),
    )


if __name__ == "__main__":
    sys.exit(main())
