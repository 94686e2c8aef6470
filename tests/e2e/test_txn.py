"""A transaction that is left open in a source topic: the run says so, and goes on once it ends."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import headrace
from headrace.admin import transaction_holds
from headrace.admin.client import Clusters
from headrace.cli import main
from headrace.runtime.prepare import prepare
from headrace.runtime.progress import BatchDone, Event, Warned

from .conftest import Bench

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
  topic: out-TOPIC
"""
UNCOMMITTED = '  schema: "id BIGINT NOT NULL"\n  properties: {isolation.level: read_uncommitted}\n'


class Told:
    """What a run tells, and the moments when it has read one record, and two."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.one, self.two = threading.Event(), threading.Event()
        self._records = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Warned):
            self.warnings.append(event.text)
        if isinstance(event, BatchDone):
            self._records += event.records
            for count, reached in ((1, self.one), (2, self.two)):
                if self._records >= count:
                    reached.set()


def test_a_run_names_the_transaction_that_it_waits_for_and_goes_on_when_it_is_aborted(
    bench: Bench, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = headrace.load(bench.write(STREAM))
    id = f"shop-{bench.topic}"
    bench.produce([{"id": 1}], partition=0)
    dead = Producer(
        bench.cluster.client_config(transactional_id=id, transaction_timeout_ms=600_000)
    )
    dead.init_transactions(30)
    dead.begin_transaction()
    dead.produce(bench.topic, b'{"id": 2}', partition=0)
    assert dead.flush(30) == 0
    bench.produce([{"id": 3}], partition=0)

    # Who reads all that is written waits for nobody; and one that is young is not worth a word.
    monkeypatch.setattr(transaction_holds, "USUAL_MS", 0)
    hasty = headrace.load(
        bench.write(STREAM.replace('  schema: "id BIGINT NOT NULL"\n', UNCOMMITTED), "hasty.yaml")
    )
    warned: list[str] = []
    prepare(hasty.plan, Clusters(), warned.append)
    assert warned == []

    told = Told()
    run = definition.prepare(spark=spark, on_event=told).start()
    assert told.one.wait(120)
    (warning,) = told.warnings
    assert warning.startswith(
        f"`source`: not readable yet: {bench.topic}[0] from offset 1 on (up to 2 records); "
        f"transaction {id} (producer "
    )
    assert f"to end it now: `headrace txn abort {id}`" in warning
    assert bench.values(f"out-{bench.topic}") == [{"id": 1}]

    assert main._run(["txn", "abort", id, "--yes", "-b", bench.cluster.bootstrap]) == 0
    assert told.two.wait(120)
    run.stop()
    run.wait()
    assert bench.values(f"out-{bench.topic}") == [{"id": 1}, {"id": 3}]
