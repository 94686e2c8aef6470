"""Hundreds of statements are read with as little work as they need: each query is parsed once."""

from __future__ import annotations

from pathlib import Path

from headrace.frontend.load import survey
from headrace.model import query

SHOPS = 40
SHOP = """
CREATE TABLE orders_{n} (
    id BIGINT, name TEXT, price DOUBLE, at TIMESTAMP,
    total DOUBLE GENERATED ALWAYS AS (price * {n})
) WITH (
    connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders-{n}'
);
CREATE TABLE out_{n} WITH (
    connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'out-{n}'
);
CREATE VIEW dear_{n} AS SELECT id, name, total::TEXT AS total FROM orders_{n} WHERE price > {n};
CREATE PIPELINE p_{n} WITH ( sink = 'out_{n}' ) AS
SELECT id, upper(name) AS name, EXTRACT(EPOCH FROM NOW()) AS then FROM dear_{n};
"""


def test_each_query_is_parsed_once(tmp_path: Path) -> None:
    path = tmp_path / "shops.sql"
    path.write_text("".join(SHOP.format(n=n) for n in range(SHOPS)), encoding="utf-8")
    query._read.cache_clear()
    found = survey(path)
    assert len(found.pipelines) == SHOPS
    # A view, a pipeline and a generated column of each, and what they share.
    assert query._read.cache_info().misses <= 3 * SHOPS + 10
