CREATE TABLE orders ( id BIGINT, name TEXT, tags TEXT[] ) WITH (
    connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders'
);
CREATE VIEW a AS SELECT upper(name FROM orders;
CREATE VIEW b AS SELECT upper(name)) FROM orders;
CREATE VIEW c AS SELECT tags[0) FROM orders;
CREATE CONNECTION shop TO kafka ( topic = 'orders';
CREATE VIEW d AS SELECT (id
CREATE VIEW e AS SELECT id FROM orders;
CREATE TABLE t ( id BIGINT, name TEXT;
