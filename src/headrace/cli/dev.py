"""`headrace dev`: a real Kafka cluster in this folder, for development and tests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from headrace.cli import output
from headrace.cli.arguments import YesOption, pairs
from headrace.cli.jars import provide
from headrace.cli.output import Format, FormatOption
from headrace.cluster.dev import ClusterStatus, DevCluster
from headrace.cluster.layout import DEFAULT_PORT, MOST_BROKERS
from headrace.cluster.logs import Follower, tail
from headrace.project import Project

app = typer.Typer(
    name="dev",
    help="A real Kafka in this folder: start, stop and break it.",
    no_args_is_help=True,
)

NodeArgument = Annotated[int, typer.Argument(metavar="N", help="The node's number, from 1 on.")]

_FOLLOW_SECONDS = 0.3


def register(root: typer.Typer) -> None:
    root.add_typer(app, rich_help_panel="Development")


@app.command()
def up(
    brokers: Annotated[
        int | None,
        typer.Option(
            "--brokers",
            min=1,
            max=MOST_BROKERS,
            help="How many; 3 to try failover. Default: as this folder's cluster was made, or 1.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65_535 - MOST_BROKERS,
            help="The first broker's; the others follow. 0: any free ports. "
            f"Default: as before, or {DEFAULT_PORT}.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            "-c",
            metavar="NAME=VALUE",
            help="A broker setting for all nodes, such as num.partitions=8. Repeatable. It is kept "
            "until it is given anew; NAME= takes it back.",
        ),
    ] = None,
) -> None:
    """Start the cluster, or those of its nodes that do not run; prints its address."""
    begun = time.monotonic()
    settings = pairs(config, "--config")
    provide("kafka")
    with _working("looking around") as cluster:
        done = cluster.up(brokers, port, settings)
    if done.started:
        count = output.counted(len(done.started), "node")
        output.note(f"Kafka is up ({count} started in {time.monotonic() - begun:.1f} s) at")
    else:
        output.note("Kafka was running already, at")
    print(done.bootstrap, flush=True)
    _say_outdated(done.outdated)
    output.note(
        "Next: `headrace topics create orders`, `headrace dev status`; the end: `headrace dev down`"
    )


@app.command()
def down(
    delete: Annotated[bool, typer.Option("--delete", help="Remove its data as well.")] = False,
    yes: YesOption = False,
) -> None:
    """Stop the cluster. Its data stays, unless --delete is given."""
    project = Project.find()
    if not DevCluster(project).exists:
        output.note(f"There is no cluster in {project.root}; nothing to do")
        return
    if delete:
        output.confirm(f"Delete the cluster in {project.dev} with all its topics?", yes)
    with _working("stopping") as cluster:
        if delete:
            cluster.delete()
        elif not cluster.down():
            output.note("Kafka was not running; its data is kept")
            return
    if delete:
        output.note("Kafka is down, and its data is gone")
    else:
        output.note("Kafka is down; its data is kept. Start it again with `headrace dev up`")


@app.command()
def status(form: FormatOption = Format.TABLE) -> None:
    """Show the nodes: running, starting, stopped or crashed, and where they log."""
    found = DevCluster(Project.find()).status()
    if form is not Format.TABLE:
        output.emit_value(asdict(found) if found else None, form)
    elif found is None:
        output.note("There is no cluster in this folder; make one with `headrace dev up`")
    else:
        _show(found)


def _show(status: ClusterStatus) -> None:
    rows = [{**asdict(node), "log": _short(node.log)} for node in status.nodes]
    output.emit_rows(rows, ["node", "state", "address", "pid", "log"], Format.TABLE)
    if status.config:
        output.note(f"Settings: {' '.join(f'{k}={v}' for k, v in status.config.items())}")
    _say_outdated([node.node for node in status.nodes if node.outdated])
    if any(node.pid is None for node in status.nodes):
        output.note("Start what does not run with `headrace dev up`")


def _short(path: str) -> str:
    """A path as seen from the current folder, if it is below it."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def _say_outdated(numbers: Sequence[int]) -> None:
    if numbers:
        named = ", ".join(map(str, numbers))
        output.warn(
            f"node {named} still runs with the settings from before; the new ones apply when it is "
            "started again: `headrace dev stop N` and `headrace dev start N`, or `headrace dev "
            "down` and `headrace dev up`"
        )


@app.command(no_args_is_help=True)
def start(number: NodeArgument) -> None:
    """Start one node."""
    provide("kafka")
    with _working(f"starting node {number}") as cluster:
        started = cluster.start(number)
        states = {node.node: node.state for node in _status(cluster).nodes}
    if not started:
        output.note(f"Node {number} was running already")
        return
    output.note(f"Node {number} is {states[number]}")
    if states[number] != "running":
        output.note("It answers once more than half of the controllers run: start another node")


@app.command(no_args_is_help=True)
def stop(number: NodeArgument) -> None:
    """Stop one node as an operator would: it hands over its work first."""
    with _working(f"stopping node {number}") as cluster:
        stopped = cluster.stop(number)
    _say_ended(number, stopped, "stopped")


@app.command(no_args_is_help=True)
def kill(number: NodeArgument) -> None:
    """End one node at once, as a crash would (kill -9)."""
    with _working(f"killing node {number}") as cluster:
        killed = cluster.kill(number)
    _say_ended(number, killed, "killed")


def _say_ended(number: int, ran: bool, how: str) -> None:
    if not ran:
        output.note(f"Node {number} was not running")
        return
    output.note(f"Node {number} was {how}. Start it again with `headrace dev start {number}`")


@app.command()
def logs(
    number: Annotated[
        int | None, typer.Argument(metavar="[N]", help="One node's. Default: all nodes'.")
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many, each.")] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is added, until Ctrl-C.")
    ] = False,
) -> None:
    """Print the end of the nodes' logs."""
    cluster = DevCluster(Project.find())
    numbers = [number] if number is not None else cluster.numbers()
    files = {each: cluster.log(each) for each in numbers}
    followers = {each: Follower(file) for each, file in files.items()}
    for each, file in files.items():
        _print_lines(each, tail(file, lines), named=len(files) > 1)
    while follow:
        for each, follower in followers.items():
            _print_lines(each, follower.news(), named=len(files) > 1)
        time.sleep(_FOLLOW_SECONDS)


def _print_lines(number: int, lines: list[str], named: bool) -> None:
    for line in lines:
        print(f"{number}| {line}" if named else line)


def _status(cluster: DevCluster) -> ClusterStatus:
    found = cluster.status()
    assert found is not None, "a cluster that was just started is there"
    return found


@contextmanager
def _working(first: str) -> Iterator[DevCluster]:
    """This folder's cluster, with a line on the screen that says what it is doing."""
    with output.stderr.status(escape(first)) as line:
        yield DevCluster(Project.find(), on_step=lambda step: line.update(escape(step)))
