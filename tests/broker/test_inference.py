"""Columns from a sample of a real topic, or from a real registry: `headrace infer`, and tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import SchemaStore
from headrace.admin.stores import RegistryAddress, opened
from headrace.cluster.dev import DevCluster
from headrace.testing.fixtures import TopicMaker
from headrace.testing.glue import GlueServer

Headrace = Callable[..., Any]
ROWS = '{"id": 1, "name": "ada", "at": "2026-01-01T00:00:00Z"}\n{"id": 2, "tags": ["a"]}\nbroken\n'
COLUMNS = "id BIGINT, name STRING, at TIMESTAMP, tags ARRAY<STRING>"


@pytest.fixture
def orders(headrace: Headrace, topic: TopicMaker) -> str:
    name = topic("orders")
    assert headrace("produce", name, stdin=ROWS).code == 0
    return name


def test_columns_are_proposed_in_every_notation(
    headrace: Headrace, orders: str, topic: TopicMaker, tmp_path: Path
) -> None:
    assert headrace("infer", orders, "--as", "schema").out.strip() == COLUMNS
    yaml = headrace("infer", orders)
    assert f'  schema: "{COLUMNS}"' in yaml.out
    assert "1 that are no JSON objects were left out" in yaml.err
    table = orders.replace("-", "_")
    for notation, file, rest in (
        ("yaml", "a.yaml", "sink:\n  connector_type: console\n"),
        ("sql", "a.sql", f"CREATE PIPELINE p AS SELECT id, name, at, tags FROM {table};\n"),
    ):
        proposed = headrace("infer", orders, "--as", notation)
        (tmp_path / file).write_text(proposed.out + rest)
        checked = headrace("check", tmp_path / file)
        assert checked.code == 0, checked
    empty = headrace("infer", topic("empty"))
    assert empty.code == 4
    assert "as it is empty" in empty.err


def test_a_table_keeps_the_columns_of_its_sample(
    headrace: Headrace,
    orders: str,
    kafka_cluster: DevCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / ".headrace").mkdir()
    monkeypatch.chdir(tmp_path)
    servers = kafka_cluster.bootstrap
    made = headrace(
        "sql",
        "-c",
        f"CREATE CONNECTION shop TO kafka ( bootstrap_servers = '{servers}' );\n"
        f"CREATE TABLE orders WITH (\n  connector = 'shop', topic = '{orders}',\n"
        "  schema = 'sample' );\n"
        "CREATE PIPELINE p AS SELECT id, name FROM orders WHERE at IS NOT NULL",
    )
    assert made.code == 0, made
    assert f"columns of 2 records: {COLUMNS}; left out as no JSON objects: 1" in made.err
    # Later records do not change what was found.
    headrace("produce", orders, stdin='{"id": "x"}\n')
    kept = headrace("sql", "-c", "SHOW CREATE orders", "-o", "csv")
    assert f"schema = '{COLUMNS}'" in kept.out
    wrong = headrace("sql", "-c", "CREATE VIEW v AS SELECT nme FROM orders")
    assert wrong.code == 2
    assert "did you mean `name`?" in wrong.err

    nothing = headrace(
        "sql", "-c", "CREATE TABLE t WITH ( connector = 'shop', topic = 'none', schema = 'sample' )"
    )
    assert nothing.code == 2
    assert "sql:1:69 NO_SAMPLE" in nothing.err
    assert headrace("sql", "-c", "SHOW TABLES", "-o", "csv").out.count("\n") == 2


# By a registry

ORDER = """{"type": "record", "name": "Order", "fields": [
  {"name": "id", "type": "long"},
  {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "order", "type": ["null", "int"]}]}}},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}"""
ORDER_COLUMNS = "id BIGINT, lines ARRAY<STRUCT<`sku`: STRING, `order`: INT>>, at TIMESTAMP"


@pytest.fixture
def store(registry_url: str) -> SchemaStore:
    return opened(RegistryAddress("confluent", registry_url, None, None))


def checked(headrace: Headrace, folder: Path, topic: str, *arguments: object) -> list[str]:
    """What `infer` prints in both notations, each the beginning of a pipeline without a fault."""
    printed = []
    table = topic.replace("-", "_").replace(".", "_")
    for notation, file, rest in (
        ("yaml", "a.yaml", "sink:\n  connector_type: console\n"),
        ("sql", "a.sql", f"CREATE PIPELINE p AS SELECT * FROM {table};\n"),
    ):
        proposed = headrace("infer", topic, "--as", notation, *arguments)
        assert proposed.code == 0, proposed
        (folder / file).write_text(proposed.out + rest)
        answer = headrace("check", folder / file)
        assert answer.code == 0, answer
        printed.append(proposed.out)
    return printed


def test_columns_are_those_of_the_registry(
    headrace: Headrace,
    store: SchemaStore,
    registry_url: str,
    topic: TopicMaker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_REGISTRY", registry_url)
    orders = topic("orders")
    unknown = headrace("infer", orders)
    assert (unknown.code, unknown.err.split()[0]) == (4, "UnknownSubject")
    made = store.register(f"{orders}-value", SchemaType.AVRO, ORDER)
    columns = headrace("infer", orders, "--as", "schema")
    assert columns.out.strip() == ORDER_COLUMNS
    assert f"from {orders}-value, version 1" in columns.err
    yaml, sql = checked(headrace, tmp_path, orders)
    assert f'  schema_registry:\n    endpoint: "{registry_url}"' in yaml
    assert f"    'schema_registry.endpoint' = '{registry_url}'" in sql

    # The subject of another topic, told by the id in a message, or by its name.
    others = topic("others")
    framed = b"\0" + int(made.id).to_bytes(4, "big") + b"..."
    headrace("produce", others, stdin=framed)
    for arguments in ((), ("--subject", f"{orders}-value")):
        yaml, _ = checked(headrace, tmp_path, others, *arguments)
        assert f"  value_subject: {orders}-value\n" in yaml
    sampled = headrace("infer", others, "--sample", 10)
    assert sampled.code == 4
    assert "name the registry that has it with --registry" in sampled.err
    assert headrace("infer", others, "--subject", "none").code == 4


def test_a_login_is_not_printed(
    headrace: Headrace, store: SchemaStore, registry_url: str, topic: TopicMaker, tmp_path: Path
) -> None:
    orders = topic("orders")
    text = 'syntax = "proto3"; message Order { int64 id = 1; }'
    store.register(f"{orders}-value", SchemaType.PROTOBUF, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_REGISTRY_USER", "reader")
        patch.setenv("HEADRACE_REGISTRY_PASSWORD", "not-a-password")
        for printed in checked(headrace, tmp_path, orders, "--registry", registry_url):
            assert "not-a-password" not in printed
            assert "${env:HEADRACE_REGISTRY_PASSWORD}" in printed
            assert "confluent_protobuf" in printed


def test_columns_are_those_of_glue(
    headrace: Headrace,
    glue_server: GlueServer,
    topic: TopicMaker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", glue_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", glue_server.api_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", glue_server.api_secret)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    orders = topic("orders")
    glue_server.store().register(orders, SchemaType.AVRO, ORDER)
    address = f"glue://{glue_server.region}/default-registry"
    yaml, sql = checked(headrace, tmp_path, orders, "--registry", address)
    assert '    type: "glue"\n    region: "eu-central-1"\n' in yaml
    assert "format = 'avro'" in sql


def test_a_table_without_columns_takes_those_of_the_registry(
    headrace: Headrace,
    store: SchemaStore,
    registry_url: str,
    kafka_cluster: DevCluster,
    topic: TopicMaker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / ".headrace").mkdir()
    monkeypatch.chdir(tmp_path)
    orders = topic("orders")
    made = headrace(
        "sql",
        "-c",
        f"CREATE TABLE orders WITH ( connector = 'kafka', topic = '{orders}',\n"
        f"bootstrap_servers = '{kafka_cluster.bootstrap}', format = 'confluent_avro',\n"
        f"'schema_registry.endpoint' = '{registry_url}' );\n"
        "CREATE PIPELINE p AS SELECT id, at FROM orders",
    )
    assert made.code == 0, made
    unknown = headrace("sql", "-c", "DESCRIBE orders", "-o", "csv")
    assert f"subject {orders}-value does not exist" in unknown.err
    store.register(f"{orders}-value", SchemaType.AVRO, ORDER)
    told = headrace("sql", "-c", "DESCRIBE orders", "-o", "csv")
    assert "id,BIGINT" in told.out
    assert "at,TIMESTAMP" in told.out
    assert f"by {orders}-value, version 1" in told.err
