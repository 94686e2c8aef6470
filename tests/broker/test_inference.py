"""Columns from a sample of a real topic: `headrace infer`, and tables that ask for one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.dev import DevCluster
from headrace.testing.fixtures import TopicMaker

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
