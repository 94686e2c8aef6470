CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE SECRET token AS 'sesame-open';
CREATE SECRET unset FROM ENV 'HEADRACE_TEST_IS_NEVER_SET';
CREATE TABLE base WITH ( connector = 'jdbc', url = '${secret:token}', user = 'u', password = '${secret:unset}', table = 't' );
CREATE CONNECTION shop TO kafka ( bootstrap_servers = '${secret:nobody_has_it}', topic = '${env:HEADRACE_TEST_IS_NEVER_SET}' );
CREATE PIPELINE p WITH ( sink = 'base' ) AS SELECT id FROM orders WHERE customer = '${secret:1}';
