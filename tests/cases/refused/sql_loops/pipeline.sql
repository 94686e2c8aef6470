CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE back WITH ( connector = 'kafka', topic = 'orders' );
INSERT INTO back SELECT id, customer FROM orders;
