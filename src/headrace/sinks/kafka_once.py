"""What a Kafka sink does for one batch that is to be written exactly once; on the driver.

`kafka_deliveries` writes the messages, `kafka_transactions` has the steps of each transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.sinks import kafka_deliveries, kafka_transactions
from headrace.sinks.kafka_transactions import Fuse, Ledger, Place, Work
from headrace.sinks.writer import Once, Way

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# By lineage a transaction can end in the middle of a range, by batch only at its end.
TIMEOUT_MS = {Way.LINEAGE: 60_000, Way.BATCH: 300_000}
# Each entry needs some round trips to the broker and hardly any work here.
_AT_ONCE = 16


def work(config: Mapping[str, Any], ledger: Ledger, timeout_ms: int, once: Once) -> Work:
    fuse = Fuse(once.dies_at, once.dies_with)
    return Work(config, ledger, timeout_ms, once.life, once.owner, once.topic_ids, fuse)


def send(
    rows: DataFrame,
    expressions: Mapping[str, str],
    work: Work,
    once: Once,
    place: Place | None,
) -> None:
    """Write what `expressions` make of `rows`; returns when messages and ledger are committed.

    `place` is where the ledger notes a whole batch.
    """
    if once.way is Way.LINEAGE:
        written = kafka_deliveries.by_lineage(rows, expressions, work, once.ends)
        silent = [key for key in once.ranges if key not in written]
        here = _on_the_driver(work)
        at_once(lambda key: kafka_transactions.advance(here, key, key, once.ends[key]), silent)
        return
    assert place is not None  # refused when the plan was made
    if kafka_deliveries.by_batch(rows, expressions, work, place, once.number) is None:
        kafka_transactions.advance(_on_the_driver(work), place, None, once.number + 1)


def _on_the_driver(work: Work) -> Work:
    """A task that is to die alone must not take the driver for itself."""
    return replace(work, fuse=Fuse()) if work.fuse.driver is None else work


def at_once(act: Callable[[Place], Any], places: Iterable[Place]) -> None:
    """For each of them, side by side; raises what the first of them fails with."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="headrace-ledger") as pool:
        for done in [pool.submit(act, place) for place in places]:
            done.result()
