"""The formats beside each other: the same orders, from Kafka to Kafka, in each of them.

Every side reads its own topic, into the same columns by the same checks, does the work of the
benchmark and writes in the format that it reads; schemas are those of a real registry.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
import turns
from confluent_kafka import Producer
from measure import Measured
from turns import Turn

from headrace.admin import topics
from headrace.admin.client import Cluster
from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import SchemaStore
from headrace.admin.stores import RegistryAddress, opened
from headrace.demo.events import KEPT, order_events
from headrace.formats.protobuf_schemas import of_text

JSON = "json"
# Those that must cost no more than JSON.
BINARY = ("confluent_avro", "confluent_protobuf")
TARGET = 1.0

_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "country", "type": ["null", "string"], "default": None},
        {"name": "item", "type": "string"},
        {"name": "quantity", "type": "int"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        },
        {"name": "status", "type": "string"},
        {
            "name": "at",
            "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
            "default": None,
        },
    ],
}
_PROTOBUF = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  string customer = 2;
  optional string country = 3;
  string item = 4;
  int32 quantity = 5;
  string price = 6;
  string status = 7;
  google.protobuf.Timestamp at = 8;
}
"""
_OPTIONAL = {"type": ["null", "string"]}
_JSON_SCHEMA = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("customer", "item", "status")},
        **{name: {"type": "integer"} for name in ("id", "quantity")},
        "price": {"type": "number"},
        "country": _OPTIONAL,
        "at": _OPTIONAL,
    },
    "required": ["id", "customer", "item", "quantity", "price", "status"],
}

# The bytes of an order, given its JSON and its values.
Encoder = Callable[[bytes, dict[str, Any]], bytes]


def measured(
    cluster: Cluster, registry: str, folder: Path, rounds: int, records: int
) -> dict[str, list[Measured]]:
    """What each format costs."""
    store = opened(RegistryAddress("confluent", registry, None, None))
    kept = _fill(cluster, store, records)
    sides = {form: _command(form, registry) for form in _ENCODERS}
    return turns.take(cluster, folder, rounds, (kept, 0), sides)


def _fill(cluster: Cluster, store: SchemaStore, count: int) -> int:
    """Write the orders in every format; how many must be kept."""
    print(f"writing {count:,} orders in {len(_ENCODERS)} formats …", flush=True)
    encoders = {form: make(store) for form, make in _ENCODERS.items()}
    for form in encoders:
        topics.create(cluster, _topic(form), turns.PARTITIONS)
    producer = Producer(cluster.client_config(linger_ms=50, batch_size=1_000_000))
    sizes = dict.fromkeys(encoders, 0)
    kept = 0
    for event in islice(order_events(bad_share=0), count):
        kept += event.fate == KEPT
        values = json.loads(event.value or b"", parse_float=Decimal)
        for form, encode in encoders.items():
            message = encode(event.value or b"", values)
            sizes[form] += len(message)
            turns.produce(producer, _topic(form), message, event.key)
    producer.flush()
    shown = ", ".join(f"{form} {size / count:.0f}" for form, size in sizes.items())
    print(f"  bytes each: {shown}; {kept:,} to keep", flush=True)
    return kept


def _topic(form: str) -> str:
    return f"orders.{form}"


def _command(form: str, registry: str) -> turns.Command:
    def command(_cluster: Cluster, turn: Turn) -> list[str]:
        return turns.headrace(turn, _definition(form, registry, turn))

    return command


def _definition(form: str, registry: str, turn: Turn) -> str:
    """The demo's pipeline without its Delta sink, in a format."""
    text = (resources.files("headrace.demo") / "orders.yaml").read_text()
    text = text.partition("  paid_table:")[0]
    text = text.replace("orders.paid", turn.output).replace("orders.dlq", turn.dead)
    text = text.replace("topic: orders\n", f"topic: {_topic(form)}\n")
    text = text.replace("pipeline: orders", f"pipeline: orders-{turn.side}-{turn.number}")
    if form == JSON:
        return text
    registered = rf"\1format: {form}\n\1schema_registry: {{endpoint: '{registry}'}}\n"
    return re.sub(r"( +)connector_type: kafka\n", rf"\g<0>{registered}", text)


# Encoders


def _json(_store: SchemaStore) -> Encoder:
    return lambda text, _values: text


def _json_schema(store: SchemaStore) -> Encoder:
    frame = _frame(store, "json_schema", SchemaType.JSON, json.dumps(_JSON_SCHEMA))
    return lambda text, _values: frame + text


def _avro(store: SchemaStore) -> Encoder:
    frame = _frame(store, "confluent_avro", SchemaType.AVRO, json.dumps(_AVRO))
    schema = fastavro.parse_schema(_AVRO)

    def encode(_text: bytes, values: dict[str, Any]) -> bytes:
        out = io.BytesIO(frame)
        out.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(out, schema, {**values, "at": _time(values["at"])})
        return out.getvalue()

    return encode


def _protobuf(store: SchemaStore) -> Encoder:
    from google.protobuf.message_factory import GetMessageClass

    frame = _frame(store, "confluent_protobuf", SchemaType.PROTOBUF, _PROTOBUF) + b"\x00"
    order = GetMessageClass(of_text(_PROTOBUF).message("Order"))

    def encode(_text: bytes, values: dict[str, Any]) -> bytes:
        time = _time(values["at"])
        at = {"seconds": int(time.timestamp()), "nanos": time.microsecond * 1000}
        message = order(**{**values, "price": str(values["price"]), "at": at})
        return frame + bytes(message.SerializeToString())

    return encode


def _frame(store: SchemaStore, form: str, kind: SchemaType, schema: str) -> bytes:
    found = store.register(f"{_topic(form)}-value", kind, schema)
    return b"\x00" + int(found.id).to_bytes(4)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


_ENCODERS: dict[str, Callable[[SchemaStore], Encoder]] = {
    JSON: _json,
    "confluent_avro": _avro,
    "confluent_protobuf": _protobuf,
    "json_schema": _json_schema,
}


# The report


def report(found: dict[str, list[Measured]], records: int) -> dict[str, Any]:
    medians = {form: turns.medians(each, records) for form, each in found.items()}
    base = medians[JSON]
    ratios = {
        form: {name: round(each[name] / base[name], 3) for name in each}
        for form, each in medians.items()
    }
    return {"medians": medians, "ratio": ratios}


def lines(report: dict[str, Any]) -> Iterator[str]:
    yield "| format | CPU seconds per million records | to JSON | records per second | peak MB |"
    yield "|---|---:|---:|---:|---:|"
    for form, each in report["medians"].items():
        ratio = report["ratio"][form]["cpu_seconds_per_million"]
        cpu, rate = each["cpu_seconds_per_million"], each["records_per_second"]
        yield f"| {form} | {cpu:.2f} | {ratio:.2f} | {rate:,.0f} | {each['peak_rss_mb']:,.0f} |"
