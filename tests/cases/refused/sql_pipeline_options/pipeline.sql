CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'orders.clean' );
CREATE PIPELINE p WITH (
    sink = 'clean',
    mode = 'streem',
    trigger = 'often',
    topic = 'orders',
    gaurantee = 'exactly_once',
    'spark.driver.extraJavaOptions' = '-agentpath:x'
) AS SELECT id FROM orders;
CREATE PIPELINE q WITH ( sink = 'clean' ) AS INSERT INTO clean SELECT id FROM orders;
CREATE PIPELINE `../elsewhere` WITH ( sink = 'clean' ) AS SELECT id FROM orders;
