"""`headrace demo`: a real Kafka, a stream of orders and a pipeline at work."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import output
from headrace.errors import InternalError

if TYPE_CHECKING:
    from headrace.demo.show import Result


def register(app: typer.Typer) -> None:
    app.command("demo", rich_help_panel="Pipelines")(demo)


def demo(
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, help="How long orders are produced.")
    ] = 20,
    rate: Annotated[
        int, typer.Option("--rate", min=1, max=50_000, help="How many orders a second.")
    ] = 3000,
) -> None:
    """See it all at work: a Kafka broker, a stream of orders, a pipeline. Nothing is left."""
    from headrace.cli.progress import Style, showing
    from headrace.demo.show import perform

    with _interruptible(), showing(Style.AUTO) as listener:
        result = perform(seconds, rate, output.note, listener)
    _print(result)
    if not result.agrees:
        raise InternalError("the counts do not agree")
    _print_next()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal take everything down; a second one changes nothing."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(_number: int, _frame: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        output.note("stopping, and cleaning up …")
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(result: Result) -> None:
    dead = sum(result.dead.values())
    lines: list[tuple[str, int | None]] = [
        ("produced to topic orders", result.produced),
        ("read by the pipeline (its group's position)", result.read),
        ("written to topic orders.paid", result.written),
        ("rows in the Delta table orders_paid", result.rows),
        ("filtered out (not paid)", result.filtered),
        ("dead letters in topic orders.dlq", dead),
        *((f"  {code}", count) for code, count in sorted(result.dead.items())),
    ]
    output.line("")
    for label, count in lines:
        output.line(f"  {label:<46}{count:>10,}")
    output.line("")
    verdict = "the counts agree" if result.agrees else "the counts DO NOT agree"
    output.line(f"  {result.written:,} written + {result.filtered:,} filtered + {dead:,} dead")
    output.line(f"  = {result.produced:,} produced: {verdict}")


def _print_next() -> None:
    clone = Path("examples/orders.yaml").exists()
    steps = (
        [
            ("headrace dev up", "a Kafka of your own"),
            ("headrace topics create orders", ""),
            ("headrace produce orders examples/data/orders.jsonl", ""),
            ("headrace explain examples/orders.yaml", "what it does"),
            ("headrace run examples/orders.yaml", "Ctrl-C ends it"),
            ("headrace groups describe orders", "its lag"),
            ("headrace dev down", ""),
        ]
        if clone
        else [
            ("headrace dev up", "a Kafka of your own"),
            ("headrace new shop", "a file to fill in"),
            ("headrace topics create shop", ""),
            ("headrace run shop.yaml", "Ctrl-C ends it"),
        ]
    )
    if shutil.which("headrace") is None:
        # `make demo` runs it from .venv, which is on nobody's PATH.
        steps.insert(0, ("export PATH=$PWD/.venv/bin:$PATH", ""))
    output.line("")
    output.line("Try next:")
    for command, remark in steps:
        output.line(f"  {command:<52}{remark}".rstrip())
