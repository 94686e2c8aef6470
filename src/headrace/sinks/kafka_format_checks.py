"""What can be wrong with how a Kafka sink is to write its keys and values; nobody is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.formats import checks
from headrace.formats.options import Part, Wanted, key_wanted, value_wanted
from headrace.sinks import kafka_topics
from headrace.spans import Diagnostic
from headrace.spec import Options

# What a key or value is written by if it is not told otherwise.
_PLAIN = ("json", "raw", "text")
_KEY_OPTIONS = ("key_schema_file", "key_subject")


def faults(options: Options) -> Iterator[Diagnostic]:
    topic = options["topic"]
    if topic is None:
        return
    folder = Path(options.span.file).parent
    topics = () if kafka_topics.is_per_row(topic) else (topic,)
    value, key = value_wanted(options, folder, topics), key_wanted(options, folder, topics)
    yield from _value(options, value)
    yield from _key(options, key)
    written = [each for each in (value, key) if each is not None and _is_written(options, each)]
    for wanted in written:
        yield from checks.faults(options, wanted)
        yield from _subject(options, wanted)
    yield from _registering(options, written)


def _is_written(options: Options, wanted: Wanted) -> bool:
    """Whether it is made by its format, and not given as it is."""
    return options["key"] is not None if wanted.part is Part.KEY else options["value"] is None


def _value(options: Options, wanted: Wanted) -> Iterator[Diagnostic]:
    at = options.at("format")
    if wanted.format == "debezium":
        message = "a sink does not write the changes of Debezium"
        yield Diagnostic("BAD_CHOICE", message, at, "it writes rows: use another `format`")
    elif options["value"] is not None and wanted.format not in _PLAIN:
        message = f"`format: {wanted.format}` is about the columns, and `value` is written instead"
        yield Diagnostic("CONFLICT", message, at, "keep one of them")
    elif options["value"] is None and wanted.format == "raw" and "value" not in options.meant:
        message = "`format: raw` writes bytes as they are, and `value` does not say which"
        yield Diagnostic("MISSING_OPTION", message, at, "add `value: payload`")


def _key(options: Options, wanted: Wanted | None) -> Iterator[Diagnostic]:
    given = {*options.values, *options.meant}
    if wanted is not None and "key" not in given:
        message = "`key_format` has no effect, as there is no `key`"
        yield Diagnostic("CONFLICT", message, options.at("key_format"), "add `key: id`")
    for name in _KEY_OPTIONS:
        if name in options and "key_format" not in given:
            message = f"`{name}` has no effect without `key_format`"
            hint = "add `key_format: avro`; without it a key is text"
            yield Diagnostic("CONFLICT", message, options.at(name), hint)


def _subject(options: Options, wanted: Wanted) -> Iterator[Diagnostic]:
    name = f"{wanted.part}_subject"
    if wanted.registered and not wanted.subjects and name not in options.meant:
        message = f"each row names its topic, and its {wanted.part}s need one subject: `{name}`"
        hint = f"add `{name}: orders-{wanted.part}`"
        yield Diagnostic("MISSING_OPTION", message, options.at("topic"), hint)


def _registering(options: Options, written: list[Wanted]) -> Iterator[Diagnostic]:
    if "register_schema" not in options:
        return
    at = options.at("register_schema")
    registered = [wanted for wanted in written if wanted.registered]
    if not registered:
        message = "`register_schema` has no effect, as nothing is written by a schema registry"
        yield Diagnostic("CONFLICT", message, at, "remove it, or use `format: confluent_avro`")
    for wanted in registered:
        if wanted.gives_schema and not options["register_schema"]:
            message = (
                f"the {wanted.part}s have a schema of their own, and with `register_schema: false` "
                "the newest of the registry is used"
            )
            yield Diagnostic("CONFLICT", message, at, "keep one of them")
