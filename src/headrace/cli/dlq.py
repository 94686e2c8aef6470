"""`headrace dlq`: see dead letters and why they are there, and send them again."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.admin import letters_moved, letters_reading, times, topics
from headrace.admin.client import Cluster, connect
from headrace.admin.letters import Letter, Selection
from headrace.admin.letters_reading import Tally, tallies
from headrace.cli import letter_lines, output
from headrace.cli.arguments import DryRunOption, PropertyOption, YesOption, pairs, reach
from headrace.cli.definitions import all_definitions
from headrace.cli.output import Format, FormatOption, counted
from headrace.cli.target import BootstrapOption, bootstrap
from headrace.errors import DefinitionError, LettersLeft

if TYPE_CHECKING:
    from headrace.api import Definition
    from headrace.runtime.letter_expressions import Expressions

app = typer.Typer(name="dlq", help="See dead letters and send them again.", no_args_is_help=True)


class Time(StrEnum):
    ORIGINAL = "original"
    NOW = "now"


def complete_letters(ctx: typer.Context, incomplete: str) -> list[str]:
    from headrace.cli.arguments import complete_topic

    return [name for name in complete_topic(ctx, incomplete) if name.endswith(".dlq")]


TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC|PIPELINE",
        help="A dead-letter topic, or a pipeline that writes to one: a file, or a name of the "
        "catalog.",
        autocompletion=complete_letters,
    ),
]
ErrorOption = Annotated[
    list[str] | None,
    typer.Option("--error", "-e", metavar="CODE", help="Only with this code. Repeatable."),
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="TOPIC", help="Only from this topic. Repeatable."),
]
PartitionOption = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="Only from this partition there. Repeatable."),
]
OffsetsOption = Annotated[
    str | None,
    typer.Option("--offsets", metavar="FIRST-LAST", help="Only from these offsets there."),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Only letters written since: ISO 8601, milliseconds, or 15m, 2h, 7d ago.",
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only letters written before.")
]
ContainsOption = Annotated[
    str | None,
    typer.Option("--contains", metavar="TEXT", help="Only with this in key, value or reason."),
]
LetterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--letter",
        metavar="PARTITION@OFFSET",
        help="Only this letter, by its place in the dead-letter topic. Repeatable.",
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        help="Only where this holds: `json:amount::double > 100 AND attempts = 0`. Starts Spark.",
    ),
]


def register(root: typer.Typer) -> None:
    root.add_typer(app, rich_help_panel="Kafka")


@app.command("list")
def list_topics(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC|PIPELINE]",
            help="A dead-letter topic, a pipeline file or a pipeline of the catalog. Default: all "
            "topics that are called like one.",
            autocompletion=complete_letters,
        ),
    ] = None,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """List dead-letter topics: how many letters, from where, why, and how many were redriven."""
    named = target is not None
    found = _topics(target, bootstrap_server, property)
    rows = [_tally(each) for cluster, name in found for each in tallies(cluster, name, named)]
    columns = ["topic", "pipeline", "source", "error", "letters", "redriven", "oldest", "newest"]
    output.emit_rows(rows, columns, form)
    if not rows:
        output.note("there are no dead-letter topics; one of another name can be named")


@app.command(no_args_is_help=True)
def show(
    target: TargetArgument,
    error: ErrorOption = None,
    source: SourceOption = None,
    partition: PartitionOption = None,
    offsets: OffsetsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    contains: ContainsOption = None,
    letter: LetterOption = None,
    where: WhereOption = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="How many letters at most.")
    ] = 20,
    newest: Annotated[
        bool, typer.Option("--newest", help="The newest ones instead of the oldest.")
    ] = False,
    redriven: Annotated[
        bool, typer.Option("--redriven", help="Also those that were redriven.")
    ] = False,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show letters with their reason, origin, key and value; those that still wait."""
    selection = _selection(error, source, partition, offsets, since, until, contains, letter)
    with _expressions(where, ()) as expressions:
        cluster, topic = _topic(target, bootstrap_server, property)
        moved = letters_moved.read(cluster, topics.describe(cluster, topic))
        waiting = (
            each
            for each in letters_reading.letters(cluster, topic, selection)
            if redriven or each.at not in moved
        )
        chosen = _chosen(waiting, expressions)
        shown = list(deque(chosen, maxlen=limit) if newest else islice(chosen, limit))
        more = not newest and next(chosen, None) is not None
    letter_lines.emit(shown, moved, form)
    output.note(
        f"{counted(len(shown), 'letter')} of {topic}"
        + ("; there are more, which --limit shows" if more else "")
    )


