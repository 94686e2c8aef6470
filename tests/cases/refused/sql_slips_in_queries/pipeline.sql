CREATE TABLE orders ( id BIGINT, name TEXT, price DOUBLE ) WITH (
    connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders'
);
CREATE VIEW a AS SELECT id, name FORM orders;
CREATE VIEW b AS SELECT id, name FROM orders WHRE price > 1;
CREATE VIEW c AS SELECT name, count(*) AS n FROM orders GROUP name;
CREATE VIEW d AS SELECT id, name, FROM orders;
CREATE VIEW e AS SELECT CASE WHEN price > 1 THEN 'dear' AS kind FROM orders;
CREATE VIEW f AS SELECT CAST(price AS DECMIAL) AS price FROM orders;
CREATE VIEW g AS SELECT id name price FROM orders;
CREATE VIEW h AS SELECT id FROM orders WHERE price > 1 && price < 2;
CREATE VIEW i AS SELECT id FROM orders WHERE name = $name;
CREATE VIEW j AS SELECT id FROM;
