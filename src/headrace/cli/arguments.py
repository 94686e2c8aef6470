"""Arguments that several verbs share, and how their text is read: `k=v` pairs and live names.

Completion asks the cluster, waits at most a second for it, and offers nothing when it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from headrace.admin import groups, places, times, topics, transactions
from headrace.admin.client import Cluster, connect
from headrace.admin.places import Place
from headrace.cli.target import bootstrap
from headrace.errors import DefinitionError

COMPLETION_SECONDS = 1.0


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """`["a=1", "b="]` as a mapping; a later one replaces an earlier one with the same name."""
    return dict(pair(text, option) for text in given or ())


def pair(text: str, option: str) -> tuple[str, str]:
    """`a=1` in its two halves; the name must not be empty, the value may."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise DefinitionError(f"{option} `{text}` is not name=value", hint=f"write {option} a=b")
    return name.strip(), value


def reach(bootstrap_server: str | None, properties: Sequence[str] | None) -> Cluster:
    """The cluster that a command is about, connected."""
    return connect(bootstrap(bootstrap_server), pairs(properties, "--property"))


def at_most_one(**options: object) -> None:
    """Refuse two options of which only one can hold."""
    given = ["--" + name.replace("_", "-") for name, value in options.items() if value]
    if len(given) > 1:
        raise DefinitionError(f"{' and '.join(given)} exclude each other", hint="choose one")


def exactly_one(**options: object) -> None:
    """Refuse none or several of options of which one must hold; None is an option not given."""
    at_most_one(**{name: value is not None for name, value in options.items()})
    if all(value is None for value in options.values()):
        names = ", ".join("--" + name.replace("_", "-") for name in options)
        raise DefinitionError("one of several options is missing", hint=f"choose one of {names}")


ToEarliestOption = Annotated[
    bool, typer.Option("--to-earliest", help="To the oldest record still kept.")
]
ToLatestOption = Annotated[bool, typer.Option("--to-latest", help="To the end.")]
ToOffsetOption = Annotated[
    int | None, typer.Option("--to-offset", min=0, help="To this offset: it is read next.")
]
ToTimeOption = Annotated[
    str | None,
    typer.Option(
        "--to-time",
        metavar="TIME",
        help="To the first record since: ISO 8601, milliseconds, or 15m, 2h, 7d ago.",
    ),
]
ByOption = Annotated[
    int | None, typer.Option("--by", help="So many records forward, or back if negative.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan, do nothing.")]


def place(
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_time: str | None,
    by: int | None,
) -> Place:
    """The place that exactly one of these options must name."""
    exactly_one(
        to_earliest=to_earliest or None,
        to_latest=to_latest or None,
        to_offset=to_offset,
        to_time=to_time,
        by=by,
    )
    if to_earliest:
        return places.Earliest()
    if to_latest:
        return places.Latest()
    if to_offset is not None:
        return places.AtOffset(to_offset)
    if to_time is not None:
        return places.AtTime(times.parse(to_time))
    assert by is not None
    return places.Shift(by)


def _live_names(
    listing: Callable[[Cluster], list[str]], context: typer.Context, typed: str
) -> list[str]:
    try:
        server = bootstrap(context.params.get("bootstrap_server"))
        cluster = connect(server, seconds=COMPLETION_SECONDS)
        return [name for name in listing(cluster) if name.startswith(typed)]
    except Exception:
        # A shell that completes must never show an error or hang.
        return []


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    return _live_names(topics.names, ctx, incomplete)


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    return _live_names(groups.names, ctx, incomplete)


def complete_transactional_id(ctx: typer.Context, incomplete: str) -> list[str]:
    return _live_names(transactions.ids, ctx, incomplete)


TopicArgument = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=complete_topic)
]
TopicsArgument = Annotated[
    list[str], typer.Argument(metavar="TOPIC…", help="Topics.", autocompletion=complete_topic)
]
GroupArgument = Annotated[
    str, typer.Argument(metavar="GROUP", help="The group.", autocompletion=complete_group)
]
GroupsArgument = Annotated[
    list[str], typer.Argument(metavar="GROUP…", help="Groups.", autocompletion=complete_group)
]
PropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME=VALUE",
        help="A Kafka client property, such as security.protocol=SASL_SSL. Repeatable.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
