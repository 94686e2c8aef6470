"""Batches of messages, written exactly once by Spark's tasks.

`by_lineage` gives each partition of the source a task and transactions of its own, `by_batch` all
rows of a batch one task and one transaction; `kafka_transactions` has the steps of a transaction.
Both run a job from the driver. What its tasks use needs no Headrace on the executors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.formats.carried import COLUMN
from headrace.sinks import kafka_producer, kafka_transactions
from headrace.sinks.kafka_transactions import NotCommitted, Place, Transaction, Work

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

# Columns beside those of a message: the record that a row comes from.
SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET = "__topic", "__partition", "__offset"
_REPORT = "topic STRING, partition INT, sent BIGINT"


# By lineage: one transaction, or several one after the other, for each partition of the source.


def by_lineage(
    rows: DataFrame, expressions: Mapping[str, str], work: Work, ends: Mapping[Place, int]
) -> dict[Place, int]:
    """Write what `expressions` make of `rows`, which have the hidden column of a source.

    `ends` are where the ranges of its partitions end. Returns, for each partition that had rows,
    how many were written now; its entry is at the end of its range then.
    """
    traced = {
        **expressions,
        SOURCE_TOPIC: f"{COLUMN}.topic",
        SOURCE_PARTITION: f"{COLUMN}.partition",
        SOURCE_OFFSET: f"{COLUMN}.offset",
    }
    known = dict(ends)

    def deliver(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _deliver_range(work, known, batches)

    found = _run(rows, traced, deliver)
    return {(row["topic"], row["partition"]): row["sent"] for row in found}


def _deliver_range(
    work: Work, ends: Mapping[Place, int], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One task: all rows of one partition of the source, in the order of their offsets."""
    writer: RangeWriter | None = None
    try:
        for batch in batches:
            if batch.num_rows:
                writer = writer or _range_writer(work, ends, batch)
                writer.take(batch)
        if writer is not None:
            yield writer.finish()
    except BaseException:
        if writer is not None:
            writer.abort()
        raise


def _range_writer(work: Work, ends: Mapping[Place, int], first: pa.RecordBatch) -> RangeWriter:
    topic, partition = (
        first.column(SOURCE_TOPIC)[0].as_py(),
        first.column(SOURCE_PARTITION)[0].as_py(),
    )
    return RangeWriter(work, (topic, partition), ends[topic, partition])


class RangeWriter:
    """Writes the rows of one partition of the source, up to the `end` of its range."""

    def __init__(self, work: Work, place: Place, end: int) -> None:
        self._work = work
        self._place = place
        self._end = end
        self._last = -1
        self._sent = 0
        self._transaction, self._covered = self._open()

    def _open(self) -> tuple[Transaction, int]:
        """Steps 1 and 2: a transaction, and up to where the range is done."""
        reach = self._work.fuse.reach
        reach("eos.begin")
        identity = self._work.ledger.transactional_id(self._place)
        transaction = Transaction(self._work, self._place, identity)  # 1
        try:
            reach("eos.initiated")
            entry = transaction.own()  # 2
            reach("eos.ledger")
        except BaseException:
            transaction.close()
            raise
        return transaction, entry.offset

    def take(self, batch: pa.RecordBatch) -> None:
        """Step 3 for some rows, without those that are done."""
        offsets = self._offsets(batch)
        done = int(offsets.searchsorted(self._covered))
        rows, offsets = batch.slice(done), offsets[done:]
        if not len(offsets):
            return
        if self._transaction.due:
            rows = self._cut(rows, offsets)
        self._send(rows)
        self._last = int(offsets[-1])
        self._work.fuse.reach("eos.producing")

    def finish(self) -> pa.RecordBatch:
        if self._covered < self._end:
            self._transaction.commit(self._work.entry(self._place, self._end))
        self._transaction.close()
        return _report(self._place, self._sent)

    def abort(self) -> None:
        self._transaction.abort()
        self._transaction.close()

    def _offsets(self, batch: pa.RecordBatch) -> Any:
        """The records that the rows come from: of one partition, and never a smaller one again."""
        import pyarrow.compute as pc

        places = (
            pc.all(pc.equal(batch.column(SOURCE_TOPIC), self._place[0])),
            pc.all(pc.equal(batch.column(SOURCE_PARTITION), self._place[1])),
        )
        offsets = batch.column(SOURCE_OFFSET).to_numpy()
        in_order = offsets[0] >= self._last and bool((offsets[1:] >= offsets[:-1]).all())
        if not (in_order and all(each.as_py() for each in places)):
            raise NotCommitted("disorder", self._work, self._place)
        return offsets

    def _cut(self, rows: pa.RecordBatch, offsets: Any) -> pa.RecordBatch:
        """End the open transaction before the rows of the last record; these are left to send."""
        last = int(offsets[-1])
        first = int(offsets.searchsorted(last))
        if first == 0 and last == self._last:
            return rows  # rows of this record have been sent already
        self._send(rows.slice(0, first))
        self._transaction.commit(self._work.entry(self._place, last))
        self._transaction.close()
        self._transaction, self._covered = self._open()
        return rows.slice(first)

    def _send(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._transaction.send(rows)
            self._sent += rows.num_rows


# By batch: one transaction for all rows of a batch.


def by_batch(
    rows: DataFrame, expressions: Mapping[str, str], work: Work, place: Place, number: int
) -> int | None:
    """Write what `expressions` make of `rows` as the batch of this `number`, once.

    The entry at `place` tells the number of the next batch. Rows of one that is done are read all
    the same, as the query before them may have a state. Returns how many were written now, or None
    if no task has run.
    """

    def deliver(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _deliver_whole(work, place, number, batches)

    # A transaction has one producer, and so one task; those before it may be many.
    found = _run(rows, expressions, deliver, tasks=1)
    return sum(row["sent"] for row in found) if found else None


def _deliver_whole(
    work: Work, place: Place, number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    reach = work.fuse.reach
    reach("eos.begin")
    transaction = Transaction(work, place, work.ledger.transactional_id())  # 1
    try:
        reach("eos.initiated")
        done = transaction.own().offset > number  # 2
        reach("eos.ledger")
        sent = 0
        for batch in batches:
            if batch.num_rows and not done:
                transaction.send(batch)  # 3
                sent += batch.num_rows
                reach("eos.producing")
        if not done:
            transaction.commit(work.entry(place, number + 1))  # 4, 5
    except BaseException:
        transaction.abort()
        raise
    finally:
        transaction.close()
    yield _report(place, sent)


def _run(
    rows: DataFrame,
    expressions: Mapping[str, str],
    deliver: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    tasks: int | None = None,
) -> list[Any]:
    from pyspark import cloudpickle

    for module in (sys.modules[__name__], kafka_transactions, kafka_producer):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    messages = rows.selectExpr(*(f"{sql} AS {name}" for name, sql in expressions.items()))
    if tasks is not None:
        messages = messages.repartition(tasks)
    return messages.mapInArrow(deliver, _REPORT).collect()


def _report(place: Place, sent: int) -> pa.RecordBatch:
    import pyarrow as pa

    kinds = pa.schema({"topic": pa.string(), "partition": pa.int32(), "sent": pa.int64()})
    columns = {"topic": [place[0]], "partition": [place[1]], "sent": [sent]}
    return pa.RecordBatch.from_pydict(columns, schema=kinds)
