CREATE CONNECTION confluent TO kafka (
    bootstrap_servers = 'localhost:9092',
    topic = 'events',
    type = 'source',
    format = 'confluent_avro',
    'schema_registry.endpoint' = 'http://localhost:8081',
    'value_subject' = 'events-value'
);
CREATE TABLE events WITH ( connector = 'confluent' );
CREATE PIPELINE p AS SELECT * FROM events;
CREATE CONNECTION csv TO kafka ( bootstrap_servers = 'localhost:9092', topic = 'csv', format = 'csv' );
