CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'orders.clean' );
CREATE VIEW paid AS SELECT id, amount FROM orders;
CREATE PIPELINE p WITH ( sink = 'clean' ) AS SELECT id, customer FROM paid;
