CREATE TABLE orders ( id BIGINT ) WITH (
    connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders', schema = 'id BIGINT'
);
CREATE TABLE nothing WITH ( connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders' );
CREATE PIPELINE p AS SELECT * FROM nothing;
