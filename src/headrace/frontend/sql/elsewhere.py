"""What statements of other systems are here: hints for those who know these."""

from __future__ import annotations

# By the word that begins them.
STATEMENTS = {
    "ALTER": "make it again with CREATE OR REPLACE",
    "UPDATE": "rows in a topic cannot be changed; a sink with `mode = 'upsert'` replaces them",
    "DELETE": "rows in a topic cannot be deleted; write the others to another one",
    "MERGE": "a sink with `mode = 'upsert'` and `key` keeps one row a key",
    "TRUNCATE": "`headrace topics delete` deletes a topic with all its records",
    "USE": "there is one catalog in each project; leave this out",
    "BEGIN": "statements together are `CREATE PIPELINE name AS BEGIN … END`",
    "EXECUTE": "statements together are `CREATE PIPELINE name AS BEGIN … END`",
    "END": "it ends a BEGIN, and none is open here",
    "COPY": "a pipeline copies: `INSERT INTO target SELECT * FROM origin`",
    "LIST": "write SHOW",
    "RUN": "write START PIPELINE name",
    "ANALYZE": "Kafka counts nothing beforehand; leave this out",
    "COMMIT": "each batch is committed by itself; leave this out",
    "ROLLBACK": "each batch is committed by itself; leave this out",
    "GRANT": "rights are given by the broker or the database",
}
# What CREATE makes.
KINDS = {
    "STREAM": "what is read or written is a TABLE: `CREATE TABLE name ( … ) WITH ( … )`",
    "SOURCE": "it is a TABLE: `CREATE TABLE name ( … ) WITH ( connector = …, type = 'source' )`",
    "SINK": "it is a TABLE: `CREATE TABLE name WITH ( connector = …, type = 'sink' )`",
    "TOPIC": "topics are made by `headrace topics create`",
    "MATERIALIZED": "what is kept up to date is a PIPELINE that writes to a table with "
    "`mode = 'upsert'`",
    "TEMPORARY": "leave TEMPORARY out",
    "TEMP": "leave TEMP out",
    "EXTERNAL": "leave EXTERNAL out",
    "FUNCTION": "one in Python is a view: `CREATE VIEW name WITH ( python = 'module.name' )`",
    "DATABASE": "there is one catalog in each project; leave this out",
    "SCHEMA": "there is one catalog in each project; leave this out",
    "INDEX": "leave it out; nothing here has an index",
}
