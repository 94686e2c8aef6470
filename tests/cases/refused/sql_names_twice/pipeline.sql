CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'localhost:9092',
    topic = 'orders'
);
CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE orders ( id BIGINT ) WITH ( connector = 'shop' );
CREATE VIEW Shop AS SELECT id FROM orders;
CREATE TABLE IF NOT EXISTS orders ( id BIGINT ) WITH ( connector = 'shop' );
CREATE OR REPLACE TABLE orders ( id BIGINT, note TEXT ) WITH ( connector = 'shop' );
CREATE OR REPLACE VIEW orders AS SELECT 1;
CREATE PIPELINE p AS SELECT note FROM orders;
