CREATE SECRET token AS 'sesame-open';
CREATE TABLE orders ( id BIGINT, customer TEXT ) WITH (
    connector = 'kafka', bootstrap_server = 'localhost:9092', topic = '${secret:token} 2'
);
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'clean', dlq = '${secret:token}' );
CREATE PIPELINE p WITH ( sink = 'clean' ) AS
SELECT id FROM orders WHERE customer = '${secret:token}';
