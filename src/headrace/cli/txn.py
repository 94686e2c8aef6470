"""`headrace txn`: list and describe transactions, find those that hang, and end them."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from shlex import quote
from typing import Annotated, Any

import typer

from headrace.admin import times, transaction_partitions, transactions
from headrace.admin.client import Cluster
from headrace.admin.offsets import TopicPartitionKey
from headrace.admin.quantities import duration
from headrace.admin.transaction_partitions import Hanging, OpenTransaction, ProducerState
from headrace.admin.transactions import Listing, State, Transaction, places
from headrace.cli import output
from headrace.cli.arguments import (
    PropertyOption,
    TopicArgument,
    YesOption,
    complete_topic,
    complete_transactional_id,
    reach,
)
from headrace.cli.output import Format, FormatOption, counted
from headrace.cli.target import BootstrapOption
from headrace.errors import DefinitionError

app = typer.Typer(
    name="txn", help="See transactions, and end those that hold readers back.", no_args_is_help=True
)

IdArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The transactional id.", autocompletion=complete_transactional_id
    ),
]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", "-t", help="Only in this topic.", autocompletion=complete_topic),
]
PartitionOption = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="Only in this partition. Repeatable."),
]


def register(root: typer.Typer) -> None:
    root.add_typer(app, rich_help_panel="Kafka")


@app.command("list")
def list_transactions(
    state: Annotated[
        list[State] | None,
        typer.Option("--state", "-s", case_sensitive=False, help="Only in this state. Repeatable."),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", help="Only ids that begin with this.")
    ] = None,
    match: Annotated[
        str | None,
        typer.Option("--match", metavar="REGEX", help="Only ids that match this as a whole."),
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option("--producer-id", help="Only this producer's. Repeatable.")
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(
            "--longer-than", metavar="DURATION", help="Only open for longer: 30s, 5m, 1h."
        ),
    ] = None,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """List transactional ids: coordinator, producer, state and how long one has been open."""
    pattern = _pattern(match)
    longest = None if longer_than is None else times.parse_duration(longer_than) * 1000
    cluster = reach(bootstrap_server, property)
    everything = transactions.list_all(cluster)
    found = [
        each
        for each in everything
        if (not state or each.state in state)
        and (prefix is None or each.id.startswith(prefix))
        and (pattern is None or pattern.fullmatch(each.id))
        and (not producer_id or each.producer_id in producer_id)
    ]
    details = transactions.describe_all(cluster, [each.id for each in found if each.state.open])
    now = _now()
    rows = [_listed(each, details.get(each.id), now) for each in found]
    if longest is not None:
        rows = [row for row in rows if (row["open_ms"] or 0) > longest]
    shown = [{**row, "open": _age(row["open_ms"])} for row in rows] if _table(form) else rows
    output.emit_rows(shown, ["id", "coordinator", "producer_id", "state", "since", "open"], form)
    if not everything:
        output.note("there are no transactional ids; a producer makes its own")
    elif not rows:
        output.note(f"none of {counted(len(everything), 'transactional id')} matches")


@app.command(no_args_is_help=True)
def describe(
    id: IdArgument,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show a transactional id: its state, timeout, start, and the partitions it has written to."""
    found = transactions.describe(reach(bootstrap_server, property), id)
    now = _now()
    partitions = [_key(key) for key in found.partitions]
    if not _table(form):
        output.emit_value({**_described(found, now), "partitions": partitions}, form)
        return
    output.line(_in_words(found, now))
    if partitions:
        output.emit_rows(partitions, ["topic", "partition"], form)
    if not found.state.open:
        output.note(f"transactional id {id} has no open transaction")


