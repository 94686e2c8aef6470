CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'orders.clean' );
CREATE PIPELINE p WITH ( sink = 'clean' ) AS
SELECT tumble(INTERVAL '1 minute') AS w, count(*) AS n FROM orders GROUP BY 1;
