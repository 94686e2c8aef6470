"""What `test_connection` tries with a Kafka cluster.

Names, ports and TLS are tried by themselves first, since a Kafka client says of all of them only
that no broker answers. Then brokers are asked as any client does; permissions are read from what
brokers say that we may do, so that nothing is read or written.
"""

from __future__ import annotations

import contextlib
import re
import ssl
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from headrace.admin import brokers, client, groups, topics
from headrace.admin.client import Cluster
from headrace.admin.python_client import client_settings
from headrace.admin.stores import opened
from headrace.errors import AuthenticationFailure, HeadraceError, NoBrokersAvailable, UnknownGroup
from headrace.formats.options import Part, subjects
from headrace.shell import sockets
from headrace.shell.connections import Check, Failed
from headrace.shell.known import Connection
from headrace.sinks.kafka_topics import is_per_row

ASK_SECONDS = 6.0
_NEEDED = {"source": AclOperation.READ, "sink": AclOperation.WRITE}
_READ, _WRITE = AclOperation.READ, AclOperation.WRITE


def checks(connection: Connection) -> Iterator[Check]:
    test = _Kafka(connection)
    yield Check("address", test.address)
    yield Check("port", test.port)
    if test.encrypted:
        yield Check("tls", test.tls)
    if test.logs_in:
        yield Check("login", test.login)
    yield Check("brokers", test.brokers)
    if connection.subscription.topics or connection.subscription.pattern:
        yield Check("topic", test.topic)
        yield Check("permission", test.permission, vital=False)
    if connection.group and connection.role != "sink":
        yield Check("group", test.group, vital=False)
    if connection.registry is not None:
        yield Check("registry", lambda: _registry(connection), vital=False)


@dataclass
class _Kafka:
    connection: Connection
    _connected: Cluster | None = field(default=None, init=False)

    @property
    def servers(self) -> list[sockets.Address]:
        if self.connection.servers is None:
            raise Failed("it names no `bootstrap_servers`", "add them, as 'host:9092'")
        return sockets.parse(self.connection.servers)

    @property
    def protocol(self) -> str:
        return self.connection.login.get("security.protocol", "PLAINTEXT").upper()

    @property
    def encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def logs_in(self) -> bool:
        return self.protocol.startswith("SASL")

    def address(self) -> str:
        return sockets.resolve(self.servers)

    def port(self) -> str:
        return sockets.reach(self.servers)

    def tls(self) -> str:
        config = {"bootstrap.servers": "", **self.connection.login}
        context = client_settings(config, "TLS")["ssl_context"]
        return handshake(self._open_server(), context)

    def login(self) -> str:
        try:
            self._cluster()
        except AuthenticationFailure as failure:
            cure = "correct the user, the password or 'auth.mechanism'"
            raise Failed(str(failure), cure) from failure
        user = self.connection.login.get("sasl.username", "")
        return f"logged in as {user}" if user else "logged in"

    def brokers(self) -> str:
        """All of them must be within reach: a partition is read from its leader alone."""
        try:
            found = brokers.list_all(self._cluster())
        except NoBrokersAvailable as failure:
            raise self._mute(failure) from failure
        missing = dict(sockets.refusals((each.host, each.port) for each in found))
        if missing:
            told = ", ".join(f"{sockets.written(each)} ({why})" for each, why in missing.items())
            raise Failed(
                f"brokers tell clients to come to {told}",
                "set `advertised.listeners` of the brokers to what can be reached from here",
            )
        listed = ", ".join(f"{each.id} at {each.address}" for each in found)
        return f"{len(found)} answer: {listed}" if len(found) > 1 else f"1 answers: {listed}"

    def topic(self) -> str:
        cluster, subscribed = self._cluster(), self.connection.subscription
        if subscribed.pattern is not None:
            return self._pattern(cluster, subscribed.pattern)
        if any(map(is_per_row, subscribed.topics)):
            return "each row names its own"
        told = []
        for name in subscribed.topics:
            if self._is_made(name) and not topics.exists(cluster, name):
                told.append(f"{name} is made by the first run")
            else:
                count = len(topics.describe(cluster, name).partitions)
                told.append(f"{name} has {count} partition{'s' * (count > 1)}")
        return ", ".join(told)

    def permission(self) -> str:
        wanted = [name for name in self._names() if topics.exists(self._cluster(), name)]
        allowed = {name: self._allowed(name) for name in wanted}
        unknown = [name for name, operations in allowed.items() if operations is None]
        if unknown or not wanted:
            return "the brokers do not tell"
        need = _NEEDED.get(self.connection.role or "")
        for name, operations in allowed.items():
            may = {each for each in (_READ, _WRITE) if each in (operations or ())}
            if not may or (need is not None and need not in may):
                verb = (need or _READ).name.lower()
                raise Failed(
                    f"topic {name} may not be {'written' if need is _WRITE else 'read'}",
                    f"let an operator allow `{verb}` on it for this user",
                )
        every = set.intersection(*(set(each or ()) for each in allowed.values()))
        verbs = [each.name.lower() for each in (_READ, _WRITE) if each in every]
        return f"may {' and '.join(verbs)}"

    def group(self) -> str:
        name = self.connection.group or ""
        try:
            group = groups.describe(self._cluster(), name)
        except UnknownGroup:
            return f"{name} is new"
        members = len(group.members)
        return f"{name} is {group.state}, {members} member{'s' * (members != 1)}"

    def _pattern(self, cluster: Cluster, pattern: str) -> str:
        found = [name for name in topics.names(cluster) if re.fullmatch(pattern, name)]
        if not found:
            raise Failed(
                f"no topic matches {pattern}", "correct it, or make a topic; new ones are found"
            )
        return f"{len(found)} match: {', '.join(found[:5])}{', …' * (len(found) > 5)}"

    def _names(self) -> Iterable[str]:
        subscribed = self.connection.subscription
        if subscribed.pattern is not None:
            return [name for name in topics.names(self._cluster()) if subscribed.reads(name)]
        return [name for name in subscribed.topics if not is_per_row(name)]

    def _is_made(self, topic: str) -> bool:
        """Whether a run would make the topic."""
        made = self.connection.options.get("create_topic", "true") != "false"
        return self.connection.role == "sink" and made and topic != ""

    def _allowed(self, topic: str) -> list[AclOperation] | None:
        cluster = self._cluster()
        futures = cluster.admin.describe_topics(
            TopicCollection([topic]),
            include_authorized_operations=True,
            request_timeout=ASK_SECONDS,
        )
        found = cluster.wait(futures[topic], f"describing topic {topic}", topic)
        allowed: list[AclOperation] | None = found.authorized_operations
        return allowed

    def _cluster(self) -> Cluster:
        if self._connected is None:
            self._connected = client.connect(
                self.connection.servers or "", self.connection.login, ASK_SECONDS
            )
        return self._connected

    def _open_server(self) -> sockets.Address:
        closed = dict(sockets.refusals(self.servers))
        return next((each for each in self.servers if each not in closed), self.servers[0])

    def _mute(self, failure: HeadraceError) -> Failed:
        """Something listens and does not speak Kafka; most often it expects TLS."""
        if not self.encrypted and _speaks_tls(self._open_server()):
            return Failed(
                "the port takes connections by TLS only",
                "add 'security.protocol' = 'SSL', or 'SASL_SSL' with a login",
            )
        return Failed(str(failure), "is this the port of Kafka? Does it expect a login?")


