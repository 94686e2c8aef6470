CREATE TABLE orders ( id BIGINT ) WITH ( topic = 'orders' );
CREATE PIPELINE p AS SELECT id FROM orders;
