CREATE CONNECTION a TO kafka ( bootstrap_servers = 'localhost:9092', topic = 'a', offset = 'newest' );
CREATE CONNECTION b TO kafka ( bootstrap_servers = 'localhost:9092', topic = 'b', offset = 'timestamp', type = 'source' );
CREATE CONNECTION c TO kafka ( bootstrap_servers = 'localhost:9092', topic = 'c', offset = 'latest', timestamp = '2024-01-01T00:00:00Z', type = 'source' );
CREATE CONNECTION d TO kafka ( bootstrap_servers = 'localhost:9092', topic = 'd', offset = 'timestamp', timestamp = 'yesterday', type = 'source' );
CREATE CONNECTION e TO kafka ( bootstrap_servers = 'localhost:9092', topic = 'e', offset = 'latest', 'auto.offset.reset' = 'earliest', type = 'source' );
CREATE CONNECTION f TO kafka ( bootstrap_servers = 'localhost:9092', topic = 'f', timestamp = '2024-01-01T00:00:00Z', type = 'source' );
CREATE TABLE since ( id BIGINT ) WITH ( connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'g', offset = 'timestamp', type = 'source' );
