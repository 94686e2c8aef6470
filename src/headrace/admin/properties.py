"""Client properties: which of librdkafka's settings a user may give.

An allow-list. What loads a library, runs a command or fetches a token from an address of the user's
choice is not on it, so that a definition or a command line from elsewhere cannot do so either.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from headrace.errors import DefinitionError

_CONNECTION = """
    client.id client.rack client.dns.lookup broker.address.family metadata.max.age.ms
    connections.max.idle.ms socket.connection.setup.timeout.ms socket.keepalive.enable
    socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms
    reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms
    receive.message.max.bytes topic.metadata.refresh.interval.ms allow.auto.create.topics
"""
_LOGIN = """
    security.protocol sasl.mechanism sasl.mechanisms sasl.username sasl.password
    ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.key.location
    ssl.key.pem ssl.key.password ssl.keystore.location ssl.keystore.password ssl.crl.location
    ssl.cipher.suites ssl.endpoint.identification.algorithm enable.ssl.certificate.verification
"""
_PRODUCER = """
    acks batch.num.messages batch.size compression.codec compression.level compression.type
    delivery.timeout.ms enable.idempotence linger.ms max.in.flight
    max.in.flight.requests.per.connection message.max.bytes message.send.max.retries
    message.timeout.ms partitioner queue.buffering.max.kbytes queue.buffering.max.messages
    queue.buffering.max.ms request.required.acks request.timeout.ms retries
    sticky.partitioning.linger.ms
"""
_CONSUMER = """
    auto.commit.interval.ms check.crcs fetch.error.backoff.ms fetch.max.bytes
    fetch.message.max.bytes fetch.min.bytes fetch.wait.max.ms group.instance.id group.protocol
    group.remote.assignor heartbeat.interval.ms isolation.level max.partition.fetch.bytes
    max.poll.interval.ms partition.assignment.strategy queued.max.messages.kbytes
    queued.min.messages session.timeout.ms
"""
ALLOWED = frozenset(f"{_CONNECTION} {_LOGIN} {_PRODUCER} {_CONSUMER}".split())
LOGIN = frozenset(_LOGIN.split())

# Names that the Java client has for the same thing, for those who come from there.
JAVA_NAMES = {
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}

# A user's property wins over what a function sets, so what one promises by these is not for users:
# where it begins to read, and that it moves nobody's position.
_DECIDED = {
    "auto.offset.reset": "where to begin is an option: `--from-beginning`, `--offset`, `--last`",
    "bootstrap.servers": "name the brokers with `--bootstrap-server`",
    "enable.auto.commit": "positions are stored when reading with `--group`, and only then",
    "group.id": "name the group with `--group`",
}


def check(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties under librdkafka's names; one that is not allowed is a `DefinitionError`."""
    checked = {JAVA_NAMES.get(name, name): value for name, value in properties.items()}
    for name in checked:
        if name in _DECIDED:
            raise DefinitionError(
                f"client property `{name}` cannot be set here", hint=_DECIDED[name]
            )
        if name not in ALLOWED:
            near = get_close_matches(name, ALLOWED, n=1)
            hint = f"did you mean `{near[0]}`?" if near else None
            raise DefinitionError(
                f"client property `{name}` is unknown or not permitted here", hint=hint
            )
    return checked
