"""Turns of a benchmark: commands from Kafka to Kafka, each a new process, measured and counted."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from measure import Measured, measure

from headrace.admin import places, reading, topics
from headrace.admin.client import Cluster
from headrace.cluster import java

PARTITIONS = 4
Expected = tuple[int, int]  # records, and dead letters


@dataclass(frozen=True)
class Turn:
    """One run of one side: where it writes and keeps its state."""

    side: str
    number: int
    folder: Path

    @property
    def output(self) -> str:
        return f"{self.side}.{self.number}.paid"

    @property
    def dead(self) -> str:
        return f"{self.side}.{self.number}.dlq"


Command = Callable[[Cluster, Turn], list[str]]


class WrongOutput(Exception):
    def __init__(self, turn: Turn, found: Expected, expected: Expected) -> None:
        super().__init__(f"{turn.side}: {found} records and dead letters, and not {expected}")


def take(
    cluster: Cluster, folder: Path, rounds: int, expected: Expected, sides: Mapping[str, Command]
) -> dict[str, list[Measured]]:
    """All sides one after the other, as often as there are rounds."""
    found: dict[str, list[Measured]] = {side: [] for side in sides}
    for number in range(1, rounds + 1):
        for side, command in sides.items():
            turn = Turn(side, number, folder / f"{side}-{number}")
            turn.folder.mkdir()
            measured = _run(cluster, turn, command(cluster, turn), expected)
            found[side].append(measured)
            print(f"  {side:<18} {number}: {_short(measured)}", flush=True)
    return found


def medians(found: list[Measured], records: int) -> dict[str, float]:
    def median(value: Callable[[Measured], float]) -> float:
        return round(statistics.median(value(each) for each in found), 3)

    return {
        "cpu_seconds_per_million": median(lambda m: m.cpu_seconds / records * 1e6),
        "records_per_second": median(lambda m: records / m.wall_seconds),
        "wall_seconds": median(lambda m: m.wall_seconds),
        "first_output_seconds": median(lambda m: m.first_output_seconds),
        "peak_rss_mb": median(lambda m: m.peak_rss_mb),
    }


def headrace(turn: Turn, definition: str) -> list[str]:
    """The command that runs a definition to the end of what is there."""
    file = turn.folder / "orders.yaml"
    file.write_text(definition)
    (turn.folder / ".headrace").mkdir()
    program = "import headrace.cli.main as m; m.main()"
    return [sys.executable, "-c", program, "run", "--once", "--progress", "none", str(file)]


def produce(producer: Producer, topic: str, value: bytes | None, key: bytes | None) -> None:
    while True:
        try:
            return producer.produce(topic, value, key)
        except BufferError:
            producer.poll(0.1)


def size(cluster: Cluster, topic: str) -> int:
    return sum(topics.offsets(cluster, topic).values())


def _run(cluster: Cluster, turn: Turn, command: list[str], expected: Expected) -> Measured:
    topics.create(cluster, turn.output, PARTITIONS)
    topics.create(cluster, turn.dead, PARTITIONS)
    environment = {**os.environ, "HEADRACE_BOOTSTRAP_SERVER": cluster.bootstrap}
    environment["PYSPARK_PYTHON"] = sys.executable
    environment.setdefault("JAVA_HOME", str(java.find_java().parent.parent))
    measured = measure(
        command, environment, turn.folder / "log", lambda: size(cluster, turn.output) > 0
    )
    found = _count(cluster, turn.output), _count(cluster, turn.dead)
    if found != expected:
        raise WrongOutput(turn, found, expected)
    topics.delete(cluster, [turn.output, turn.dead])
    return measured


def _count(cluster: Cluster, topic: str) -> int:
    """How many records there are that are committed; a transaction's end has an offset, too."""
    until = reading.Until(end=True)
    return sum(1 for _ in reading.consume(cluster, topic, places.Earliest(), until))


def _short(measured: Measured) -> str:
    return (
        f"{measured.cpu_seconds:.1f} s CPU, {measured.wall_seconds:.1f} s, "
        f"{measured.peak_rss_mb:.0f} MB, first output after {measured.first_output_seconds:.1f} s"
    )
