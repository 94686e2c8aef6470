CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE totals ( customer TEXT, total DOUBLE, orders BIGINT ) WITH ( connector = 'kafka', topic = 'totals' );
CREATE TABLE rows ( n BIGINT ) WITH ( connector = 'delta', path = 'tables/rows' );
CREATE TABLE copied ( customer TEXT, id BIGINT NOT NULL ) WITH ( connector = 'kafka', topic = 'copied' );
CREATE PIPELINE too_few AS INSERT INTO totals SELECT customer, amount FROM orders;
CREATE PIPELINE too_many AS INSERT INTO rows SELECT * FROM orders;
CREATE PIPELINE other_names AS INSERT INTO totals (customer, sum) SELECT customer, amount * 2 FROM orders;
CREATE PIPELINE other_order AS INSERT INTO copied SELECT id, customer FROM orders;
CREATE PIPELINE nobody_knows WITH ( sink = 'copied' ) AS SELECT * FROM rows AS r JOIN orders AS o ON r.n = o.id;
