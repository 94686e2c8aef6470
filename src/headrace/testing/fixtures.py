"""Fixtures for pytest: `pytest_plugins = ["headrace.testing.fixtures"]` in a `conftest.py`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.cluster.dev import DevCluster
from headrace.frontend.options import PIPELINE
from headrace.model.pipeline import Guarantee, Mode, Pipeline
from headrace.runtime import session
from headrace.spec import Options
from headrace.testing.broker import kafka
from headrace.testing.glue import GlueServer, glue
from headrace.testing.postgres import Database, PostgresServer, postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TopicMaker(Protocol):
    def __call__(self, name: str = "topic", partitions: int = 1) -> str:
        """Make a topic whose name starts with `name` and is no one else's; its whole name."""


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[DevCluster]:
    """One broker for the whole run. Tests share it, so each makes topics and groups of its own."""
    with kafka() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def registry_url(kafka_cluster: DevCluster) -> str:
    """A schema registry beside that broker. Tests share it, so each has subjects of its own."""
    started = kafka_cluster.up(registry=True, registry_port=0)
    assert started.registry is not None
    return started.registry


@pytest.fixture(scope="session")
def glue_server() -> Iterator[GlueServer]:
    """A stand-in for AWS Glue. Tests share it, so each has schemas of its own."""
    with glue() as server:
        yield server


@pytest.fixture
def topic(kafka_cluster: DevCluster) -> TopicMaker:
    """Makes topics that no other test uses."""
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap, "log_level": 0})

    def make(name: str = "topic", partitions: int = 1) -> str:
        unique = f"{name}-{uuid.uuid4().hex[:8]}"
        made = admin.create_topics([NewTopic(unique, partitions)], operation_timeout=30)
        made[unique].result()
        return unique

    return make


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL for the whole run."""
    with postgres() as server:
        yield server


@pytest.fixture
def database(postgres_server: PostgresServer) -> Database:
    """An empty PostgreSQL database that no other test uses."""
    return postgres_server.database(f"test_{uuid.uuid4().hex[:8]}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark for the whole run, as a pipeline would start it. Stop queries, never the session.

    Give it to `Definition.run`, which makes a child with views of its own.
    """
    nothing = Pipeline(
        "tests", Mode.STREAM, Guarantee.AT_LEAST_ONCE, (), (), (), Options(PIPELINE, {})
    )
    started = session.start(session.settings(nothing), tmp_path_factory.mktemp("spark") / "log")
    yield started
    started.stop()
