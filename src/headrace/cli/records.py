"""`headrace produce` and `headrace consume`: records in from lines, records out to lines.

Only records go to stdout, each one flushed at once; notes, warnings and errors go to stderr.
"""

from __future__ import annotations

import json
import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from headrace.admin import places, reading, records, times, topics
from headrace.admin.places import Place
from headrace.admin.reading import Until
from headrace.admin.records import Delivery, Record, Unreadable
from headrace.cli import output, record_lines
from headrace.cli.arguments import PropertyOption, TopicArgument, at_most_one, pair, reach
from headrace.cli.record_lines import UnreadableLine
from headrace.cli.schemas import PasswordOption, UserOption
from headrace.cli.target import BootstrapOption, RegistryOption, registry_address, registry_url
from headrace.errors import DefinitionError, UnknownSubject

if TYPE_CHECKING:
    from headrace.admin.stored_schemas import SchemaStore

SHOWN_REJECTIONS = 10


class LineFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def register(root: typer.Typer) -> None:
    root.command(no_args_is_help=True, rich_help_panel="Kafka")(produce)
    root.command(no_args_is_help=True, rich_help_panel="Kafka")(consume)


def produce(
    topic: TopicArgument,
    file: Annotated[
        Path | None,
        typer.Argument(
            exists=True, dir_okay=False, allow_dash=True, help="One record a line; else stdin."
        ),
    ] = None,
    line_format: Annotated[
        LineFormat,
        typer.Option("--format", "-f", help="What a line is: a value, or a record as JSON."),
    ] = LineFormat.TEXT,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-s", help="What stands between key and value in a line."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="For every record. Repeatable."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Send all to this partition.")
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject",
            help="Values are JSON, and are written by the newest schema of this subject.",
        ),
    ] = None,
    registry: RegistryOption = None,
    user: UserOption = None,
    password: PasswordOption = None,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
) -> None:
    """Send records, one a line. Any record that is not written makes the exit code non-zero."""
    at_most_one(key=key, key_separator=key_separator)
    if line_format is LineFormat.JSON:
        at_most_one(**{"format json": True, "key": key, "key_separator": key_separator})
    if key_separator == "":
        raise DefinitionError("--key-separator is empty")
    common = Record(None, headers=tuple(map(_header, header or ())), partition=partition)
    parse = _parser(line_format, key, key_separator)
    if subject is not None:
        parse = _encoding(parse, subject, _store(registry, user, password))
    cluster = reach(bootstrap_server, property)
    missing = not topics.exists(cluster, topic)
    if missing and output.stderr.is_terminal:
        output.note(f"topic {topic} does not exist; if the brokers allow it, they make it now")
    with _opened(file) as lines:
        delivery = records.produce(cluster, topic, _parsed(lines, parse, common))
    _report(topic, delivery, made=missing)


def consume(
    topic: TopicArgument,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start with the oldest record.")
    ] = False,
    offset: Annotated[
        int | None,
        typer.Option("--offset", min=0, help="Start at this offset, or the nearest there is."),
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option(
            "--from-time",
            metavar="TIME",
            help="Start with the first record since: ISO 8601, milliseconds, or 15m, 2h, 7d ago.",
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--last", min=1, metavar="N", help="Only the N youngest records, and stop."),
    ] = None,
    max_messages: Annotated[
        int | None,
        typer.Option("--max-messages", "-n", min=1, metavar="N", help="Stop after N records."),
    ] = None,
    until_idle: Annotated[
        str | None,
        typer.Option(
            "--until-idle",
            metavar="TIME",
            help="Stop when nothing came for so long: 500ms, 5s, 2m.",
        ),
    ] = None,
    timeout_ms: Annotated[
        int | None,
        typer.Option("--timeout-ms", min=100, metavar="MS", help="The same in milliseconds."),
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop at the end that the topic has now.")
    ] = False,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Only this partition. Repeatable."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Read as a member of this group and move its position."),
    ] = None,
    uncommitted: Annotated[
        bool,
        typer.Option("--uncommitted", help="Also records of open and aborted transactions."),
    ] = False,
    keys: Annotated[
        bool, typer.Option("--keys", help="In text: the key before the value.")
    ] = False,
    headers: Annotated[bool, typer.Option("--headers", help="In text: the headers too.")] = False,
    metadata: Annotated[
        bool,
        typer.Option("--metadata", help="In text: topic, partition, offset and time too."),
    ] = False,
    form: Annotated[
        LineFormat, typer.Option("--output", "-o", help="Values as text, or records as JSON lines.")
    ] = LineFormat.TEXT,
    decode: Annotated[
        bool,
        typer.Option(
            "--decode", help="Show keys and values that name a schema of the registry as JSON."
        ),
    ] = False,
    registry: RegistryOption = None,
    user: UserOption = None,
    password: PasswordOption = None,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
) -> None:
    """Print records as they come, from now on or from where you say. Moves nobody's position."""
    at_offset = None if offset is None else places.AtOffset(offset)
    at_most_one(from_beginning=from_beginning, offset=at_offset, from_time=from_time, last=last)
    at_most_one(until_idle=until_idle, timeout_ms=timeout_ms)
    at_most_one(group=group, offset=at_offset, from_time=from_time, last=last)
    at_most_one(group=group, partition=partition)
    at_most_one(group=group, until_end=until_end)
    place = _place(from_beginning, at_offset, from_time)
    idle = (
        times.parse_duration(until_idle or f"{timeout_ms}ms") if until_idle or timeout_ms else None
    )
    until = Until(max_messages, idle, until_end, _reader_gone)
    cluster = reach(bootstrap_server, property)
    committed, chosen = not uncommitted, partition or ()
    if group:
        found: Iterable[Record] = reading.consume_as_member(
            cluster, topic, group, from_beginning, until, committed
        )
    elif last:
        found = reading.last(cluster, topic, last, chosen, committed)[:max_messages]
    else:
        found = reading.consume(cluster, topic, place, until, chosen, committed)
    if not (max_messages or idle or until_end or last) and output.stderr.is_terminal:
        since = "" if group or from_beginning or at_offset or from_time else " from now on"
        output.note(f"reading {topic}{since}, until Ctrl-C")
    if decode:
        found = _decoded(found, _store(registry, user, password))
    for record in found:
        if form is LineFormat.JSON:
            _write(record_lines.to_json(record).encode())
        else:
            _write(record_lines.to_text(record, keys, headers, metadata))


