CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'orders.clean' );
CREATE VIEW paid AS SELECT id, custmer FROM orders WHERE amount > 0;
CREATE PIPELINE p WITH ( sink = 'clean' ) AS
SELECT id,
       amount * 1.2 AS gross,
       pirce
FROM orders;
