"""`headrace offsets`: where a pipeline stands, and moving it to replay or to skip records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.admin import resets
from headrace.cli import output
from headrace.cli.arguments import (
    ByOption,
    DryRunOption,
    ToEarliestOption,
    ToLatestOption,
    ToOffsetOption,
    ToTimeOption,
    YesOption,
    place,
)
from headrace.cli.definitions import FileArgument, PipelineOption, find_definition
from headrace.cli.output import Format, FormatOption, counted
from headrace.cli.pipelines import MasterOption
from headrace.errors import DefinitionError

if TYPE_CHECKING:
    from headrace.api import Definition
    from headrace.runtime.standing import PositionMove, StoredPositions

app = typer.Typer(
    name="offsets", help="See and move the positions of a pipeline.", no_args_is_help=True
)

_STANDING = (*("source", "topic", "partition", "position", "max_offset", "earliest", "end", "lag"),)


def register(root: typer.Typer) -> None:
    root.add_typer(app, rich_help_panel="Pipelines")


@app.command(no_args_is_help=True)
def show(
    file: FileArgument,
    pipeline: PipelineOption = None,
    master: MasterOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show how far a pipeline has read each partition, and what waits there."""
    definition = find_definition(file, pipeline)
    shared = definition.plan.shared
    cut_off = None
    if shared is not None:
        found = definition.standing()
        origin = f"group {shared.group}"
    elif not definition.plan.in_batches:
        found = definition.standing()
        origin = f"Spark's checkpoints in {definition.state.folder / 'checkpoint'}"
    else:
        with _stored(definition, master) as stored:
            found, cut_off = stored.show(), stored.cut_off()
            origin = ", ".join(stored.places)
    rows = [{**asdict(each), "max_offset": each.max_offset, "lag": each.lag} for each in found]
    output.emit_rows(rows, _STANDING, form)
    output.note(f"from {origin}")
    if cut_off is not None:
        from headrace.runtime.recovery import covered

        output.warn(f"run {cut_off.run} was cut off; the next one begins with {covered(cut_off)}")


@app.command(no_args_is_help=True)
def edit(
    file: FileArgument,
    pipeline: PipelineOption = None,
    to_earliest: ToEarliestOption = False,
    to_latest: ToLatestOption = False,
    to_offset: ToOffsetOption = None,
    to_time: ToTimeOption = None,
    by: ByOption = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "--partition",
            "-t",
            metavar="TOPIC[:PARTITION,…]",
            help="Only this topic or these partitions. Repeatable. Default: all.",
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="Only this source. Default: all.")
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    master: MasterOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Move a batch pipeline to another place in its topics: back to replay, forward to skip."""
    chosen = place(to_earliest, to_latest, to_offset, to_time, by)
    scopes = [resets.parse_scope(text) for text in topic or ()]
    definition = find_definition(file, pipeline)
    _refuse_stream(definition)
    with _stored(definition, master) as stored:
        moves = stored.moves(chosen, scopes, source)
        if _agreed(definition, stored, moves, dry_run, yes, form):
            stored.move(moves)
            output.note(f"{definition.pipeline.name} moved in {counted(len(moves), 'partition')}")


@app.command(no_args_is_help=True)
def rebuild(
    file: FileArgument,
    pipeline: PipelineOption = None,
    as_of: Annotated[
        int | None,
        typer.Option("--as-of", metavar="VERSION", help="As of this version of the sink's table."),
    ] = None,
    sink: Annotated[
        str | None,
        typer.Option(
            "--sink", help="The Delta sink to look at. Default: the one that is furthest behind."
        ),
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    master: MasterOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Make the table of offsets anew from what the history of a Delta sink says of its runs."""
    definition = find_definition(file, pipeline)
    _refuse_stream(definition)
    with _stored(definition, master) as stored:
        found, moves = stored.rebuilt(sink, as_of)
        output.note(f"run {found.note.run} wrote version {found.version} of the sink's table")
        if _agreed(definition, stored, moves, dry_run, yes, form):
            stored.move(moves, found.note)
            output.note(f"{definition.pipeline.name} stands as after run {found.note.run}")


def _agreed(
    definition: Definition,
    stored: StoredPositions,
    moves: Sequence[PositionMove],
    dry_run: bool,
    yes: bool,
    form: Format,
) -> bool:
    """Show the moves and ask; whether they shall be made."""
    columns = ["source", "topic", "partition", "old", "new"]
    output.emit_rows([asdict(move) for move in moves], columns, form)
    if dry_run or not moves:
        output.note("nothing was moved" if moves else "there is nothing to move")
        return False
    cut_off = stored.cut_off()
    if cut_off is not None:
        output.warn(f"run {cut_off.run} was cut off, and will not be finished after this")
    output.confirm(f"Move {definition.pipeline.name} in {', '.join(stored.places)}?", yes)
    return True


def _refuse_stream(definition: Definition) -> None:
    shared = definition.plan.shared
    if shared is not None:
        raise DefinitionError(
            f"{definition.pipeline.name} shares its partitions, and stands where the group says",
            hint=f"end the pipelines that share it, and use `headrace groups reset {shared.group}`",
        )
    if not definition.plan.in_batches:
        raise DefinitionError(
            f"{definition.pipeline.name} is a stream, and stands where Spark's checkpoint says",
            hint="give its source an `offset:` and run it, or run it with --reset-offsets",
        )


@contextmanager
def _stored(definition: Definition, master: str | None) -> Iterator[StoredPositions]:
    from headrace.cli.main import debugging

    output.note("starting Spark …")
    with definition.offsets(master=master, debug=debugging()) as stored:
        yield stored
