CREATE CONNECTION bytes TO kafka ( bootstrap_servers = 'localhost:9092', topic = 'b', format = 'raw' );
CREATE TABLE raw_events ( key BYTEA, value JSON, offset INT, payload BYTEA ) WITH ( connector = 'bytes' );
