"""What is wrong with options of a Kafka source that are each right by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.formats import json as json_format
from headrace.formats.carried import COLUMN
from headrace.model.schema import Schema
from headrace.model.subscription import Subscription
from headrace.sources import kafka_format_checks
from headrace.sources.kafka_format_checks import TOPICS
from headrace.sources.kafka_options import DATA, ENVELOPE, METADATA
from headrace.spans import Diagnostic, Severity
from headrace.spec import Options

_PROPERTIES = {
    "max_partition_fetch_bytes": "max.partition.fetch.bytes",
    "session_timeout_ms": "session.timeout.ms",
}


def faults(options: Options) -> Iterator[Diagnostic]:
    yield from _topics(options)
    yield from kafka_format_checks.faults(options)
    yield from _metadata(options)
    yield from _dead_letters(options)
    yield from _offset(options)
    yield from _said_twice(options)
    yield from _sharing(options)
    if "timeout_ms" in options and "batch_size" not in options:
        message = "`timeout_ms` says how long to wait for a full batch, and there is no batch_size"
        yield Diagnostic("CONFLICT", message, options.at("timeout_ms"), "add `batch_size`")
    if options["schema"] is not None:
        yield from _name_clashes(options)


def _topics(options: Options) -> Iterator[Diagnostic]:
    given = [name for name in TOPICS if name in options]
    if not given and not options.meant.intersection(TOPICS):
        message = "the kafka source needs `topic`, `topics` or `topic_pattern`"
        yield Diagnostic("MISSING_OPTION", message, options.span, "add `topic: orders`")
    elif len(given) > 1:
        names = " and ".join(f"`{name}`" for name in given)
        message = f"{names} cannot stand together"
        yield Diagnostic("CONFLICT", message, options.at(given[1]), "keep one of them")


def _metadata(options: Options) -> Iterator[Diagnostic]:
    if "metadata_headers" in options and not options["include_metadata"]:
        message = "`metadata_headers` has no effect without `include_metadata`"
        hint = "add `include_metadata: true`"
        yield Diagnostic("CONFLICT", message, options.at("metadata_headers"), hint)


def _dead_letters(options: Options) -> Iterator[Diagnostic]:
    if "dlq_topic" not in options:
        return
    if options["bad_data"] != "dlq":
        message = f"`dlq_topic` has no effect with `bad_data: {options['bad_data']}`"
        yield Diagnostic("CONFLICT", message, options.at("dlq_topic"), "remove one of them")
    elif options["dlq_topic"] is not None and Subscription.of(options).reads(options["dlq_topic"]):
        what = "matches `topic_pattern`" if options["topic_pattern"] else "is the topic itself"
        message = f"the dead letters would be read again: `dlq_topic` {what}"
        yield Diagnostic("CONFLICT", message, options.at("dlq_topic"), "name another topic")


def _offset(options: Options) -> Iterator[Diagnostic]:
    asked = options["offset"]
    read = Subscription.of(options)
    if asked is None or not (read.topics or read.pattern):
        return
    for topic in dict.fromkeys(each["topic"] for each in asked["partitions"]):
        if not read.reads(topic):
            message = f"`offset` names partitions of {topic}, which this source does not read"
            yield Diagnostic("CONFLICT", message, options.at("offset"), f"it reads {read}")


def _sharing(options: Options) -> Iterator[Diagnostic]:
    named = {*options.values, *options.meant}
    if options["share_partitions"] and "consumer_group" not in named:
        message = "`share_partitions` needs the name of the group that others join too"
        hint = "add `consumer_group: orders`"
        yield Diagnostic("MISSING_OPTION", message, options.at("share_partitions"), hint)


def _said_twice(options: Options) -> Iterator[Diagnostic]:
    for option, name in _PROPERTIES.items():
        if option in options and name in (options["properties"] or {}):
            message = f"`{option}` and the property `{name}` are the same"
            yield Diagnostic("CONFLICT", message, options.at(option), "keep one of them")


def _name_clashes(options: Options) -> Iterator[Diagnostic]:
    """Columns of the schema that something else is called."""
    for name in Schema.parse(options["schema"]).names:
        hint = f"remove `{name}` from it"
        if options["include_metadata"] and name.lower() in METADATA:
            message = f"`include_metadata` adds the column `{name}`, which the schema declares too"
            yield Diagnostic("CONFLICT", message, options.at("schema"), hint)
        elif name.lower() in (COLUMN, json_format.CORRUPT):
            message = f"the schema declares `{name}`, a column that Headrace needs for itself"
            yield Diagnostic("CONFLICT", message, options.at("schema"), hint)
        elif options["include_metadata"] and name.lower() in (DATA, ENVELOPE):
            message = f"`{name}` is the schema's column, not the one that include_metadata adds"
            hint = "use the `_kafka_…` columns"
            at = options.at("schema")
            yield Diagnostic("COLUMN_HIDDEN", message, at, hint, Severity.WARNING)
