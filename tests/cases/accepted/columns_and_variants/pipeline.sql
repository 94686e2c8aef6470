-- Columns made of what records hold: a time for windows, and JSON of any shape into every sink.
CREATE TABLE source (
    id BIGINT NOT NULL,
    ms BIGINT NOT NULL,
    event JSON
) WITH (
    connector = 'kafka',
    bootstrap_server = '${env:HEADRACE_BOOTSTRAP_SERVER}',
    topic = '${env:CASE}.clicks',
    include_metadata = true,
    columns = (
        id = 'id',
        at = 'timestamp_millis(ms)',
        kind = 'event:kind::string',
        event = 'event',
        per_id = '60 / id',
        read_at = '_kafka_offset'
    ),
    watermark = ( column = 'at', delay = '1 minute' )
);

CREATE TABLE topic WITH ( connector = 'kafka', topic = '${env:CASE}.kinds', key = 'kind' );
CREATE TABLE lake WITH ( connector = 'delta', path = '${env:CASE_FOLDER}/kinds' );
CREATE TABLE hours_topic WITH ( connector = 'kafka', topic = '${env:CASE}.hours', name = 'hours' );

CREATE VIEW kinds AS SELECT id, kind, event, per_id, read_at FROM source WHERE id < 100;
CREATE VIEW hours AS
SELECT unix_seconds(window.start) AS hour, kind, count(*) AS clicks
FROM source GROUP BY window(at, '1 hour'), kind;

CREATE PIPELINE clicks WITH ( guarantee = 'exactly_once' ) AS BEGIN
    INSERT INTO topic SELECT * FROM kinds;
    INSERT INTO lake SELECT * FROM kinds;
    INSERT INTO hours_topic SELECT * FROM hours;
END;
