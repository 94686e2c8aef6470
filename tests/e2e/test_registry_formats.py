"""Messages that name schemas of a registry, read and written beside Confluent's own clients.

Ten thousand random records of each format are made by the serializers of confluent-kafka, read by a
pipeline, written again by it, and read by the deserializers of confluent-kafka.
"""

from __future__ import annotations

import datetime
import importlib
import json
import random
import string
import struct
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pyarrow.parquet
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from headrace import load
from headrace.admin import records
from headrace.admin.letters import Letter
from headrace.admin.records import Record
from headrace.runtime.letter_expressions import Expressions, parse_patches, parse_where
from headrace.runtime.redrive import Order, redrive

from .conftest import Bench

T = TypeVar("T")
COUNT = 10_000
UNKNOWN_ID = 2_000_000_000
# What stands in PIPELINE for more, and is left out where there is none.
WORDS = {"EXTRA": "", "SAME": "", "KEYED": ""}
PIPELINE = """\
pipeline: NAME
mode: MODE
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  format: FORMAT
  schema_registry: {endpoint: 'REGISTRY', api_key: ann, api_secret: t0psecret}
  EXTRA
sinks:
  same:
    connector_type: kafka
    topic: TOPIC-same
    format: FORMAT
    schema_registry: {endpoint: 'REGISTRY'}
    value_subject: TOPIC-value
    register_schema: false
    SAME
    KEYED
  made:
    connector_type: kafka
    topic: TOPIC-made
    format: FORMAT
    schema_registry: {endpoint: 'REGISTRY'}
    KEYED
  rows:
    connector_type: files
    path: rows
    format: parquet
"""


