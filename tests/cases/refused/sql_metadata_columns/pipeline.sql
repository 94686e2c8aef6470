CREATE CONNECTION shop TO kafka ( bootstrap_servers = 'localhost:9092', topic = 'orders' );
CREATE TABLE types (
    id BIGINT,
    _kafka_partition TEXT,
    _kafka_offset INT,
    _kafka_timestamp DATE,
    _kafka_key JSON
) WITH ( connector = 'shop', include_metadata = true );
CREATE TABLE not_asked_for ( id BIGINT, _kafka_offset BIGINT ) WITH ( connector = 'shop' );
CREATE TABLE lines ( value TEXT, _file_offset INT, line BIGINT ) WITH (
    connector = 'files', path = 'in', format = 'text', include_metadata = true, type = 'source'
);
