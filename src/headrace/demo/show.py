"""The demo from start to end, without any printing: `perform` tells what it does and what came out.

    1. kafka    a real broker on a free port, in a temporary folder
    2. produce  orders for so many seconds, in a thread
    3. run      the pipeline of orders.yaml as a stream beside it
    4. drain    until all that was produced has been read; then stop in order
    5. count    what is in the topics and in the table, not what the run says of itself

Whatever ends it, an error and Ctrl-C included, nothing is left: no process and no file.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.admin import groups, topics
from headrace.admin.client import Cluster, connect
from headrace.admin.places import Earliest
from headrace.admin.reading import Until, consume
from headrace.admin.records import Record, produce
from headrace.api import Definition, Run
from headrace.demo.events import FILTERED, KEPT, OrderEvent, order_events
from headrace.errors import HeadraceError, InternalError
from headrace.formats.deadletter import HEADER_PREFIX
from headrace.project import Project
from headrace.runtime import session
from headrace.runtime.progress import BatchDone, Event, Listener, Waiting
from headrace.testing.broker import kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS, PAID, DEAD, TABLE = "orders", "orders.paid", "orders.dlq", "tables/orders_paid"
PARTITIONS = 4
POLL_SECONDS = 0.2
# How long the pipeline may read nothing while something waits.
STUCK_SECONDS = 120.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """What the cluster and the table hold at the end, and what they must hold."""

    produced: int
    read: int
    written: int
    rows: int
    dead: Mapping[str, int]
    expected: Mapping[str, int]

    @property
    def filtered(self) -> int:
        return self.produced - self.written - sum(self.dead.values())

    @property
    def agrees(self) -> bool:
        """Nothing lost, nothing doubled: out + filtered + dead = in, each as it was produced."""
        must = {code: n for code, n in self.expected.items() if code not in (KEPT, FILTERED)}
        return (
            self.read == self.produced == sum(self.expected.values())
            and self.written == self.rows == self.expected.get(KEPT, 0)
            and self.filtered == self.expected.get(FILTERED, 0)
            and dict(self.dead) == must
        )


def perform(seconds: float, rate: int, say: Say, listener: Listener) -> Result:
    """Returns when all is done and taken down again; `listener` hears the pipeline's progress."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-demo-")))
        say("starting a Kafka broker …")
        broker = stack.enter_context(kafka(folder=folder))  # 1
        stack.enter_context(_environment("HEADRACE_BOOTSTRAP_SERVER", broker.bootstrap))
        cluster = connect(broker.bootstrap)
        for topic in (ORDERS, PAID, DEAD):
            topics.create(cluster, topic, PARTITIONS)
        say("starting Spark …")
        definition = _definition(folder)
        spark = stack.enter_context(_spark(definition))
        say(f"producing about {rate:,} orders a second for {seconds:.0f} s, some of them bad")
        orders = stack.enter_context(_Producing(cluster, seconds, rate))  # 2
        followed = _Following(listener)
        run = stack.enter_context(_running(definition, spark, followed))  # 3
        _drain(cluster, run, followed, orders)  # 4
        return _count(cluster, definition, spark, folder, orders)  # 5


class _Producing:
    """Sends orders in a thread of its own, at an even pace, for so long or until the block ends."""

    def __init__(self, cluster: Cluster, seconds: float, rate: int) -> None:
        self.fates: Counter[str] = Counter()
        self._cluster = cluster
        self._seconds = seconds
        self._rate = rate
        self._end = threading.Event()
        self._thread = ThreadPoolExecutor(1, "headrace-demo-orders")
        self._work: Future[None] | None = None

    def __enter__(self) -> _Producing:
        self._work = self._thread.submit(self._send)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.shutdown()

    @property
    def done(self) -> bool:
        """Whether all are written; raises what kept them from it."""
        assert self._work is not None
        if self._work.done():
            self._work.result()
        return self._work.done()

    def _send(self) -> None:
        events = order_events()
        records = (Record(event.value, event.key) for event in self._paced(events))
        produce(self._cluster, ORDERS, records).raise_if_rejected()

    def _paced(self, events: Iterator[OrderEvent]) -> Iterator[OrderEvent]:
        began, sent = time.monotonic(), 0
        while not self._end.is_set():
            passed = min(time.monotonic() - began, self._seconds)
            due = int(passed * self._rate)
            for _ in range(due - sent):
                event = next(events)
                self.fates[event.fate] += 1
                yield event
            sent = due
            if passed >= self._seconds:
                return
            self._end.wait(0.02)


