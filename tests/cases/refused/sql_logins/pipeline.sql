CREATE SECRET pass AS 'a-pass-word';
CREATE CONNECTION safe TO kafka (
    bootstrap_servers = 'localhost:9092',
    topic = 'orders',
    type = 'source',
    'auth.type' = 'sasll',
    'auth.mechanism' = 'PLAIN',
    'auth.pasword' = '${secret:pass}',
    'ssl.ca' = '/certs/ca.pem'
);
CREATE CONNECTION later TO kafka (
    bootstrap_servers = 'localhost:9092',
    topic = 'orders',
    'auth.type' = 'sasl',
    'auth.username' = 'user',
    'auth.password' = '${secret:pass}'
);
CREATE TABLE orders ( id BIGINT ) WITH ( connector = 'later' );
CREATE PIPELINE p AS SELECT id FROM orders;
