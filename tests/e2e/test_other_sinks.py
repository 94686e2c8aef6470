"""Files and databases behind a real Kafka: what a run says at its start, and what it shows."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.errors import AuthenticationFailure, UnknownTable
from headrace.testing.postgres import Database

from .conftest import Bench

PIPELINE = """
pipeline: NAME
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  schema: "id BIGINT NOT NULL, name STRING"
sink:
  connector_type: jdbc
  url: {url}
  user: {user}
  password: {password}
  table: names
  create_table: {create}
"""


def test_a_database_that_takes_no_batch_is_named_before_there_is_one(
    bench: Bench, spark: SparkSession, database: Database
) -> None:
    def run(password: str, create: str) -> None:
        text = PIPELINE.format(
            url=database.url, user=database.user, password=password, create=create
        )
        headrace.load(bench.write(text)).run(spark=spark, once=True)

    with pytest.raises(AuthenticationFailure):
        run("geheim", "true")
    with pytest.raises(UnknownTable):
        run(database.password, "false")
    bench.produce([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, "no JSON"])
    run(database.password, "true")
    assert sorted(database.execute("SELECT * FROM names")) == [(1, "a"), (2, "b")]
