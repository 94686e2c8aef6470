"""The two allow-lists of client properties: Java's names for Spark, librdkafka's for the rest."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from headrace.admin import properties as librdkafka
from headrace.cluster import jars
from headrace.errors import DefinitionError
from headrace.model import kafka_properties as java

CONSUMER_CLASS = "org/apache/kafka/clients/consumer/ConsumerConfig.class"
PRODUCER_CLASS = "org/apache/kafka/clients/producer/ProducerConfig.class"


@pytest.fixture(scope="module")
def class_file() -> Callable[[str], bytes]:
    """Reads a class of the Kafka client that Spark runs with; no JVM is needed for that."""
    for jar, path in jars.cached("spark").items():
        if jar.artifact == "kafka-clients" and path is not None:
            return zipfile.ZipFile(path).read
    pytest.skip("the jars have not been fetched")


def constant(text: str) -> bytes:
    """A string as it stands among the constants of a class file: a tag, its length, its bytes."""
    return b"\x01" + len(text).to_bytes(2, "big") + text.encode()


@pytest.mark.parametrize(
    ("allowed", "class_name"), [(java.CONSUMER, CONSUMER_CLASS), (java.PRODUCER, PRODUCER_CLASS)]
)
def test_the_java_client_knows_every_permitted_name(
    class_file: Callable[[str], bytes], allowed: frozenset[str], class_name: str
) -> None:
    content = class_file(class_name)

    assert constant("bootstrap.servers") in content
    assert constant("no.such.name") not in content
    assert {name for name in allowed if constant(name) not in content} == set()


def test_java_names_that_stand_for_others_are_java_names() -> None:
    assert librdkafka.JAVA_NAMES.keys() <= java.CONSUMER | java.PRODUCER
    assert set(librdkafka.JAVA_NAMES.values()) <= librdkafka.ALLOWED


@pytest.mark.parametrize(
    "name", ["auto.offset.reset", "bootstrap.servers", "enable.auto.commit", "group.id"]
)
def test_what_an_option_decides_is_in_neither_list(name: str) -> None:
    with pytest.raises(DefinitionError, match="cannot be set here"):
        librdkafka.check({name: "x"})
    assert "cannot be set here" in (java.consumer_fault({name: "x"}) or "")


@pytest.mark.parametrize(
    "name",
    ["interceptor.classes", "sasl.jaas.config", "ssl.engine.factory.class", "plugin.library.paths"],
)
def test_what_loads_code_is_in_neither_list(name: str) -> None:
    assert java.consumer_fault({name: "x"})
    assert java.producer_fault({name: "x"})
    with pytest.raises(DefinitionError):
        librdkafka.check({name: "x"})


def test_librdkafka_takes_every_property_of_a_producer_under_its_own_name() -> None:
    values = {
        "acks": "all",
        "compression.type": "lz4",
        "enable.idempotence": "true",
        "max.request.size": "1000000",
        "reconnect.backoff.max.ms": "60000",
        "retry.backoff.max.ms": "60000",
        "delivery.timeout.ms": "60000",
        "socket.connection.setup.timeout.ms": "1000",
    }
    names = {name: java.for_librdkafka(name) for name in java.PRODUCER}
    config: dict[str, Any] = {
        theirs: values.get(name, "5") for name, theirs in names.items() if theirs is not None
    }
    Producer({**config, "log_level": 0})
    with pytest.raises(KafkaException):
        Producer({"max.request.size": "1000000"})
    assert java.for_librdkafka("max.request.size") == "message.max.bytes"
    assert java.for_librdkafka("max.block.ms") is None


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({}, None),
        ({"acks": "-1", "retries": "3"}, None),
        ({"acks": "1"}, "`acks: 1`"),
        ({"retries": "0"}, "`retries: 0`"),
        ({"max.in.flight.requests.per.connection": "6"}, "6 requests"),
    ],
)
def test_what_keeps_a_producer_from_being_idempotent(
    properties: dict[str, str], problem: str | None
) -> None:
    found = java.idempotence_fault(properties)
    assert (found is None) if problem is None else (problem in (found or ""))


def test_settings_of_topics_are_by_allow_list_too() -> None:
    assert java.topic_config_fault({"retention.ms": "1"}) is None
    assert "did you mean `retention.ms`" in (java.topic_config_fault({"retention.m": "1"}) or "")
