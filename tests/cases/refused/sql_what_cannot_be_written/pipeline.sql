CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE CONNECTION dice TO impulse ( rate = 10 );
CREATE CONNECTION events TO kafka ( bootstrap_servers = 'localhost:9092', topic = 'e', type = 'source' );
CREATE VIEW paid AS SELECT id FROM orders;
CREATE PIPELINE p WITH ( sink = 'paid' ) AS SELECT id FROM orders;
CREATE PIPELINE q WITH ( sink = 'dice' ) AS SELECT id FROM orders;
CREATE PIPELINE r WITH ( sink = 'events' ) AS SELECT id FROM orders;
CREATE PIPELINE s WITH ( sink = 'p, ' ) AS SELECT id FROM orders;
