-- Two named sources in one table; rows cannot be traced, so each source's dead letters are a query.
CREATE CONNECTION broker TO kafka ( bootstrap_servers = '${env:HEADRACE_BOOTSTRAP_SERVER}' );
CREATE TABLE shops ( id BIGINT NOT NULL, amount INT ) WITH ( connector = 'broker', topic = '${env:CASE}.shops' );
CREATE TABLE web ( id BIGINT NOT NULL, price INT ) WITH ( connector = 'broker', topic = '${env:CASE}.web' );
CREATE TABLE sink WITH ( connector = 'kafka', topic = '${env:CASE}.sales', key = 'channel || ''-'' || id' );

CREATE VIEW step_1 AS
SELECT id, amount, 'shop' AS channel FROM shops
UNION ALL
SELECT id, price, 'web' FROM web;

CREATE PIPELINE all_sales AS INSERT INTO sink SELECT * FROM step_1;
