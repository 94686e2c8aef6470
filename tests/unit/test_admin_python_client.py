"""The second Kafka client: the same login and TLS as the first, and the same errors."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka import errors as answers

from headrace.admin.client import Cluster
from headrace.admin.python_client import admin_client, client_settings, refusal
from headrace.errors import (
    BrokerTimeout,
    DefinitionError,
    GroupNotEmpty,
    HeadraceError,
    UnknownGroup,
    UnknownTopicOrPartition,
)

ADDRESS = {"bootstrap.servers": "a:1,b:2"}


def cluster(config: dict[str, str]) -> Cluster:
    return Cluster("h:1", config, None)  # type: ignore[arg-type]


def test_without_a_login_only_the_address_is_passed_on() -> None:
    settings = client_settings({**ADDRESS, "client.id": "me", "linger.ms": "5"}, "asking")

    assert settings["bootstrap_servers"] == ["a:1", "b:2"]
    assert settings["security_protocol"] == "PLAINTEXT"
    assert settings["client_id"] == "me"
    assert "linger_ms" not in settings


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_login_by_password_is_passed_on(name: str) -> None:
    login = {name: "SCRAM-SHA-512", "sasl.username": "me", "sasl.password": "hunter2"}

    settings = client_settings({**ADDRESS, "security.protocol": "sasl_plaintext", **login}, "ask")

    assert settings["security_protocol"] == "SASL_PLAINTEXT"
    assert settings["sasl_mechanism"] == "SCRAM-SHA-512"
    assert settings["sasl_plain_username"] == "me"
    assert settings["sasl_plain_password"] == "hunter2"
    assert "ssl_context" not in settings


def test_certificates_and_names_are_verified_unless_told_otherwise() -> None:
    tls = {**ADDRESS, "security.protocol": "SSL"}
    names = {"ssl.endpoint.identification.algorithm": "none"}

    default = client_settings(tls, "asking")["ssl_context"]
    nameless = client_settings({**tls, **names}, "asking")["ssl_context"]
    anyone = client_settings({**tls, "enable.ssl.certificate.verification": "false"}, "asking")

    assert (default.verify_mode, default.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (nameless.verify_mode, nameless.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert anyone["ssl_context"].verify_mode == ssl.CERT_NONE


def test_every_setting_is_one_of_the_clients() -> None:
    config = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "client.id": "me"}

    settings = client_settings({**ADDRESS, **config}, "asking")

    assert settings.keys() <= KafkaAdminClient.DEFAULT_CONFIG.keys()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"security.protocol": "SASL_SSL"}, "deleting: .* mechanism GSSAPI"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"security.protocol": "SSL", "ssl.key.pem": "x"}, "ssl.key.pem"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere"}, "No such file"),
    ],
)
def test_what_the_second_client_cannot_do_is_refused(config: dict[str, str], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        client_settings({**ADDRESS, **config}, "deleting")


def test_a_wrong_authority_file_is_the_command_lines_fault(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("no certificate")

    with pytest.raises(DefinitionError, match="client properties"):
        client_settings(
            {**ADDRESS, "security.protocol": "SSL", "ssl.ca.location": str(authority)}, "asking"
        )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (answers.GroupIdNotFoundError, UnknownGroup),
        (answers.NonEmptyGroupError, GroupNotEmpty),
        (answers.UnknownTopicOrPartitionError, UnknownTopicOrPartition),
        (answers.NotCoordinatorError, BrokerTimeout),
    ],
)
def test_an_answer_has_the_same_error_as_with_the_first_client(
    answer: type[answers.BrokerResponseError], expected: type[HeadraceError]
) -> None:
    assert type(refusal(answer, cluster({}), "asking", "t", "g")) is expected


def test_an_answer_without_an_error_of_its_own_keeps_kafkas_name() -> None:
    error = refusal(answers.GroupSubscribedToTopicError, cluster({}), "deleting", "t", "g")

    assert error.code == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert str(error).startswith("deleting: Deleting offsets of a topic is forbidden")


def test_brokers_that_went_away_are_worth_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.admin.python_client.CONNECT_SECONDS", 0.1)
    nobody = cluster({"bootstrap.servers": "127.0.0.1:1"})

    with pytest.raises(BrokerTimeout, match="asking"), admin_client(nobody, "asking"):
        pass
