CREATE CONNECTION out TO kafka ( bootstrap_servers = 'localhost:9092', topic = 'o', type = 'sink' );
CREATE TABLE orders ( id BIGINT ) WITH ( connector = 'out' );
CREATE PIPELINE p AS SELECT id FROM orders;
CREATE TABLE shown ( id BIGINT ) WITH ( connector = 'console' );
CREATE PIPELINE q AS SELECT id FROM shown;
CREATE CONNECTION screen TO console ( type = 'source' );
CREATE CONNECTION other TO kafka ( type = 'both' );