@app.command(no_args_is_help=True)
def producers(
    topic: TopicArgument,
    partition: PartitionOption = None,
    only_open: Annotated[
        bool, typer.Option("--open", help="Only those with an open transaction.")
    ] = False,
    broker: Annotated[
        int | None,
        typer.Option("--broker", help="As this broker's replica knows it. Default: the leader's."),
    ] = None,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show who has written to a topic's partitions lately, and where open transactions begin."""
    cluster = reach(bootstrap_server, property)
    keys = _looked_at(cluster, topic, partition, broker)
    found = [
        each
        for each in transaction_partitions.producers(cluster, keys, broker)
        if each.begins is not None or not only_open
    ]
    columns = ["partition", "producer_id", "epoch", "last_sequence", "last_record"]
    output.emit_rows(
        [_producer(each) for each in found], [*columns, "coordinator_epoch", "begins"], form
    )
    if not found:
        what = "no transaction is open" if only_open else "no producer with an id has written"
        output.note(f"{what} in {counted(len(keys), 'partition')} of topic {topic}")


@app.command("find-hanging")
def find_hanging(
    topic: TopicOption = None,
    partition: PartitionOption = None,
    broker: Annotated[
        int | None,
        typer.Option("--broker", help="Only in partitions with a replica on this broker."),
    ] = None,
    max_transaction_timeout: Annotated[
        str,
        typer.Option(
            "--max-transaction-timeout",
            metavar="DURATION",
            help="The longest timeout that producers have: one that no coordinator knows counts "
            "when its newest record is older than this.",
        ),
    ] = "15m",
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Find transactions that nobody will end: readers of committed records wait for them."""
    if partition and topic is None:
        raise DefinitionError("--partition needs a topic", hint="add --topic")
    longest = int(times.parse_duration(max_transaction_timeout) * 1000)
    cluster = reach(bootstrap_server, property)
    keys = _looked_at(cluster, topic, partition, broker)
    found = transaction_partitions.find_hanging(cluster, keys, _now(), longest)
    columns = ["topic", "partition", "begins", "producer_id", "epoch", "last_record", "id", "state"]
    output.emit_rows([_hanging(each) for each in found], [*columns, "reason"], form)
    if not found:
        output.note(f"no transaction hangs in {counted(len(keys), 'partition')}")
    for each in found:
        output.note(_remedy(each))


@app.command(no_args_is_help=True)
def abort(
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="The transactional id whose transaction to abort; its producer is fenced.",
            autocompletion=complete_transactional_id,
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            "-t",
            help="Instead of an id: where a transaction hangs.",
            autocompletion=complete_topic,
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="The partition of --topic.")
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="The offset where it begins.")
    ] = None,
    yes: YesOption = False,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
) -> None:
    """Abort an open transaction: by its id, or one that hangs by where it begins."""
    if id is not None and topic is None and partition is None and start_offset is None:
        _abort_by_id(reach(bootstrap_server, property), id, yes)
    elif id is None and topic is not None and partition is not None and start_offset is not None:
        cluster = reach(bootstrap_server, property)
        _abort_hanging(
            cluster, transaction_partitions.open_at(cluster, topic, partition, start_offset), yes
        )
    else:
        raise DefinitionError(
            "it is not clear which transaction to abort",
            hint="name a transactional id, or all of --topic, --partition and --start-offset",
        )


@app.command(no_args_is_help=True)
def commit(
    topic: Annotated[
        str,
        typer.Option(
            "--topic", "-t", help="Where a transaction hangs.", autocompletion=complete_topic
        ),
    ],
    partition: Annotated[
        int, typer.Option("--partition", "-p", min=0, help="The partition of --topic.")
    ],
    start_offset: Annotated[
        int, typer.Option("--start-offset", min=0, help="The offset where it begins.")
    ],
    yes: YesOption = False,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
) -> None:
    """Commit a transaction in a partition where it hangs, though it was committed elsewhere."""
    cluster = reach(bootstrap_server, property)
    found = transaction_partitions.open_at(cluster, topic, partition, start_offset)
    known = transaction_partitions.refuse_uncommitted(found)
    output.note(_hanging_in_words(found))
    output.note(
        f"the latest transaction of {known.id} began {_shown(known.start_ms) or 'some time ago'} "
        "and was committed; records of an earlier one may have been aborted"
    )
    output.confirm("Commit it here? What it has written to this partition is read then.", yes)
    transaction_partitions.commit_hanging(cluster, found)
    output.note(f"the transaction at {found.place} is committed")


def _abort_by_id(cluster: Cluster, id: str, yes: bool) -> None:
    found = transactions.describe(cluster, id)
    output.note(_in_words(found, _now()))
    if not found.state.open:
        output.note(f"transactional id {id} has no open transaction; nothing was done")
        return
    output.note(f"written to so far: {places(found.partitions)}")
    output.confirm(
        "Abort it? What it has written is never read, and its producer is refused from now on.", yes
    )
    if transactions.abort(cluster, found):
        output.note(f"the transaction of {id} is aborted, and its producer fenced")
    else:
        output.note(f"the transaction of {id} has ended meanwhile; nothing was done")


def _abort_hanging(cluster: Cluster, found: OpenTransaction, yes: bool) -> None:
    transaction_partitions.refuse_coordinated(found)
    output.note(_hanging_in_words(found))
    if _committed(found):
        output.warn(
            "its producer's latest transaction was committed; if this is a part of it, records "
            f"are lost: see `{_command('commit', found)}`"
        )
    output.confirm("Abort it here? What it has written to this partition is never read.", yes)
    transaction_partitions.abort_hanging(cluster, found)
    output.note(f"the transaction at {found.place} is aborted")


def _looked_at(
    cluster: Cluster, topic: str | None, partition: Sequence[int] | None, broker: int | None
) -> tuple[TopicPartitionKey, ...]:
    """The partitions that can be asked; a warning names those that have no leader."""
    scope = transaction_partitions.scope(cluster, topic, partition or (), broker)
    if scope.leaderless:
        output.warn(f"not looked at, as they have no leader: {places(scope.leaderless)}")
    return scope.led


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as failure:
        raise DefinitionError(
            f"--match `{text}` is not a regular expression: {failure}",
            hint="for the beginning of an id, --prefix takes it as it is",
        ) from failure


def _now() -> int:
    return int(time.time() * 1000)


def _table(form: Format) -> bool:
    return form is Format.TABLE


def _shown(time_ms: int | None) -> str | None:
    return None if time_ms is None else times.show(time_ms)


def _age(age_ms: int | None) -> str | None:
    return None if age_ms is None else duration(age_ms / 1000)


def _listed(each: Listing, detail: Transaction | None, now: int) -> dict[str, Any]:
    start = None if detail is None else detail.since_ms
    return {
        "id": each.id,
        "coordinator": each.coordinator,
        "producer_id": each.producer_id,
        "state": each.state.value,
        "since": _shown(start),
        "open_ms": None if start is None else now - start,
    }


def _described(found: Transaction, now: int) -> dict[str, Any]:
    return {
        **_listed(found, found, now),
        "epoch": found.epoch,
        "timeout_ms": found.timeout_ms,
        "until": _shown(found.until_ms),
    }


def _in_words(found: Transaction, now: int) -> str:
    told = (
        f"Id: {found.id}  State: {found.state}  Coordinator: {found.coordinator}  "
        f"Producer: {found.producer_id}  Epoch: {found.epoch}  "
        f"Timeout: {duration(found.timeout_ms / 1000)}"
    )
    if found.since_ms is not None:
        told += f"  Since: {_shown(found.since_ms)} ({_age(now - found.since_ms)})"
    if found.until_ms is not None:
        told += f"  Until: {_shown(found.until_ms)}"
    return told


def _key(key: TopicPartitionKey) -> dict[str, Any]:
    return {"topic": key[0], "partition": key[1]}


def _producer(each: ProducerState) -> dict[str, Any]:
    whole = asdict(each)
    return {**whole, "last_record": times.show(whole.pop("last_ms"))}


def _hanging(each: Hanging) -> dict[str, Any]:
    found = each.open
    return {
        **_producer(found.producer),
        "id": found.known and found.known.id,
        "state": found.known and found.known.state.value,
        "reason": each.reason.value,
    }


def _hanging_in_words(found: OpenTransaction) -> str:
    return (
        f"{found.place}: producer {found.producer.producer_id}, epoch {found.producer.epoch}, "
        f"newest record of {times.show(found.producer.last_ms)}"
    )


def _committed(found: OpenTransaction) -> bool:
    return found.known is not None and found.known.state is State.COMPLETE_COMMIT


def _remedy(each: Hanging) -> str:
    found = each.open
    if found.owner is not None:
        return f"to end it: headrace txn abort {quote(found.owner.id)}"
    if _committed(found):
        return f"if it was committed: {_command('commit', found)}; if not: txn abort, likewise"
    return f"to end it: {_command('abort', found)}"


def _command(verb: str, found: OpenTransaction) -> str:
    return (
        f"headrace txn {verb} --topic {found.topic} --partition {found.partition} "
        f"--start-offset {found.begins}"
    )