@dataclass
class Shop:
    """A topic whose messages name schemas, a pipeline on it, and Confluent's client beside it."""

    bench: Bench
    url: str
    client: SchemaRegistryClient
    spark: SparkSession

    def context(
        self, field: MessageField = MessageField.VALUE, topic: str = ""
    ) -> SerializationContext:
        return SerializationContext(topic or self.bench.topic, field)

    def produce(self, messages: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        made = [
            Record(value, key, partition=number % 2) for number, (key, value) in enumerate(messages)
        ]
        records.produce(self.bench.cluster, self.bench.topic, made).raise_if_rejected()

    def write(self, text: str, name: str = "pipeline.yaml", **words: str) -> Path:
        for word, value in {"REGISTRY": self.url, **WORDS, **words}.items():
            text = text.replace(word, value)
        return self.bench.write(text, name)

    def id_of(self, subject: str) -> int:
        return self.client.get_latest_version(subject).schema_id or 0

    def read(self, sink: str) -> list[Record]:
        return self.bench.read(f"{self.bench.topic}-{sink}")

    def rows(self) -> dict[int, dict[str, Any]]:
        """What the pipeline has read, by id, with Arrow's own values."""
        # Spark writes times as INT96, which Arrow does not know to be of UTC.
        table = pyarrow.parquet.read_table(
            self.bench.folder / "rows", coerce_int96_timestamp_unit="us"
        )
        rows = table.to_pylist(maps_as_pydicts="strict")
        return {row["id"]: {name: _in_utc(value) for name, value in row.items()} for row in rows}

    def letters(self) -> dict[str, Letter]:
        """By their codes, each of which comes once."""
        found = [Letter.of(each) for each in self.bench.read(f"{self.bench.topic}.dlq")]
        assert len({each.error for each in found}) == len(found)
        return {str(each.error): each for each in found}


@pytest.fixture
def shop(bench: Bench, registry_url: str, spark: SparkSession) -> Shop:
    return Shop(bench, registry_url, SchemaRegistryClient({"url": registry_url}), spark)


def _in_utc(value: Any) -> Any:
    is_time = isinstance(value, datetime.datetime)
    return value.replace(tzinfo=datetime.UTC) if is_time else value


def framed(id: int, payload: bytes) -> bytes:
    return b"\0" + id.to_bytes(4, "big") + payload


def broken(message: bytes) -> dict[str, bytes]:
    """A good message with something wrong in its frame, by the code of that."""
    return {
        "UNKNOWN_SCHEMA": framed(UNKNOWN_ID, message[5:]),
        "NOT_FRAMED": b"{" + message[1:],
        "TRUNCATED": message[:3],
    }


# Random values


class Chance:
    """Values of all sizes, the same ones every time; edges come more often than by chance."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)

    def maybe(self) -> bool:
        return self._random.random() < 0.5

    def integer(self, bits: int) -> int:
        most = (1 << bits - 1) - 1
        least = -most - 1
        return self.pick([0, 1, -1, least, most, self._random.randint(least, most)])

    def text(self) -> str:
        alphabet = string.printable + "äß€😀\0"
        return "".join(self._random.choices(alphabet, k=self._random.randint(0, 12)))

    def bytes(self, size: int | None = None) -> bytes:
        return self._random.randbytes(self._random.randint(0, 12) if size is None else size)

    def double(self) -> float:
        return self.pick([0.0, -1.5, 1e300, self._random.uniform(-1e9, 1e9)])

    def single(self) -> float:
        (value,) = struct.unpack("f", struct.pack("f", self._random.uniform(-1e6, 1e6)))
        return float(value)

    def decimal(self, digits: int, scale: int) -> Decimal:
        most = 10**digits - 1
        return Decimal(self._random.randint(-most, most)).scaleb(-scale)

    def moment(self, unit: int = 1) -> datetime.datetime:
        """Between 1900 and 2100, in whole `unit`s of a microsecond."""
        span = self._random.randint(-2_208_988_800, 4_102_444_800) * 1_000_000
        micros = (span + self._random.randint(0, 999_999)) // unit * unit
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return epoch + datetime.timedelta(microseconds=micros)

    def list(self, make: Callable[[], Any]) -> list[Any]:
        return [make() for _ in range(self._random.randint(0, 3))]

    def or_none(self, make: Callable[[], Any]) -> Any:
        return make() if self.maybe() else None


# Avro


def avro_schema(*more: dict[str, Any]) -> str:
    logical = {"bytes": "decimal", "int": "date", "string": "uuid"}

    def of(type: str, **details: Any) -> dict[str, Any]:
        return {"type": type, "logicalType": logical.get(type), **details}

    line = {
        "type": "record",
        "name": "Line",
        "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
    }
    fields = {
        "id": "long",
        "small": "int",
        "ratio": "double",
        "weight": "float",
        "paid": "boolean",
        "name": "string",
        "blob": "bytes",
        "color": {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]},
        "digest": {"type": "fixed", "name": "Digest", "size": 4},
        "price": of("bytes", precision=12, scale=3),
        "day": of("int"),
        "at": {"type": "long", "logicalType": "timestamp-micros"},
        "seen": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        "code": of("string"),
        "tags": {"type": "array", "items": "string"},
        "counts": {"type": "map", "values": "long"},
        "lines": {"type": "array", "items": line},
        "first": ["null", "Line"],
    }
    told = [{"name": name, "type": type} for name, type in fields.items()]
    return json.dumps({"type": "record", "name": "Order", "fields": [*told, *more]})


NOTE = {"name": "note", "type": ["null", "string"], "default": None}


def avro_record(id: int, chance: Chance) -> dict[str, Any]:
    def line() -> dict[str, Any]:
        return {"sku": chance.text(), "count": chance.integer(32)}

    return {
        "id": id,
        "small": chance.integer(32),
        "ratio": chance.double(),
        "weight": chance.single(),
        "paid": chance.maybe(),
        "name": chance.text(),
        "blob": chance.bytes(),
        "color": chance.pick(["RED", "GREEN"]),
        "digest": chance.bytes(4),
        "price": chance.decimal(12, 3),
        "day": chance.moment().date(),
        "at": chance.moment(),
        "seen": chance.or_none(lambda: chance.moment(1_000)),
        "code": uuid.UUID(bytes=chance.bytes(16)),
        "tags": chance.list(chance.text),
        # One at most: Avro has no order for the entries of a map.
        "counts": {chance.text(): chance.integer(64)} if chance.maybe() else {},
        "lines": chance.list(line),
        "first": chance.or_none(line),
    }


KEY = {
    "type": "record",
    "name": "OrderKey",
    "fields": [{"name": "id", "type": "long"}, {"name": "region", "type": "string"}],
}


def test_avro_is_read_and_written_as_by_confluents_clients(shop: Shop) -> None:
    chance, topic = Chance(1), shop.bench.topic
    old = AvroSerializer(shop.client, avro_schema())
    new = AvroSerializer(shop.client, avro_schema(NOTE))
    keys = AvroSerializer(shop.client, json.dumps(KEY))
    orders = [avro_record(id, chance) for id in range(COUNT)]
    for order in orders[1::2]:
        order["note"] = chance.or_none(chance.text)

    def message(order: dict[str, Any]) -> tuple[bytes, bytes]:
        key = keys({"id": order["id"], "region": "north"}, shop.context(MessageField.KEY))
        value = (new if "note" in order else old)(order, shop.context())
        assert key
        assert value
        return key, value

    sent = [message(order) for order in orders]
    id = shop.id_of(f"{topic}-value")
    # Two that are good but for their frames, and can be mended.
    mended = [{**avro_record(COUNT + n, chance), "note": None} for n in range(2)]
    # The schema of one is that of another subject, which is asked for when its message comes.
    told = json.dumps({**json.loads(avro_schema(NOTE)), "doc": "of the south"})
    south = shop.client.register_schema(f"{topic}-south", Schema(told, "AVRO"))
    orders.append({**avro_record(COUNT + 2, chance), "note": None})
    sent.append((message(orders[-1])[0], framed(south, message(orders[-1])[1][5:])))
    bad = broken(message(mended[0])[1]) | {
        "NOT_FRAMED": b"{" + message(mended[1])[1][1:],
        "NOT_AVRO": sent[1][1][:20],
    }
    shop.produce([*sent, *((None, value) for value in bad.values())])
    file = shop.write(
        PIPELINE,
        MODE="batch",
        FORMAT="confluent_avro",
        EXTRA="key_format: confluent_avro\n  key_column: order_key",
        KEYED="key_format: confluent_avro\n    key: order_key\n    exclude: [order_key]",
        SAME="key_subject: TOPIC-key",
    )

    summary = load(file).run(shop.spark)

    assert (summary.records, summary.bad) == (COUNT + 5, 4)
    found = shop.rows()
    for order in orders:
        expected = {"note": None, **order, "code": str(order["code"])}
        expected["order_key"] = {"id": order["id"], "region": "north"}
        assert found[order["id"]] == expected
    assert len(found) == len(orders)

    # The bytes of those that were written with the newest schema are the same bytes.
    same = {(each.key, each.value) for each in shop.read("same")}
    assert len(same) == len(orders)
    assert same > set(sent[1:COUNT:2])

    read, read_key = AvroDeserializer(shop.client), AvroDeserializer(shop.client)
    made = {}
    for each in shop.read("made"):
        order = read(each.value, shop.context(topic=f"{topic}-made"))
        if each.key is not None:
            key = read_key(each.key, shop.context(MessageField.KEY, f"{topic}-made"))
            assert key == {"id": order["id"], "region": "north"}
        made[order["id"]] = order
    for order in orders:
        assert made[order["id"]] == {"note": None, **order, "code": str(order["code"])}

    letters = shop.letters()
    assert {code: letter.record.value for code, letter in letters.items()} == bad
    assert str(UNKNOWN_ID) in str(letters["UNKNOWN_SCHEMA"].message)
    assert "byte 7b and not with 00" in str(letters["NOT_FRAMED"].message)
    assert "3 bytes" in str(letters["TRUNCATED"].message)

    redriven = redrive(
        shop.bench.cluster,
        Order(f"{topic}.dlq"),
        Expressions(
            shop.spark,
            parse_where("error IN ('UNKNOWN_SCHEMA', 'NOT_FRAMED')"),
            parse_patches(
                [f"value = concat(X'{framed(id, b'').hex()}', substr(CAST(value AS BINARY), 6))"]
            ),
        ),
    )
    assert redriven.moved.total() == 2
    again = load(file).run(shop.spark)
    assert (again.records, again.bad) == (2, 0)
    for order in mended:
        assert shop.rows()[order["id"]]["price"] == order["price"]

    told = json.dumps(load(file).explain(online=True))
    assert f"Avro by subject {topic}-value into id BIGINT, small INT" in told
    plain = PIPELINE.partition("sinks:")[0] + "sink: {connector_type: kafka, topic: TOPIC-plain}\n"
    code = load(shop.write(plain, "plain.yaml", MODE="batch", FORMAT="avro")).code(shop.spark)
    assert "from_avro" in code
    states = (shop.bench.folder / ".headrace").rglob("*")
    kept = [path.read_bytes() for path in states if path.is_file()]
    assert not [text for text in (told.encode(), code.encode(), *kept) if b"t0psecret" in text]

    # As Mage has it: a file that is only a source.
    mage = shop.write(
        "connector_type: kafka\nbootstrap_server: SERVERS\ntopic: TOPIC\n"
        "serde_config:\n  serialization_method: AVRO\n  schema_registry_url: REGISTRY\n",
        "mage.yaml",
    )
    preview = load(mage).preview(rows=COUNT, scan=100, spark=shop.spark)
    assert preview.columns == tuple(name for name in found[0] if name != "order_key")
    assert {row["id"] for row in preview.rows} > {order["id"] for order in mended}


# Protobuf

MONEY = """\
syntax = "proto3";
package registry_formats;
message Money { string currency = 1; int64 units = 2; }
"""
ORDERS = """\
syntax = "proto3";
package registry_formats;
import "google/protobuf/timestamp.proto";
import "registry_formats_money.proto";

message Unused { string name = 1; }
message Envelope {
  enum Color { RED = 0; GREEN = 7; }
  message Line { string sku = 1; sint32 count = 2; }
  message Order {
    int64 id = 1;
    int32 small = 2;
    uint32 natural = 3;
    sint64 balance = 4;
    sfixed64 exact = 5;
    double ratio = 6;
    float weight = 7;
    bool paid = 8;
    string name = 9;
    bytes blob = 10;
    Color color = 11;
    repeated string tags = 12;
    repeated int64 sizes = 13;
    map<string, int64> counts = 14;
    repeated Line lines = 15;
    Line first = 16;
    optional string note = 17;
    oneof payment { string card = 18; int64 cash = 19; }
    google.protobuf.Timestamp at = 20;
    Money price = 200;
  }
}
"""


def compiled(folder: Path, name: str, text: str) -> ModuleType:
    """The classes of a .proto file, as protoc makes them."""
    import grpc_tools  # type: ignore[import-untyped]
    from grpc_tools import protoc

    (folder / f"{name}.proto").write_text(text)
    common = Path(grpc_tools.__file__).parent / "_proto"
    arguments = [f"-I{folder}", f"-I{common}", f"--python_out={folder}", f"{name}.proto"]
    assert protoc.main(["protoc", *arguments]) == 0
    return importlib.import_module(f"{name}_pb2")


def proto_order(kind: Any, id: int, chance: Chance) -> Any:
    order = kind(
        id=id,
        small=chance.integer(32),
        natural=abs(chance.integer(32)),
        balance=chance.integer(64),
        exact=chance.integer(64),
        ratio=chance.double(),
        weight=chance.single(),
        paid=chance.maybe(),
        name=chance.text(),
        blob=chance.bytes(),
        color=chance.pick(["RED", "GREEN"]),
        tags=chance.list(chance.text),
        sizes=chance.list(lambda: chance.integer(64)),
        counts={chance.text(): chance.integer(64) for _ in range(2)},
        lines=chance.list(lambda: {"sku": chance.text(), "count": chance.integer(32)}),
        first=chance.or_none(lambda: {"sku": chance.text()}),
        note=chance.or_none(chance.text),
        price=chance.or_none(lambda: {"currency": "EUR", "units": chance.integer(64)}),
    )
    if chance.maybe():
        order.at.FromDatetime(chance.moment())
    if chance.maybe():
        order.card = chance.text()
    elif chance.maybe():
        order.cash = chance.integer(64)
    return order


def plain(message: Any) -> dict[str, Any]:
    """A message as a row has it: what is not there is None, an enum the name of its value."""
    return {field.name: _plain_field(message, field) for field in message.DESCRIPTOR.fields}


def _plain_field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.has_presence and not message.HasField(field.name):
        return None
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return dict(value)
    if field.is_repeated:
        return [_plain_value(each, field) for each in value]
    return _plain_value(value, field)


def _plain_value(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if field.message_type is None:
        return value
    if field.message_type.full_name == "google.protobuf.Timestamp":
        return value.ToDatetime(datetime.UTC)
    return plain(value)


def test_protobuf_is_read_and_written_as_by_confluents_clients(
    shop: Shop, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, topic, folder = Chance(2), shop.bench.topic, tmp_path_factory.mktemp("protoc")
    monkeypatch.syspath_prepend(str(folder))
    compiled(folder, "registry_formats_money", MONEY)
    kind = compiled(folder, "registry_formats_orders", ORDERS).Envelope.Order
    write = ProtobufSerializer(kind, shop.client, {"use.deprecated.format": False})
    orders = [proto_order(kind, id, chance) for id in range(COUNT)]
    sent = [(None, write(order, shop.context())) for order in orders]
    good = sent[0][1] or b""
    # That it is the second message in the second stands after the id, as zig-zag numbers.
    assert good[5:8] == b"\x04\x02\x02"
    bad = broken(good) | {
        "BAD_MESSAGE_INDEX": good[:5] + b"\x02\x14" + good[8:],
        "NOT_PROTOBUF": good[:8] + b"\xff" * 12,
    }
    shop.produce([*sent, *((None, value) for value in bad.values())])
    message = "message: registry_formats.Envelope.Order"
    file = shop.write(
        PIPELINE, MODE="stream", FORMAT="confluent_protobuf", EXTRA=message, SAME=message
    )

    summary = load(file).run(shop.spark, once=True)

    assert (summary.records, summary.bad) == (COUNT + 5, 5)
    found = shop.rows()
    for order in orders:
        assert found[order.id] == plain(order)
    read = ProtobufDeserializer(kind, {"use.deprecated.format": False})
    same = [read(each.value, shop.context()) for each in shop.read("same")]
    assert sorted(same, key=lambda order: order.id) == orders
    made = shop.client.get_latest_version(f"{topic}-made-value").schema.schema_str
    module = compiled(folder, "registry_formats_made", str(made))
    (name,) = module.DESCRIPTOR.message_types_by_name
    reader = ProtobufDeserializer(getattr(module, name), {"use.deprecated.format": False})
    told = [plain(reader(each.value, shop.context())) for each in shop.read("made")]
    assert {row["id"]: row for row in told} == found
    letters = shop.letters()
    assert {code: letter.record.value for code, letter in letters.items()} == bad


# JSON Schema

JSON_ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "ratio": {"type": "number"},
        "paid": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "first": {
            "type": "object",
            "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
        },
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
    },
    "required": ["id", "name"],
}


def json_order(id: int, chance: Chance) -> dict[str, Any]:
    return {
        "id": id,
        "name": chance.text(),
        "ratio": chance.double(),
        "paid": chance.maybe(),
        "tags": chance.list(chance.text),
        "first": {"sku": chance.text(), "count": chance.integer(32)},
        "note": chance.or_none(chance.text),
    }


def test_json_schema_is_read_and_written_as_by_confluents_clients(shop: Shop) -> None:
    chance, topic = Chance(3), shop.bench.topic
    write = JSONSerializer(json.dumps(JSON_ORDER), shop.client)
    orders = [json_order(id, chance) for id in range(COUNT)]
    sent = [(None, write(order, shop.context())) for order in orders]
    good = sent[0][1] or b""
    bad = broken(good) | {"NOT_JSON": good[:-2], "MISSING_FIELD": good[:5] + b'{"id": 1}'}
    shop.produce([*sent, *((None, value) for value in bad.values())])
    file = shop.write(PIPELINE, MODE="batch", FORMAT="json_schema")

    summary = load(file).run(shop.spark)

    assert (summary.records, summary.bad) == (COUNT + 5, 5)
    assert shop.rows() == {order["id"]: order for order in orders}
    for sink, subject in {"same": f"{topic}-value", "made": f"{topic}-made-value"}.items():
        schema = shop.client.get_latest_version(subject).schema.schema_str
        read = JSONDeserializer(str(schema))
        made = [read(each.value, shop.context()) or {} for each in shop.read(sink)]
        # A field without a value is left out.
        assert {order["id"]: {"note": None, **order} for order in made} == shop.rows()
    letters = shop.letters()
    assert {code: letter.record.value for code, letter in letters.items()} == bad
