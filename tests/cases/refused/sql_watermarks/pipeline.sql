CREATE TABLE a ( at TIMESTAMP, WATERMARK FOR att ) WITH ( connector = 'kafka' );
CREATE TABLE b ( at TIMESTAMP, WATERMARK FOR at AS now() - INTERVAL '5 seconds' )
WITH ( connector = 'kafka' );
CREATE TABLE c ( at TIMESTAMP, WATERMARK FOR at AS at - 5 ) WITH ( connector = 'kafka' );
CREATE TABLE d ( at TIMESTAMP, WATERMARK at ) WITH ( connector = 'kafka' );
CREATE TABLE e ( at TIMESTAMP, WATERMARK FOR at, WATERMARK FOR at ) WITH ( connector = 'kafka' );
