"""Kafka's errors under Headrace's names, and the client properties that are let through."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from headrace.admin import client, properties
from headrace.errors import (
    AuthenticationFailure,
    AuthorizationFailure,
    BrokerTimeout,
    DefinitionError,
    GroupNotEmpty,
    HeadraceError,
    KafkaRefused,
    MessageSizeTooLarge,
    NoBrokersAvailable,
    TopicAlreadyExists,
    UnknownGroup,
    UnknownTopicOrPartition,
)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError._TRANSPORT, NoBrokersAvailable),
        (KafkaError._RESOLVE, NoBrokersAvailable),
        (KafkaError._TIMED_OUT, BrokerTimeout),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, BrokerTimeout),
        (KafkaError.SASL_AUTHENTICATION_FAILED, AuthenticationFailure),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailure),
        (KafkaError.MSG_SIZE_TOO_LARGE, MessageSizeTooLarge),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, UnknownTopicOrPartition),
        (KafkaError.TOPIC_ALREADY_EXISTS, TopicAlreadyExists),
        (KafkaError.GROUP_ID_NOT_FOUND, UnknownGroup),
        (KafkaError.NON_EMPTY_GROUP, GroupNotEmpty),
        (KafkaError.UNKNOWN_MEMBER_ID, GroupNotEmpty),
    ],
)
def test_each_kafka_error_has_its_exception(code: int, expected: type[HeadraceError]) -> None:
    error = client.translate(KafkaError(code, "why"), "doing", "host:9092", topic="t", group="g")
    assert type(error) is expected


def test_any_other_kafka_error_keeps_its_own_name_as_code() -> None:
    error = client.translate(KafkaError(KafkaError.INVALID_CONFIG, "bad"), "creating topic t")
    assert isinstance(error, KafkaRefused)
    assert (error.code, str(error)) == ("INVALID_CONFIG", "creating topic t: bad")


def test_an_error_about_a_topic_that_is_not_known_here_stays_kafkas() -> None:
    error = client.translate(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "reading")
    assert error.code == "UNKNOWN_TOPIC_OR_PART"


def test_the_client_librarys_inner_state_is_left_out_of_messages() -> None:
    said = (
        "host:1/bootstrap: Connect to ipv4#1.2.3.4:1 failed: refused (after 0ms in state CONNECT)"
    )
    assert client.plain(said) == "Connect to ipv4#1.2.3.4:1 failed: refused"


def test_one_refused_address_is_not_yet_hopeless() -> None:
    trouble = client.Trouble()
    trouble.note(KafkaError(KafkaError._TRANSPORT, "refused"))
    trouble.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert not trouble.hopeless()
    assert isinstance(trouble.error("host:1"), NoBrokersAvailable)
    assert "refused" in str(trouble.error("host:1"))


def test_a_refused_login_is_hopeless_at_once() -> None:
    trouble = client.Trouble()
    trouble.note(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    assert trouble.hopeless()
    assert isinstance(trouble.error("host:1"), AuthenticationFailure)


def test_java_names_of_properties_are_understood() -> None:
    assert properties.check({"max.request.size": "5"}) == {"message.max.bytes": "5"}


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "ssl.engine.location",
        "ssl.providers",
        "sasl.oauthbearer.token.endpoint.url",
        "bootstrap.servers",
        "log_level",
    ],
)
def test_properties_that_load_run_or_redirect_are_refused(name: str) -> None:
    with pytest.raises(DefinitionError):
        properties.check({name: "x"})


def test_a_misspelt_property_is_told_the_nearest() -> None:
    with pytest.raises(DefinitionError) as raised:
        properties.check({"securty.protocol": "ssl"})
    assert "security.protocol" in (raised.value.hint or "")


@pytest.mark.parametrize("name", ["enable.auto.commit", "auto.offset.reset", "group.id"])
def test_properties_that_would_break_a_promise_name_the_option_to_use(name: str) -> None:
    with pytest.raises(DefinitionError, match="cannot be set here") as raised:
        properties.check({name: "x"})
    assert "--" in (raised.value.hint or "")


def test_all_permitted_properties_are_known_to_the_client() -> None:
    from confluent_kafka import Consumer, KafkaException, Producer

    unknown = []
    for name in properties.ALLOWED:
        for kind in (Producer, Consumer):
            try:
                kind({name: "?", "group.id": "g"})
            except KafkaException as failure:
                if failure.args[0].str().startswith("No such configuration property"):
                    unknown.append(name)
    assert not unknown


def test_user_properties_win_over_those_of_a_client() -> None:
    cluster = client.Cluster("h:1", {"bootstrap.servers": "h:1", "acks": "1"}, None)  # type: ignore[arg-type]
    config = cluster.client_config(acks="all", linger_ms=5)
    assert (config["acks"], config["linger.ms"], config["log_level"]) == ("1", 5, 0)


def test_a_cluster_never_shows_its_login() -> None:
    cluster = client.Cluster("h:1", {"sasl.password": "hunter2"}, None)  # type: ignore[arg-type]
    assert "hunter2" not in repr(cluster)
