"""`make bench`: Headrace, at least once and exactly once, beside a hand-written PySpark script.

All read the same generated orders from one Kafka topic and write the paid ones and the dead
letters to topics of their own, turn by turn, each time as a new process. What they wrote is
counted before any figure is believed. Results: a table here, and `benchmarks/results/`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import resources
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import psutil
from confluent_kafka import Producer
from measure import Measured, measure

from headrace.admin import places, reading, topics
from headrace.admin.client import Cluster, connect
from headrace.cluster import jars, java
from headrace.demo.events import FILTERED, KEPT, OrderEvent, order_events
from headrace.testing.broker import kafka

HERE = Path(__file__).parent
PARTITIONS = 4
BAD_SHARE = 0.001
# Only what both sides see: the hand-written script takes text that is not UTF-8 for good.
BAD = ("NOT_JSON", "WRONG_TYPE", "MISSING_FIELD", "EMPTY_VALUE", "NULL_VALUE")
SOURCE = "orders"
TARGET = 1.05
# What exactly once may cost more than at least once, whose sink is Spark's own.
ONCE_TARGET = 1.10


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


class WrongOutput(Exception):
    def __init__(self, turn: Turn, found: tuple[int, int], expected: tuple[int, int]) -> None:
        super().__init__(f"{turn.side}: {found} records and dead letters, and not {expected}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder, kafka() as broker:
        cluster = connect(broker.bootstrap)
        expected = _fill(cluster, options.records)
        turns = _turns(cluster, Path(folder), options.rounds, expected)
    report = _report(turns, options.records, load)
    _keep(report, options.results)
    print("\n" + _markdown(report))


# The records


def _fill(cluster: Cluster, count: int) -> tuple[int, int]:
    """Write the orders; how many must be kept, and how many must become dead letters."""
    print(f"writing {count:,} orders …", flush=True)
    topics.create(cluster, SOURCE, PARTITIONS)
    producer = Producer(cluster.client_config(linger_ms=50, batch_size=1_000_000))
    fates: Counter[str] = Counter()
    size = 0
    for event in islice(order_events(bad_share=BAD_SHARE, bad=BAD), count):
        fates[event.fate] += 1
        size += len(event.value or b"")
        _send(producer, event)
    producer.flush()
    bad = sum(n for fate, n in fates.items() if fate not in (KEPT, FILTERED))
    print(f"  {size / count:.0f} bytes each, {fates[KEPT]:,} to keep, {bad:,} bad", flush=True)
    written = _size(cluster, SOURCE)
    if written != count:
        raise SystemExit(f"{written:,} records in the topic, and not {count:,}")
    return fates[KEPT], bad


def _send(producer: Producer, event: OrderEvent) -> None:
    while True:
        try:
            return producer.produce(SOURCE, event.value, event.key)
        except BufferError:
            producer.poll(0.1)


# The turns


def _turns(
    cluster: Cluster, folder: Path, rounds: int, expected: tuple[int, int]
) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {side: [] for side in SIDES}
    for number in range(1, rounds + 1):
        for side, command in SIDES.items():
            turn = Turn(side, number, folder / f"{side}-{number}")
            turn.folder.mkdir()
            measured = _run(cluster, turn, command(cluster, turn), expected)
            found[side].append(measured)
            print(f"  {side:<12} {number}: {_short(measured)}", flush=True)
    return found


def _run(cluster: Cluster, turn: Turn, command: list[str], expected: tuple[int, int]) -> Measured:
    topics.create(cluster, turn.output, PARTITIONS)
    topics.create(cluster, turn.dead, PARTITIONS)
    environment = {**os.environ, "HEADRACE_BOOTSTRAP_SERVER": cluster.bootstrap}
    environment["PYSPARK_PYTHON"] = sys.executable
    environment.setdefault("JAVA_HOME", str(java.find_java().parent.parent))
    measured = measure(
        command, environment, turn.folder / "log", lambda: _size(cluster, turn.output) > 0
    )
    found = _count(cluster, turn.output), _count(cluster, turn.dead)
    if found != expected:
        raise WrongOutput(turn, found, expected)
    topics.delete(cluster, [turn.output, turn.dead])
    return measured


def _headrace(_cluster: Cluster, turn: Turn, guarantee: str = "at_least_once") -> list[str]:
    """The demo's pipeline without its Delta sink."""
    text = f"guarantee: {guarantee}\n"
    text += (resources.files("headrace.demo") / "orders.yaml").read_text()
    text = text.partition("  paid_table:")[0]
    text = text.replace("orders.paid", turn.output).replace("orders.dlq", turn.dead)
    # Another name for each turn: with the same one it would go on where its ledger is.
    text = text.replace("pipeline: orders", f"pipeline: orders-{turn.side}-{turn.number}")
    file = turn.folder / "orders.yaml"
    file.write_text(text)
    (turn.folder / ".headrace").mkdir()
    program = "import headrace.cli.main as m; m.main()"
    return [sys.executable, "-c", program, "run", "--once", "--progress", "none", str(file)]


def _exactly_once(cluster: Cluster, turn: Turn) -> list[str]:
    return _headrace(cluster, turn, "exactly_once")


