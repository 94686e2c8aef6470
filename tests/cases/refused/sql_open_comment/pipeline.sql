CREATE TABLE orders ( id BIGINT ) WITH (
    connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders'
);
CREATE VIEW large AS SELECT id FROM orders WHERE id > 100; /* the rest
CREATE VIEW small AS SELECT id FROM orders WHERE id < 10;
