CREATE TABLE orders ( id BIGINT, at TIMESTAMP, WATERMARK FOR at ) WITH (
    connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders'
);
CREATE VIEW a AS SELECT count(*) AS n FROM orders GROUP BY tumbling(INTERVAL '1 minute');
CREATE VIEW b AS SELECT count(*) AS n FROM orders GROUP BY hop(INTERVAL '1 minute');
CREATE VIEW c AS SELECT count(*) AS n FROM orders GROUP BY tumble(60);
CREATE VIEW d AS SELECT * FROM TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE);
CREATE VIEW e AS
SELECT count(*) AS n FROM orders a JOIN orders b ON a.id = b.id
GROUP BY tumble(INTERVAL '1 minute');
CREATE VIEW f AS SELECT count(*) AS n FROM orders GROUP BY session(INTERVAL '1 month');
CREATE VIEW g AS
SELECT count(*) AS n FROM (SELECT id FROM orders) GROUP BY tumble(INTERVAL '1 minute');
