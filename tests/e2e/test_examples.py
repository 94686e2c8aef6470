"""Every pipeline of `examples/`: checked, explained, and run on its own records by a real Kafka."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest import mock

import pytest
from pyspark.errors import StreamingQueryException

import headrace
from headrace.admin import topics
from headrace.admin.client import Cluster, Clusters, connect
from headrace.admin.places import Earliest
from headrace.admin.reading import Until, consume
from headrace.admin.records import Record, produce
from headrace.cluster.dev import DevCluster
from headrace.errors import TooManyBadRecords
from headrace.runtime.prepare import prepare
from headrace.runtime.preview import Preview
from headrace.runtime.progress import Summary
from headrace.sinks.writer import NotScripted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


class Place:
    """A copy of the examples, a Kafka whose topics are empty, and what a reader of them does."""

    def __init__(self, folder: Path, cluster: Cluster, spark: SparkSession) -> None:
        self.folder = folder
        self.cluster = cluster
        self._spark = spark

    def run(self, name: str) -> Summary:
        return headrace.load(self.folder / f"{name}.yaml").run(spark=self._spark, once=True)

    def preview(self, name: str) -> Preview:
        return headrace.load(self.folder / f"{name}.yaml").preview(spark=self._spark)

    def fill(self, topic: str, partitions: int = 1) -> None:
        topics.ensure(self.cluster, topic, partitions)
        lines = (self.folder / "data" / f"{topic}.jsonl").read_bytes().splitlines()
        self.send(topic, *lines)

    def send(self, topic: str, *values: bytes) -> None:
        produce(self.cluster, topic, map(Record, values)).raise_if_rejected()

    def records(self, topic: str) -> list[Record]:
        found = consume(self.cluster, topic, Earliest(), Until(end=True))
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def rows(self, topic: str) -> list[tuple[str | None, dict[str, Any]]]:
        """Key and value of each record, by key."""
        found = [
            (record.key.decode() if record.key else None, json.loads(record.value or b"null"))
            for record in self.records(topic)
        ]
        return sorted(found, key=lambda row: (row[0] or "", json.dumps(row[1])))

    def dead(self, topic: str) -> list[tuple[str, str, bytes | None]]:
        """Code, sentence and original value of each dead letter."""
        found = []
        for record in self.records(topic):
            facts = {name: (value or b"").decode() for name, value in record.headers}
            code, text = facts["headrace.dlq.error"], facts["headrace.dlq.message"]
            found.append((code, text, record.value))
        return sorted(found)

    def table(self, name: str, order: str) -> list[dict[str, Any]]:
        frame = self._spark.read.format("delta").load(str(self.folder / "tables" / name))
        everything = "to_json(struct(*), map('ignoreNullFields', 'false'))"
        return [
            json.loads(line)
            for (line,) in frame.orderBy(*order.split(", ")).selectExpr(everything).collect()
        ]


class ScriptPlace(Place):
    """The same, where the script of the code view is run in place of the pipeline."""

    def run(self, name: str) -> Summary:
        definition = headrace.load(self.folder / f"{name}.yaml")
        script = self.folder / f"{name}_script.py"
        script.write_text(definition.code(self._spark))
        prepare(definition.plan, Clusters(), print)  # a script finds its topics there
        arguments, sys.argv = sys.argv, [str(script), "--once"]
        sys.path.insert(0, str(self.folder))
        try:
            runpy.run_path(str(script), run_name="__main__")
        except StreamingQueryException as error:
            if "bad records" not in str(error):
                raise
            raise TooManyBadRecords("source", 0, 0, "") from error
        finally:
            sys.argv = arguments
            sys.path.remove(str(self.folder))
            sys.modules.pop("visits_steps", None)
        return cast(Summary, _Uncounted())


class _Uncounted:
    """What a script says of its records: nothing."""

    def __getattr__(self, _name: str) -> object:
        return mock.ANY


@pytest.fixture(params=[Place, ScriptPlace], ids=["run", "script"])
def place(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kafka_cluster: DevCluster,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    monkeypatch.setenv("CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("OFFSETS", str(tmp_path / "offsets"))
    monkeypatch.setenv("SPARK_JARS", "")
    monkeypatch.setenv("HEADRACE_BOOTSTRAP_SERVER", kafka_cluster.bootstrap)
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("tables", "__pycache__"))
    cluster = connect(kafka_cluster.bootstrap)
    before = set(topics.names(cluster))
    yield request.param(folder, cluster, spark)
    made = set(topics.names(cluster)) - before
    own = sorted(name for name in made if not name.startswith("__"))
    if own:
        topics.delete(cluster, own)


def orders(place: Place) -> None:
    place.fill("orders")
    summary = place.run("orders")
    paid = {
        1001: (
            "C-20417",
            "DE",
            "EU",
            "espresso machine",
            2,
            699.8,
            True,
            "2026-03-02T09:26:53.589Z",
        ),
        1003: ("C-77120", "CA", "NA", "mug", 6, 49.5, False, "2026-03-02T09:27:01.000Z"),
        1005: ("C-55012", "BR", "other", "grinder", 1, 129.0, False, "2026-03-03T00:00:00.000Z"),
        1006: ("C-55012", None, "other", "mug", 2, 16.5, False, "2026-03-03T00:00:01.000Z"),
    }
    names = ("customer", "country", "region", "item", "quantity", "total", "is_large", "at")
    expected = [{"id": id} | dict(zip(names, values, strict=True)) for id, values in paid.items()]
    by_id = sorted(place.rows("orders.paid"), key=lambda row: row[1]["id"])
    assert by_id == [(row["customer"], row) for row in expected]
    assert place.table("orders_paid", "id") == expected
    lines = (place.folder / "data" / "orders.jsonl").read_bytes().splitlines()
    assert place.dead("orders.dlq") == [
        ("MISSING_FIELD", "without a value for: customer", lines[7]),
        ("NOT_JSON", "the value is not valid JSON", lines[8]),
        ("WRONG_TYPE", "does not fit the schema: quantity is not INT", lines[6]),
    ]
    assert (summary.records, summary.written, summary.bad) == (9, 4, 3)


def revenue(place: Place) -> None:
    place.fill("orders")
    place.run("orders")
    first = place.run("revenue")
    second = place.run("revenue")
    assert place.table("revenue", "revenue") == [
        {"region": "NA", "day": "2026-03-02", "orders": 1, "revenue": 49.5},
        {"region": "other", "day": "2026-03-03", "orders": 2, "revenue": 145.5},
        {"region": "EU", "day": "2026-03-02", "orders": 1, "revenue": 699.8},
    ]
    assert (first.records, first.written, second.records, second.written) == (4, 3, 0, 0)
    place.send("orders.paid", b'{"id":1,"region":"EU","total":7,"at":"2026-03-04T01:00:00Z"}')
    place.run("revenue")
    newest = {"region": "EU", "day": "2026-03-04", "orders": 1, "revenue": 7.0}
    assert place.table("revenue", "revenue")[0] == newest


def sales(place: Place) -> None:
    place.fill("web_sales")
    place.fill("till_sales")
    place.run("sales")
    assert place.rows("sales") == [
        ("till ?", _sale("till ?", "88003", 1.0, "2026-03-02T10:02:00.000Z")),
        ("till Gdynia", _sale("till Gdynia", "88002", 2450.0, "2026-03-02T10:01:00.000Z")),
        ("till Lyon", _sale("till Lyon", "88001", 12.99, "2026-03-02T10:00:00.000Z")),
        ("web", _sale("web", "W-1", 59.9, "2026-03-02T10:00:00.000Z")),
        ("web", _sale("web", "W-2", 1250.0, "2026-03-02T10:00:05.000Z")),
    ]
    assert place.rows("sales.large") == [
        ("88002", {"id": "88002", "amount": 2450.0}),
        ("W-2", {"id": "W-2", "amount": 1250.0}),
    ]
    assert place.dead("web_sales.dlq") == [
        (
            "MISSING_FIELD",
            "without a value for: total",
            b'{"order_id":"W-3","placed_at":"2026-03-02T10:00:09Z"}',
        )
    ]
    assert place.dead("till_sales.dlq") == [
        (
            "WRONG_TYPE",
            "does not fit the schema: receipt is not BIGINT",
            b'{"receipt":"unreadable","cents":100,"time":1772445720}',
        )
    ]


def _sale(channel: str, id: str, amount: float, at: str) -> dict[str, Any]:
    return {"channel": channel, "id": id, "amount": amount, "at": at}


def visits(place: Place) -> None:
    place.fill("visits")
    place.run("visits")
    assert place.rows("visits.clean") == [
        (
            "blog.example",
            {
                "site": "blog.example",
                "path": "/",
                "campaign": None,
                "is_bot": False,
                "at": "2026-03-02T10:00:02.000Z",
            },
        ),
        (
            "shop.example",
            {
                "site": "shop.example",
                "path": "/coffee/beans",
                "campaign": "spring",
                "is_bot": False,
                "at": "2026-03-02T10:00:00.000Z",
            },
        ),
    ]
    assert place.records("visits.dlq") == []


def temperature(place: Place) -> None:
    place.fill("temperature")
    place.run("temperature")
    # The watermark is two minutes behind the last reading, so the minute of 10:01 is final, too.
    assert place.rows("temperature.minutes") == [
        ("cellar", _minute("cellar", "10:00", 1, 11.25)),
        ("cellar", _minute("cellar", "10:01", 1, 11.5)),
        ("roof", _minute("roof", "10:00", 2, -3.25)),
    ]
    assert len(place.records("temperature.dlq")) == 1
    # Too late for its minute, and dropped.
    place.send("temperature", b'{"sensor":"roof","celsius":9.9,"at":"2026-03-02T10:00:50Z"}')
    assert place.run("temperature").late == 1
    assert len(place.rows("temperature.minutes")) == 3


def _minute(sensor: str, start: str, readings: int, celsius: float) -> dict[str, Any]:
    minute = f"2026-03-02T{start}:00.000Z"
    return {"sensor": sensor, "minute": minute, "readings": readings, "celsius": celsius}


def parcels(place: Place) -> None:
    place.fill("parcels")
    seen = place.preview("parcels")
    assert sorted(row["parcel"] for row in seen.rows) == ["P-1", "P-2"]
    errors = sorted((row.offset, row.error) for row in seen.bad)
    assert errors == [(2, "PYTHON_ERROR"), (4, "PYTHON_ERROR"), (5, "MISSING_FIELD")]
    summary = place.run("parcels")
    priced = [("P-1", "home", 450, 0), ("P-2", "near", 225, 1)]
    assert place.rows("parcels.priced") == [
        (
            parcel,
            {"parcel": parcel, "zone": zone, "cents": cents}
            | {"at": f"2026-03-02T10:00:0{offset}.000Z", "record": f"parcels[0]@{offset}"},
        )
        for parcel, zone, cents, offset in priced
    ]
    lines = (place.folder / "data" / "parcels.jsonl").read_bytes().splitlines()
    raised = "parcels_steps.price raised "
    assert place.dead("parcels.dlq") == [
        ("MISSING_FIELD", "without a value for: parcel", lines[5]),
        ("PYTHON_ERROR", raised + "LookupError: no zone has the country ATLANTIS", lines[2]),
        (
            "PYTHON_ERROR",
            raised + "TypeError: unsupported operand type(s) for *: 'int' and 'NoneType'",
            lines[4],
        ),
    ]
    # One of the six is neither written nor bad: the last step leaves it out.
    assert (summary.records, summary.written, summary.bad) == (6, 2, 3)


def incoming(place: Place) -> None:
    summary = place.run("incoming")
    shops = [("Gdynia", 80, 1010.0, 12.63), ("Lyon", 120, 845.5, 7.05), ("Lyon", 95, 700.15, 7.37)]
    files = ("monday.csv", "monday.csv", "tuesday.csv")
    days = ("2026-03-02", "2026-03-02", "2026-03-03")
    assert place.table("incoming", "day, shop") == [
        {"day": day, "shop": shop, "visitors": visitors, "revenue": revenue}
        | {"per_visitor": each, "file": file}
        for (shop, visitors, revenue, each), file, day in zip(shops, files, days, strict=True)
    ]
    assert (summary.records, summary.written, summary.bad) == (5, 3, 1)
    shutil.copy(place.folder / "data/incoming/monday.csv", place.folder / "data/incoming/again.csv")
    place.run("incoming")
    assert len(place.table("incoming", "day")) == 5


def clicks(place: Place) -> None:
    assert (place.run("clicks").records, place.run("clicks").records) == (200, 0)
    rows = [row for _, row in place.rows("clicks")]
    assert sorted(row["id"] for row in rows) == [n for n in range(200) if n % 4 != 3]
    first = next(row for row in rows if row["id"] == 0)
    assert first == {"id": 0, "visitor": first["visitor"], "page": "/"} | {
        "seconds": first["seconds"],
        "at": "2026-01-01T00:00:00.000Z",
    }
    assert 20 < len({row["visitor"] for row in rows}) <= 40


def sensors(place: Place) -> None:
    place.fill("sensors")
    summary = place.run("sensors")
    readings = [
        {"sensor": "roof", "day": "2026-03-02", "at": "2026-03-02T23:59:30.000Z"}
        | {"celsius": -3.5, "fahrenheit": 25.7},
        {"sensor": "cellar", "day": "2026-03-02", "at": "2026-03-02T23:59:40.000Z"}
        | {"celsius": 11.25, "fahrenheit": 52.3},
        {"sensor": "roof", "day": "2026-03-03", "at": "2026-03-03T00:01:30.000Z"}
        | {"celsius": -3.75, "fahrenheit": 25.3},
    ]
    assert place.table("readings", "at") == readings
    assert (summary.records, summary.written, summary.bad) == (6, 3, 2)
    good = b'{"sensor":"roof","celsius":1.0,"at":"2026-03-03T00:02:00Z"}'
    place.send("sensors", good, *[b"?"] * 4)
    with pytest.raises(TooManyBadRecords):
        place.run("sensors")
    assert place.table("readings", "at") == readings


def customers(place: Place) -> None:
    place.fill("shop.public.customers")
    if isinstance(place, ScriptPlace):
        with pytest.raises(NotScripted, match="a merge by key"):
            place.run("customers")
        return
    summary = place.run("customers")
    assert place.table("customers", "customer") == [
        _customer(1002, "Bo Okafor", 0.0, "2021-11-02", "2026-03-02T10:00:05.000Z"),
        _customer(1004, "Dia Marek", 12345678.9, "2026-03-02", "2026-03-02T10:00:09.000Z"),
        _customer(2001, "Anna Lindqvist", 250.0, "2019-05-14", "2026-03-02T10:00:08.000Z"),
    ]
    (letter,) = place.dead("customers.dlq")
    assert letter[0] == "TRUNCATE"
    assert (summary.records, summary.written, summary.bad) == (12, 8, 1)


def _customer(id: int, name: str, credit: float, since: str, at: str) -> dict[str, Any]:
    email = f"{name.split()[0].lower()}@example.com"
    row = {"customer": id, "name": name, "email": email, "credit": credit}
    return row | {"since": since, "updated_at": at}


def watch(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.fill("orders")
    capsys.readouterr()
    place.run("watch")
    if isinstance(place, ScriptPlace):
        return  # Spark's own table, which Java prints
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    row = {"partition": 0, "offset": 3, "id": 1004, "customer": "C-20417", "status": "cancelled"}
    assert shown == [row]


RUNS: dict[str, Callable[..., None]] = {
    run.__name__: run
    for run in (
        *(clicks, customers, incoming, orders, parcels, revenue, sales, sensors, temperature),
        visits,
        watch,
    )
}


def test_every_example_has_a_run_here() -> None:
    assert sorted(RUNS) == [file.stem for file in FILES]


def test_every_example_is_in_the_readme() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    assert [file.name for file in FILES if f"]({file.name})" not in readme] == []


def test_the_demo_runs_the_orders_example() -> None:
    packaged = resources.files("headrace.demo") / "orders.yaml"
    assert packaged.read_text() == (EXAMPLES / "orders.yaml").read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_example_has_no_fault_and_is_explained(file: Path) -> None:
    definition = headrace.load(file)
    assert definition.check() == []
    story = definition.explain()
    assert story["pipeline"] == file.stem
    assert story["queries"]
    assert story["promise"]


@pytest.mark.parametrize("name", RUNS)
def test_example_writes_what_it_should(
    name: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RUNS[name]
    run(place, capsys) if name == "watch" else run(place)


@pytest.mark.parametrize("place", [Place], ids=["run"], indirect=True)
def test_a_printed_script_runs_without_headrace(place: Place) -> None:
    """As a user has it: printed by one command, run by another, with jars from a third."""
    place.fill("orders")
    file = place.folder / "orders.yaml"
    prepare(headrace.load(file).plan, Clusters(), print)
    printed = _output("-m", "headrace.cli.main", "explain", str(file), "--code")
    assert "import headrace" not in printed
    script = place.folder / "script.py"
    script.write_text(printed)
    jars = _output("-m", "headrace.cli.main", "jars", "path").strip()
    _output(str(script), "--once", SPARK_JARS=jars)
    assert sorted(row["id"] for _, row in place.rows("orders.paid")) == [1001, 1003, 1005, 1006]
    assert len(place.dead("orders.dlq")) == 3


def _output(*arguments: str, **variables: str) -> str:
    """What Python prints for these arguments, in a process of its own."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
