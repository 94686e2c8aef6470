"""Transactions as the partitions know them: who has one open there, and whether it will ever end.

The leader of a partition knows the producers that have written to it, and at which offset a
transaction of theirs begins that is still open. It does not know the transactional id; that is
looked up at the coordinators by the producer's id. Where no coordinator knows the transaction,
nobody will end it: it hangs, and readers of committed records wait for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from headrace.admin import offsets, topics, transactions
from headrace.admin.client import Cluster
from headrace.admin.offsets import TopicPartitionKey
from headrace.admin.python_client import admin_client, refusal
from headrace.admin.transactions import State, Transaction
from headrace.errors import (
    BrokerTimeout,
    CommitNotKnown,
    KafkaRefused,
    NoOpenTransaction,
    TransactionNotHanging,
)

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

# The brokers' default for the longest timeout that a producer may ask for.
MAX_TIMEOUT_MS = 15 * 60 * 1000
# A coordinator looks for transactions past their timeout every ten seconds, by a clock of its own.
OVERDUE_MS = 60 * 1000
TRANSACTION_LOG = "__transaction_state"


@dataclass(frozen=True)
class ProducerState:
    """What the leader of a partition remembers of a producer that has written to it.

    `last_ms` is the time of its newest record, as the producer gave it. `begins` is the first
    offset of its open transaction, if it has one. `coordinator_epoch` is None until a first
    transaction has ended here.
    """

    topic: str
    partition: int
    producer_id: int
    epoch: int
    last_sequence: int
    last_ms: int
    coordinator_epoch: int | None
    begins: int | None

    @property
    def key(self) -> TopicPartitionKey:
        return self.topic, self.partition


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that is open in one partition, from `begins` on.

    `known` is what a coordinator says of its producer: None where none knows it. That may be
    another transaction of the same producer, which this partition is no part of.
    """

    topic: str
    partition: int
    begins: int
    producer: ProducerState
    known: Transaction | None

    @property
    def key(self) -> TopicPartitionKey:
        return self.topic, self.partition

    @property
    def place(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.begins}"

    @property
    def owner(self) -> Transaction | None:
        """The transaction whose end will be its end here."""
        return self.known if self.known and self.key in self.known.partitions else None


class Reason(StrEnum):
    """Why a transaction is said to hang."""

    UNKNOWN = "no coordinator knows it"
    LEFT_OUT = "its coordinator does not count this partition to it"
    OVERDUE = "its timeout has passed"


@dataclass(frozen=True)
class Hanging:
    open: OpenTransaction
    reason: Reason


@dataclass(frozen=True)
class Scope:
    """Partitions to look at, and those that cannot be, as they have no leader now."""

    led: tuple[TopicPartitionKey, ...]
    leaderless: tuple[TopicPartitionKey, ...]


def scope(
    cluster: Cluster,
    topic: str | None = None,
    partitions: Sequence[int] = (),
    broker: int | None = None,
) -> Scope:
    """All partitions, Kafka's own included; or those of a topic, or with a replica on a broker."""
    chosen = None if topic is None else set(topics.keys(cluster, topic, partitions))
    metadata = cluster.metadata("looking for partitions")
    if broker is not None and broker not in metadata.brokers:
        known = ", ".join(map(str, sorted(metadata.brokers)))
        raise KafkaRefused(
            "BROKER_NOT_AVAILABLE", f"looking at broker {broker}", f"the brokers are {known}"
        )
    found = {
        (name, number): each.leader
        for name, described in sorted(metadata.topics.items())
        for number, each in sorted(described.partitions.items())
        if (chosen is None or (name, number) in chosen)
        and (broker is None or broker in each.replicas)
    }
    return Scope(
        tuple(key for key, leader in found.items() if leader >= 0),
        tuple(key for key, leader in found.items() if leader < 0),
    )


def with_leader(
    cluster: Cluster, partitions: Iterable[TopicPartitionKey]
) -> list[TopicPartitionKey]:
    """Those that can be asked now."""
    led = set(scope(cluster).led)
    return [key for key in partitions if key in led]


