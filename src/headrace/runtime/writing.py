"""One batch of one query to all of its targets, in stream and batch alike.

    1. limit   count the bad records, and refuse the whole batch when there are too many
    2. aside   write the bad records, in the first Kafka sink's job where that is possible
    3. write   write the good rows to each sink in turn

The batch's position may move only after this has returned. A failure anywhere leaves it where it
was, and the whole batch is written again: a target may then hold parts of it twice, and never miss
any.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.errors import TooManyBadRecords
from headrace.formats import deadletter
from headrace.formats.carried import COLUMN, IS_BAD, IS_NOT_BAD, IS_TOMBSTONE
from headrace.model.kafka_properties import DEFAULT_MAX_REQUEST
from headrace.plan.stages import Query, SetAside, Write
from headrace.runtime import books, failures, rows
from headrace.runtime.failpoints import reach
from headrace.sinks import kafka_once
from headrace.sinks.kafka import MAX_REQUEST, SERVERS, KafkaSink, send
from headrace.sinks.writer import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write(query: Query, pipeline: str, batch_rows: DataFrame, batch: Batch) -> None:
    """Write a batch whole; returns when every target has acknowledged it."""
    aside = query.aside
    with _kept(batch_rows, jobs(query) > 1) as kept:
        if aside is not None and aside.limit is not None:
            _refuse_too_many(aside, kept)  # 1
        if aside is not None and aside.alone:
            write_aside(aside, pipeline, kept, batch)  # 2
            reach("write.aside")
        for stage in query.writes:
            write_sink(query, stage, pipeline, kept, batch)  # 3
            reach("write.sink")
    reach("write.done")


def jobs(query: Query) -> int:
    """How many Spark jobs will read the batch."""
    aside = query.aside
    naming = sum(_names_topics(stage) for stage in query.writes)
    if aside is None:
        return len(query.writes) + naming
    return len(query.writes) + naming + aside.alone + (aside.limit is not None)


def _names_topics(stage: Write) -> bool:
    """Whether the topics of its rows are asked for before they are written."""
    return isinstance(stage.sink, KafkaSink) and stage.sink.open_ended


@contextlib.contextmanager
def _kept(batch_rows: DataFrame, several_jobs: bool) -> Iterator[DataFrame]:
    """With several jobs the rows are kept: all see the same, and nothing is read twice."""
    if not several_jobs:
        yield batch_rows
        return
    kept = batch_rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def _refuse_too_many(aside: SetAside, kept: DataFrame) -> None:
    assert aside.limit is not None
    bad = rows.bad(kept)
    count = bad.count()
    if count > aside.limit:
        first = bad.selectExpr(
            f"concat({COLUMN}.topic, '[', {COLUMN}.partition, ']@', {COLUMN}.offset, ': ', "
            f"{aside.source.reason})"
        ).first()
        example = str(first[0]) if first else ""
        raise TooManyBadRecords(aside.source.name, count, aside.limit, example)


def write_aside(aside: SetAside, pipeline: str, kept: DataFrame, batch: Batch) -> None:
    assert aside.topic is not None
    letters = deadletter.expressions(aside.topic, pipeline, aside.source.reason)
    servers = aside.source.bootstrap or ""
    settings = {SERVERS: servers, MAX_REQUEST: str(max(aside.largest, DEFAULT_MAX_REQUEST))}
    try:
        if batch.once is None:
            send(rows.bad(kept), letters, settings)
        else:
            book = books.of_letters(aside, pipeline)
            work = book.work(batch.once)
            kafka_once.send(rows.bad(kept), letters, work, batch.once, book.place)
    except Exception as error:
        raise failures.translate(
            error, f"writing dead letters to {aside.topic}", servers
        ) from error


def write_sink(query: Query, stage: Write, pipeline: str, kept: DataFrame, batch: Batch) -> None:
    sink, aside = stage.sink, query.aside
    try:
        if isinstance(sink, KafkaSink) and sink.open_ended:
            sink.ensure_topics(rows.good(kept) if query.carried else kept)
        if isinstance(sink, KafkaSink) and query.carried:
            _send(sink, aside, pipeline, kept, batch)
        elif query.carried:
            sink.write(kept.where(IS_NOT_BAD) if sink.CARRIED else rows.good(kept), batch)
        else:
            sink.write(kept, batch)
    except Exception as error:
        servers = sink.bootstrap if isinstance(sink, KafkaSink) else ""
        raise failures.translate(
            error, f"writing `{sink.name}` to {sink.target}", servers
        ) from error


def _send(
    sink: KafkaSink, aside: SetAside | None, pipeline: str, kept: DataFrame, batch: Batch
) -> None:
    """The rows of a sink with its tombstones, and with the dead letters where they go beside."""
    cases = [(IS_TOMBSTONE, sink.tombstone(kept.columns))]
    largest = 0
    if aside is not None and aside.beside == sink.name and aside.topic is not None:
        cases.append((IS_BAD, deadletter.expressions(aside.topic, pipeline, aside.source.reason)))
        largest = aside.largest
    else:
        kept = kept.where(IS_NOT_BAD)
    measured, good = sink.guarded(kept)
    chosen = {name: _choice(cases, name, good[name]) for name in good}
    sink.send(measured, chosen, batch, largest)


def _choice(cases: list[tuple[str, dict[str, str]]], name: str, otherwise: str) -> str:
    # Letters and tombstones have neither a partition nor a time of their own.
    whens = " ".join(
        f"WHEN {condition} THEN {columns.get(name, 'NULL')}" for condition, columns in cases
    )
    return f"CASE {whens} ELSE {otherwise} END"
