CREATE TABLE orders ( id BIGINT ) WITH (
    connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders'
)
CREATE TABLE out WITH ( connector = 'console' )
CREATE VIEW large AS
SELECT id FROM orders WHERE id > 100
INSERT INTO out
SELECT id FROM large