def _definition(folder: Path) -> Definition:
    packaged = resources.files("headrace.demo") / "orders.yaml"
    path = folder / "orders.yaml"
    path.write_text(packaged.read_text(encoding="utf-8"), encoding="utf-8")
    return Definition(path, Project(folder))


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """The definition finds the demo's own broker, whatever the user's environment names."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _spark(definition: Definition) -> Iterator[SparkSession]:
    pipeline = definition.pipeline
    state = definition.project.ensure(definition.project.state(pipeline.name))
    spark = session.start(session.settings(pipeline), state / "logs" / "spark.log")
    try:
        yield spark
    finally:
        spark.stop()
        _end_jvm()


def _end_jvm() -> None:
    """Spark's JVM would end by itself a moment after this process; nothing is to be left."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()  # what tells the JVM to end
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _running(definition: Definition, spark: SparkSession, listener: Listener) -> Iterator[Run]:
    run = definition.prepare(spark=spark, on_event=listener).start()
    try:
        yield run
    finally:
        run.stop()
        # Its error, if there is one, was raised by `_drain`, or does not matter any more.
        with suppress(HeadraceError):
            run.wait()


class _Following:
    """Passes on what a run tells, and keeps how far it has come."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._positions: dict[tuple[str, int], int] = {}
        self.moved = time.monotonic()

    def __call__(self, event: Event) -> None:
        if isinstance(event, BatchDone):
            self._positions.update(event.positions)
            self.moved = time.monotonic()
        self._listener(event)

    @property
    def read(self) -> int:
        return sum(self._positions.values())


def _drain(cluster: Cluster, run: Run, followed: _Following, orders: _Producing) -> None:
    """Wait until the run stands at the end of the topic, then let it end in order."""
    while True:
        done = orders.done  # before the topic is measured, or the last orders could be missed
        lag = _size(cluster, ORDERS) - followed.read
        if done and lag <= 0:
            break
        followed(Waiting(max(lag, 0)))
        if not run.active:
            run.wait()
            raise InternalError("the demo's pipeline ended by itself")
        if time.monotonic() - followed.moved > STUCK_SECONDS:
            raise InternalError(f"the pipeline has read nothing for {STUCK_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
    run.stop()
    run.wait()


def _count(
    cluster: Cluster,
    definition: Definition,
    spark: SparkSession,
    folder: Path,
    orders: _Producing,
) -> Result:
    table = spark.read.format("delta").load(str(folder / TABLE))
    group = definition.plan.sources[0].group or ""
    return Result(
        produced=_size(cluster, ORDERS),
        read=sum(groups.committed(cluster, group).values()),
        written=_size(cluster, PAID),
        rows=table.count(),
        dead=dict(_dead(cluster)),
        expected=dict(orders.fates),
    )


def _size(cluster: Cluster, topic: str) -> int:
    first, end = topics.offsets(cluster, topic, "earliest"), topics.offsets(cluster, topic)
    return sum(end[partition] - first[partition] for partition in end)


def _dead(cluster: Cluster) -> Counter[str]:
    """Dead letters by the code in their headers."""
    found: Counter[str] = Counter()
    for record in consume(cluster, DEAD, Earliest(), Until(end=True)):
        code = dict(record.headers).get(f"{HEADER_PREFIX}error")
        found[(code or b"?").decode()] += 1
    return found
