CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'localhost:9092',
    'schema_registry.endpoint' = 'http://localhost:8081',
    'schema_registry.api_key' = 'reader'
);
CREATE CONNECTION wrong TO kafka (
    bootstrap_servers = 'localhost:9092',
    'schema_registry.endpoint' = 'localhost:8081',
    'schema_registry.api_kye' = 'reader',
    format = 'avroo'
);
CREATE TABLE plain ( id BIGINT ) WITH ( connector = 'shop', topic = 'a' );
CREATE TABLE json ( id BIGINT ) WITH ( connector = 'shop', topic = 'b', format = 'json' );
CREATE TABLE avro WITH ( connector = 'shop', topic = 'c', format = 'confluent_avro' );
CREATE TABLE twice WITH (
    connector = 'shop', topic = 'd', format = 'avro',
    schema_registry = ( endpoint = 'http://a:8081' ), 'schema_registry.endpoint' = 'http://b:8081'
);
CREATE TABLE several WITH ( connector = 'shop', topics = 'e, f', format = 'avro' );
CREATE TABLE nowhere WITH (
    connector = 'kafka', bootstrap_servers = 'localhost:9092', topic = 'g', format = 'json_schema'
);
CREATE TABLE columns_twice ( id BIGINT ) WITH (
    connector = 'shop', topic = 'h', format = 'avro', schema = 'id BIGINT', schema_evolution = 'widen'
);
CREATE TABLE clean ( id BIGINT, name TEXT ) WITH (
    connector = 'shop', topic = 'clean', format = 'avro', key_format = 'avro'
);
CREATE TABLE raw ( key TEXT, value TEXT ) WITH ( connector = 'shop', topic = 'raw', format = 'debezium' );
CREATE PIPELINE p AS BEGIN
    INSERT INTO clean SELECT id FROM avro;
    INSERT INTO clean SELECT id, upper(id) AS name FROM plain;
    INSERT INTO raw SELECT id, id FROM json;
END;
CREATE PIPELINE q AS SELECT * FROM avro JOIN twice ON avro.id = twice.id JOIN several ON several.id = avro.id;
CREATE PIPELINE r AS SELECT * FROM nowhere JOIN columns_twice ON nowhere.id = columns_twice.id;
