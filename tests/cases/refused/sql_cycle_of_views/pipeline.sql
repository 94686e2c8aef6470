CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'orders.clean' );
CREATE VIEW a AS SELECT id FROM b;
CREATE VIEW b AS SELECT id FROM c;
CREATE VIEW c AS SELECT id FROM a JOIN orders USING (id);
CREATE VIEW itself AS SELECT * FROM itself;
INSERT INTO clean SELECT id FROM a;
