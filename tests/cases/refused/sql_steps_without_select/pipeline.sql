CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'orders.clean' );
CREATE VIEW a WITH ( python = 'shop.clean' );
CREATE VIEW b WITH ( pyton = 'shop.clean', from = 'orders' );
CREATE VIEW c WITH ( deduplicate = ( by = 'idd' ), from = 'orders', name = 'd' );
CREATE VIEW d WITH ( python = 'shop.clean', from = 'oders' );
INSERT INTO clean SELECT * FROM a;
INSERT INTO clean SELECT * FROM b;
INSERT INTO clean SELECT * FROM c;