def _parser(
    line_format: LineFormat, key: str | None, separator: str | None
) -> Callable[[bytes], Record]:
    if line_format is LineFormat.JSON:
        return record_lines.from_json
    fixed = None if key is None else key.encode()
    between = None if separator is None else separator.encode()
    return lambda line: record_lines.from_text(line, fixed, between)


def _store(registry: str | None, user: str | None, password: str | None) -> SchemaStore:
    from headrace.admin.stores import opened

    return opened(registry_address(registry_url(registry), user, password))


def _encoding(
    parse: Callable[[bytes], Record], subject: str, store: SchemaStore
) -> Callable[[bytes], Record]:
    """The same, with values by the newest schema of a subject; tombstones stay."""
    from headrace.formats import single

    schema = store.newest(subject)
    if schema is None:
        unknown = UnknownSubject(subject, store.url)
        unknown.hint = f"register its schema: `headrace schemas register {subject} FILE`"
        raise unknown
    encode = single.encoder(schema, store.framing)

    def encoded(line: bytes) -> Record:
        record = parse(line)
        if record.value is None:
            return record
        try:
            return replace(record, value=encode(json.loads(record.value)))
        except ValueError as failure:
            raise UnreadableLine(str(failure)) from failure

    return encoded


def _decoded(found: Iterable[Record], store: SchemaStore) -> Iterator[Record]:
    """Records with keys and values as JSON; what cannot be read is told, and stays as it is."""
    from headrace.formats import single

    messages = single.Messages(store)

    def part(record: Record, name: str, data: bytes | None) -> bytes | None:
        try:
            return messages.decoded(data)
        except ValueError as failure:
            place = f"{record.topic}[{record.partition}]@{record.offset}"
            output.warn(f"{place}: the {name} is shown as it is: {failure}")
            return data

    for record in found:
        key, value = part(record, "key", record.key), part(record, "value", record.value)
        yield replace(record, key=key, value=value)


def _place(from_beginning: bool, at_offset: places.AtOffset | None, from_time: str | None) -> Place:
    if from_beginning:
        return places.Earliest()
    if from_time is not None:
        return places.AtTime(times.parse(from_time))
    return at_offset or places.Latest()


def _opened(file: Path | None) -> AbstractContextManager[BinaryIO]:
    if file is not None and str(file) != "-":
        return file.open("rb")
    if sys.stdin.isatty():
        output.note("one record a line; end with Ctrl-D")
    return nullcontext(sys.stdin.buffer)


def _parsed(
    lines: Iterable[bytes], parse: Callable[[bytes], Record], common: Record
) -> Iterator[Record | Unreadable]:
    """A record for each line, with the headers and the partition that all are to have."""
    for line in lines:
        try:
            record = parse(line.removesuffix(b"\n").removesuffix(b"\r"))
        except UnreadableLine as failure:
            yield Unreadable(str(failure))
            continue
        partition = record.partition if common.partition is None else common.partition
        yield replace(record, headers=record.headers + common.headers, partition=partition)


def _header(text: str) -> tuple[str, bytes]:
    name, value = pair(text, "--header")
    return name, value.encode()


def _report(topic: str, delivery: Delivery, made: bool) -> None:
    for rejection in delivery.rejections[:SHOWN_REJECTIONS]:
        output.note(f"record {rejection.number}: {rejection.reason}")
    if made and delivery.written:
        output.warn(f"topic {topic} did not exist; the brokers made it with their defaults")
    output.note(f"{delivery.written} written to {topic}, {delivery.rejected} rejected")
    delivery.raise_if_rejected()


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _reader_gone() -> bool:
    """Whether nobody reads our output any more, as after `| head`.

    A live tail with nothing to write would not notice otherwise, and never end.
    """
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return False
    poller = select.poll()
    poller.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0))
