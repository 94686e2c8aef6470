"""Three brokers, of which the leader is killed again and again while a stream runs."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.admin import records, topics
from headrace.admin.client import Cluster, connect
from headrace.cluster.process import wait_until
from headrace.runtime.progress import BatchDone, Event, Started
from headrace.testing import kafka

from .conftest import Bench

KILLS = 5
EACH = 400
WAIT = 120
# A topic that survives one broker, in which nothing counts as written that only one broker has.
SAFE = {"min.insync.replicas": "2"}
# A death is noticed soon, so that the test is short.
BROKERS = {"broker.session.timeout.ms": "3000", "replica.lag.time.max.ms": "3000"}
STREAM = """
pipeline: NAME
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  schema: "id BIGINT NOT NULL"
sink:
  connector_type: kafka
  topic: TOPIC.out
  key: id
  create_topic: {partitions: 2, replication_factor: 3, config: {min.insync.replicas: 2}}
"""


def leader(cluster: Cluster, topic: str) -> int:
    found = topics.describe(cluster, topic).partitions[0].leader
    assert found is not None
    return found


def in_sync(cluster: Cluster, *names: str) -> bool:
    found = [topics.describe(cluster, name) for name in names]
    return not any(topic.under_replicated or topic.leaderless for topic in found)


@pytest.mark.long
def test_a_leader_killed_five_times_loses_nothing_and_stops_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    with kafka(brokers=3, config=BROKERS) as brokers:
        cluster = connect(brokers.bootstrap)
        bench = Bench(cluster, "orders", tmp_path)
        topics.create(cluster, "orders", partitions=2, replication=3, config=SAFE)
        started, moved = threading.Event(), threading.Event()
        done = [0]

        def listen(event: Event) -> None:
            if isinstance(event, Started):
                started.set()
            if isinstance(event, BatchDone):
                done[0] += event.records
                moved.set()

        run = headrace.load(bench.write(STREAM)).prepare(spark=spark, on_event=listen).start()
        assert started.wait(WAIT)
        sent = 0
        for _ in range(KILLS):
            moved.clear()
            first = [records.Record(b'{"id": %d}' % n) for n in range(sent, sent + EACH // 2)]
            records.produce(cluster, "orders", first).raise_if_rejected()
            sent += EACH // 2
            assert moved.wait(WAIT)
            killed = leader(cluster, "orders.out")
            brokers.kill(killed)
            rest = [records.Record(b'{"id": %d}' % n) for n in range(sent, sent + EACH // 2)]
            records.produce(cluster, "orders", rest).raise_if_rejected()
            sent += EACH // 2
            brokers.start(killed)
            assert wait_until(lambda: in_sync(cluster, "orders", "orders.out"), seconds=WAIT)
            assert run.active
        assert wait_until(lambda: done[0] >= sent, seconds=WAIT)
        run.stop()
        assert run.wait().records == sent
        found = Counter(value["id"] for value in bench.values("orders.out"))
        assert set(found) == set(range(sent))
