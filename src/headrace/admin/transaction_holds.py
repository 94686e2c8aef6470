"""Which transactions keep readers of committed records waiting, and how that is told.

Such a reader gets no further than the first record of the oldest open transaction of a partition,
however much lies behind it. It looks idle and says nothing, so a run asks here before it begins.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from headrace.admin import times
from headrace.admin.client import Cluster
from headrace.admin.offsets import TopicPartitionKey
from headrace.admin.quantities import duration
from headrace.admin.transaction_partitions import OpenTransaction, behind, open_in, with_leader
from headrace.admin.transactions import Transaction, places
from headrace.errors import HeadraceError

# Producers that always have a transaction open are healthy, and hold nobody back for long.
USUAL_MS = 10_000


@dataclass(frozen=True)
class Hold:
    """A partition that is read no further than `by.begins`, though it has records up to `end`."""

    end: int
    by: OpenTransaction

    @property
    def in_words(self) -> str:
        topic, partition = self.by.key
        waiting = self.end - self.by.begins
        most = f"up to {waiting:,} records" if waiting > 1 else "1 record"
        return f"{topic}[{partition}] from offset {self.by.begins} on ({most})"

    def lasting(self, now_ms: int) -> bool:
        """Whether it is more than the work of a healthy producer."""
        owner = self.by.owner
        if owner is None or owner.since_ms is None:
            return True
        return now_ms - owner.since_ms >= USUAL_MS


def holding_back(cluster: Cluster, partitions: Iterable[TopicPartitionKey]) -> list[Hold]:
    """For each partition whose committed records end before its records do: who is in the way.

    When that one ends, another that began later may be in the way in turn. A transaction that ends
    while this looks is left out.
    """
    held = behind(cluster, partitions)
    first: dict[TopicPartitionKey, OpenTransaction] = {}
    for each in open_in(cluster, held):
        first.setdefault(each.key, each)
    return [Hold(held[key][1], each) for key, each in first.items()]


def remarks(cluster: Cluster, partitions: Iterable[TopicPartitionKey]) -> Iterator[str]:
    """What to tell someone who is about to read these partitions; a sentence a transaction.

    Nothing is raised: what a login may not see, or brokers are too old for, only makes it say less.
    """
    held: Collection[TopicPartitionKey] = ()
    try:
        held = behind(cluster, with_leader(cluster, partitions))
        holds = holding_back(cluster, held)
    except HeadraceError as error:
        where = f" in {places(held)}" if held else ""
        yield f"whether open transactions hold back readers{where} could not be found out: {error}"
        return
    now = int(time.time() * 1000)
    yield from in_words([hold for hold in holds if hold.lasting(now)], now)


def in_words(holds: Sequence[Hold], now_ms: int) -> Iterator[str]:
    """One sentence for each transaction: what waits for it, since when, and how it ends."""
    shared: dict[Transaction, list[Hold]] = {}
    for hold in holds:
        if hold.by.owner is None:
            yield _hanging(hold)
        else:
            shared.setdefault(hold.by.owner, []).append(hold)
    for owner, held in shared.items():
        yield _open(held, owner, now_ms)


def _open(holds: Sequence[Hold], by: Transaction, now_ms: int) -> str:
    waiting = ", ".join(hold.in_words for hold in holds)
    told = f"not readable yet: {waiting}; transaction {by.id} (producer {by.producer_id}) is open"
    if by.since_ms is not None:
        age = duration((now_ms - by.since_ms) / 1000)
        told += f" since {times.show(by.since_ms)}, for {age}"
    if by.until_ms is None:
        return f"{told}, and about to end ({by.state}): see `headrace txn describe {quote(by.id)}`"
    return (
        f"{told}, and can be until {times.show(by.until_ms)}; "
        f"to end it now: `headrace txn abort {quote(by.id)}`"
    )


def _hanging(hold: Hold) -> str:
    return (
        f"not readable: {hold.in_words}; a transaction of producer {hold.by.producer.producer_id} "
        "is open there that no coordinator will end; how to end it is told by "
        f"`headrace txn find-hanging --topic {hold.by.topic} --max-transaction-timeout 1s`"
    )
