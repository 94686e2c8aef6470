CREATE TABLE orders ( id BIGINT, tags TEXT[], parts TEXT[], meta JSON ) WITH (
    connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders'
);
CREATE VIEW a AS SELECT upper(UNNEST(tags)) AS tag FROM orders;
CREATE VIEW b AS SELECT id, tag FROM orders, UNNEST(tags, parts) AS u(tag, part);
CREATE VIEW c AS SELECT id, tag, n FROM orders, UNNEST(tags) WITH ORDINALITY AS u(tag, n);
CREATE VIEW d AS SELECT meta ->> id AS x FROM orders;
