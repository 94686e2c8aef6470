"""`make soak`: a first start against a full topic, with little memory, as a stream and as a batch.

A topic is filled, and each mode reads all of it from the beginning into two Delta tables, so that a
batch is also kept for its second sink. The rows are counted in the tables' logs before any figure
is believed; a driver that runs out of memory ends with an error, and so does this.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer
from measure import Measured, measure

from headrace.admin import topics
from headrace.admin.client import Cluster, connect
from headrace.cluster import java
from headrace.testing.broker import kafka

TOPIC = "waiting"
PARTITIONS = 4
CHUNK = 10_000
IN_FLIGHT = 500_000
MODES = ("stream", "batch")

PIPELINE = """
pipeline: soak_{mode}
mode: {mode}
guarantee: exactly_once
spark: {{"spark.driver.memory": "{memory}"}}
source:
  connector_type: kafka
  bootstrap_server: {servers}
  topic: {topic}
  auto_offset_reset: earliest
  bad_data: skip
  schema: "id BIGINT NOT NULL, customer STRING, amount DOUBLE, note STRING"
sinks:
  all: {{connector_type: delta, path: all}}
  again: {{connector_type: delta, path: again}}
"""


class WrongCount(Exception):
    def __init__(self, mode: str, table: str, found: int, expected: int) -> None:
        super().__init__(f"{mode}: {found:,} rows in {table}, and not {expected:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000_000)
    parser.add_argument("--memory", default="1g", help="of the driver: spark.driver.memory")
    parser.add_argument("--mode", choices=MODES, action="append", help="default: both")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-soak-") as folder, kafka() as broker:
        cluster = connect(broker.bootstrap)
        size = _fill(cluster, options.records)
        print(f"{options.records:,} records of {size:.0f} bytes; driver {options.memory}")
        print("| mode | wall | CPU | peak memory of all processes | records/s |")
        print("|---|---:|---:|---:|---:|")
        for mode in options.mode or MODES:
            place = Path(folder) / mode
            measured = _run(cluster, place, mode, options.memory)
            _check(place, mode, options.records)
            print(_row(mode, measured, options.records), flush=True)


def _fill(cluster: Cluster, count: int) -> float:
    """Write the records; how large one is on average."""
    topics.create(cluster, TOPIC, PARTITIONS)
    limit = {"queue_buffering_max_messages": 2 * IN_FLIGHT}
    producer = Producer(cluster.client_config(linger_ms=50, compression_type="lz4", **limit))
    size = 0
    for values in _chunks(count):
        size += sum(len(value) for value in values)
        producer.produce_batch(TOPIC, [{"value": value} for value in values])
        while len(producer) > IN_FLIGHT:
            producer.poll(0.1)
    producer.flush()
    written = sum(topics.offsets(cluster, TOPIC).values())
    if written != count:
        raise WrongCount("filling", TOPIC, written, count)
    return size / count


def _chunks(count: int) -> Iterator[list[bytes]]:
    for start in range(0, count, CHUNK):
        yield [
            b'{"id": %d, "customer": "C-%05d", "amount": %d.25, "note": "%040d"}'
            % (number, number % 100_000, number % 1000, number)
            for number in range(start, min(start + CHUNK, count))
        ]


def _run(cluster: Cluster, place: Path, mode: str, memory: str) -> Measured:
    (place / ".headrace").mkdir(parents=True)
    file = place / "soak.yaml"
    file.write_text(
        PIPELINE.format(mode=mode, memory=memory, servers=cluster.bootstrap, topic=TOPIC)
    )
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    environment.setdefault("JAVA_HOME", str(java.find_java().parent.parent))
    once = ["--once"] if mode == "stream" else []
    command = [sys.executable, "-m", "headrace.cli.main", "run", str(file), *once]
    log = place / "all" / "_delta_log"
    return measure(command, environment, place / "log", lambda: log.exists())


def _check(place: Path, mode: str, expected: int) -> None:
    for table in ("all", "again"):
        found = sum(_added(place / table / "_delta_log"))
        if found != expected:
            raise WrongCount(mode, table, found, expected)


def _added(log: Path) -> Iterator[int]:
    """The rows of each file that Delta's log names; nothing is ever removed here."""
    for commit in sorted(log.glob("*.json")):
        for line in commit.read_text().splitlines():
            added = json.loads(line).get("add")
            if added is not None:
                yield json.loads(added["stats"])["numRecords"]


def _row(mode: str, measured: Measured, records: int) -> str:
    return (
        f"| {mode} | {measured.wall_seconds:.0f} s | {measured.cpu_seconds:.0f} s "
        f"| {measured.peak_rss_mb:,.0f} MB | {records / measured.wall_seconds:,.0f} |"
    )


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"\n{(time.monotonic() - began) / 60:.0f} minutes")
