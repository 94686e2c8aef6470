"""A connection to a Kafka cluster, and the one place where Kafka's errors become Headrace's.

`connect` answers within ten seconds, with a `Cluster` or an error; every other admin module takes
the `Cluster` and returns plain frozen values. Nothing here prints, and librdkafka's own log lines
are off: what it has to say arrives as errors.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]

from headrace.admin import properties as client_properties
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

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 30.0
# A name may resolve to several addresses, of which the first refuses and the next one answers; only
# when all have been tried for this long is the cluster called down.
ALL_DOWN_SECONDS = 2.0

T = TypeVar("T")


@dataclass
class Trouble:
    """What librdkafka has reported since it last got through; its callback is `note`."""

    all_down_since: float | None = None
    login: str | None = None
    last: str = ""

    def note(self, error: KafkaError) -> None:
        code = error.code()
        if code == KafkaError._ALL_BROKERS_DOWN:
            self.all_down_since = self.all_down_since or time.monotonic()
        elif code in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
            self.login = plain(error.str())
        else:
            self.last = plain(error.str())

    def down_seconds(self) -> float:
        """How long no broker has been reached; 0 while one is."""
        return 0.0 if self.all_down_since is None else time.monotonic() - self.all_down_since

    def hopeless(self) -> bool:
        """Whether waiting longer for a first answer is in vain."""
        return self.login is not None or self.down_seconds() > ALL_DOWN_SECONDS

    def error(self, servers: str) -> HeadraceError:
        if self.login is not None:
            return AuthenticationFailure(servers, self.login)
        return NoBrokersAvailable(servers, self.last)


@dataclass(frozen=True)
class Cluster:
    """A cluster that has answered once. `config` is what a client of it needs, login included."""

    bootstrap: str
    config: Mapping[str, str] = field(repr=False)
    admin: AdminClient = field(repr=False)
    trouble: Trouble = field(repr=False, compare=False, default_factory=Trouble)

    def client_config(self, **settings: Any) -> dict[str, Any]:
        """Settings for a producer or consumer; underscores in names stand for Kafka's dots."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return {**named, **self.config, "log_level": 0}

    def metadata(self, action: str) -> ClusterMetadata:
        """All brokers and topics. Never makes a topic, as asking for one by its name could."""
        try:
            return self.admin.list_topics(timeout=REQUEST_SECONDS)
        except KafkaException as failure:
            raise self.translated(failure, action) from failure

    def wait(
        self, future: Future[T], action: str, topic: str | None = None, group: str | None = None
    ) -> T:
        """The answer to an admin request; its failure as one of Headrace's errors."""
        try:
            return future.result(timeout=REQUEST_SECONDS + 5)
        except KafkaException as failure:
            raise self.translated(failure, action, topic, group) from failure
        except FutureTimeout as failure:
            raise BrokerTimeout(action, self.trouble.last) from failure
        finally:
            self.admin.poll(0)

    def translated(
        self,
        failure: KafkaException,
        action: str,
        topic: str | None = None,
        group: str | None = None,
    ) -> HeadraceError:
        return translate(failure.args[0], action, self.bootstrap, topic, group)


def connect(
    bootstrap: str,
    properties: Mapping[str, str] | None = None,
    seconds: float = CONNECT_SECONDS,
) -> Cluster:
    """A `Cluster` that answers; else `NoBrokersAvailable` or `AuthenticationFailure` in `seconds`.

    `properties` are librdkafka's (login, TLS, sizes), and are checked against an allow-list.
    """
    config = {"bootstrap.servers": bootstrap, **client_properties.check(properties or {})}
    trouble = Trouble()
    admin = new_client(AdminClient, {**config, "log_level": 0, "error_cb": trouble.note})
    cluster = Cluster(bootstrap, config, admin, trouble)
    _await_broker(cluster, seconds)
    return cluster


def new_client(make: Callable[[dict[str, Any]], T], config: dict[str, Any]) -> T:
    """A librdkafka client of the kind `make`; a value it does not take is a `DefinitionError`."""
    try:
        return make(config)
    except KafkaException as failure:
        raise DefinitionError(f"client properties: {failure.args[0].str()}") from failure


def _await_broker(cluster: Cluster, seconds: float) -> None:
    future = cluster.admin.describe_cluster(request_timeout=seconds)
    while not future.done():
        cluster.admin.poll(0.01)
        if cluster.trouble.hopeless():
            raise cluster.trouble.error(cluster.bootstrap)
    try:
        future.result()
    except KafkaException as failure:
        error = cluster.translated(failure, "connecting")
        if isinstance(error, BrokerTimeout):
            error = cluster.trouble.error(cluster.bootstrap)
        raise error from failure


_AUTHENTICATION = {
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.ILLEGAL_SASL_STATE,
}
_AUTHORIZATION = {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_UNREACHABLE = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}
_TIMED_OUT = {
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._WAIT_COORD,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NOT_CONTROLLER,
}
_UNKNOWN_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
_UNKNOWN_GROUP = {KafkaError.GROUP_ID_NOT_FOUND, KafkaError._UNKNOWN_GROUP}
# Offsets of a group with members are refused as coming from somebody who is not one of them.
_GROUP_ACTIVE = {KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID}
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}


def translate(
    error: KafkaError,
    action: str,
    servers: str = "",
    topic: str | None = None,
    group: str | None = None,
) -> HeadraceError:
    """The exception for what Kafka answered to `action` ("creating topic orders").

    `topic` and `group` say what it was about; without them, their errors stay `KafkaRefused`.
    """
    code, detail = error.code(), plain(error.str())
    if code in _AUTHENTICATION:
        return AuthenticationFailure(servers, detail)
    if code in _AUTHORIZATION:
        return AuthorizationFailure(action, detail)
    if code in _UNREACHABLE:
        return NoBrokersAvailable(servers, detail)
    if code in _TIMED_OUT:
        return BrokerTimeout(action, detail)
    if code in _TOO_LARGE:
        return MessageSizeTooLarge(action, detail)
    if topic is not None and code in _UNKNOWN_TOPIC:
        return UnknownTopicOrPartition(topic, servers)
    if topic is not None and code == KafkaError.TOPIC_ALREADY_EXISTS:
        return TopicAlreadyExists(topic)
    if group is not None and code in _UNKNOWN_GROUP:
        return UnknownGroup(group)
    if group is not None and code in _GROUP_ACTIVE:
        return GroupNotEmpty(group, 1)
    return KafkaRefused(error.name(), action, detail)


def plain(text: str) -> str:
    """librdkafka's sentence without the state of its own machinery."""
    text = re.sub(r" \(after \d+ms in state \w+.*?\)", "", text)
    text = re.sub(r"^[^ ]+/(bootstrap|\d+): ", "", text)
    text = text.removeprefix("Broker: ")
    return text.removesuffix(".")


class Clusters:
    """The clusters that something needs, each connected to once and when first asked for."""

    def __init__(self) -> None:
        self._known: dict[str, Cluster] = {}

    def at(self, bootstrap: str) -> Cluster:
        if bootstrap not in self._known:
            self._known[bootstrap] = connect(bootstrap)
        return self._known[bootstrap]
