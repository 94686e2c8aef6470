CREATE CONNECTION shared TO kafka (
    bootstrap_servers = 'localhost:9092',
    topic = 'orders',
    group_id = 'both'
);
CREATE TABLE orders ( id BIGINT, customer TEXT ) WITH ( connector = 'shared', share_partitions = true );
CREATE TABLE visits ( id BIGINT, page TEXT ) WITH ( connector = 'shared', topic = 'visits' );
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'clean' );
CREATE PIPELINE counted WITH ( sink = 'clean' ) AS SELECT customer, count(*) AS n FROM orders GROUP BY customer;
CREATE PIPELINE pages WITH ( sink = 'clean' ) AS SELECT page, count(*) AS n FROM visits GROUP BY page;
