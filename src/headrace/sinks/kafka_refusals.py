"""Rows that the Kafka sink cannot write, found inside the query and by that row's own fault.

A broker refuses batches, not rows, and an error that comes back from it says nothing of the record
behind it. So what can be known before is asked of every row: is its topic allowed, does its
partition exist, is its message small enough. `refusing` makes such rows bad records; `guarded` ends
the query at one, by its name, where it cannot be set aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.formats.carried import COLUMN, IS_GOOD, IS_TOMBSTONE, replaced
from headrace.formats.encoding import ROW_REFUSED
from headrace.formats.text import TextEncoding
from headrace.model.schema import literal, quote
from headrace.sinks import kafka_sizes, kafka_topics
from headrace.sinks.kafka_messages import Messages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOO_LARGE = "MessageSizeTooLarge"
_FOUND = "__refusal"
# The columns of `encoded` and `measured` rows, and SQL for the sizes of the former.
WRITTEN = {"key": "__written_key", "value": "__written_value"}
MEASURED = {"key": "__key_bytes", "value": "__value_bytes"}
WRITTEN_SIZES = {name: f"octet_length({column})" for name, column in WRITTEN.items()}


@dataclass(frozen=True)
class TopicFacts:
    """What the cluster says of a topic when a run begins; `max_bytes` is its largest batch."""

    partitions: int
    max_bytes: int


@dataclass(frozen=True)
class Refusal:
    """A code, and SQL for when it applies to a good row and for a sentence about that."""

    code: str
    condition: str
    message: str


@dataclass(frozen=True)
class Limits:
    """What bounds the messages of a sink: its client's largest, and what is known of its topics.

    The limits of topics are for batches as they are stored, so they say nothing of a message that
    will be compressed.
    """

    client: int
    compressed: bool
    topics: Mapping[str, TopicFacts]


def find(messages: Messages, limits: Limits, sizes: Mapping[str, str]) -> list[Refusal]:
    """In the order in which they are asked of rows; `sizes` is SQL for those of key and value."""
    return [
        *_topic(messages),
        *_partition(messages, limits),
        *_timestamp(messages),
        *_event_id(messages),
        *_missing(messages),
        _size(messages, limits, sizes),
    ]


def measured(rows: DataFrame, messages: Messages, limits: Limits, letters: bool) -> DataFrame:
    """The rows with the `MEASURED` sizes of their key and value, where these may be too large.

    For `letters` only rows that have the bytes of their record are asked, which few do. Encoding a
    value only to count it is left to those that may be too large.
    """
    conditions = [_writable(rows, messages)]
    if letters:
        conditions.append(f"{COLUMN}.value IS NOT NULL")
    bound = _bound(messages, rows)
    if bound is not None:
        conditions.append(f"{bound} > {_limit(messages, limits)}")
    asked = _encoded(rows, messages, " AND ".join(conditions))
    sizes = (f"{WRITTEN_SIZES[name]} AS {size}" for name, size in MEASURED.items())
    return asked.selectExpr(*(quote(name) for name in rows.columns), *sizes)


def encoded(rows: DataFrame, messages: Messages) -> DataFrame:
    """The rows with their `WRITTEN` key and value; NULL where they cannot be written.

    Each is a column of its own, as Spark would encode it again for every mention.
    """
    return _encoded(rows, messages, _writable(rows, messages))


def _encoded(rows: DataFrame, messages: Messages, condition: str) -> DataFrame:
    # What is left out is NULL before it is encoded: Spark calls functions that are not its own for
    # every row, whatever condition stands around them.
    unwritten = messages.unwritten
    chosen = (f"IF({condition}, {sql}, NULL) AS __to_{name}" for name, sql in unwritten.items())
    written = messages.written({name: f"__to_{name}" for name in unwritten})
    return rows.selectExpr("*", *chosen).selectExpr(
        *(quote(name) for name in rows.columns),
        *(f"{sql} AS {WRITTEN[name]}" for name, sql in written.items()),
    )


def _writable(rows: DataFrame, messages: Messages) -> str:
    """SQL for whether a row can be encoded at all."""
    good = [IS_GOOD] if COLUMN in rows.columns else []
    return " AND ".join([*good, *(f"NOT ({sql})" for _, sql in messages.missing)]) or "true"


def refusing(rows: DataFrame, found: list[Refusal], per_row: bool, letters: bool) -> DataFrame:
    """The rows, `measured`, of which those that cannot be written are now bad records.

    Where bad records become `letters`, only those whose bytes are at hand do: the others stay as
    they are, and `guarded` will stop at them.
    """
    whens = " ".join(f"WHEN {r.condition} THEN {_struct(r)}" for r in found)
    refusal = f"CASE {whens} END"
    if letters:
        refusal = f"IF({COLUMN}.value IS NULL, NULL, {refusal})"
    cases = f"WHEN {IS_GOOD} THEN {refusal}"
    if per_row:
        words = "a record without a value has no columns to take a topic from"
        cases += f" WHEN {IS_TOMBSTONE} THEN {_struct(Refusal('NULL_VALUE', '', literal(words)))}"
    judged = rows.selectExpr("*", f"CASE {cases} END AS {_FOUND}")
    marked = replaced(
        rows.select(f"{COLUMN}.*").columns,
        {name: f"{_FOUND}.{name}" for name in ("error", "message")},
    )
    own = [quote(name) for name in rows.columns if name not in (COLUMN, *MEASURED.values())]
    return judged.selectExpr(*own, f"IF({_FOUND} IS NULL, {COLUMN}, {marked}) AS {COLUMN}")


def guarded(value: str, found: list[Refusal], carried: bool) -> str:
    """SQL for the value of a message, that ends the query at a row which cannot be written."""
    places = [f"'{name}', {COLUMN}.{name}" for name in ("topic", "partition", "offset")]
    whens = []
    for refusal in found:
        facts = [f"'error', '{refusal.code}'", f"'message', {refusal.message}"]
        told = f"to_json(named_struct({', '.join([*facts, *(places if carried else ())])}))"
        whens.append(f"WHEN {refusal.condition} THEN raise_error(concat('{ROW_REFUSED}', {told}))")
    return f"CASE {' '.join(whens)} ELSE {value} END"


def _struct(refusal: Refusal) -> str:
    return f"named_struct('error', '{refusal.code}', 'message', {refusal.message})"


def _topic(messages: Messages) -> Iterator[Refusal]:
    if not kafka_topics.is_per_row(messages.options["topic"]):
        return
    topic = messages.topic
    allowed = kafka_topics.allowed_sql(messages.options["allowed_topics"], topic)
    shown = f"left({topic}, 300)"
    words = literal(f"there is no topic for it: {messages.options['topic']} is NULL")
    yield Refusal("NO_TOPIC", f"{topic} IS NULL", words)
    yield Refusal(
        "BAD_TOPIC",
        f"NOT {kafka_topics.valid_sql(topic)}",
        f"concat('no topic of Kafka can be called ', {shown})",
    )
    yield Refusal(
        "TOPIC_NOT_ALLOWED", f"NOT {allowed}", f"concat({shown}, ' is not in allowed_topics')"
    )


def _partition(messages: Messages, limits: Limits) -> Iterator[Refusal]:
    given, partition = messages.options["partition"], messages.partition
    if not given:
        return
    outside = f"{partition} IS NULL OR {partition} < 0"
    count = _of_topic(messages, {name: f.partitions for name, f in limits.topics.items()})
    if count:
        outside += f" OR {partition} >= {count}"
    words = f"concat('partition ', CAST({given} AS STRING), ' does not exist')"
    yield Refusal("BAD_PARTITION", f"({given}) IS NOT NULL AND ({outside})", words)


def _timestamp(messages: Messages) -> Iterator[Refusal]:
    given, time = messages.options["timestamp"], messages.timestamp
    if given:
        words = f"concat('not a time that Kafka takes: ', CAST({given} AS STRING))"
        condition = f"({given}) IS NOT NULL AND coalesce({time}, -1) < 0"
        yield Refusal("BAD_TIMESTAMP", condition, words)


def _event_id(messages: Messages) -> Iterator[Refusal]:
    if messages.options["envelope"] is not None:
        words = literal("its envelope would have no id")
        yield Refusal("NO_EVENT_ID", f"{messages.event_id} IS NULL", words)


def _missing(messages: Messages) -> Iterator[Refusal]:
    """Fields without a value that the schema of the messages wants; other schemas take NULL."""
    missing = messages.missing
    if missing:
        names = ", ".join(f"IF({sql}, {literal(name)}, NULL)" for name, sql in missing)
        words = f"concat('its schema wants a value for: ', concat_ws(', ', {names}))"
        condition = " OR ".join(f"({sql})" for _, sql in missing)
        yield Refusal("MISSING_FIELD", condition, words)


def _size(messages: Messages, limits: Limits, sizes: Mapping[str, str]) -> Refusal:
    limit = _limit(messages, limits)
    parts = sizes["key"], sizes["value"], messages.headers
    size = kafka_sizes.counted(*parts)
    words = f"concat('key, value and headers have ', {size}, ' bytes, and ', {limit}, ' fit')"
    # To count is left to those that are near the limit.
    near = kafka_sizes.nearly(*parts)
    return Refusal(TOO_LARGE, f"{near} > {limit} AND {size} > {limit}", words)


def _limit(messages: Messages, limits: Limits) -> str:
    """SQL for how large the message of a row may be."""
    by_topic = {
        name: kafka_sizes.largest(limits.client, None if limits.compressed else facts.max_bytes)
        for name, facts in limits.topics.items()
    }
    most = str(kafka_sizes.largest(limits.client, None))
    return _of_topic(messages, by_topic, most) or most


def _bound(messages: Messages, rows: DataFrame) -> str | None:
    if messages.options["value"]:
        return None
    from pyspark.sql.types import StringType

    kinds = {field.name: field.dataType for field in rows.schema.fields}
    columns = [(name, sql, kinds.get(name, StringType())) for name, sql in messages.body]
    if isinstance(messages.key_encoding, TextEncoding):
        return kafka_sizes.at_most([messages.key], columns, messages.headers)
    key = messages.options["key"]
    (kind,) = rows.selectExpr(f"{key} AS key").schema.fields
    return kafka_sizes.at_most([], [*columns, ("key", key, kind.dataType)], messages.headers)


def _of_topic(messages: Messages, known: Mapping[str, int], other: str = "NULL") -> str | None:
    """SQL for what is known of a row's topic; None where nothing is."""
    if not known:
        return None
    if not kafka_topics.is_per_row(messages.options["topic"]):
        return str(next(iter(known.values())))
    cases = " ".join(f"WHEN {literal(name)} THEN {number}" for name, number in known.items())
    return f"CASE {messages.topic} {cases} ELSE {other} END"
