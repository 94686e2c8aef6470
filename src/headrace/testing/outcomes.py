"""Run a pipeline on rows in memory: the plan's own decoding and steps, without a Kafka and sinks.

What would be written to each sink and set aside from each source comes back as plain values. The
code between source and sink is the same as in a real run; only the two ends are missing.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.api import load
from headrace.formats.carried import COLUMN
from headrace.plan.stages import Plan
from headrace.runtime import rows, session
from headrace.runtime.schemas import SourceSchemas
from headrace.runtime.sink_schemas import SinkSchemas
from headrace.sources.kafka import KafkaSource
from headrace.sources.reader import RAW, SourceReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Value = Mapping[str, Any] | str | bytes | None


@dataclass(frozen=True)
class Message:
    """A record of a topic. A mapping is sent as JSON, text as UTF-8; None is a tombstone."""

    value: Value
    key: str | bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    topic: str | None = None
    partition: int = 0


@dataclass(frozen=True)
class Outcome:
    """`rows` by sink, and `bad` by source: each with `offset`, `error` and `message`."""

    rows: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    bad: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)


def outcome(
    path: str | Path,
    records: Sequence[Message | Value] | Mapping[str, Sequence[Message | Value]],
    spark: SparkSession,
) -> Outcome:
    """What the pipeline in `path` makes of `records`; by source name where it has several."""
    plan = load(path).plan
    schemas = SourceSchemas(None, lambda _event: None)
    by_source = records if isinstance(records, Mapping) else {plan.sources[0].name: records}
    return schemas.learning(plan, lambda bound: _outcome(bound, by_source, spark))


def _outcome(
    plan: Plan, by_source: Mapping[str, Sequence[Message | Value]], spark: SparkSession
) -> Outcome:
    child = session.adopt(spark)
    plan = SinkSchemas(register=False).bound(plan, child)
    raw = {
        source.name: _raw(child, source, by_source.get(source.name, ())) for source in plan.sources
    }
    written: dict[str, list[dict[str, Any]]] = {}
    bad: dict[str, list[dict[str, Any]]] = {source.name: [] for source in plan.sources}
    for query in plan.queries:
        frame = rows.build(child, query, raw).persist()  # so that functions are called once
        shown = rows.good(frame) if query.carried else frame
        for write in query.writes:
            written[write.sink.name] = _values(shown)
        if query.aside is not None:
            bad[query.aside.source.name] += _bad(query.aside.source, frame)
        frame.unpersist()
    handled = {query.aside.source.name for query in plan.queries if query.aside is not None}
    for source in plan.sources:
        if source.name not in handled:
            bad[source.name] = _bad(source, source.decode(raw[source.name]))
    return Outcome(written, bad)


_FACTS = ("topic", "partition", "offset", "timestamp", "error", "key", "value", "headers")


def _bad(source: SourceReader, frame: DataFrame) -> list[dict[str, Any]]:
    facts = [f"{COLUMN}.{name}" for name in _FACTS]
    return _values(rows.bad(frame).selectExpr(*facts, f"{source.reason} AS message"))


def _values(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def _raw(
    spark: SparkSession, source: SourceReader, records: Sequence[Message | Value]
) -> DataFrame:
    """Records as Spark's Kafka reader gives them; offsets count from 0 in each partition."""

    offsets: dict[tuple[str, int], int] = {}
    data = []
    for record in records:
        message = record if isinstance(record, Message) else Message(record)
        named = source.topics if isinstance(source, KafkaSource) else ()
        topic = named[0] if named else source.name
        place = message.topic or topic, message.partition
        offset = offsets.get(place, 0)
        offsets[place] = offset + 1
        now = datetime.datetime.now(datetime.UTC)
        headers = list(message.headers) or None
        data.append((_bytes(message.key), _bytes(message.value), *place, offset, now, headers))
    return spark.createDataFrame(data, RAW)


def _bytes(value: Value) -> bytearray | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return bytearray(value)
    return bytearray((value if isinstance(value, str) else json.dumps(value)).encode())