def _handwritten(cluster: Cluster, turn: Turn) -> list[str]:
    paths = ",".join(str(path) for path in jars.ensure("spark"))
    checkpoint = str(turn.folder / "checkpoint")
    where = (cluster.bootstrap, SOURCE, turn.output, turn.dead, checkpoint, paths)
    return [sys.executable, str(HERE / "handwritten.py"), *where]


SIDES: dict[str, Callable[[Cluster, Turn], list[str]]] = {
    "handwritten": _handwritten,
    "headrace": _headrace,
    "exactly-once": _exactly_once,
}


def _size(cluster: Cluster, topic: str) -> int:
    return sum(topics.offsets(cluster, topic).values())


def _count(cluster: Cluster, topic: str) -> int:
    """How many records there are that are committed; a transaction's end has an offset, too."""
    until = reading.Until(end=True)
    return sum(1 for _ in reading.consume(cluster, topic, places.Earliest(), until))


def _short(measured: Measured) -> str:
    return (
        f"{measured.cpu_seconds:.1f} s CPU, {measured.wall_seconds:.1f} s, "
        f"{measured.peak_rss_mb:.0f} MB, first output after {measured.first_output_seconds:.1f} s"
    )


# The report


def _report(turns: dict[str, list[Measured]], records: int, load: float) -> dict[str, object]:
    medians = {side: _medians(found, records) for side, found in turns.items()}
    ours, theirs, once = (medians[side] for side in ("headrace", "handwritten", "exactly-once"))
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "records": records,
        "rounds": len(turns["headrace"]),
        "machine": _machine() | {"load_before": round(load, 1)},
        "medians": medians,
        "ratio": {name: round(ours[name] / theirs[name], 3) for name in ours},
        "once_ratio": {name: round(once[name] / ours[name], 3) for name in ours},
        "turns": {side: [asdict(each) for each in found] for side, found in turns.items()},
    }


def _medians(found: list[Measured], records: int) -> dict[str, float]:
    def median(value: Callable[[Measured], float]) -> float:
        return round(statistics.median(value(each) for each in found), 3)

    return {
        "cpu_seconds_per_million": median(lambda m: m.cpu_seconds / records * 1e6),
        "records_per_second": median(lambda m: records / m.wall_seconds),
        "wall_seconds": median(lambda m: m.wall_seconds),
        "first_output_seconds": median(lambda m: m.first_output_seconds),
        "peak_rss_mb": median(lambda m: m.peak_rss_mb),
    }


def _machine() -> dict[str, object]:
    answer = subprocess.run(
        [java.find_java(), "-version"], capture_output=True, text=True, check=True
    )
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "java": answer.stderr.splitlines()[0],
        "spark": version("pyspark"),
        "headrace": version("headrace"),
    }


_ROWS = {
    "cpu_seconds_per_million": "CPU seconds per million records",
    "records_per_second": "records per second",
    "wall_seconds": "wall seconds",
    "first_output_seconds": "seconds to the first output",
    "peak_rss_mb": "peak memory (MB)",
}


def _markdown(report: dict[str, object]) -> str:
    return "\n".join(_lines(report))


def _lines(report: dict[str, object]) -> Iterator[str]:
    medians, ratio, machine = report["medians"], report["ratio"], report["machine"]
    dearer = report["once_ratio"]
    assert isinstance(medians, dict)
    assert isinstance(ratio, dict)
    assert isinstance(dearer, dict)
    assert isinstance(machine, dict)
    yield "| median | hand-written | Headrace | to hand-written | exactly once | to Headrace |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, label in _ROWS.items():
        theirs, ours, once = (
            medians[side][name] for side in ("handwritten", "headrace", "exactly-once")
        )
        digits = 2 if ours < 100 else 0
        figures = [f"{theirs:,.{digits}f}", f"{ours:,.{digits}f}", f"{ratio[name]:.2f}"]
        figures += [f"{once:,.{digits}f}", f"{dearer[name]:.2f}"]
        yield f"| {label} | {' | '.join(figures)} |"
    yield ""
    yield _verdict("CPU to hand-written", ratio["cpu_seconds_per_million"], TARGET)
    yield _verdict("CPU of exactly once", dearer["cpu_seconds_per_million"], ONCE_TARGET)
    yield ""
    yield (
        f"{report['records']:,} records, {report['rounds']} rounds each, turn by turn, from start "
        f"to end of the process, on {report['date']}. "
        f"{machine['cores']} cores shared with the broker, {machine['memory_gb']} GB, "
        f"{machine['system']}, Python {machine['python']}, {machine['java']}, "
        f"Spark {machine['spark']}. Load average of others before it began: "
        f"{machine['load_before']}."
    )


def _verdict(what: str, ratio: float, target: float) -> str:
    return f"Target: {what} ≤ {target}: {'met' if ratio <= target else 'missed'} ({ratio:.3f})."


def _keep(report: dict[str, object], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "latest.json").write_text(json.dumps(report, indent=2) + "\n")
    text = "# Headrace beside a hand-written PySpark script\n\n"
    text += "Made by `make bench`; not edited by hand.\n\n"
    (folder / "latest.md").write_text(text + _markdown(report) + "\n")


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"\n{(time.monotonic() - began) / 60:.0f} minutes")
