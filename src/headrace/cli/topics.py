"""`headrace topics`: list, describe, create, alter and delete topics, and show their offsets."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from headrace.admin import offsets as partition_offsets
from headrace.admin import times, topic_names, topic_settings, topics
from headrace.admin.client import Cluster
from headrace.admin.topic_settings import Setting
from headrace.admin.topics import Topic
from headrace.cli import output
from headrace.cli.arguments import (
    PropertyOption,
    TopicArgument,
    TopicsArgument,
    YesOption,
    pairs,
    reach,
)
from headrace.cli.output import Format, FormatOption, counted
from headrace.cli.target import BootstrapOption
from headrace.errors import DefinitionError, TopicAlreadyExists

app = typer.Typer(name="topics", help="Make, see and change topics.", no_args_is_help=True)

PartitionsOption = Annotated[
    int | None, typer.Option("--partitions", "-p", min=1, help="How many partitions.")
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A topic setting. Repeatable."),
]


def register(root: typer.Typer) -> None:
    root.add_typer(app, rich_help_panel="Kafka")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Kafka's own topics too.")] = False,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """List topics."""
    found = topics.list_all(reach(bootstrap_server, property), internal)
    rows = [_summary(topic) for topic in found]
    output.emit_rows(rows, ["name", "partitions", "replication", "under_replicated"], form)
    if not found:
        output.note("there are no topics yet; make one with `headrace topics create NAME`")


@app.command(no_args_is_help=True)
def describe(
    names: TopicsArgument,
    all_configs: Annotated[
        bool, typer.Option("--all-configs", help="Every setting, not only the topic's own.")
    ] = False,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show topics: their partitions with leader, replicas and in-sync replicas, and settings."""
    cluster = reach(bootstrap_server, property)
    found = [
        (topics.describe(cluster, name), _settings(cluster, name, all_configs)) for name in names
    ]
    if form is not Format.TABLE:
        output.emit_value([_whole(*each) for each in found], form)
        return
    for topic, settings in found:
        _show(topic, settings)


@app.command(no_args_is_help=True)
def offsets(
    topic: TopicArgument,
    at_time: Annotated[
        str | None,
        typer.Option("--at-time", metavar="TIME", help="Also the first offset since this time."),
    ] = None,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show the offsets of a topic: the earliest, the end and, if asked, those at a time."""
    moment = None if at_time is None else times.parse(at_time)
    cluster = reach(bootstrap_server, property)
    keys = topics.keys(cluster, topic)
    low, high = partition_offsets.earliest(cluster, keys), partition_offsets.latest(cluster, keys)
    columns = {"earliest": low, "latest": high}
    if moment is not None:
        columns["at_time"] = partition_offsets.at_time(cluster, keys, moment)
    rows = [
        {"partition": key[1], **{name: found.get(key) for name, found in columns.items()}}
        for key in keys
    ]
    output.emit_rows(rows, ["partition", *columns], form)


@app.command(no_args_is_help=True)
def create(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The new topic.")],
    partitions: PartitionsOption = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", min=1, help="How many copies of each record."),
    ] = None,
    config: ConfigOption = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave an existing topic as it is.")
    ] = False,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
) -> None:
    """Make a topic; counts that are not given are the brokers' defaults."""
    settings = pairs(config, "--config")
    cluster = reach(bootstrap_server, property)
    existing = topics.names(cluster)
    try:
        made = topics.create(cluster, name, partitions, replication_factor, settings)
    except TopicAlreadyExists:
        if not if_not_exists:
            raise
        output.note(f"topic {name} exists already")
        return
    risk = topic_names.risk(name, existing)
    if risk:
        output.warn(risk)
    output.note(
        f"topic {name} made: {counted(len(made.partitions), 'partition')}, "
        f"replication factor {made.replication}"
    )


@app.command(no_args_is_help=True)
def alter(
    topic: TopicArgument,
    partitions: PartitionsOption = None,
    config: ConfigOption = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="A setting to take back. Repeatable."),
    ] = None,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
) -> None:
    """Raise a topic's partition count, or change its settings; all is checked before any of it."""
    assign, remove = pairs(config, "--config"), delete_config or []
    if partitions is None and not assign and not remove:
        raise DefinitionError(
            f"nothing to change in topic {topic}",
            hint="name --partitions, --config or --delete-config",
        )
    cluster = reach(bootstrap_server, property)
    for validate_only in (True, False):
        if assign or remove:
            topic_settings.change(cluster, topic, assign, remove, validate_only)
        if partitions is not None:
            before = topics.grow(cluster, topic, partitions, validate_only)
    if partitions is not None:
        output.warn(
            f"topic {topic} went from {before} to {partitions} partitions: most keys now go to "
            "another partition than before, and no old record moves, so the order of a key's "
            "records holds only from here on"
        )
    for name, value in assign.items():
        output.note(f"topic {topic}: {name}={value}")
    for name in remove:
        output.note(f"topic {topic}: {name} is the brokers' default again")


@app.command(no_args_is_help=True)
def delete(
    names: TopicsArgument,
    yes: YesOption = False,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
) -> None:
    """Delete topics with all their records."""
    cluster = reach(bootstrap_server, property)
    for name in names:
        output.note(f"topic {name}: {_size(cluster, name)}")
    output.confirm(f"Delete {counted(len(names), 'topic')} with all records?", yes)
    topics.delete(cluster, names)
    output.note(f"deleted: {', '.join(names)}")


def _size(cluster: Cluster, name: str) -> str:
    low, high = topics.offsets(cluster, name, "earliest"), topics.offsets(cluster, name)
    # Compaction and transactions leave offsets without a record, so this is the most there can be.
    most = counted(sum(high.values()) - sum(low.values()), "record")
    return f"{counted(len(high), 'partition')}, at most {most}"


def _settings(cluster: Cluster, name: str, every: bool) -> list[Setting]:
    found = topic_settings.read(cluster, name)
    return [setting for setting in found if every or setting.source == "topic"]


def _summary(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": topic.id,
        "internal": topic.internal,
        "partitions": len(topic.partitions),
        "replication": topic.replication,
        "under_replicated": topic.under_replicated,
    }


def _whole(topic: Topic, settings: list[Setting]) -> dict[str, Any]:
    return {
        **_summary(topic),
        "partitions": [asdict(partition) for partition in topic.partitions],
        "configs": {each.name: {"value": each.value, "source": each.source} for each in settings},
    }


def _show(topic: Topic, settings: list[Setting]) -> None:
    overrides = ",".join(f"{each.name}={each.value}" for each in settings if each.source == "topic")
    output.line(
        f"Topic: {topic.name}  Id: {topic.id}  Partitions: {len(topic.partitions)}  "
        f"Replication: {topic.replication}  Configs: {overrides or '-'}"
    )
    rows = [asdict(partition) for partition in topic.partitions]
    output.emit_rows(rows, ["id", "leader", "replicas", "isr"], Format.TABLE)
    if any(each.source != "topic" for each in settings):
        output.line("")
        shown = [asdict(each) for each in settings]
        output.emit_rows(shown, ["name", "value", "source"], Format.TABLE)
