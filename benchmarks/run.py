"""`make bench`: Headrace, at least once and exactly once, beside a hand-written PySpark script.

All read the same generated orders from one Kafka topic and write the paid ones and the dead
letters to topics of their own, turn by turn, each time as a new process. What they wrote is
counted before any figure is believed. Then Headrace does it in every format (`formats.py`).
Results: tables here, and `benchmarks/results/`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import resources
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import formats
import psutil
import turns
from confluent_kafka import Producer
from measure import Measured
from turns import Turn

from headrace.admin import topics
from headrace.admin.client import Cluster, connect
from headrace.cluster import jars, java
from headrace.demo.events import FILTERED, KEPT, order_events
from headrace.testing.broker import kafka

HERE = Path(__file__).parent
BAD_SHARE = 0.001
# Only what both sides see: the hand-written script takes text that is not UTF-8 for good.
BAD = ("NOT_JSON", "WRONG_TYPE", "MISSING_FIELD", "EMPTY_VALUE", "NULL_VALUE")
SOURCE = "orders"
TARGET = 1.05
# What exactly once may cost more than at least once, whose sink is Spark's own.
ONCE_TARGET = 1.10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--formats-only", action="store_true", help="nothing is kept")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        kafka(registry=True) as broker,
    ):
        cluster, place = connect(broker.bootstrap), Path(folder)
        assert broker.registry is not None
        found: dict[str, list[Measured]] = {}
        if not options.formats_only:
            expected = _fill(cluster, options.records)
            found = turns.take(cluster, place, options.rounds, expected, SIDES)
            topics.delete(cluster, [SOURCE])
        by_format = formats.measured(
            cluster, broker.registry, place, options.rounds, options.records
        )
    compared = formats.report(by_format, options.records)
    if options.formats_only:
        print("\n" + "\n".join(formats.lines(compared)))
        return
    report = _report(found, options.records, load) | {"formats": compared}
    _keep(report, options.results)
    print("\n" + _markdown(report))


# The records


def _fill(cluster: Cluster, count: int) -> tuple[int, int]:
    """Write the orders; how many must be kept, and how many must become dead letters."""
    print(f"writing {count:,} orders …", flush=True)
    topics.create(cluster, SOURCE, turns.PARTITIONS)
    producer = Producer(cluster.client_config(linger_ms=50, batch_size=1_000_000))
    fates: Counter[str] = Counter()
    size = 0
    for event in islice(order_events(bad_share=BAD_SHARE, bad=BAD), count):
        fates[event.fate] += 1
        size += len(event.value or b"")
        turns.produce(producer, SOURCE, event.value, event.key)
    producer.flush()
    bad = sum(n for fate, n in fates.items() if fate not in (KEPT, FILTERED))
    print(f"  {size / count:.0f} bytes each, {fates[KEPT]:,} to keep, {bad:,} bad", flush=True)
    written = turns.size(cluster, SOURCE)
    if written != count:
        raise SystemExit(f"{written:,} records in the topic, and not {count:,}")
    return fates[KEPT], bad


# The turns


def _headrace(_cluster: Cluster, turn: Turn, guarantee: str = "at_least_once") -> list[str]:
    """The demo's pipeline without its Delta sink."""
    text = f"guarantee: {guarantee}\n"
    text += (resources.files("headrace.demo") / "orders.yaml").read_text()
    text = text.partition("  paid_table:")[0]
    text = text.replace("orders.paid", turn.output).replace("orders.dlq", turn.dead)
    # Another name for each turn: with the same one it would go on where its ledger is.
    text = text.replace("pipeline: orders", f"pipeline: orders-{turn.side}-{turn.number}")
    return turns.headrace(turn, text)


def _exactly_once(cluster: Cluster, turn: Turn) -> list[str]:
    return _headrace(cluster, turn, "exactly_once")


def _handwritten(cluster: Cluster, turn: Turn) -> list[str]:
    paths = ",".join(str(path) for path in jars.ensure("spark"))
    checkpoint = str(turn.folder / "checkpoint")
    where = (cluster.bootstrap, SOURCE, turn.output, turn.dead, checkpoint, paths)
    return [sys.executable, str(HERE / "handwritten.py"), *where]


SIDES: dict[str, turns.Command] = {
    "handwritten": _handwritten,
    "headrace": _headrace,
    "exactly-once": _exactly_once,
}


# The report


def _report(found: dict[str, list[Measured]], records: int, load: float) -> dict[str, object]:
    medians = {side: turns.medians(each, records) for side, each in found.items()}
    ours, theirs, once = (medians[side] for side in ("headrace", "handwritten", "exactly-once"))
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "records": records,
        "rounds": len(found["headrace"]),
        "machine": _machine() | {"load_before": round(load, 1)},
        "medians": medians,
        "ratio": {name: round(ours[name] / theirs[name], 3) for name in ours},
        "once_ratio": {name: round(once[name] / ours[name], 3) for name in ours},
        "turns": {side: [asdict(one) for one in each] for side, each in found.items()},
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
    compared = report["formats"]
    assert isinstance(compared, dict)
    yield "The same orders, none of them bad, in each format, by the schemas of a registry:"
    yield ""
    yield from formats.lines(compared)
    yield ""
    for form in formats.BINARY:
        used = compared["ratio"][form]["cpu_seconds_per_million"]
        yield _verdict(f"CPU of {form} to JSON", used, formats.TARGET)
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
