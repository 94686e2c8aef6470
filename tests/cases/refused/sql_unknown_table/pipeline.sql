CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'orders.clean' );
CREATE VIEW paid AS SELECT id FROM ordres WHERE amount > 0;
CREATE PIPELINE p WITH ( sink = 'claen' ) AS SELECT * FROM paid JOIN returns USING (id);
INSERT INTO cleaned SELECT id FROM orders;