def handshake(server: sockets.Address, context: ssl.SSLContext) -> str:
    """The version of TLS and whose certificate it was; Failed with what to do where none is."""
    try:
        with (
            contextlib.closing(sockets.connect(server)) as plain,
            context.wrap_socket(plain, server_hostname=server[0]) as wrapped,
        ):
            certificate: dict[str, Any] = wrapped.getpeercert() or {}
            names = [pair[1] for part in certificate.get("subject", ()) for pair in part]
            until = certificate.get("notAfter")
            told = f", certificate of {', '.join(names)} until {until}" if names else ""
            return f"{wrapped.version()}{told}"
    except ssl.SSLCertVerificationError as failure:
        raise Failed(f"the certificate: {failure.verify_message}", _cure(failure)) from failure
    except (ssl.SSLError, ConnectionError) as failure:
        raise Failed(
            f"no TLS at {sockets.written(server)}: {getattr(failure, 'reason', None) or failure}",
            "is this the port for TLS? A plain one needs 'security.protocol' = 'PLAINTEXT'",
        ) from failure


def _registry(connection: Connection) -> str:
    """Asked for its subjects, among which that of a topic to read must be."""
    address = connection.registry
    assert address is not None
    known = opened(address).subjects()
    told = f"{address.words} answers, with {len(known)} subjects"
    named, topics = connection.options.get("value_subject"), connection.subscription.topics
    wanted = subjects(named, topics, Part.VALUE, address)
    if connection.role == "sink" or len(wanted) != 1:
        return told
    if wanted[0] not in known:
        cure = "write to the topic, or register a schema; `value_subject` names another subject"
        raise Failed(f"{told}, and {wanted[0]} is not among them", cure)
    return f"{told}, {wanted[0]} among them"


def _cure(failure: ssl.SSLCertVerificationError) -> str:
    text = failure.verify_message.lower()
    if "mismatch" in text or "not valid for" in text:
        return "name the servers as the certificate does"
    if "expired" in text or "not yet valid" in text:
        return "it must be renewed by who runs the servers; check this machine's clock, too"
    return "name the authority that signed it in 'ssl.ca.location'"


def _speaks_tls(server: sockets.Address) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        handshake(server, context)
    except (Failed, OSError):
        return False
    return True
