"""What an ordeal happens in: three brokers, topics, records that come in, readers of what goes out.

Everything is on the loopback address and in one folder, and nothing of it is left afterwards except
that folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from chaos import records
from chaos.checks import Truth
from chaos.history import Source
from chaos.processes import ROOT, VARIABLE
from headrace.admin import topics
from headrace.admin.client import Cluster, connect
from headrace.cluster.dev import DevCluster
from headrace.cluster.process import wait_until
from headrace.errors import HeadraceError
from headrace.testing.broker import kafka

IN, OUT, DEAD = "chaos.in", "chaos.out", "chaos.dlq"
PARTITIONS = {IN: 4, OUT: 3, DEAD: 2}
BROKERS = 3
TRANSACTION_SECONDS = 10
SETTLE_SECONDS = 180.0
# Deaths are noticed soon, and a transaction that is past its time is aborted within a second.
BROKER_SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "3000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
# A topic that survives one broker, in which nothing counts as written that only one broker has.
SAFE = {"min.insync.replicas": "2"}


class NotSettled(Exception):
    def __init__(self, what: str) -> None:
        super().__init__(f"{what} after {SETTLE_SECONDS:.0f} s")


@dataclass(frozen=True)
class Expected:
    """What must become of the records of the source, read from the source itself."""

    topics: Truth
    rows: Truth
    keys: dict[bytes, Source]


@dataclass
class World:
    folder: Path
    mark: str
    brokers: DevCluster
    cluster: Cluster
    feeder: Feeder

    # Brokers

    @contextmanager
    def dead_broker(self, number: int) -> Iterator[None]:
        self.brokers.kill(number)
        try:
            yield
        finally:
            self.brokers.start(number)
        self.await_in_sync()

    @contextmanager
    def frozen_broker(self, number: int) -> Iterator[None]:
        status = self.brokers.status()
        pid = next(node.pid for node in status.nodes if node.node == number) if status else None
        process = psutil.Process(pid)
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)
        self.await_in_sync()

    def await_in_sync(self) -> None:
        if not wait_until(self._in_sync, SETTLE_SECONDS, pause=0.2):
            raise NotSettled("partitions are not in sync")

    def _in_sync(self) -> bool:
        try:
            found = topics.list_all(self.cluster, internal=True)
        except HeadraceError:
            return False
        return not any(topic.under_replicated or topic.leaderless for topic in found)

    # Transactions

    def open_transaction(self) -> bool:
        """Whether a reader of committed records is held back by one, at this moment."""
        return self._ends(IsolationLevel.READ_COMMITTED) != self._ends(
            IsolationLevel.READ_UNCOMMITTED
        )

    def await_no_transaction(self) -> None:
        if not wait_until(lambda: not self.open_transaction(), SETTLE_SECONDS, pause=0.5):
            raise NotSettled("a transaction is still open")

    def _ends(self, isolation: IsolationLevel) -> dict[tuple[str, int], int]:
        asked = {
            TopicPartition(topic, number): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for topic in (OUT, DEAD)
            for number in range(PARTITIONS[topic])
        }
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            found = self.cluster.admin.list_offsets(asked, isolation_level=isolation)
            try:
                return {
                    (at.topic, at.partition): each.result().offset for at, each in found.items()
                }
            except KafkaException:
                # Who leads has just changed; to ask for all topics makes the client see it.
                if time.monotonic() > deadline:
                    raise
                self.cluster.metadata("finding leaders")

    # Readers

    @contextmanager
    def reader(self, file: Path, isolation: str) -> Iterator[Callable[[], None]]:
        """A reader of what goes out. What is yielded tells it to read to the end, and waits."""
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "chaos.reader",
                self.cluster.bootstrap,
                isolation,
                file,
                OUT,
                DEAD,
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            env={**os.environ, VARIABLE: self.mark},
        )

        def finish() -> None:
            if process.stdin:
                process.stdin.close()
            if process.wait(SETTLE_SECONDS):
                raise NotSettled(f"the reader of {file.name} failed")

        try:
            yield finish
        finally:
            process.kill()
            process.wait()

    def read(self, file: Path, isolation: str) -> None:
        """All that there is now."""
        with self.reader(file, isolation) as finish:
            finish()

    def expected(self) -> Expected:
        """Read the source topic; call it when no more comes."""
        places: dict[Source, str | None] = {}
        rows: dict[Source, str | None] = {}
        keys: dict[bytes, Source] = {}
        targets: dict[object, str] = {records.OUT: OUT, records.DEAD: DEAD}
        for source, key, value, fate in _read_all(self.cluster):
            places[source] = targets.get(fate)
            rows[source] = "table" if fate == records.OUT and value is not None else None
            if value is None and key is not None:
                keys[key] = source
        return Expected(places, rows, keys)


class Feeder:
    """Writes the records of a seed, one slice after the other; idempotent, in order."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._source = records.generate(seed, PARTITIONS[IN])
        self._producer = Producer(
            cluster.client_config(
                enable_idempotence=True,
                linger_ms=20,
                message_timeout_ms=300_000,
                message_max_bytes=1_000_000,
            )
        )
        self._failure: KafkaError | None = None
        self.fed = 0

    def feed(self, count: int) -> None:
        """Returns when all of them are written."""
        for _ in range(count):
            self._send(next(self._source))
        left = self._producer.flush(300)
        if left or self._failure:
            raise KafkaException(self._failure)
        self.fed += count

    def _send(self, record: records.Record) -> None:
        while True:
            try:
                self._producer.produce(
                    IN,
                    record.value,
                    record.key,
                    record.partition,
                    on_delivery=self._delivered,
                    headers=[(records.HEADER, record.fate)],
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        self._failure = self._failure or error


@contextmanager
def world(folder: Path, mark: str, seed: int) -> Iterator[World]:
    with kafka(BROKERS, folder=folder / "kafka", config=BROKER_SETTINGS) as brokers:
        cluster = connect(brokers.bootstrap)
        for name, partitions in PARTITIONS.items():
            topics.create(cluster, name, partitions, BROKERS, SAFE)
        yield World(folder, mark, brokers, cluster, Feeder(cluster, seed))


Fact = tuple[Source, bytes | None, bytes | None, object]


def _read_all(cluster: Cluster) -> Iterator[Fact]:
    ends = topics.offsets(cluster, IN)
    consumer = Consumer(cluster.client_config(group_id="chaos.truth", enable_auto_commit=False))
    consumer.assign([TopicPartition(IN, number, OFFSET_BEGINNING) for number in ends])
    left = {number for number, end in ends.items() if end}
    deadline = time.monotonic() + SETTLE_SECONDS
    while left:
        for message in consumer.consume(5000, 1.0):
            if message.error():
                raise KafkaException(message.error())
            partition, offset = message.partition() or 0, message.offset() or 0
            fate = dict(message.headers() or ())[records.HEADER]
            yield (partition, offset), message.key(), message.value(), fate
            if offset == ends[partition] - 1:
                left.discard(partition)
        if time.monotonic() > deadline:
            raise NotSettled("the source topic is not read")
    consumer.close()
