CRAETE TABLE orders ( id BIGINT ) WITH ( connector = 'kafka' );
CREATE TABEL orders ( id BIGINT ) WITH ( connector = 'kafka' );
INSRET INTO orders SELECT 1;
SELCT id FROM orders;
CREATE VIEW large AS SLECT id FROM orders;
hello, world;
