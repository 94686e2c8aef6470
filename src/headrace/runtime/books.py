"""Which ledgers a query has, and what is needed to move them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.model.kafka_properties import DEFAULT_MAX_REQUEST
from headrace.plan.stages import Query, SetAside
from headrace.sinks import kafka_once
from headrace.sinks.kafka_transactions import Ledger, Place, Work
from headrace.sinks.writer import Once


@dataclass(frozen=True)
class Book:
    """One ledger, on the cluster at `bootstrap`; whole batches are noted at `place`."""

    ledger: Ledger
    bootstrap: str
    place: Place | None
    work: Callable[[Once], Work]

    @property
    def group(self) -> str:
        return self.ledger.group


def of(query: Query, pipeline: str) -> Iterator[Book]:
    """Those of its Kafka sinks, and of dead letters that are a job of their own."""
    if query.way is None:
        return
    for sink in query.kafka_sinks:
        yield Book(sink.ledger, sink.bootstrap, sink.entry_place, sink.work)
    if query.aside is not None and query.aside.alone:
        yield of_letters(query.aside, pipeline)


def of_letters(aside: SetAside, pipeline: str) -> Book:
    assert aside.topic is not None
    servers = aside.source.bootstrap or ""
    # No sink can have this name, so that no other ledger has it.
    ledger = Ledger(pipeline, f"dlq-{aside.source.name}")
    largest = max(aside.largest, DEFAULT_MAX_REQUEST)
    config = {"bootstrap.servers": servers, "message.max.bytes": str(largest)}

    def work(once: Once) -> Work:
        return kafka_once.work(config, ledger, kafka_once.TIMEOUT_MS[once.way], once)

    return Book(ledger, servers, (aside.topic, 0), work)