def producers(
    cluster: Cluster, partitions: Iterable[TopicPartitionKey], broker: int | None = None
) -> list[ProducerState]:
    """Those that the leaders remember, or a broker that has a replica; sorted by partition."""
    keys = list(partitions)
    if not keys:
        return []
    with admin_client(cluster, "describing producers", topic=keys[0][0]) as client:
        return _producers(client, keys, broker)


def behind(
    cluster: Cluster, partitions: Iterable[TopicPartitionKey]
) -> dict[TopicPartitionKey, tuple[int, int]]:
    """The end of committed records and the end, of partitions where they differ."""
    keys = list(partitions)
    # In this order: the other way round, what is written in between would look held back.
    ends = offsets.latest(cluster, keys)
    stable = offsets.latest(cluster, keys, stable=True)
    return {
        key: (stable[key], end) for key, end in ends.items() if key in stable and stable[key] < end
    }


def find_hanging(
    cluster: Cluster,
    partitions: Iterable[TopicPartitionKey],
    now_ms: int,
    max_timeout_ms: int = MAX_TIMEOUT_MS,
) -> list[Hanging]:
    """Transactions that are open in these partitions, and that nobody will end in time.

    Those that no coordinator knows count when their newest record is older than `max_timeout_ms`.
    """
    found = open_in(cluster, behind(cluster, partitions))
    judged = [(each, reason(each, now_ms, max_timeout_ms)) for each in found]
    return [Hanging(each, why) for each, why in judged if why is not None]


def reason(each: OpenTransaction, now_ms: int, max_timeout_ms: int) -> Reason | None:
    """Why it hangs; None when it will end by itself, or is too young to tell."""
    if each.owner is not None:
        age = now_ms - (each.owner.start_ms or now_ms)
        return Reason.OVERDUE if age > each.owner.timeout_ms + OVERDUE_MS else None
    if now_ms - each.producer.last_ms <= max_timeout_ms:
        return None
    return Reason.UNKNOWN if each.known is None else Reason.LEFT_OUT


def open_in(cluster: Cluster, partitions: Collection[TopicPartitionKey]) -> list[OpenTransaction]:
    """All transactions that are open in these partitions, by partition and then by age."""
    if not partitions:
        return []
    with admin_client(cluster, "looking for open transactions") as client:
        seen = _open(client, partitions)
        known = _known(client, {each.producer_id for each, _ in seen})
        found = [
            OpenTransaction(*each.key, begins, each, known.get(each.producer_id))
            for each, begins in seen
        ]
        doubtful = {each.key for each in found if each.owner is None}
        if doubtful:
            refuse_blind(cluster)
            # One that ended after it was seen is no longer known either. What is open still was so
            # all the while, and its coordinator would have said so.
            still = {(each.key, each.producer_id, at) for each, at in _open(client, doubtful)}
            found = [
                each
                for each in found
                if each.owner or (each.key, each.producer.producer_id, each.begins) in still
            ]
    return sorted(found, key=lambda each: (each.key, each.begins))


def abort_hanging(cluster: Cluster, found: OpenTransaction) -> None:
    """Write the end of a transaction into its one partition, where no coordinator will.

    Refused when a coordinator has the transaction after all: its other partitions could still be
    committed.
    """
    found = open_at(cluster, found.topic, found.partition, found.begins)
    refuse_coordinated(found)
    _end(cluster, found, committed=False)


def commit_hanging(cluster: Cluster, found: OpenTransaction) -> None:
    """Write into a partition that its transaction was committed, which nobody has told it.

    Only where the coordinator has the latest transaction of the producer as committed.
    """
    found = open_at(cluster, found.topic, found.partition, found.begins)
    refuse_uncommitted(found)
    _end(cluster, found, committed=True)