@app.command(no_args_is_help=True)
def redrive(
    target: TargetArgument,
    error: ErrorOption = None,
    source: SourceOption = None,
    partition: PartitionOption = None,
    offsets: OffsetsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    contains: ContainsOption = None,
    letter: LetterOption = None,
    where: WhereOption = None,
    patch: Annotated[
        list[str] | None,
        typer.Option(
            "--patch",
            metavar="WHAT=SQL",
            help="Change it first: `value = …`, `key = …`, or a field, `json:amount = 0`. "
            "Repeatable. Starts Spark.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TOPIC", help="To this topic. Default: where they came from."),
    ] = None,
    max_attempts: Annotated[
        int,
        typer.Option("--max-attempts", min=1, help="Leave those that were sent again so often."),
    ] = 3,
    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="N/s", help="At most so many: 500/s, 30/m."),
    ] = None,
    timestamp: Annotated[
        Time, typer.Option("--timestamp", help="The time that the records get.")
    ] = Time.ORIGINAL,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Send letters again, each exactly once; a second redrive moves none of them again."""
    from headrace.runtime import redrive as moving

    selection = _selection(error, source, partition, offsets, since, until, contains, letter)
    per_second = None if rate is None else parse_rate(rate)
    with _expressions(where, patch or ()) as expressions:
        cluster, topic = _topic(target, bootstrap_server, property)
        order = moving.Order(
            topic, selection, to, max_attempts, per_second, timestamp is Time.ORIGINAL
        )
        if dry_run or not yes:
            planned = moving.survey(cluster, order, expressions)
            if dry_run or not planned.moved:
                letter_lines.emit_outcome(planned, form)
                output.note("nothing was moved" if planned.moved else "there is nothing to move")
                return
            letter_lines.note_left(planned)
            goal = ", ".join(planned.moved)
            output.confirm(
                f"Move {counted(planned.moved.total(), 'letter')} of {topic} to {goal}?", yes
            )
        with letter_lines.progress() as listener:
            outcome = moving.redrive(cluster, order, expressions, listener)
    letter_lines.emit_outcome(outcome, form)
    if outcome.first_failure:
        raise LettersLeft(topic, outcome.failed, str(outcome.first_failure))


def parse_rate(text: str) -> float:
    """Letters a second, of `500/s`, `30/m`, `1000/h` or a number."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?", text.strip())
    if not found or float(found[1]) == 0:
        raise DefinitionError(f"--rate `{text}` is not a rate", hint="write 500/s or 30/m")
    return float(found[1]) / {"s": 1, "m": 60, "h": 3600}[found[2] or "s"]


def _selection(
    error: list[str] | None,
    source: list[str] | None,
    partition: list[int] | None,
    offsets: str | None,
    since: str | None,
    until: str | None,
    contains: str | None,
    letter: list[str] | None,
) -> Selection:
    return Selection(
        frozenset(error or ()),
        frozenset(source or ()),
        frozenset(partition or ()),
        None if offsets is None else _offsets(offsets),
        None if since is None else times.parse(since),
        None if until is None else times.parse(until),
        contains,
        frozenset(map(_place, letter or ())),
    )


def _offsets(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if not found or (found[2] and int(found[2]) < int(found[1])):
        raise DefinitionError(f"--offsets `{text}` is not a range", hint="write 100-200, or 100")
    return int(found[1]), int(found[2] or found[1])


def _place(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)@(\d+)", text)
    if not found:
        raise DefinitionError(f"--letter `{text}` is not a place", hint="write 0@12")
    return int(found[1]), int(found[2])


# Which topics


def _topics(
    target: str | None, server: str | None, properties: Sequence[str] | None
) -> list[tuple[Cluster, str]]:
    definitions = [] if target is None else all_definitions(target)
    if target is not None and definitions:
        return _of_pipelines(target, definitions, properties)
    cluster = reach(server, properties)
    return [
        (cluster, name) for name in ([target] if target else letters_reading.candidates(cluster))
    ]


def _topic(
    target: str, server: str | None, properties: Sequence[str] | None
) -> tuple[Cluster, str]:
    found = _topics(target, server, properties)
    if len(found) > 1:
        names = ", ".join(name for _, name in found)
        raise DefinitionError(
            f"{target} has several dead-letter topics", hint=f"name one of {names}"
        )
    return found[0]


def _of_pipelines(
    target: str, definitions: Sequence[Definition], properties: Sequence[str] | None
) -> list[tuple[Cluster, str]]:
    """The topics that the sources of pipelines name, on the clusters that they name."""
    asides = [query.aside for each in definitions for query in each.plan.queries]
    named = {aside.topic: aside.source.bootstrap for aside in asides if aside and aside.topic}
    if not named:
        raise DefinitionError(
            f"no source of {target} writes dead letters",
            hint="name a topic, or set `bad_data: dlq`",
        )
    given = pairs(properties, "--property")
    clusters = {each: connect(each or bootstrap(None), given) for each in set(named.values())}
    return [(clusters[own], topic) for topic, own in named.items()]


# Letters


def _tally(tally: Tally) -> dict[str, Any]:
    return {
        **asdict(tally),
        "oldest": letter_lines.when(tally.oldest),
        "newest": letter_lines.when(tally.newest),
    }


def _chosen(found: Iterator[Letter], expressions: Expressions | None) -> Iterator[Letter]:
    """Those that `--where` admits; where it fails, that is said."""
    if expressions is None:
        yield from found
        return
    for load in letters_reading.loads(found):
        for letter, chosen in zip(load, expressions.chosen(load), strict=True):
            if chosen is True:
                yield letter
            elif chosen is not False:
                output.warn(f"{letter.place}: --where fails: {chosen.reason}")


@contextmanager
def _expressions(where: str | None, patch: Sequence[str]) -> Iterator[Expressions | None]:
    """Ready to be asked, with Spark behind them; None, and no Spark, when there are none."""
    from headrace.cli.main import debugging
    from headrace.project import Project
    from headrace.runtime import letter_expressions as sql

    condition = None if where is None else sql.parse_where(where)
    patches = sql.parse_patches(patch)
    if condition is None and not patches:
        yield None
        return
    output.note("starting Spark …")
    project = Project.find()
    with sql.spark_session(project.ensure(project.states) / "dlq.log", debugging()) as spark:
        yield sql.Expressions(spark, condition, patches)
