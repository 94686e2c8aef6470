CREATE TABLE orders ( id BIGINT, "name" TEXT ) WITH (
    connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders'
);
CREATE TABLE out WITH ( connector = 'console' );
INSERT INTO out SELECT id, "name", nmae FROM orders WHERE "id" = 7;
