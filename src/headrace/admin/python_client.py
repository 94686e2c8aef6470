"""A second client, kafka-python's, for the admin requests that confluent-kafka has no call for.

`admin_client` takes a connected `Cluster` and gives a client of the same brokers with the same
login. Its errors come out as Headrace's. It is slower to start, so only what cannot be asked for by
`Cluster.admin` goes through it.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from headrace.admin.client import CONNECT_SECONDS, REQUEST_SECONDS, Cluster, translate
from headrace.errors import BrokerTimeout, DefinitionError, HeadraceError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient
    from kafka.errors import BrokerResponseError

# What it has to say arrives as errors; a broker of several that is down is none.
logging.getLogger("kafka").setLevel(logging.CRITICAL)

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Python's own TLS takes certificates and keys from PEM files only.
_NOT_TAKEN = frozenset(
    {"ssl.certificate.pem", "ssl.key.pem", "ssl.keystore.location", "ssl.keystore.password"}
)
_FALSE = ("false", "f", "0")


@contextmanager
def admin_client(
    cluster: Cluster, action: str, topic: str | None = None, group: str | None = None
) -> Iterator[KafkaAdminClient]:
    """A client for the length of the block; what Kafka refuses in there is about `action`."""
    # Here, because it takes a tenth of a second that no other command should pay.
    from kafka import KafkaAdminClient
    from kafka.errors import BrokerResponseError, KafkaConfigurationError
    from kafka.errors import KafkaError as AnyError

    settings = client_settings(cluster.config, action)
    try:
        with KafkaAdminClient(**settings) as client:
            yield client
    except BrokerResponseError as failure:
        raise refusal(failure, cluster, action, topic, group) from failure
    except KafkaConfigurationError as failure:
        raise DefinitionError(f"client properties: {failure}") from failure
    except AnyError as failure:
        # The brokers answered a moment ago, so this is a connection lost or an answer overdue.
        raise BrokerTimeout(action, ", ".join(map(str, failure.args))) from failure


def refusal(
    failure: BrokerResponseError | type[BrokerResponseError],
    cluster: Cluster,
    action: str,
    topic: str | None = None,
    group: str | None = None,
) -> HeadraceError:
    """Headrace's error for an answer of the brokers; the numbers are the protocol's in both."""
    error = KafkaError(failure.errno, failure.description)
    return translate(error, action, cluster.bootstrap, topic, group)


def client_settings(config: Mapping[str, str], action: str) -> dict[str, Any]:
    """librdkafka's properties as kafka-python's settings: address, login and TLS; no tuning."""
    protocol = config.get("security.protocol", "PLAINTEXT").upper()
    settings: dict[str, Any] = {
        "bootstrap_servers": config["bootstrap.servers"].split(","),
        "security_protocol": protocol,
        "request_timeout_ms": int(REQUEST_SECONDS * 1000),
        "bootstrap_timeout_ms": int(CONNECT_SECONDS * 1000),
    }
    if "client.id" in config:
        settings["client_id"] = config["client.id"]
    if protocol.startswith("SASL"):
        settings |= _login(config, action)
    if protocol.endswith("SSL"):
        settings["ssl_context"] = _tls(config, action)
    return settings


def _login(config: Mapping[str, str], action: str) -> dict[str, str | None]:
    mechanism = config.get("sasl.mechanism") or config.get("sasl.mechanisms") or "GSSAPI"
    if mechanism not in _MECHANISMS:
        raise DefinitionError(
            f"{action}: not possible with the login mechanism {mechanism}",
            hint=f"log in with one of {', '.join(_MECHANISMS)}",
        )
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": config.get("sasl.username"),
        "sasl_plain_password": config.get("sasl.password"),
    }


def _tls(config: Mapping[str, str], action: str) -> ssl.SSLContext:
    refused = sorted(_NOT_TAKEN & config.keys())
    if refused:
        raise DefinitionError(
            f"{action}: not possible with the client property `{refused[0]}`",
            hint="name PEM files in `ssl.certificate.location` and `ssl.key.location`",
        )
    try:
        context = _trusting(config.get("ssl.ca.location"), config.get("ssl.ca.pem"))
        if certificate := config.get("ssl.certificate.location"):
            key, password = config.get("ssl.key.location"), config.get("ssl.key.password")
            context.load_cert_chain(certificate, key, password)
        if revoked := config.get("ssl.crl.location"):
            context.load_verify_locations(revoked)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if ciphers := config.get("ssl.cipher.suites"):
            context.set_ciphers(ciphers)
    except OSError as failure:
        raise DefinitionError(f"client properties: {failure}") from failure
    verified = config.get("enable.ssl.certificate.verification", "true").lower() not in _FALSE
    named = config.get("ssl.endpoint.identification.algorithm", "https") != "none"
    # In this order: Python refuses to verify no certificate while it still compares names.
    context.check_hostname = verified and named
    context.verify_mode = ssl.CERT_REQUIRED if verified else ssl.CERT_NONE
    return context


def _trusting(place: str | None, text: str | None) -> ssl.SSLContext:
    """A context that trusts these authorities, or the system's when none is named."""
    if place is not None and Path(place).is_dir():
        return ssl.create_default_context(capath=place, cadata=text)
    return ssl.create_default_context(cafile=place, cadata=text)
