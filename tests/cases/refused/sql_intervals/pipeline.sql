CREATE TABLE a ( at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5 secnds' )
WITH ( connector = 'kafka' );
CREATE TABLE b ( at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 'a while' )
WITH ( connector = 'kafka' );
CREATE TABLE c ( at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1 month' )
WITH ( connector = 'kafka' );
CREATE TABLE d ( at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '-5 seconds' )
WITH ( connector = 'kafka' );
CREATE TABLE orders ( id BIGINT, at TIMESTAMP ) WITH (
    connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'orders'
);
CREATE VIEW late AS
SELECT id, at + INTERVAL '1 fortnight' AS then, at + INTERVAL '1 month 2 days' AS later
FROM orders;
