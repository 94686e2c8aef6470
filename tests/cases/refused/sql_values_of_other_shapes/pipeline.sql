CREATE TABLE a ( id BIGINT ) WITH ( connector = ('kafka', 'x'), topic = 'a' );
CREATE TABLE b ( id BIGINT ) WITH (
    connector = 'kafka',
    topic = 5,
    bootstrap_servers = 'localhost:9092',
    type = ( a = 1 ),
    format = ('raw'),
    include_metadata = ( a = 1 ),
    offset = 12,
    properties = 'fetch',
    'fetch.min.bytes' = 5
);
CREATE TABLE o WITH ( connector = 'kafka', topic = 'o', format = ( a = 1 ), key = true );
CREATE VIEW v WITH ( python = 'a.b', from = ('c', 'd') );
CREATE PIPELINE p WITH ( sink = ( a = 1 ), mode = ('batch') ) AS SELECT id FROM b;
CREATE PIPELINE q WITH ( sink = ('o', 'p', 5) ) AS SELECT * FROM v;
INSERT INTO o VALUES (1, 2);
