"""Registries by the words of SQL engines and of Mage: the same pipelines, from end to end."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
from pyspark.sql import SparkSession

from headrace import load
from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stores import RegistryAddress, opened

from .conftest import Bench

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": "double"},
    ],
}
SHOP = """
CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'SERVERS',
    format = 'avro',
    'schema_registry.endpoint' = 'REGISTRY'
);
CREATE TABLE orders WITH ( connector = 'shop', topic = 'TOPIC' );
CREATE TABLE clean ( id BIGINT, who TEXT ) WITH (
    connector = 'shop', topic = 'TOPIC-clean', key = 'id', key_format = 'confluent_avro',
    format = 'confluent_protobuf'
);
CREATE TABLE plain WITH ( connector = 'shop', topic = 'TOPIC-plain', format = 'json' );
CREATE PIPELINE p WITH ( name = 'NAME' ) AS BEGIN
    INSERT INTO clean SELECT id, upper(customer) FROM orders WHERE amount > 1;
    INSERT INTO plain SELECT * FROM orders;
END;
"""
LOADER = """
pipeline: NAME-again
mode: batch
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  serde_config:
    serialization_method: AVRO
    schema_registry_url: REGISTRY
sink:
  connector_type: kafka
  topic: TOPIC-again
"""


def message(id: int, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), value)
    return b"\0" + id.to_bytes(4) + out.getvalue()


def test_the_words_of_sql_and_of_mage_mean_the_same(
    bench: Bench, registry_url: str, spark: SparkSession
) -> None:
    store = opened(RegistryAddress("confluent", registry_url, None, None))
    found = store.register(f"{bench.topic}-value", SchemaType.AVRO, json.dumps(ORDER))
    orders: list[dict[str, Any]] = [
        {"id": 1, "customer": "ada", "amount": 9.5},
        {"id": 2, "customer": None, "amount": 2.0},
        {"id": 3, "customer": "eve", "amount": 0.5},
    ]
    bench.produce(message(int(found.id), each) for each in orders)

    sql = bench.write(SHOP.replace("REGISTRY", registry_url), "shop.sql")
    summary = load(sql, "p").run(spark=spark, once=True)
    assert (summary.records, summary.bad) == (3, 0)
    # The columns of the table that declares none are the registry's.
    assert sorted(bench.values(f"{bench.topic}-plain"), key=lambda each: each["id"]) == orders
    written = {part: store.newest(f"{bench.topic}-clean-{part}") for part in ("key", "value")}
    assert written["key"] is not None
    assert written["value"] is not None
    assert written["value"].type is SchemaType.PROTOBUF
    frames = {part: b"\0" + int(each.id).to_bytes(4) for part, each in written.items() if each}
    clean = bench.read(f"{bench.topic}-clean")
    # Protobuf has the index of the message after the frame; the key is one long of Avro.
    assert {(each.key, each.value) for each in clean} == {
        (frames["key"] + b"\x02", frames["value"] + b"\0\x08\x01\x12\x03ADA"),
        (frames["key"] + b"\x04", frames["value"] + b"\0\x08\x02"),
    }

    again = bench.write(LOADER.replace("REGISTRY", registry_url), "loader.yaml")
    assert load(again).run(spark=spark).records == 3
    assert sorted(bench.values(f"{bench.topic}-again"), key=lambda each: each["id"]) == orders
