CREATE TABLE orders (
    id BIGINT,
    ts BIGINT,
    at TIMESTAMP GENERATED ALWAYS AS (timestamp_millis(tss)) STORED,
    total DOUBLE GENERATED ALWAYS AS (sum(id)),
    WATERMARK FOR ts AS ts - INTERVAL '5 seconds'
) WITH ( connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders' );
