"""Transactions as their coordinators know them: list and describe them, and end one by its id.

A coordinator is a broker. For each transactional id that it looks after, it knows the producer, the
state, the timeout, and which partitions the open transaction has written to. What the partitions
themselves know, which is what shows that one hangs, is in `transaction_partitions`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import KafkaException, Producer

from headrace.admin.client import REQUEST_SECONDS, Cluster, new_client
from headrace.admin.offsets import TopicPartitionKey
from headrace.admin.python_client import admin_client
from headrace.errors import TransactionEnding, UnknownTransactionalId

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

# The coordinator keeps the timeout of whoever asked last, and ours never begins a transaction. So
# this one only has to be no more than the brokers allow, and no less than librdkafka takes.
FENCE_TIMEOUT_MS = 60_000
LEAST_TIMEOUT_MS = 1_000
SETTLE_SECONDS = 10.0
ASK_AGAIN_SECONDS = 0.1

T = TypeVar("T")


class State(StrEnum):
    """Of a transactional id, by Kafka's names. In the `Prepare…` ones the end is decided, and
    partitions are being told.
    """

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    UNKNOWN = "Unknown"

    @property
    def open(self) -> bool:
        """Whether there is a transaction that readers of committed records wait for."""
        return self is State.ONGOING or self.ending

    @property
    def ending(self) -> bool:
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT, State.PREPARE_EPOCH_FENCE)


@dataclass(frozen=True)
class Listing:
    """A transactional id in short; `coordinator` is a broker's id."""

    id: str
    coordinator: int
    producer_id: int
    state: State


@dataclass(frozen=True)
class Transaction(Listing):
    """A transactional id in full; `start_ms` and `partitions` are of its latest transaction.

    While that ends, `partitions` are those that have not been told yet; then there are none.
    """

    epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartitionKey, ...]

    @property
    def since_ms(self) -> int | None:
        """When the transaction that is open began; None when none is."""
        return self.start_ms if self.state.open else None

    @property
    def until_ms(self) -> int | None:
        """When its coordinator aborts it; None when nothing is open, or the end is decided."""
        if self.start_ms is None or self.state is not State.ONGOING:
            return None
        return self.start_ms + self.timeout_ms


def list_all(cluster: Cluster) -> list[Listing]:
    """All transactional ids that the login may describe, sorted."""
    with admin_client(cluster, "listing transactions") as client:
        return listed(client)


def ids(cluster: Cluster) -> list[str]:
    return [each.id for each in list_all(cluster)]


def describe(cluster: Cluster, id: str) -> Transaction:
    """One transactional id; `UnknownTransactionalId`, with the nearest ones as its hint."""
    with admin_client(cluster, f"describing transactional id {id}") as client:
        # First the list: to ask for the coordinator of an id makes Kafka's topic of transactions on
        # a cluster that never had any.
        known = [each.id for each in listed(client)]
        if id in known:
            return described(client, [id])[id]
    raise _unknown(id, known)


def describe_all(cluster: Cluster, ids: Collection[str]) -> dict[str, Transaction]:
    """Several that exist, by id."""
    if not ids:
        return {}
    with admin_client(cluster, "describing transactions") as client:
        return described(client, ids)


def abort(cluster: Cluster, seen: Transaction) -> bool:
    """End the transaction that was `seen` open, and fence its producer; False when it is over.

    A transaction that its producer has begun since is not touched. Once its end is decided it
    cannot be aborted: `TransactionEnding`.
    """
    now = describe(cluster, seen.id)
    if now.state.ending:
        raise TransactionEnding(now.id, now.state, places(now.partitions))
    if (now.epoch, now.start_ms) != (seen.epoch, seen.start_ms) or not now.state.open:
        return False
    _fence(cluster, now)
    return True


def places(partitions: Iterable[TopicPartitionKey]) -> str:
    """`orders[0], orders[1]`."""
    return ", ".join(f"{topic}[{partition}]" for topic, partition in partitions)


def listed(client: KafkaAdminClient, producers: Collection[int] = ()) -> list[Listing]:
    """All transactional ids, or those of these producers, through a client that is open."""
    answer = _settled(lambda: client.list_transactions(producer_id_filters=list(producers)))
    found = [
        Listing(each.transactional_id, broker, each.producer_id, State(each.state.value))
        for broker, listings in answer.items()
        for each in listings
    ]
    return sorted(found, key=lambda each: each.id)


def described(client: KafkaAdminClient, ids: Collection[str]) -> dict[str, Transaction]:
    """Those of these ids in full, through a client that is open; all of them must exist."""
    answers = _settled(lambda: client.describe_transactions(list(ids)))
    return {
        id: Transaction(
            id,
            answer.coordinator_id,
            answer.producer_id,
            State(answer.state.value),
            answer.producer_epoch,
            answer.transaction_timeout_ms,
            answer.transaction_start_time_ms if answer.transaction_start_time_ms >= 0 else None,
            tuple(sorted((each.topic, each.partition) for each in answer.topic_partitions)),
        )
        for id, answer in answers.items()
    }


def _settled(ask: Callable[[], T]) -> T:
    """The answer of coordinators, of which some may have just taken over and still be reading."""
    from kafka import errors

    passing = (
        errors.CoordinatorLoadInProgressError,
        errors.CoordinatorNotAvailableError,
        errors.NotCoordinatorError,
    )
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        try:
            return ask()
        except passing:
            if time.monotonic() > deadline:
                raise
            time.sleep(ASK_AGAIN_SECONDS)


def _fence(cluster: Cluster, transaction: Transaction) -> None:
    """Become the producer with this id, which aborts what an older one has open."""
    timeout = max(min(transaction.timeout_ms, FENCE_TIMEOUT_MS), LEAST_TIMEOUT_MS)
    settings = cluster.client_config(
        transactional_id=transaction.id, transaction_timeout_ms=timeout
    )
    producer = new_client(Producer, settings)
    try:
        producer.init_transactions(REQUEST_SECONDS)
    except KafkaException as failure:
        action = f"aborting the transaction of {transaction.id}"
        raise cluster.translated(failure, action) from failure


def _unknown(id: str, known: Sequence[str]) -> UnknownTransactionalId:
    """The error for an id that is missing, which says what the user may have meant."""
    error = UnknownTransactionalId(id)
    near = get_close_matches(id, known, n=3)
    if near:
        error.hint = "did you mean " + " or ".join(f"`{candidate}`" for candidate in near) + "?"
    return error
