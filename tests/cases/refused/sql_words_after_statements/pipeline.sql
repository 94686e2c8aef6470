CREATE TABLE orders ( id BIGINT ) WITH ( connector = 'kafka' ) PARTITIONED BY (id);
CREATE SECRET password AS 'a' 'b';
CREATE CONNECTION shop TO kafka ( topic = 'orders' ) type = 'source';
DROP TABLE orders RESTRICT;
SHOW TABLES FROM shop;
