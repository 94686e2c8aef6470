CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'orders.clean' );
CREATE TABLE shown WITH ( connector = 'console' );
CREATE PIPELINE p WITH ( guarantee = 'exactly_once', sink = 'clean, shown' ) AS SELECT id FROM orders;
CREATE PIPELINE q WITH ( sink = 'clean' ) AS
SELECT customer, sum(amount) AS total FROM orders GROUP BY customer ORDER BY total;
