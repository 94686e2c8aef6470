-- Row-wise SQL into two sinks: one query, and dead letters in the Kafka sink's own job.
CREATE CONNECTION broker TO kafka (
    bootstrap_servers = '${env:HEADRACE_BOOTSTRAP_SERVER}',
    topic = '${env:CASE}.orders'
);

CREATE TABLE source (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE,
    at TIMESTAMP
) WITH ( connector = 'broker', type = 'source' );

CREATE TABLE clean WITH (
    connector = 'kafka', topic = '${env:CASE}.orders.clean', key = 'customer'
);

CREATE TABLE lake WITH (
    connector = 'delta', path = '${env:CASE_FOLDER}/orders', partition_by = 'day'
);

CREATE VIEW step_1 AS
SELECT id, customer, round(amount * 1.2, 2) AS gross, date(at) AS day
FROM source
WHERE amount > 0;  -- refunds go elsewhere

CREATE VIEW step_2 AS SELECT *, gross > 100 AS large FROM step_1;

CREATE PIPELINE orders_clean WITH ( sink = 'clean, lake' ) AS SELECT * FROM step_2;
