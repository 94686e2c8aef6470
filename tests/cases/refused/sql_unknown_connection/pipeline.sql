CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'localhost:9092',
    topic = 'orders'
);
CREATE TABLE orders ( id BIGINT ) WITH ( connector = 'shopp' );
CREATE TABLE returns ( id BIGINT ) WITH ( connector = 'rabbitmq', topic = 'returns' );
CREATE CONNECTION files_of_today TO filez ( path = 'today' );
