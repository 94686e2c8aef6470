"""`headrace groups`: list and describe consumer groups, move their positions, delete them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.admin import groups, offset_deletion, places, resets, topics
from headrace.admin.client import Cluster
from headrace.admin.groups import Group, Position
from headrace.cli import output
from headrace.cli.arguments import (
    ByOption,
    DryRunOption,
    GroupArgument,
    GroupsArgument,
    PropertyOption,
    ToEarliestOption,
    ToLatestOption,
    ToOffsetOption,
    ToTimeOption,
    YesOption,
    complete_topic,
    exactly_one,
    place,
    reach,
)
from headrace.cli.output import Format, FormatOption, counted
from headrace.cli.target import BootstrapOption

app = typer.Typer(
    name="groups", help="See and move the positions of consumer groups.", no_args_is_help=True
)


def register(root: typer.Typer) -> None:
    root.add_typer(app, rich_help_panel="Kafka")


@app.command("list")
def list_groups(
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """List groups with their state, type and coordinator."""
    emit_all(reach(bootstrap_server, property), form)


@app.command(no_args_is_help=True)
def describe(
    group: GroupArgument,
    state: Annotated[
        bool, typer.Option("--state", help="The group as a whole instead of its partitions.")
    ] = False,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show where a group stands: position, end, lag and reader of each partition."""
    cluster = reach(bootstrap_server, property)
    if state:
        _emit_states([_state(groups.describe(cluster, group))], form)
        return
    found = groups.positions(cluster, group)
    columns = ["topic", "partition", "current", "end", "lag", "member", "host", "client"]
    output.emit_rows([_position(each) for each in found], columns, form)
    if not found:
        output.note(f"group {group} has no positions")
    if not any(each.member for each in found):
        output.note(f"group {group} has no active members")


@app.command(no_args_is_help=True)
def reset(
    group: GroupArgument,
    to_earliest: ToEarliestOption = False,
    to_latest: ToLatestOption = False,
    to_offset: ToOffsetOption = None,
    to_time: ToTimeOption = None,
    by: ByOption = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            exists=True,
            dir_okay=False,
            help="To a plan kept with `--dry-run -o json`, or lines of topic,partition,offset.",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:PARTITION,…]",
            help="Only this topic or these partitions. Repeatable. Default: all of the group.",
            autocompletion=complete_topic,
        ),
    ] = None,
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", "--execute", help="Do not ask.")] = False,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Move a group without active members to another place in its topics."""
    exactly_one(
        to_earliest=to_earliest or None,
        to_latest=to_latest or None,
        to_offset=to_offset,
        to_time=to_time,
        by=by,
        from_file=from_file,
    )
    if from_file is None:
        chosen = place(to_earliest, to_latest, to_offset, to_time, by)
    else:
        chosen = places.Listed(resets.parse_plan(from_file.read_text(), str(from_file)))
    scopes = [resets.parse_scope(text) for text in topic or ()]
    move(reach(bootstrap_server, property), group, chosen, scopes, dry_run, yes, form)


def move(
    cluster: Cluster,
    group: str,
    chosen: places.Place,
    scopes: Sequence[resets.Scope],
    dry_run: bool,
    yes: bool,
    form: Format,
) -> None:
    """Show the plan; ask, and do it."""
    moves = resets.plan(cluster, group, chosen, scopes)
    rows = [{**asdict(move), "by": move.by} for move in moves]
    output.emit_rows(rows, ["topic", "partition", "old", "new", "by"], form)
    if dry_run or not moves:
        output.note("nothing was moved" if moves else "there is nothing to move")
        return
    output.confirm(
        f"Move group {group} to {'this offset' if len(moves) == 1 else 'these offsets'}?", yes
    )
    resets.execute(cluster, group, moves)
    output.note(f"group {group} moved in {counted(len(moves), 'partition')}")


@app.command(no_args_is_help=True)
def delete(
    names: GroupsArgument,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            help="Delete only the positions in this topic. Repeatable.",
            autocompletion=complete_topic,
        ),
    ] = None,
    yes: YesOption = False,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
) -> None:
    """Delete groups without active members, or only their positions in some topics."""
    cluster = reach(bootstrap_server, property)
    for name in names:
        group = groups.describe(cluster, name)
        held = len(groups.committed(cluster, name))
        output.note(f"group {name}: {group.state}, positions in {counted(held, 'partition')}")
    if topic:
        _delete_offsets(cluster, names, topic, yes)
        return
    output.confirm(f"Delete {counted(len(names), 'group')} with all positions?", yes)
    groups.delete(cluster, names)
    output.note(f"deleted: {', '.join(names)}")


def _delete_offsets(cluster: Cluster, names: list[str], chosen: list[str], yes: bool) -> None:
    for name in chosen:
        topics.describe(cluster, name)
    output.confirm(f"Delete the positions of {', '.join(names)} in {', '.join(chosen)}?", yes)
    for name in names:
        held = [key for key in groups.committed(cluster, name) if key[0] in chosen]
        if held:
            offset_deletion.delete_offsets(cluster, name, held)
        output.note(f"group {name}: {counted(len(held), 'position')} deleted")


def emit_all(cluster: Cluster, form: Format) -> None:
    """All groups of a cluster, each as a whole."""
    found = groups.list_all(cluster)
    _emit_states([_state(group) for group in found], form)
    if not found:
        output.note("there are no groups yet; a reader or a pipeline makes its own")


def _emit_states(rows: list[dict[str, Any]], form: Format) -> None:
    output.emit_rows(rows, ["group", "state", "type", "coordinator", "members"], form)


def _state(group: Group) -> dict[str, Any]:
    return {
        "group": group.name,
        "state": group.state,
        "type": group.type,
        "coordinator": group.coordinator,
        "members": len(group.members),
    }


def _position(position: Position) -> dict[str, Any]:
    member = position.member
    return {
        "topic": position.topic,
        "partition": position.partition,
        "current": position.current,
        "end": position.end,
        "lag": position.lag,
        "member": member and member.id,
        "host": member and member.host,
        "client": member and member.client,
    }
