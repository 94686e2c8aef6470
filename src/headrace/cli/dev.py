"""`headrace dev`: a real Kafka, and a schema registry, in this folder for development and tests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from headrace.cli import output
from headrace.cli.arguments import YesOption, pairs
from headrace.cli.jars import provide
from headrace.cli.output import Format, FormatOption
from headrace.cluster.daemon import State
from headrace.cluster.dev import ClusterStatus, DevCluster, Up, Which
from headrace.cluster.layout import DEFAULT_PORT, DEFAULT_REGISTRY_PORT, MOST_BROKERS
from headrace.cluster.logs import Follower, tail
from headrace.errors import DefinitionError
from headrace.project import Project

app = typer.Typer(
    name="dev",
    help="A real Kafka in this folder: start, stop and break it.",
    no_args_is_help=True,
)


def _which(text: str) -> Which:
    if text == "registry":
        return "registry"
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a node's number nor `registry`")
    return int(text)


MemberArgument = Annotated[
    Any,
    typer.Argument(metavar="N", parser=_which, help="A node's number, from 1 on, or `registry`."),
]

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
    registry: Annotated[
        bool | None,
        typer.Option(
            "--registry/--no-registry",
            help="A schema registry beside it, with the API of Confluent's. It is kept until "
            "--no-registry stops it; its schemas stay. Default: as before, or none.",
        ),
    ] = None,
    registry_port: Annotated[
        int | None,
        typer.Option(
            "--registry-port",
            min=0,
            max=65_535,
            help="The registry's; says --registry as well. 0: any free one. "
            f"Default: as before, or {DEFAULT_REGISTRY_PORT}.",
        ),
    ] = None,
) -> None:
    """Start the cluster, or what of it does not run; prints its address."""
    begun = time.monotonic()
    settings = pairs(config, "--config")
    if registry is False and registry_port is not None:
        raise DefinitionError("--no-registry and --registry-port exclude each other", hint="choose")
    provide("kafka")
    if registry_port is not None or _has(registry):
        provide("registry")
    with _working("looking around") as cluster:
        done = cluster.up(brokers, port, settings, registry=registry, registry_port=registry_port)
    _say_up(done, time.monotonic() - begun)


def _has(registry: bool | None) -> bool:
    """Whether there will be a registry; unsaid, whether there is one."""
    return DevCluster(Project.find()).registry is not None if registry is None else registry


def _say_up(done: Up, seconds: float) -> None:
    if done.started:
        count = output.counted(len(done.started), "node")
        output.note(f"Kafka is up ({count} started in {seconds:.1f} s) at")
    else:
        output.note("Kafka was running already, at")
    print(done.bootstrap, flush=True)
    _say_outdated(done.outdated)
    if done.registry:
        how = "is up" if done.registry_started else "was running already"
        output.note(f"The schema registry {how}, at {done.registry}; see `headrace schemas`")
    output.note(
        "Next: `headrace topics create orders`, `headrace dev status`; the end: `headrace dev down`"
    )


@app.command()
def down(
    delete: Annotated[bool, typer.Option("--delete", help="Remove its data as well.")] = False,
    yes: YesOption = False,
) -> None:
    """Stop the cluster, its registry included. The data stays, unless --delete is given."""
    project = Project.find()
    if not DevCluster(project).exists:
        output.note(f"There is no cluster in {project.root}; nothing to do")
        return
    if delete:
        what = "topics and schemas" if DevCluster(project).registry else "topics"
        output.confirm(f"Delete the cluster in {project.dev} with all its {what}?", yes)
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
    if (registry := status.registry) is not None:
        named = {"node": "registry", "address": registry.url, "log": _short(registry.log)}
        rows.append({**asdict(registry), **named})
    output.emit_rows(rows, ["node", "state", "address", "pid", "log"], Format.TABLE)
    if status.config:
        output.note(f"Settings: {' '.join(f'{k}={v}' for k, v in status.config.items())}")
    _say_outdated([node.node for node in status.nodes if node.outdated])
    if any(row["pid"] is None for row in rows):
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
def start(which: MemberArgument) -> None:
    """Start one node, or the registry."""
    provide("registry" if which == "registry" else "kafka")
    with _working(f"starting {_name(which)}") as cluster:
        started = cluster.start(which)
        state = _states(cluster)[which]
    if not started:
        output.note(f"{_name(which).capitalize()} was running already")
        return
    output.note(f"{_name(which).capitalize()} is {state}")
    if state != "running":
        output.note("It answers once more than half of the controllers run: start another node")


@app.command(no_args_is_help=True)
def stop(which: MemberArgument) -> None:
    """Stop one node, or the registry, as an operator would: a node hands over its work first."""
    with _working(f"stopping {_name(which)}") as cluster:
        stopped = cluster.stop(which)
    _say_ended(which, stopped, "stopped")


@app.command(no_args_is_help=True)
def kill(which: MemberArgument) -> None:
    """End one node, or the registry, at once, as a crash would (kill -9)."""
    with _working(f"killing {_name(which)}") as cluster:
        killed = cluster.kill(which)
    _say_ended(which, killed, "killed")


def _name(which: Which) -> str:
    return "the registry" if which == "registry" else f"node {which}"


def _say_ended(which: Which, ran: bool, how: str) -> None:
    name = _name(which).capitalize()
    if not ran:
        output.note(f"{name} was not running")
        return
    output.note(f"{name} was {how}. Start it again with `headrace dev start {which}`")


@app.command()
def logs(
    which: Annotated[
        Any,
        typer.Argument(
            metavar="[N]", parser=_which, help="One node's, or `registry`. Default: all of them."
        ),
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many, each.")] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is added, until Ctrl-C.")
    ] = False,
) -> None:
    """Print the end of the logs of nodes and registry."""
    cluster = DevCluster(Project.find())
    members = [which] if which is not None else cluster.members()
    files = {each: cluster.log(each) for each in members}
    followers = {each: Follower(file) for each, file in files.items()}
    for each, file in files.items():
        _print_lines(each, tail(file, lines), named=len(files) > 1)
    while follow:
        for each, follower in followers.items():
            _print_lines(each, follower.news(), named=len(files) > 1)
        time.sleep(_FOLLOW_SECONDS)


def _print_lines(which: Which, lines: list[str], named: bool) -> None:
    for line in lines:
        print(f"{which}| {line}" if named else line)


def _states(cluster: DevCluster) -> dict[Which, State]:
    found = cluster.status()
    assert found is not None, "a cluster that was just started is there"
    states: dict[Which, State] = {node.node: node.state for node in found.nodes}
    return {**states, "registry": found.registry.state} if found.registry else states


@contextmanager
def _working(first: str) -> Iterator[DevCluster]:
    """This folder's cluster, with a line on the screen that says what it is doing."""
    with output.stderr.status(escape(first)) as line:
        yield DevCluster(Project.find(), on_step=lambda step: line.update(escape(step)))
