"""A member of a consumer group, for the sake of its partitions only: it reads no records itself.

Comes in: a cluster, a group, the topics. Goes out: the partitions that the group gives to this
member, by `holding`; and positions, by `committed` and `commit`. `runtime.sharing` reads the
partitions with Spark meanwhile.

A thread of its own polls all the time, so that the group sees a member that is alive however long a
batch takes. It is the only one that touches the client, which lets a second thread in only when the
first is out, and the first is in most of the time: others hand it what they want to have done.

Partitions that the group wants back are given up when nobody holds them, which is what lets a batch
in hand be written and committed first. Those that are lost, because the group has waited too long
or could not be reached, are gone at once.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from headrace.admin.client import REQUEST_SECONDS, Cluster, new_client
from headrace.admin.offsets import TopicPartitionKey
from headrace.errors import BrokerTimeout, HeadraceError, KafkaRefused

T = TypeVar("T")

POLL_SECONDS = 0.05
RETRY_SECONDS = 0.1
# How long one question may keep the thread from polling.
ASK_SECONDS = 5.0
_CLIENT = "headrace."
# How long leaving may take when no broker answers; the group then finds out by itself.
LEAVE_SECONDS = 10.0

# Which partitions are held, each with the number of the time that it was given to this member.
Held = Mapping[TopicPartitionKey, int]

# What a position says of its writer, so that others do not write over it unawares.
_MARK = "headrace shares: "

_SETTINGS = {
    # Only what moves is taken away, so others go on reading while one member finishes a batch.
    "partition.assignment.strategy": "cooperative-sticky",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Partitions are paused, and what comes before they are is thrown away: let it be little.
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 1024,
}
# The group is about to have a new assignment, or its coordinator is; either will pass.
_UNSETTLED = {KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION}
_SHUT_OUT = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._STATE,
}
# What librdkafka tells in passing and mends by itself.
_PASSING = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError._PARTITION_EOF,
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    # Whether a topic is gone for good is for the caller to find out.
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    *_UNSETTLED,
    KafkaError.UNKNOWN_MEMBER_ID,
}


@dataclass(frozen=True)
class Committed:
    """A position of the group, and what its writer has said of itself there."""

    offset: int
    by: str

    @property
    def sharer(self) -> str | None:
        """The pipeline that shares the partition and has come so far; None if it was another."""
        return self.by.removeprefix(_MARK) if self.by.startswith(_MARK) else None


class Membership:
    """One member of `group`, from `with` to the end of it, on behalf of `pipeline`.

    A failure of the membership itself is raised by the next call.
    """

    def __init__(
        self, cluster: Cluster, group: str, pipeline: str, settings: Mapping[str, str]
    ) -> None:
        """`settings` are librdkafka's."""
        self._cluster = cluster
        self._group = group
        self._pipeline = pipeline
        named = cluster.client_config(group_id=group, client_id=_CLIENT + pipeline)
        config = {**named, **_SETTINGS, **settings}
        self._consumer = new_client(Consumer, config)
        self._changed = threading.Condition()
        self._owned: dict[TopicPartitionKey, int] = {}
        self._given = 0
        self._assigned = self._held = self._giving = self._closing = False
        self._topics: tuple[str, ...] = ()
        self._failure: HeadraceError | None = None
        self._asked: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="headrace-member", daemon=True)

    def __enter__(self) -> Membership:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the group at once, so that others take over without waiting.

        Brokers that do not answer are not waited for: the group will find out by itself.
        """
        self._closing = True
        self._thread.join(LEAVE_SECONDS)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Take part in these topics from now on; may be called again with others."""
        self._topics = tuple(topics)

    @property
    def ended(self) -> bool:
        """Whether it has failed, and will give no more partitions."""
        return self._failure is not None or not self._thread.is_alive()

    @property
    def assigned(self) -> bool:
        """Whether the group has said at least once what this member is to read, if anything."""
        return self._assigned

    @contextmanager
    def holding(self) -> Iterator[Held]:
        """The partitions of this member; they stay with it to the end of the block, unless lost.

        Waits first until those that the group wants back are given up.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or not self._giving)
            self._refuse_failed()
            self._held = True
            owned = dict(self._owned)
        try:
            yield owned
        finally:
            with self._changed:
                self._held = False
                self._changed.notify_all()

    def still(self, held: Held) -> set[TopicPartitionKey]:
        """Those of `held` that have not been lost since."""
        with self._changed:
            return {key for key, given in held.items() if self._owned.get(key) == given}

    def committed(
        self, partitions: Iterable[TopicPartitionKey]
    ) -> dict[TopicPartitionKey, Committed]:
        """The positions of the group in these partitions, where it has any."""
        asked = [TopicPartition(*key) for key in partitions]
        if not asked:
            return {}
        answer = self._patiently(
            lambda: self._consumer.committed(asked, timeout=ASK_SECONDS),
            f"reading the offsets of group {self._group}",
        )
        return {
            _key(each): Committed(each.offset, each.metadata or "")
            for each in answer
            if each.error is None and each.offset >= 0
        }

    def commit(self, offsets: Mapping[TopicPartitionKey, int]) -> bool:
        """Store positions as this member; False if it is none any more, and nothing is stored.

        Waits for a group that is between two assignments. Raises when no coordinator answers.
        """
        by = _MARK + self._pipeline
        wanted = [TopicPartition(*key, offset, by) for key, offset in offsets.items()]
        try:
            self._patiently(lambda: self._commit(wanted), f"committing to group {self._group}")
        except _NoMember:
            return False
        return True

    def _commit(self, wanted: list[TopicPartition]) -> None:
        for each in self._consumer.commit(offsets=wanted, asynchronous=False) or ():
            if each.error is not None:
                raise KafkaException(each.error)

    def _patiently(self, call: Callable[[], T], action: str) -> T:
        """Let the thread make a call, again while a coordinator or an assignment is on its way."""
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                return self._ask(call)
            except KafkaException as failure:
                code, late = failure.args[0].code(), time.monotonic() > deadline
                if code in _SHUT_OUT or (late and code in _UNSETTLED):
                    raise _NoMember from failure
                error = self._cluster.translated(failure, action)
                if late or not (code in _UNSETTLED or error.retry):
                    raise error from failure
            time.sleep(RETRY_SECONDS)

    def _ask(self, call: Callable[[], T]) -> T:
        future: Future[T] = Future()
        self._asked.put((call, future))
        while True:
            with contextlib.suppress(FutureTimeout):
                return future.result(POLL_SECONDS)
            if not self._thread.is_alive():
                self._refuse_failed()
                raise BrokerTimeout(f"as a member of group {self._group}", "it has ended")

    def _refuse_failed(self) -> None:
        if self._failure is not None:
            raise self._failure

    # From here on everything runs in the thread that keeps the membership alive.

    def _work(self) -> None:
        topics: tuple[str, ...] = ()
        try:
            while not self._closing and self._failure is None:
                topics = self._follow(topics)
                message = self._consumer.poll(POLL_SECONDS)
                error = message.error() if message is not None else None
                if error is not None and error.code() not in _PASSING:
                    self._fail(error)
                self._serve()
        except KafkaException as failure:
            self._fail(failure.args[0])
        finally:
            self._consumer.close()

    def _follow(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        wanted = self._topics
        if wanted != topics:
            self._consumer.subscribe(
                list(wanted), on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
            )
        return wanted

    def _serve(self, seconds: float | None = None) -> None:
        """Do what is asked for; with `seconds`, wait for it that long."""
        with contextlib.suppress(queue.Empty):
            while True:
                call, future = self._asked.get(seconds is not None, seconds)
                try:
                    future.set_result(call())
                except Exception as error:
                    future.set_exception(error)

    def _fail(self, error: KafkaError) -> None:
        action = f"as a member of group {self._group}"
        failure = self._cluster.translated(KafkaException(error), action)
        if error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            others = "it has members that share its partitions by other rules"
            hint = "end those, or let them use `cooperative-sticky`, or name another consumer_group"
            failure = KafkaRefused(error.name(), action, others, hint)
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # At the end, so that there is nothing to fetch until they are paused.
        for each in partitions:
            each.offset = OFFSET_END
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        with self._changed:
            self._given += 1
            self._assigned = True
            self._owned.update((_key(each), self._given) for each in partitions)

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with self._changed:
            self._giving = True
        # Whoever holds them has them written and committed at the end of this: commits come here.
        while self._held:
            self._serve(POLL_SECONDS)
        self._give_up(consumer, partitions)
        with self._changed:
            self._giving = False
            self._changed.notify_all()

    def _lose(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions)

    def _give_up(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with self._changed:
            for each in partitions:
                self._owned.pop(_key(each), None)
        consumer.incremental_unassign(partitions)


def strangers(cluster: Cluster, group: str) -> list[str]:
    """The members of a group that are no pipelines, by their own names; empty if unknown."""
    # Not by the newer request, for which an admin client needs a coordinator that it may lose.
    try:
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            found = cluster.admin.list_groups(group, timeout=ASK_SECONDS)
    except KafkaException:
        return []
    clients = {str(member.client_id) for each in found for member in each.members}
    return sorted(client for client in clients if not client.startswith(_CLIENT))


class _NoMember(Exception):
    """The group has this member no more."""


def _key(partition: TopicPartition) -> TopicPartitionKey:
    return partition.topic, partition.partition
