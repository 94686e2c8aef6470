CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE clean ( order_id BIGINT, name TEXT ) WITH (
    connector = 'kafka', topic = 'orders.clean', key = 'id', headers = ( tenant = 'region' )
);
INSERT INTO clean SELECT id, customer FROM orders;
