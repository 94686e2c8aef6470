"""`headrace kafka`: the groups of a cluster that a connection of the catalog names.

The same work as `headrace groups`, for those who know a cluster by the name that SQL has for it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.admin import resets, topics
from headrace.admin.client import Cluster
from headrace.admin.resets import Scope
from headrace.cli import groups, output
from headrace.cli.arguments import (
    DryRunOption,
    PropertyOption,
    ToEarliestOption,
    ToLatestOption,
    ToOffsetOption,
    at_most_one,
    complete_group,
    complete_topic,
    pairs,
    place,
    reach,
)
from headrace.cli.output import Format, FormatOption
from headrace.cli.target import BootstrapOption
from headrace.errors import DefinitionError
from headrace.model.subscription import Subscription

app = typer.Typer(
    name="kafka",
    help="See and move consumer groups by the connections of the catalog.",
    no_args_is_help=True,
)


def register(root: typer.Typer) -> None:
    root.add_typer(app, rich_help_panel="Kafka")


def complete_connection(incomplete: str) -> list[str]:
    from headrace.catalog import Catalog
    from headrace.project import Project
    from headrace.shell.known import Known

    try:
        known = Known.of(Catalog.of(Project.find())).kafka
    except Exception:  # a shell that completes must never show an error
        return []
    return [name for name in known if name.startswith(incomplete)]


ConnectionOption = Annotated[
    str | None,
    typer.Option(
        "--connection",
        "-c",
        help="A connection of the catalog, made by CREATE CONNECTION, or a table.",
        autocompletion=complete_connection,
    ),
]


@app.command("list-groups")
def list_groups(
    context: typer.Context,
    connection: ConnectionOption = None,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """List the groups of a connection's cluster with state, type and coordinator."""
    cluster, _ = _cluster(context, connection, bootstrap_server, property)
    groups.emit_all(cluster, form)


@app.command("reset-offset", no_args_is_help=True)
def reset_offset(
    context: typer.Context,
    group: Annotated[
        str, typer.Option("--group", "-g", help="The group.", autocompletion=complete_group)
    ],
    to_earliest: ToEarliestOption = False,
    to_latest: ToLatestOption = False,
    to_offset: ToOffsetOption = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            "--to-time",
            "--to-timestamp",
            metavar="TIME",
            help="To the first record since: ISO 8601, milliseconds, or 15m, 2h, 7d ago.",
        ),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", "--by", help="So many records forward, or back if negative."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:PARTITION,…]",
            help="Only this topic or these partitions. Repeatable. Default: the topics that the "
            "connection names, or all of the group.",
            autocompletion=complete_topic,
        ),
    ] = None,
    connection: ConnectionOption = None,
    bootstrap_server: BootstrapOption = None,
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", "--execute", help="Do not ask.")] = False,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Move a group without active members to another place in its topics."""
    chosen = place(to_earliest, to_latest, to_offset, to_datetime, shift_by)
    scopes = [resets.parse_scope(text) for text in topic or ()]
    cluster, subscribed = _cluster(context, connection, bootstrap_server, property)
    if not scopes and subscribed is not None:
        scopes = _scopes(cluster, subscribed)
        output.note(f"topics of {connection}: {', '.join(scope.topic for scope in scopes)}")
    groups.move(cluster, group, chosen, scopes, dry_run, yes, form)


def _cluster(
    context: typer.Context,
    connection: str | None,
    server: str | None,
    properties: list[str] | None,
) -> tuple[Cluster, Subscription | None]:
    """The cluster, and the topics that the connection names, if it names some.

    A server in the environment is only what holds where nothing is named.
    """
    source = context.get_parameter_source("bootstrap_server")
    named_here = server if source and source.name == "COMMANDLINE" else None
    at_most_one(connection=connection, bootstrap_server=named_here)
    if connection is None:
        return reach(server, properties), None
    from headrace.catalog import Catalog
    from headrace.project import Project
    from headrace.shell.known import Known

    found = Known.of(Catalog.of(Project.find())).connection(connection)
    cluster = found.cluster(properties=pairs(properties, "--property"))
    named = found.subscription
    return cluster, named if named.topics or named.pattern else None


def _scopes(cluster: Cluster, subscribed: Subscription) -> list[Scope]:
    if subscribed.pattern is None:
        return [Scope(topic) for topic in subscribed.topics]
    found = [Scope(topic) for topic in topics.names(cluster) if subscribed.reads(topic)]
    if not found:
        raise DefinitionError(f"there is no topic among {subscribed}", hint="name one by --topic")
    return found
