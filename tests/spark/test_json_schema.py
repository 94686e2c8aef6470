"""JSON by the schemas of a registry: confluent-kafka's serializers on the other side."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.admin.stores import RegistryAddress
from headrace.formats import reading
from headrace.formats.json_schema import JsonSchemaFormat
from headrace.formats.known import Known
from headrace.formats.options import Part, Wanted
from headrace.formats.row_types import schema_of
from headrace.model.schema import Column, Schema, quote
from headrace.sources.reader import RAW

FORMAT = JsonSchemaFormat()
REGISTRY = RegistryAddress("confluent", "http://unused:8081", None, None)
WANTED = Wanted(Part.VALUE, "json_schema", Path(), registry=REGISTRY)
VALUE = SerializationContext("orders", MessageField.VALUE)
AT = datetime.datetime(2026, 11, 15, 12, 30, tzinfo=datetime.UTC)
OLD = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
        "any": {},
    },
    "required": ["id"],
    "definitions": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}}},
}
NEW = {**OLD, "properties": {**OLD["properties"], "note": {"type": ["string", "null"]}}}  # type: ignore[dict-item]


def test_messages_of_confluents_serializer_are_read_and_ours_by_its_deserializer(
    spark: SparkSession,
) -> None:
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    old, new = (JSONSerializer(json.dumps(each), client) for each in (OLD, NEW))
    written = [
        old({"id": 1, "at": "2026-11-15T12:30:00Z", "lines": [{"sku": "s"}], "any": [1]}, VALUE),
        new({"id": 2, "note": "n", "any": {"x": 1}}, VALUE),
    ]
    bad = [written[0][:-1], written[0] + b"{}", written[0][:5], written[0][:5] + b'{"id": "x"}']
    versions = sorted(client.get_versions("orders-value"))
    schemas = [client.get_version("orders-value", each) for each in versions]
    stored = [
        StoredSchema(str(each.schema_id), SchemaType.JSON, str(each.schema.schema_str))
        for each in schemas
    ]
    columns, scalar = FORMAT.columns_of(stored[-1], WANTED)
    known = Known(Framing.CONFLUENT, columns, tuple(stored), stored[-1], scalar=scalar)
    read = FORMAT.reading(WANTED, "s", known)
    keys = Schema((Column("k", "BIGINT"),))
    key_known = Known(Framing.CONFLUENT, keys, tuple(stored), stored[0], scalar=True)
    key = reading.KeyReading("k", FORMAT.reading(WANTED, "s", key_known))
    head = written[0][:5]
    records = [
        (head + number, value, "t", 0, 0, AT, None)
        for number, value in zip(
            [b"6", b"7", b"1", b"1", b"1", b"1", b"x"], [*written, *bad, written[0]], strict=True
        )
    ]
    decoded = reading.decode(spark.createDataFrame(records, RAW), read, key=key)
    rows = schema_of(decoded.drop("__headrace").schema)
    made = StoredSchema("77", SchemaType.JSON, FORMAT.made("Row", rows))
    names = [(name, quote(name)) for name in rows.names]
    encoded = FORMAT.encoding(WANTED, rows, made).of_fields(names)
    one = Schema((Column("", "BIGINT"),))
    of_key = StoredSchema("78", SchemaType.JSON, FORMAT.made("Key", one))
    encoded_key = FORMAT.encoding(WANTED, one, of_key).of_value("k")
    why = reading.reason(read, key)
    found = decoded.selectExpr(
        "id", "at", "lines", "to_json(any) AS any", "note", "k", "__headrace.error AS error",
        f"{why} AS why", f"{encoded} AS encoded", f"{encoded_key} AS encoded_key",
    ).collect()  # fmt: skip
    first, second, *others = (row.asDict(recursive=True) for row in found)
    local = AT.astimezone().replace(tzinfo=None)
    assert (first["id"], first["at"], first["lines"]) == (1, local, [{"sku": "s"}])
    assert (first["any"], first["note"], first["k"]) == ("[1]", None, 6)
    assert (second["id"], second["at"], second["any"], second["note"]) == (2, None, '{"x":1}', "n")
    assert [(row["error"], row["why"]) for row in others] == [
        ("NOT_JSON", "the value is not valid JSON"),
        ("NOT_AN_OBJECT", "the value is not one JSON object"),
        ("EMPTY_VALUE", "the value is empty"),
        ("WRONG_TYPE", "does not fit the schema: id is not BIGINT"),
        ("KEY_NOT_JSON", "in the key: the value is not valid JSON"),
    ]
    assert bytes(first["encoded"][:5]) == b"\x00\x00\x00\x00\x4d"
    assert bytes(first["encoded_key"]) == b"\x00\x00\x00\x00\x4e6"
    assert _by_deserializer(made.text, first["encoded"][5:]) == {
        "id": 1,
        "at": "2026-11-15T12:30:00.000Z",
        "lines": [{"sku": "s"}],
        "any": [1],
        "note": None,
        "k": 6,
    }


def _by_deserializer(schema: str, payload: bytes) -> Any:
    """What confluent-kafka's own deserializer makes of a payload; it validates it, too."""
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    head = JSONSerializer(schema, client, conf={"validate": False})({}, VALUE)[:5]
    return JSONDeserializer(schema, schema_registry_client=client)(head + payload, VALUE)
