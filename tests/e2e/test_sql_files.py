"""A file of SQL against a real cluster: what its columns, views and sinks become on the way."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

import headrace
from headrace.catalog import Catalog
from headrace.project import Project

from .conftest import Bench

FILE = """
CREATE CONNECTION shop TO kafka ( bootstrap_servers = '${secret:broker}', format = 'json' );

CREATE TABLE orders (
    id BIGINT NOT NULL,
    ms BIGINT,
    amount TEXT,
    note JSON,
    at TIMESTAMP GENERATED ALWAYS AS (timestamp_millis(ms)) STORED,
    _kafka_partition INT,
    _kafka_key TEXT,
    WATERMARK FOR at AS at - INTERVAL '1 minute'
) WITH ( connector = 'shop', topic = 'TOPIC', include_metadata = 'true' );

CREATE TABLE paid ( order_id BIGINT, cents DECIMAL(10, 2), day DATE, said TEXT ) WITH (
    connector = 'shop', topic = 'paid-TOPIC', key = 'order_id'
);
CREATE TABLE lake WITH ( connector = 'delta', path = 'lake' );

CREATE VIEW good AS
SELECT id, amount::DOUBLE AS amount, at, note->>'text' AS said, _kafka_partition AS part
FROM orders WHERE amount IS NOT NULL;

CREATE PIPELINE `into-TOPIC` WITH ( mode = 'batch' ) AS BEGIN
    INSERT INTO paid SELECT id, amount * 100, CAST(at AS DATE), said FROM good;
    INSERT INTO lake SELECT part, sum(amount) AS amount FROM good GROUP BY part;
END;

CREATE CONNECTION bytes TO kafka ( bootstrap_servers = 'SERVERS', format = 'raw' );
CREATE TABLE old ( key BYTEA, value BYTEA ) WITH ( connector = 'bytes', topic = 'paid-TOPIC' );
CREATE TABLE copies ( key BYTEA, value BYTEA ) WITH ( connector = 'bytes', topic = 'copies-TOPIC' );
CREATE PIPELINE `copy-TOPIC` WITH ( mode = 'batch' ) AS
INSERT INTO copies SELECT key, value FROM old;

CREATE PIPELINE look AS SELECT id, year(at) AS year FROM orders;
"""


def test_a_file_of_several_pipelines(bench: Bench, spark: SparkSession) -> None:
    Catalog.of(Project(bench.folder)).put_secret("broker", bench.cluster.bootstrap, None)
    file = bench.write(FILE, "shop.sql")
    assert headrace.load(file).check() == []
    rows = [
        {"id": 1, "ms": 1_700_000_000_000, "amount": "1.5", "note": {"text": "hello"}},
        {"id": 2, "ms": 1_700_000_000_000, "amount": "2.25", "note": [1]},
        {"id": 3, "amount": None},
        {"id": "four"},
    ]
    bench.produce(rows, partition=1)

    seen = headrace.load(file, "look").preview(spark=spark)
    assert [(row["id"], row["year"]) for row in seen.rows] == [(1, 2023), (2, 2023), (3, None)]
    assert [bad.error for bad in seen.bad] == ["WRONG_TYPE"]

    done = headrace.load(file, f"into-{bench.topic}").run(spark=spark)
    assert (done.records, done.bad) == (4, 1)
    paid = bench.read(f"paid-{bench.topic}")
    assert [(each.key, json.loads(each.value or b"")) for each in paid] == [
        (b"1", {"order_id": 1, "cents": 150.0, "day": "2023-11-14", "said": "hello"}),
        (b"2", {"order_id": 2, "cents": 225.0, "day": "2023-11-14", "said": None}),
    ]
    lake = spark.read.format("delta").load(str(bench.folder / "lake")).collect()
    assert [row.asDict() for row in lake] == [{"part": 1, "amount": 3.75}]

    headrace.load(file, f"copy-{bench.topic}").run(spark=spark)
    copies = bench.read(f"copies-{bench.topic}")
    assert [(each.key, each.value) for each in copies] == [(each.key, each.value) for each in paid]
