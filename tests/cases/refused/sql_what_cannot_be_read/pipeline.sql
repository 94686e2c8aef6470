CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'localhost:9092',
    topic = 'orders'
);
CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'orders.clean' );
CREATE PIPELINE first WITH ( sink = 'clean' ) AS SELECT id FROM orders;
CREATE PIPELINE second WITH ( sink = 'clean' ) AS SELECT id FROM first;
CREATE PIPELINE third WITH ( sink = 'clean' ) AS SELECT id FROM shop;
CREATE PIPELINE fourth WITH ( sink = 'clean' ) AS SELECT * FROM system.kafka_topics;
CREATE PIPELINE fifth WITH ( sink = 'clean' ) AS SELECT 1 AS one;
