"""`headrace txn` against a real Kafka, with producers that leave transactions open."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.protocol.producer.produce import ProduceRequest
from kafka.record.memory_records import MemoryRecordsBuilder

from headrace.admin import topics, transaction_holds, transactions
from headrace.admin.client import Cluster, connect
from headrace.admin.python_client import admin_client
from headrace.admin.transaction_partitions import scope
from headrace.cli import output
from headrace.cluster.process import wait_until
from headrace.testing.broker import kafka
from headrace.testing.fixtures import TopicMaker

Headrace = Callable[..., Any]
Unique = Callable[[str], str]
TIMEOUT_MS = 600_000
VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture
def left_open(cluster: Cluster) -> Iterator[Callable[..., Producer]]:
    """Begins a transaction, writes a record to each partition, and leaves it so until the end."""
    begun: list[Producer] = []

    def begin(id: str, topic: str, partitions: Sequence[int] = (0,)) -> Producer:
        producer = Producer(
            cluster.client_config(transactional_id=id, transaction_timeout_ms=TIMEOUT_MS)
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        begun.append(producer)
        for partition in partitions:
            producer.produce(topic, b"open", partition=partition)
        assert producer.flush(30) == 0
        return producer

    yield begin
    for producer in begun:
        try:
            producer.abort_transaction(30)
        except KafkaException:
            continue  # fenced, as a test has aborted it


def produce(cluster: Cluster, topic: str, value: bytes, partition: int = 0) -> None:
    producer = Producer(cluster.client_config())
    producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0


def test_an_open_transaction_is_listed_described_and_told_to_readers(
    headrace: Headrace,
    cluster: Cluster,
    topic: TopicMaker,
    unique: Unique,
    left_open: Callable[..., Producer],
) -> None:
    name, prefix = topic("paid", partitions=3), unique("shop")
    left_open(f"{prefix}.pay", name, (0, 1))
    done = left_open(f"{prefix}.done", name, (2,))
    done.commit_transaction(30)
    produce(cluster, name, b"behind it")

    rows = headrace("txn", "list", "--prefix", prefix, "-o", "json").value
    assert [(row["id"], row["state"]) for row in rows] == [
        (f"{prefix}.done", "CompleteCommit"),
        (f"{prefix}.pay", "Ongoing"),
    ]
    ended, pay = rows
    assert (ended["since"], ended["open_ms"]) == (None, None)
    assert pay["coordinator"] == 1
    assert pay["open_ms"] >= 0

    def listed(*options: object) -> list[str]:
        rows = headrace("txn", "list", "--prefix", prefix, "-o", "json", *options).value
        return [row["id"] for row in rows]

    assert listed("--state", "ongoing") == [pay["id"]]
    assert listed("--state", "Ongoing", "--state", "completecommit") == [ended["id"], pay["id"]]
    assert listed("--match", ".*[.]done") == [ended["id"]]
    assert listed("--match", "done") == []
    assert listed("--producer-id", pay["producer_id"]) == [pay["id"]]
    assert listed("--longer-than", "1h") == []
    assert wait_until(lambda: listed("--longer-than", "1ms") == [pay["id"]], 30)
    table = headrace("txn", "list", "--prefix", prefix)
    assert table.lines[0].split() == ["ID", "COORDINATOR", "PRODUCER_ID", "STATE", "SINCE", "OPEN"]
    none = headrace("txn", "list", "--prefix", prefix, "--state", "Dead")
    assert (none.code, len(none.lines)) == (0, 1)
    assert "transactional ids matches" in none.err

    found = headrace("txn", "describe", pay["id"], "-o", "json").value
    assert (found["timeout_ms"], found["since"]) == (TIMEOUT_MS, pay["since"])
    assert found["until"] > found["since"]
    assert found["partitions"] == [{"topic": name, "partition": n} for n in (0, 1)]
    told = headrace("txn", "describe", pay["id"])
    assert f"Id: {pay['id']}  State: Ongoing  Coordinator: 1" in told.lines[0]
    assert "Timeout: 10 m  Since: " in told.lines[0]
    assert [line.split() for line in told.lines[2:]] == [[name, "0"], [name, "1"]]
    assert "has no open transaction" in headrace("txn", "describe", ended["id"]).err

    writers = headrace("txn", "producers", name, "-o", "json").value
    assert [(row["partition"], row["producer_id"], row["begins"]) for row in writers] == [
        (0, pay["producer_id"], 0),
        (1, pay["producer_id"], 0),
        (2, ended["producer_id"], None),
    ]
    assert [row["coordinator_epoch"] is None for row in writers] == [True, True, False]
    still = headrace("txn", "producers", name, "--open", "-p", 1, "-p", 2, "--broker", 1)
    assert [line.split()[:2] for line in still.lines[1:]] == [["1", str(pay["producer_id"])]]

    first, second = transaction_holds.holding_back(cluster, [(name, n) for n in range(3)])
    assert (first.by.place, first.end) == (f"{name}[0]@0", 2)
    assert (second.by.place, second.end) == (f"{name}[1]@0", 1)
    assert first.by.owner == second.by.owner == transactions.describe(cluster, pay["id"])
    # It is too young to be worth a word yet, and known, so it does not hang.
    assert list(transaction_holds.remarks(cluster, [(name, 0)])) == []
    quiet = headrace("txn", "find-hanging", "--topic", name, "--max-transaction-timeout", "1ms")
    assert (quiet.code, len(quiet.lines)) == (0, 1)
    assert "no transaction hangs in 3 partitions" in quiet.err


def test_an_aborted_transaction_lets_readers_go_on_and_its_producer_is_refused(
    headrace: Headrace,
    cluster: Cluster,
    topic: TopicMaker,
    unique: Unique,
    left_open: Callable[..., Producer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, id = topic("paid"), unique("pay")
    producer = left_open(id, name)
    produce(cluster, name, b"behind it")

    def read() -> list[str]:
        return list(headrace("consume", name, "--from-beginning", "--until-end").lines)

    assert read() == []
    unasked = headrace("txn", "abort", id)
    assert (unasked.code, read()) == (2, [])
    assert "add --yes" in unasked.err
    assert f"written to so far: {name}[0]" in unasked.err
    torn = headrace("txn", "abort", "-t", name, "-p", 0, "--start-offset", 0, "--yes")
    assert (torn.code, read()) == (4, [])
    assert f"TransactionNotHanging the transaction at {name}[0]@0 does not hang" in torn.err

    done = headrace("txn", "abort", id, "--yes")
    assert done.code == 0
    assert f"the transaction of {id} is aborted, and its producer fenced" in done.err
    assert wait_until(lambda: read() == ["behind it"], 30)
    assert transactions.describe(cluster, id).timeout_ms == transactions.FENCE_TIMEOUT_MS
    with pytest.raises(KafkaException, match="fenced"):
        producer.commit_transaction(30)

    again = headrace("txn", "abort", id, "--yes")
    assert again.code == 0
    assert f"{id} has no open transaction; nothing was done" in again.err

    # While the question stands, its producer ends one and begins the next.
    producer = left_open(id, name)

    def meanwhile(*_: object) -> None:
        producer.commit_transaction(30)
        producer.begin_transaction()
        producer.produce(name, b"next", partition=0)
        assert producer.flush(30) == 0

    monkeypatch.setattr(output, "confirm", meanwhile)
    late = headrace("txn", "abort", id)
    assert f"the transaction of {id} has ended meanwhile; nothing was done" in late.err
    producer.commit_transaction(30)
    assert wait_until(lambda: read() == ["behind it", "open", "next"], 30)


@contextmanager
def unverified(cluster: Cluster) -> Iterator[None]:
    """The brokers take records of transactions that no coordinator has begun, as old ones did."""

    def verify(value: str) -> None:
        entry = ConfigEntry(VERIFICATION, value, incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        for future in cluster.admin.incremental_alter_configs([change]).values():
            future.result(30)

    verify("false")
    yield
    verify("true")


def write_unasked(client: KafkaAdminClient, topic: str, partition: int, producer: int) -> bool:
    """A record of a transaction, sent without a word to a coordinator; whether it was taken."""
    batch = MemoryRecordsBuilder(
        2, 0, 1 << 16, transactional=True, producer_id=producer, producer_epoch=0, base_sequence=0
    )
    batch.append(timestamp=int(time.time() * 1000), key=None, value=b"left", headers=[])
    batch.close()
    of_topic = ProduceRequest.TopicProduceData
    records = of_topic.PartitionProduceData(index=partition, records=batch.buffer())
    request = ProduceRequest(
        transactional_id="nobody",
        acks=-1,
        timeout_ms=30_000,
        topic_data=[of_topic(name=topic, partition_data=[records])],
        max_version=11,  # from the next on, the broker asks the coordinator by itself
    )
    answer = client._manager.run(lambda: client._manager.send(request, node_id=1))
    return bool(answer.responses[0].partition_responses[0].error_code == 0)


def test_a_hanging_transaction_is_found_and_ended_where_it_is(
    headrace: Headrace,
    cluster: Cluster,
    topic: TopicMaker,
    unique: Unique,
    left_open: Callable[..., Producer],
) -> None:
    """One of a producer that nobody knows, and one in a partition that its coordinator left out."""
    name, id = topic("paid", partitions=3), unique("pay")
    left_open(id, name, (2,))
    known, stranger = transactions.describe(cluster, id).producer_id, 9_876_543
    with unverified(cluster), admin_client(cluster, "leaving transactions open") as client:
        assert wait_until(lambda: write_unasked(client, name, 0, stranger), 30)
        assert wait_until(lambda: write_unasked(client, name, 1, known), 30)
    produce(cluster, name, b"behind it")

    def hanging(*options: object) -> list[tuple[Any, ...]]:
        rows = headrace("txn", "find-hanging", *options, "-o", "json").value
        columns = ("topic", "partition", "begins", "producer_id", "id", "reason")
        return [tuple(row[column] for column in columns) for row in rows if row["topic"] == name]

    both = [
        (name, 0, 0, stranger, None, "no coordinator knows it"),
        (name, 1, 0, known, id, "its coordinator does not count this partition to it"),
    ]
    assert hanging() == []  # younger than the longest timeout
    soon = ("--max-transaction-timeout", "1ms")
    assert wait_until(lambda: hanging(*soon) == both, 30)
    assert hanging(*soon, "--topic", name, "--partition", 1) == both[1:]
    assert hanging(*soon, "--broker", 1) == both
    shown = headrace("txn", "find-hanging", "--topic", name, *soon)
    command = f"headrace txn abort --topic {name} --partition 0 --start-offset 0"
    assert f"to end it: {command}" in shown.err

    told = list(transaction_holds.remarks(cluster, [(name, n) for n in range(3)]))
    assert len(told) == 2  # the third is at work, and young
    assert f"not readable: {name}[0] from offset 0 on (up to 2 records)" in told[0]
    assert f"`headrace txn find-hanging --topic {name} --max-transaction-timeout" in told[0]

    assert headrace("txn", "abort", "-t", name, "-p", 0, "--start-offset", 0).code == 2
    guess = headrace("txn", "commit", "-t", name, "-p", 0, "--start-offset", 0, "--yes")
    assert (guess.code, "CommitNotKnown nothing says that" in guess.err) == (4, True)
    for partition in (0, 1):
        place = ("-t", name, "-p", partition, "--start-offset", 0)
        done = headrace("txn", "abort", *place, "--yes")
        assert (done.code, done.err.splitlines()[-1]) == (
            0,
            f"the transaction at {name}[{partition}]@0 is aborted",
        )
    assert hanging(*soon) == []
    read = ("consume", name, "--from-beginning", "--until-end")
    assert wait_until(lambda: headrace(*read).lines == ["behind it"], 30)
    # The transaction that is at work has not been touched.
    assert transactions.describe(cluster, id).state is transactions.State.ONGOING


def test_what_is_wrong_or_not_there_is_said_in_clear_words(
    headrace: Headrace,
    topic: TopicMaker,
    unique: Unique,
    left_open: Callable[..., Producer],
) -> None:
    name, id = topic("quiet", partitions=2), unique("pay")
    left_open(id, name, ()).abort_transaction(30)

    near = headrace("txn", "describe", f"{id}s")
    assert (near.code, f"did you mean `{id}`" in near.err) == (4, True)
    far = headrace("txn", "abort", "0123456789", "--yes")
    assert far.code == 4
    assert "UnknownTransactionalId no coordinator knows the transactional id 0123456789" in far.err
    assert "see `headrace txn list`" in far.err

    nothing = headrace("txn", "abort", "-t", name, "-p", 1, "--start-offset", 0, "--yes")
    assert nothing.code == 4
    assert f"NoOpenTransaction no open transaction begins at {name}[1]@0" in nothing.err
    beyond = headrace("txn", "abort", "-t", name, "-p", 2, "--start-offset", 0, "--yes")
    assert (beyond.code, "it has 2 partition(s), counted from 0" in beyond.err) == (4, True)
    for missing in (("producers", f"{name}s"), ("find-hanging", "--topic", f"{name}s")):
        answer = headrace("txn", *missing)
        assert (answer.code, f"did you mean `{name}`" in answer.err) == (4, True)
    strange = headrace("txn", "find-hanging", "--broker", 9)
    assert (strange.code, "BROKER_NOT_AVAILABLE" in strange.err) == (4, True)
    unwritten = headrace("txn", "producers", name)
    assert f"no producer with an id has written in 2 partitions of topic {name}" in unwritten.err

    for unclear in ((id, "--topic", name), ("--topic", name), ("--start-offset", 3)):
        answer = headrace("txn", "abort", *unclear, "--yes")
        assert (answer.code, "not clear which transaction" in answer.err) == (2, True)
    for wrong in (
        ("list", "--match", "["),
        ("list", "--longer-than", "soon"),
        ("list", "--state", "odd"),
        ("find-hanging", "--partition", 1),
        ("find-hanging", "--max-transaction-timeout", "900000"),
    ):
        assert headrace("txn", *wrong).code == 2, wrong


def test_a_commit_that_a_partition_without_leader_has_missed_is_made_up_for(
    headrace: Headrace,
) -> None:
    """Kafka 4.3 tells its producer that all is committed, and never tells the partition.

    Also: several coordinators are asked, and a cluster without transactions is left as it is.
    """
    with kafka(brokers=3) as dev:
        at, cluster = ("-b", dev.bootstrap), connect(dev.bootstrap)
        assert "there are no transactional ids" in headrace("txn", "list", *at).err
        assert headrace("txn", "describe", "pay", *at).code == 4
        assert headrace("txn", "find-hanging", *at).code == 0
        assert topics.names(cluster) == []

        leader = topics.create(cluster, "solo", partitions=1, replication=1).partitions[0].leader
        assert leader is not None
        ids = [f"pay-{n}" for n in range(8)]
        producers = {id: Producer(cluster.client_config(transactional_id=id)) for id in ids}
        for producer in producers.values():
            producer.init_transactions(60)
        found = {row.id: row.coordinator for row in transactions.list_all(cluster)}
        assert (sorted(found), len(set(found.values())) > 1) == (ids, True)
        described = transactions.describe_all(cluster, ids)
        assert {id: each.coordinator for id, each in described.items()} == found

        id = next(id for id, coordinator in found.items() if coordinator != leader)
        producers[id].begin_transaction()
        producers[id].produce("solo", b"paid")
        assert producers[id].flush(30) == 0
        dev.stop(leader)
        assert wait_until(lambda: ("solo", 0) in scope(cluster).leaderless, 60)
        producers[id].commit_transaction(60)
        state = transactions.State.COMPLETE_COMMIT
        assert wait_until(lambda: transactions.describe(cluster, id).state is state, 60)
        unseen = headrace("txn", "find-hanging", *at)
        assert (unseen.code, "as they have no leader: solo[0]" in unseen.err) == (0, True)
        assert list(transaction_holds.remarks(cluster, [("solo", 0)])) == []

        dev.start(leader)
        assert wait_until(lambda: ("solo", 0) in scope(cluster).led, 60)
        look = ("txn", "find-hanging", "-t", "solo", "--max-transaction-timeout", "1ms", *at)
        (row,) = headrace(*look, "-o", "json").value
        assert (row["id"], row["state"]) == (id, "CompleteCommit")
        place = ("--topic", "solo", "--partition", "0", "--start-offset", "0")
        assert f"if it was committed: headrace txn commit {' '.join(place)}" in headrace(*look).err
        loss = headrace("txn", "abort", *place, *at)
        assert (loss.code, "records are lost: see" in loss.err) == (2, True)
        unasked = headrace("txn", "commit", *place, *at)
        assert unasked.code == 2
        assert f"the latest transaction of {id} began 20" in unasked.err
        done = headrace("txn", "commit", *place, "--yes", *at)
        assert (done.code, done.err.splitlines()[-1]) == (
            0,
            "the transaction at solo[0]@0 is committed",
        )
        read = ("consume", "solo", "--from-beginning", "--until-end", *at)
        assert wait_until(lambda: headrace(*read).lines == ["paid"], 60)
        assert headrace(*look, "-o", "json").value == []
