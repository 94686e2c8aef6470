"""What can be wrong with the options of a Kafka sink, found without a cluster and without Spark."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.model.kafka_properties import PRODUCER_OPTIONS, idempotence_fault
from headrace.model.query import Query
from headrace.sinks import kafka_format_checks, kafka_topics
from headrace.sinks.kafka_messages import envelope_fields
from headrace.sinks.writer import column_twice
from headrace.spans import Diagnostic, Span
from headrace.spec import Options, unknown

Columns = tuple[str, ...] | None
_EXPRESSIONS = ("key", "value", "headers_from", "partition", "timestamp")


def faults(options: Options, columns: Columns) -> Iterator[Diagnostic]:
    yield from column_twice(options, columns)
    yield from _expressions(options, columns)
    yield from _topics(options)
    yield from _value(options, columns)
    yield from kafka_format_checks.faults(options)
    yield from _producer(options)
    if options["writer"] == "spark" and options["timestamp"]:
        message = "Spark's writer cannot set the time of a record"
        hint = "remove `writer: spark`, or `timestamp`"
        yield Diagnostic("CONFLICT", message, options.at("writer"), hint)


def expression(name: str, text: str, span: Span, columns: Columns) -> Iterator[Diagnostic]:
    """What is wrong with the expression of an option, checked as it will be used."""
    lead = "SELECT CAST("
    query, found = Query.parse(f"{lead}{text} AS STRING) FROM input", span, len(lead), len(text))
    yield from found
    if query is None:
        return
    if not query.rowwise or len(query.tree.selects) != 1:
        message = f"`{name}` must be one column, or an expression of a row"
        yield Diagnostic("BAD_VALUE", message, span)
    elif columns is not None:
        yield from query.unknown_columns({"input": columns}, "of the rows of this sink")


def _expressions(options: Options, columns: Columns) -> Iterator[Diagnostic]:
    for name in _EXPRESSIONS:
        if options[name] is not None:
            yield from expression(name, options[name], options.at(name), columns)
    for header, text in options["headers"].items():
        yield from expression(f"headers.{header}", text, options.at("headers"), columns)
    for text in kafka_topics.expressions(options["topic"] or ""):
        yield from expression("topic", text, options.at("topic"), columns)
    envelope = options["envelope"]
    for name in ("id", "time"):
        if envelope is not None and envelope[name] is not None:
            yield from expression(f"envelope.{name}", envelope[name], envelope.at(name), columns)


def _topics(options: Options) -> Iterator[Diagnostic]:
    topic = options["topic"]
    if topic is None:
        return
    per_row, given = kafka_topics.is_per_row(topic), "allowed_topics" in options
    if per_row and not given and "allowed_topics" not in options.meant:
        message = "a topic per row needs `allowed_topics`, or the data could write anywhere"
        hint = "add `allowed_topics: [orders.*]`"
        yield Diagnostic("MISSING_OPTION", message, options.at("topic"), hint)
    elif given and not per_row:
        message = f"`allowed_topics` has no effect, as every row goes to {topic}"
        hint = "remove it, or name the topic by a column: `topic: ${region}`"
        yield Diagnostic("CONFLICT", message, options.at("allowed_topics"), hint)


def _value(options: Options, columns: Columns) -> Iterator[Diagnostic]:
    added = envelope_fields(options)
    if options["value"] is not None:
        for name in ("exclude", *(["envelope"] if added else [])):
            if name in options:
                message = f"`{name}` is about the columns, and `value` is written instead of them"
                yield Diagnostic("CONFLICT", message, options.at(name), "keep one of them")
        return
    if columns is None:
        return
    known = {column.lower() for column in columns}
    for name in options["exclude"]:
        if name.lower() not in known:
            where = "of the rows of this sink"
            yield unknown("column", name, columns, options.at("exclude"), where)
    if known and known <= {name.lower() for name in options["exclude"]}:
        message = "`exclude` leaves no column to write"
        yield Diagnostic("CONFLICT", message, options.at("exclude"), "or use `value`")
    kept = known - {name.lower() for name in options["exclude"]}
    for name in sorted(kept & set(added)):
        message = f"the envelope adds the field `{name}`, which is a column too"
        hint = "name the column otherwise, or use `as: headers`"
        yield Diagnostic("COLUMN_TWICE", message, options.at("envelope"), hint)


def _producer(options: Options) -> Iterator[Diagnostic]:
    own = options["properties"]
    for option, name in PRODUCER_OPTIONS.items():
        if option in options and name in own:
            message = f"`{option}` and `{name}` under `properties` are the same option"
            yield Diagnostic("OPTION_TWICE", message, options.at(option), "keep one of them")
    producer = dict(own)
    for option in ("acks", "retries"):
        if options[option] is not None:
            producer.setdefault(PRODUCER_OPTIONS[option], str(options[option]))
    wanted = own.get("enable.idempotence", str(options["idempotence"])).lower() == "true"
    problem = idempotence_fault(producer) if wanted else None
    if problem:
        at = next((name for name in ("acks", "retries") if name in options), "properties")
        hint = "leave it out, or add `idempotence: false`, and retries may double records"
        yield Diagnostic("CONFLICT", problem, options.at(at), hint)
