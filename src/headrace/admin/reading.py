"""Read records of a topic without moving anyone's position, or as a member of a group.

`consume` assigns partitions to itself: no group is joined and nothing is committed, unless a group
is named. `last` reads the youngest records of a topic and ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.admin import offsets, places, topics
from headrace.admin.client import Cluster, Trouble, new_client, translate
from headrace.admin.offsets import TopicPartitionKey
from headrace.admin.places import Latest, Place
from headrace.admin.records import Record
from headrace.errors import HeadraceError

POLL_SECONDS = 0.2
# How often a live reader looks for new partitions, and whether its topic is still there.
LOOK_SECONDS = 5.0
# How long a bounded reader bears that no broker answers.
LOST_SECONDS = 30.0
# Errors that librdkafka gets over by itself; while it tries, there is only nothing to read.
_PASSING = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


@dataclass(frozen=True)
class Until:
    """When to stop; with nothing set, never.

    `count`: after so many records. `idle_seconds`: when nothing has come for so long. `end`: at the
    end that the topic had when reading began. `stopped` is asked between polls.
    """

    count: int | None = None
    idle_seconds: float | None = None
    end: bool = False
    stopped: Callable[[], bool] = lambda: False


LIVE = Latest()
FOREVER = Until()


def consume(
    cluster: Cluster,
    topic: str,
    place: Place = LIVE,
    until: Until = FOREVER,
    partitions: Sequence[int] = (),
    committed_only: bool = True,
) -> Iterator[Record]:
    """Records in the order of each partition, from `place` on; nobody's position is moved.

    `committed_only` leaves out records of transactions that are open or aborted.
    """
    keys = topics.keys(cluster, topic, partitions)
    starts = places.resolve(cluster, place, keys)
    ends = offsets.latest(cluster, keys, stable=committed_only) if until.end else None
    with _session(cluster, topic, _loner_settings(committed_only)) as session:
        session.assign(starts, grows=ends is None and not partitions)
        yield from _records(session, until, _Ends(starts, ends))


def consume_as_member(
    cluster: Cluster,
    topic: str,
    group: str,
    from_beginning: bool = False,
    until: Until = FOREVER,
    committed_only: bool = True,
) -> Iterator[Record]:
    """Records of the partitions that the group gives to this member; the group's position moves.

    A record counts as read when the next one is asked for, so that one that the caller could not
    finish comes again. `from_beginning` matters only where the group has no position yet.
    """
    topics.describe(cluster, topic)
    settings = _member_settings(group, from_beginning, committed_only)
    with _session(cluster, topic, settings) as session:
        session.subscribe()
        yield from _records(session, until, _Ends({}, None))


def last(
    cluster: Cluster,
    topic: str,
    count: int,
    partitions: Sequence[int] = (),
    committed_only: bool = True,
) -> list[Record]:
    """The `count` youngest records over the chosen partitions, oldest first."""
    keys = topics.keys(cluster, topic, partitions)
    low = offsets.earliest(cluster, keys)
    high = offsets.latest(cluster, keys, stable=committed_only)
    back = count
    while True:
        starts = places.clamp({key: high[key] - back for key in high}, low, high)
        found = list(
            consume(
                cluster, topic, places.Listed(starts), Until(end=True), partitions, committed_only
            )
        )
        # Offsets of markers and of compacted records hold nothing to show, so look further back.
        if len(found) >= count or starts == low:
            return youngest(found, count)
        back *= 4


def youngest(records: Sequence[Record], count: int) -> list[Record]:
    """The `count` youngest of the records, oldest first, each partition in its own order.

    Taken one by one from the partitions' ends, so that of each partition the last ones stay even
    when their timestamps run backwards.
    """
    tails: dict[int | None, list[Record]] = {}
    for record in records:
        tails.setdefault(record.partition, []).append(record)
    taken: list[Record] = []
    while len(taken) < count and tails:
        partition = max(tails, key=lambda each: tails[each][-1].timestamp or 0)
        taken.append(tails[partition].pop())
        if not tails[partition]:
            del tails[partition]
    return taken[::-1]


def _loner_settings(committed_only: bool) -> dict[str, Any]:
    return {
        # librdkafka wants a name here; no group of it is made, as nothing joins or commits.
        "group_id": "headrace-consume",
        "enable_auto_commit": False,
        "enable_auto_offset_store": False,
        "enable_partition_eof": True,
        "auto_offset_reset": "earliest",
        "isolation_level": _isolation(committed_only),
    }


def _member_settings(group: str, from_beginning: bool, committed_only: bool) -> dict[str, Any]:
    return {
        "group_id": group,
        "enable_auto_commit": True,
        "enable_auto_offset_store": False,
        "auto_offset_reset": "earliest" if from_beginning else "latest",
        "isolation_level": _isolation(committed_only),
    }


def _isolation(committed_only: bool) -> str:
    return "read_committed" if committed_only else "read_uncommitted"


class _Ends:
    """Which partitions are still to be read to their end; without ends, all of them, for ever."""

    def __init__(
        self,
        starts: Mapping[TopicPartitionKey, int],
        ends: Mapping[TopicPartitionKey, int] | None,
    ) -> None:
        self.bounded = ends is not None
        self._open = {key: end for key, end in (ends or {}).items() if starts.get(key, end) < end}

    def reached(self) -> bool:
        return self.bounded and not self._open

    def admit(self, message: Message) -> bool:
        """Whether the message is a record to give out; closes its partition when it is the last."""
        key, offset = (str(message.topic()), message.partition() or 0), message.offset() or 0
        # The client tells where a partition ends now: markers and compacted records are passed by.
        past_end = message.error() is not None
        if not self.bounded:
            return not past_end
        end = self._open.get(key, 0)
        if offset + (0 if past_end else 1) >= end:
            self._open.pop(key, None)
        return not past_end and offset < end


class _Session:
    """An open consumer of one topic, with the time it last had a record."""

    def __init__(self, cluster: Cluster, topic: str, consumer: Consumer, trouble: Trouble) -> None:
        self._cluster, self._topic = cluster, topic
        self._consumer, self._trouble = consumer, trouble
        self._member = False
        self._known: set[TopicPartitionKey] | None = None
        self._heard = self._looked = time.monotonic()

    def assign(self, starts: Mapping[TopicPartitionKey, int], grows: bool) -> None:
        """Read these partitions; when it `grows`, also those that the topic gets later."""
        self._known = set(starts) if grows else None
        self._consumer.assign([TopicPartition(*key, offset) for key, offset in starts.items()])

    def subscribe(self) -> None:
        self._member = True
        self._consumer.subscribe([self._topic], on_assign=self._assigned)

    def poll(self, bounded: bool) -> Message | None:
        """The next record or end of a partition, or None when there was none for a moment."""
        message = self._consumer.poll(POLL_SECONDS)
        if message is None:
            self._look(bounded)
            return None
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            self._trouble.all_down_since = None
            return message
        if error.code() in _PASSING:
            return None
        action = f"reading topic {self._topic}"
        raise translate(error, action, self._cluster.bootstrap, self._topic)

    def finish(self, message: Message) -> None:
        """The caller is done with a record; only now may the group's position pass it."""
        self._heard = time.monotonic()
        if self._member:
            # A partition that went to another member meanwhile is no longer ours to store.
            with suppress(KafkaException):
                self._consumer.store_offsets(message)

    def idle(self, seconds: float | None) -> bool:
        return seconds is not None and time.monotonic() - self._heard >= seconds

    def _assigned(self, _: Consumer, __: list[TopicPartition]) -> None:
        # Joining takes seconds, in which nothing can come.
        self._heard = time.monotonic()

    def _look(self, bounded: bool) -> None:
        now = time.monotonic()
        if bounded and self._trouble.down_seconds() > LOST_SECONDS:
            raise self._trouble.error(self._cluster.bootstrap)
        if self._known is not None and now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._adopt(self._known)

    def _adopt(self, known: set[TopicPartitionKey]) -> None:
        """Read partitions that are new, from their start: all they hold is news."""
        try:
            new = set(topics.keys(self._cluster, self._topic)) - known
        except HeadraceError as error:
            if error.retry:
                return
            raise
        if new:
            known |= new
            self._consumer.incremental_assign([TopicPartition(*key, 0) for key in new])


@contextmanager
def _session(cluster: Cluster, topic: str, settings: dict[str, Any]) -> Iterator[_Session]:
    trouble = Trouble()
    config = {**cluster.client_config(**settings), "error_cb": trouble.note}
    consumer = new_client(Consumer, config)
    try:
        yield _Session(cluster, topic, consumer, trouble)
    finally:
        consumer.close()


def _records(session: _Session, until: Until, ends: _Ends) -> Iterator[Record]:
    count = 0
    while not (
        ends.reached()
        or count == until.count
        or session.idle(until.idle_seconds)
        or until.stopped()
    ):
        message = session.poll(ends.bounded)
        if message is not None and ends.admit(message):
            count += 1
            yield _record(message)
            session.finish(message)


def _record(message: Message) -> Record:
    kind, timestamp = message.timestamp()
    return Record(
        value=message.value(),
        key=message.key(),
        headers=tuple(cast("list[tuple[str, bytes | None]]", message.headers() or [])),
        partition=message.partition(),
        timestamp=timestamp if kind else None,
        offset=message.offset(),
        topic=str(message.topic()),
    )
