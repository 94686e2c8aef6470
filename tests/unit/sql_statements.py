"""Statements of every kind, as people write them: for tests that take any."""

from __future__ import annotations

STATEMENTS = (
    """CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'broker1:9092,broker2:9092',  -- two of them
    topic = 'orders',
    type = 'source',
    format = 'json',
    'auth.password' = '${secret:kafka_password}',
    'fetch.min.bytes' = 1024,
    include_metadata = TRUE,
    bad_data = 'dlq', dlq_topic = 'orders-dlq',
)""",
    "CREATE OR REPLACE CONNECTION `my lake` TO delta ( path = 's3://lake/it''s', merge = -1.5e3 )",
    "CREATE CONNECTION many TO kafka ( topics = ('a', 'b'), keys = ARRAY['x', 'y'], "
    "offset = ( type = 'timestamp', value = '2026-01-01T00:00:00Z' ) )",
    "CREATE SECRET kafka_password AS 'hunter''2'",
    "CREATE SECRET IF NOT EXISTS sr_secret FROM ENV 'SR_SECRET'",
    """CREATE TABLE orders (
    id BIGINT NOT NULL, name TEXT, "at" TIMESTAMP, meta JSON, raw BYTEA, price DECIMAL(10, 2),
    tags TEXT[], parts STRUCT<sku TEXT, n INT>, counts MAP<TEXT, BIGINT>, day DATE,
    total DOUBLE GENERATED ALWAYS AS (price * parts.n) STORED, upper_name AS (upper(name)),
    WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH ( connector = 'shop' )""",
    "CREATE TABLE raw_events ( key BYTEA, value BYTEA, timestamp TIMESTAMP, partition INT, "
    "offset BIGINT ) WITH (connector = 'raw', include_metadata = 'true')",
    "CREATE TABLE sink WITH ( connector = 'console', type = 'sink' )",
    "CREATE VIEW large AS SELECT * FROM orders /* a /* nested */ comment */ WHERE price > 100",
    "CREATE VIEW scored WITH ( python = 'shop.score', from = 'large' )",
    "CREATE PIPELINE p WITH ( sink = 'sink', trigger = '5s', 'spark.executor.cores' = 2 ) AS "
    "SELECT id, name FROM orders WHERE MOD(hash(id), 2) = 0",
    "CREATE PIPELINE q AS INSERT INTO sink SELECT id::TEXT FROM orders",
    """CREATE PIPELINE both AS BEGIN
    INSERT INTO a SELECT CASE WHEN id > 1 THEN 'x' ELSE 'y' END AS k FROM orders;
    INSERT INTO b (k, n) SELECT name, count(*) FROM orders GROUP BY name;
END""",
    "INSERT INTO sink SELECT window.start, window.end, count(*) FROM orders "
    "GROUP BY tumble(INTERVAL '1 minute')",
    """WITH stats AS (
    SELECT DATE_TRUNC('minute', at) AS minute, COUNT(*) AS messages,
           AVG(EXTRACT(EPOCH FROM (NOW() - at))) AS lag_seconds
    FROM orders WHERE at > NOW() - INTERVAL '1 hour'
    GROUP BY DATE_TRUNC('minute', at)
) SELECT * FROM stats ORDER BY minute DESC""",
    "SELECT meta->'a'->>'b', meta:a.b[0]::INT, UNNEST(tags) AS tag FROM orders",
    "SELECT o.id, t FROM orders o CROSS JOIN UNNEST(o.tags) AS u(t), large l",
    "SELECT hop(INTERVAL '2 sec', INTERVAL '10 sec') AS w, transform(tags, x -> upper(x)) "
    "FROM (SELECT * FROM orders) GROUP BY 1, 2",
    "SELECT session(INTERVAL '5 min') AS s, count(*) FROM orders GROUP BY s",
    "SELECT * FROM system.connections WHERE name = 'shop'",
    "SELECT test_connection('shop')",
    "VALUES (1, 'a'), (2, 'b')",
    "DROP PIPELINE IF EXISTS p CASCADE PURGE",
    "DROP CONNECTION shop",
    "SHOW TABLES",
    "SHOW CREATE TABLE orders",
    "DESCRIBE orders",
    "DESC PIPELINE p",
    "EXPLAIN p",
    "EXPLAIN CODE PIPELINE p",
    "EXPLAIN SELECT id FROM orders",
    "EXPLAIN CREATE PIPELINE x AS SELECT id FROM orders",
    "START PIPELINE p WITH ( once = true )",
    "STOP PIPELINE p",
    "PAUSE PIPELINE p",
    "RESUME PIPELINE p",
    "SET scan = all",
    "SET a.b = 'c'",
    "SET",
)
