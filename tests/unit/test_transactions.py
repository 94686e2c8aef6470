"""Open transactions: which ones hang, which hold readers back, and in what words it is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import IsolationLevel
from kafka import TopicPartition
from kafka.admin import (
    PartitionProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from kafka.admin import ProducerState as Answer
from kafka.errors import CoordinatorLoadInProgressError

from headrace.admin import transaction_holds, transaction_partitions, transactions
from headrace.admin.client import Cluster
from headrace.admin.transaction_holds import Hold
from headrace.admin.transaction_partitions import (
    MAX_TIMEOUT_MS,
    OVERDUE_MS,
    OpenTransaction,
    ProducerState,
    Reason,
    open_in,
    reason,
    refuse_uncommitted,
    scope,
)
from headrace.admin.transactions import State, Transaction
from headrace.errors import (
    BrokerTimeout,
    CommitNotKnown,
    KafkaRefused,
    TransactionEnding,
    TransactionNotHanging,
)

NOW = 1_800_000_000_000
KNOWN = Transaction("pay", 1, 7, State.ONGOING, 0, 60_000, NOW - 30_000, (("orders", 0),))


def opened(
    known: Transaction | None = KNOWN, partition: int = 0, age_ms: int = 0
) -> OpenTransaction:
    producer = ProducerState("orders", partition, 7, 0, 2, NOW - age_ms, None, 5)
    return OpenTransaction("orders", partition, 5, producer, known)


def started(age_ms: int, state: State = State.ONGOING) -> Transaction:
    return replace(KNOWN, start_ms=NOW - age_ms, state=state)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(opened(), None, id="a coordinator has it"),
        pytest.param(opened(age_ms=2 * MAX_TIMEOUT_MS), None, id="silent for long, but in time"),
        pytest.param(opened(started(60_000 + OVERDUE_MS)), None, id="about to be aborted"),
        pytest.param(opened(started(60_001 + OVERDUE_MS)), Reason.OVERDUE, id="overdue"),
        pytest.param(
            opened(started(10**9, State.PREPARE_COMMIT)), Reason.OVERDUE, id="its end gets nowhere"
        ),
        pytest.param(opened(None, age_ms=MAX_TIMEOUT_MS), None, id="unknown, but young"),
        pytest.param(opened(None, age_ms=MAX_TIMEOUT_MS + 1), Reason.UNKNOWN, id="unknown"),
        pytest.param(opened(partition=1), None, id="left out, but young"),
        pytest.param(
            opened(partition=1, age_ms=MAX_TIMEOUT_MS + 1), Reason.LEFT_OUT, id="left out"
        ),
    ],
)
def test_a_transaction_hangs_when_nobody_will_end_it(
    found: OpenTransaction, expected: Reason | None
) -> None:
    assert reason(found, NOW, MAX_TIMEOUT_MS) is expected


def test_readers_wait_for_what_is_open_and_for_what_is_about_to_end() -> None:
    assert {state.value for state in State if state.open} == {
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "PrepareEpochFence",
    }
    assert {state.value for state in State} == {state.value for state in TransactionState}


def test_a_transaction_can_last_until_its_timeout_unless_its_end_is_decided() -> None:
    assert KNOWN.until_ms == NOW + 30_000
    assert started(1, State.PREPARE_ABORT).until_ms is None
    over = replace(KNOWN, state=State.COMPLETE_COMMIT)
    assert (over.since_ms, over.until_ms, over.start_ms) == (None, None, KNOWN.start_ms)


def test_a_producer_that_is_at_work_is_not_worth_a_word() -> None:
    usual = transaction_holds.USUAL_MS
    assert not Hold(9, opened(started(usual - 1))).lasting(NOW)
    assert Hold(9, opened(started(usual))).lasting(NOW)
    assert Hold(9, opened(None)).lasting(NOW)


def test_one_sentence_tells_what_waits_for_a_transaction_and_how_it_ends() -> None:
    shared = replace(KNOWN, id="pay all", partitions=(("orders", 0), ("orders", 1)))
    holds = [Hold(8, opened(shared)), Hold(6, opened(shared, partition=1))]

    (told,) = transaction_holds.in_words(holds, NOW)

    assert told == (
        "not readable yet: orders[0] from offset 5 on (up to 3 records), orders[1] from offset 5 "
        "on (1 record); transaction pay all (producer 7) is open since 2027-01-15T07:59:30.000Z, "
        "for 30 s, and can be until 2027-01-15T08:00:30.000Z; to end it now: "
        "`headrace txn abort 'pay all'`"
    )


def test_words_for_one_that_is_about_to_end_and_for_one_that_hangs() -> None:
    (ending,) = transaction_holds.in_words(
        [Hold(8, opened(started(90_000, State.PREPARE_COMMIT)))], NOW
    )
    assert "for 1 m 30 s, and about to end (PrepareCommit): see `headrace txn describe" in ending
    (hanging,) = transaction_holds.in_words([Hold(8, opened(None))], NOW)
    assert "a transaction of producer 7 is open there that no coordinator will end" in hanging
    assert "`headrace txn find-hanging --topic orders --max-transaction-timeout 1s`" in hanging


COMMITTED = replace(KNOWN, state=State.COMPLETE_COMMIT, partitions=())


@pytest.mark.parametrize("epoch", [0, 1], ids=["the same", "a new one with the end"])
def test_what_was_committed_may_be_committed_where_nobody_has_told_it(epoch: int) -> None:
    known = replace(COMMITTED, epoch=epoch)
    assert refuse_uncommitted(opened(known)) == known


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (None, "no coordinator knows its producer"),
        (replace(COMMITTED, state=State.COMPLETE_ABORT), "has pay as CompleteAbort, epoch 0"),
        (replace(COMMITTED, state=State.ONGOING), "has pay as Ongoing, epoch 0"),
        (replace(COMMITTED, epoch=2), "has pay as CompleteCommit, epoch 2"),
    ],
)
def test_nothing_else_may_be_committed(known: Transaction | None, said: str) -> None:
    with pytest.raises(CommitNotKnown, match=said):
        refuse_uncommitted(opened(known))
    with pytest.raises(TransactionNotHanging):
        refuse_uncommitted(opened())


class Brokers:
    """Stands for the admin client of a cluster with three brokers and these leaders."""

    def __init__(self, leaders: dict[tuple[str, int], int], stable: int = 5, end: int = 8) -> None:
        self._leaders, self._stable, self._end = leaders, stable, end

    def list_topics(self, **_: object) -> Any:
        topics: dict[str, Any] = {}
        for (name, partition), leader in self._leaders.items():
            topic = topics.setdefault(name, SimpleNamespace(partitions={}))
            topic.partitions[partition] = SimpleNamespace(leader=leader, replicas=[partition + 1])
        return SimpleNamespace(brokers={1: None, 2: None, 3: None}, topics=topics)

    def list_offsets(
        self, wanted: dict[Any, Any], isolation_level: IsolationLevel, **_: object
    ) -> dict[Any, Future[Any]]:
        committed = isolation_level is IsolationLevel.READ_COMMITTED
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(offset=self._stable if committed else self._end))
        return dict.fromkeys(wanted, answer)


def test_a_coordinator_that_is_still_reading_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loading:
        def __init__(self, *answers: Any) -> None:
            self.answers = list(answers)

        def list_transactions(self, **_: object) -> Any:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    loading = CoordinatorLoadInProgressError()
    client = Loading(loading, loading, {1: []})
    assert transactions.listed(client) == []
    monkeypatch.setattr(transactions, "SETTLE_SECONDS", -1.0)
    with pytest.raises(CoordinatorLoadInProgressError):
        transactions.listed(Loading(loading, {1: []}))


class Asked:
    """Stands for the second client: answers about producers one after the other.

    An answer is where the transaction of producer 7 begins in orders[0]; -1 where none is open.
    """

    def __init__(self, *begins: int, knows: bool = False) -> None:
        self._begins, self._knows = list(begins), knows

    def describe_producers(self, keys: Sequence[TopicPartition], _: int | None) -> Any:
        producer = Answer(7, 0, 2, NOW, -1, self._begins.pop(0))
        return {key: PartitionProducerState([producer]) for key in keys}

    def list_transactions(self, producer_id_filters: list[int]) -> Any:
        assert producer_id_filters == [7]
        return {1: [TransactionListing("pay", 7, TransactionState.ONGOING)] * self._knows}

    def describe_transactions(self, ids: list[str]) -> Any:
        written = {TopicPartition("orders", 0)}
        state = TransactionState.ONGOING
        return {id: TransactionDescription(1, state, 7, 0, 60_000, NOW, written) for id in ids}


Look = Callable[..., list[OpenTransaction]]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    def run(asked: Asked, coordinator: int = 1) -> list[OpenTransaction]:
        @contextmanager
        def client(*_: object, **__: object) -> Iterator[Asked]:
            yield asked

        monkeypatch.setattr(transaction_partitions, "admin_client", client)
        brokers = Brokers({("orders", 0): 1, ("__transaction_state", 0): coordinator})
        return open_in(Cluster("h:1", {}, brokers), [("orders", 0)])  # type: ignore[arg-type]

    return run


def test_a_transaction_that_a_coordinator_has_is_looked_at_once(look: Look) -> None:
    (found,) = look(Asked(5, knows=True))
    assert found.place == "orders[0]@5"
    assert found.owner is not None
    assert (found.owner.id, found.owner.until_ms) == ("pay", NOW + 60_000)


def test_one_that_ends_between_two_questions_is_not_taken_for_one_that_hangs(look: Look) -> None:
    assert look(Asked(5, -1)) == []
    assert look(Asked(5, 6)) == []


def test_one_that_stays_open_and_that_no_coordinator_knows_is_found(look: Look) -> None:
    (found,) = look(Asked(5, 5))
    assert (found.known, found.owner, found.begins) == (None, None, 5)


def test_without_all_coordinators_nothing_is_said_to_hang(look: Look) -> None:
    with pytest.raises(BrokerTimeout, match="1 of 1 coordinators have no broker"):
        look(Asked(5, 5), coordinator=-1)


def test_partitions_without_a_leader_are_told_apart() -> None:
    brokers = Brokers({("orders", 0): 1, ("orders", 1): -1, ("__consumer_offsets", 0): 3})
    cluster = Cluster("h:1", {}, brokers)  # type: ignore[arg-type]
    found = scope(cluster)
    assert found.led == (("__consumer_offsets", 0), ("orders", 0))
    assert found.leaderless == (("orders", 1),)
    assert scope(cluster, broker=2).leaderless == (("orders", 1),)
    assert scope(cluster, broker=2).led == ()
    with pytest.raises(KafkaRefused, match="the brokers are 1, 2, 3"):
        scope(cluster, broker=9)


def test_a_run_is_not_stopped_by_what_cannot_be_found_out() -> None:
    config = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
    }
    brokers = Brokers({("orders", 0): 1, ("orders", 1): -1})
    cluster = Cluster("h:1", config, brokers)  # type: ignore[arg-type]
    (told,) = transaction_holds.remarks(cluster, [("orders", 0), ("orders", 1)])
    assert told.startswith("whether open transactions hold back readers in orders[0] could not be")
    assert "not possible with the login mechanism OAUTHBEARER" in told


def test_where_all_is_committed_the_second_client_is_not_needed() -> None:
    brokers = Brokers({("orders", 0): 1}, stable=8)
    cluster = Cluster("h:1", {}, brokers)  # type: ignore[arg-type]
    assert list(transaction_holds.remarks(cluster, [("orders", 0)])) == []


def test_a_transaction_whose_end_is_decided_cannot_be_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Coordinator:
        def list_transactions(self, **_: object) -> Any:
            return {1: [TransactionListing("pay", 7, TransactionState.PREPARE_COMMIT)]}

        def describe_transactions(self, ids: list[str]) -> Any:
            left = {TopicPartition("orders", 1)}
            state = TransactionState.PREPARE_COMMIT
            return {id: TransactionDescription(1, state, 7, 0, 60_000, NOW, left) for id in ids}

    @contextmanager
    def client(*_: object) -> Iterator[Coordinator]:
        yield Coordinator()

    monkeypatch.setattr(transactions, "admin_client", client)
    with pytest.raises(TransactionEnding, match=r"PrepareCommit.*not written yet in orders\[1\]"):
        transactions.abort(Cluster("h:1", {}, None), KNOWN)  # type: ignore[arg-type]