def refuse_uncommitted(found: OpenTransaction) -> Transaction:
    """Raise `CommitNotKnown` unless the producer's latest transaction was committed; else that."""
    refuse_coordinated(found)
    known = found.known
    # Some clients get a new epoch with the end of each transaction, others keep theirs.
    epochs = (found.producer.epoch, found.producer.epoch + 1)
    if known is None or known.state is not State.COMPLETE_COMMIT or known.epoch not in epochs:
        said = "no coordinator knows its producer"
        if known is not None:
            said = f"its coordinator has {known.id} as {known.state}, epoch {known.epoch}"
        raise CommitNotKnown(found.place, said)
    return known


def _end(cluster: Cluster, found: OpenTransaction, committed: bool) -> None:
    from kafka.errors import NoError, for_code
    from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

    of_producer = WriteTxnMarkersRequest.WritableTxnMarker
    topic = of_producer.WritableTxnMarkerTopic(
        name=found.topic, partition_indexes=[found.partition]
    )
    marker = of_producer(
        producer_id=found.producer.producer_id,
        producer_epoch=found.producer.epoch,
        transaction_result=committed,
        topics=[topic],
        # One that no coordinator wrote has the oldest epoch that one could have.
        coordinator_epoch=found.producer.coordinator_epoch or 0,
    )
    action = f"ending the transaction at {found.place}"
    leader = cluster.metadata(action).topics[found.topic].partitions[found.partition].leader
    with admin_client(cluster, action) as client:
        # kafka-python has a call to abort, and none to commit.
        answer = client._manager.run(
            client._manager.send, WriteTxnMarkersRequest(markers=[marker]), leader
        )
    failure = for_code(answer.markers[0].topics[0].partitions[0].error_code)
    if failure is not NoError:
        raise refusal(failure, cluster, action, found.topic)


def refuse_coordinated(found: OpenTransaction) -> None:
    """Raise `TransactionNotHanging` for a transaction that its coordinator will end."""
    if found.owner is not None:
        raise TransactionNotHanging(found.place, found.owner.id, found.owner.state)


def open_at(cluster: Cluster, topic: str, partition: int, begins: int) -> OpenTransaction:
    """The transaction that begins at this offset; `NoOpenTransaction` when none does."""
    key = (topic, partition)
    found = open_in(cluster, topics.keys(cluster, topic, [partition]))
    for each in found:
        if each.begins == begins:
            return each
    raise NoOpenTransaction(*key, begins, [each.begins for each in found])


def refuse_blind(cluster: Cluster) -> None:
    """Without all coordinators, a transaction that none of the others knows proves nothing."""
    action = "asking for transactions"
    topic = cluster.metadata(action).topics.get(TRANSACTION_LOG)
    log = [] if topic is None else list(topic.partitions.values())
    lost = sum(each.leader < 0 for each in log)
    if lost:
        raise BrokerTimeout(action, f"{lost} of {len(log)} coordinators have no broker")


def _open(
    client: KafkaAdminClient, partitions: Iterable[TopicPartitionKey]
) -> list[tuple[ProducerState, int]]:
    """Producers with an open transaction, and where it begins."""
    found = _producers(client, partitions)
    return [(each, each.begins) for each in found if each.begins is not None]


def _known(client: KafkaAdminClient, producers: Collection[int]) -> dict[int, Transaction]:
    """What the coordinators say of these producers, of those that they know."""
    if not producers:
        return {}
    owned = [each.id for each in transactions.listed(client, producers)]
    return {each.producer_id: each for each in transactions.described(client, owned).values()}


def _producers(
    client: KafkaAdminClient, partitions: Iterable[TopicPartitionKey], broker: int | None = None
) -> list[ProducerState]:
    from kafka import TopicPartition

    answers = client.describe_producers([TopicPartition(*key) for key in partitions], broker)
    return [
        ProducerState(
            key.topic,
            key.partition,
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch if each.coordinator_epoch >= 0 else None,
            each.current_transaction_start_offset
            if each.current_transaction_start_offset >= 0
            else None,
        )
        for key, answer in sorted(answers.items())
        for each in sorted(answer.active_producers)
    ]
