CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE broken ( id BIGNIT ) WITH ( connector = 'kafka' );
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'orders.clean' )
INSERT INTO clean SELECT id FROM orders;
CREATE PIPELINE p WITH ( sink = 'clean' ) AS SELECT id, amout FROM orders JOIN broken USING (id);
CREATE PIPELINE q WITH ( sink = 'out' ) AS SELECT id, FROM orders;
