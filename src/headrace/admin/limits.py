"""How large messages and fetches may be, and how old positions, by the settings of the brokers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from headrace.admin import topic_settings
from headrace.admin.client import REQUEST_SECONDS, Cluster

MESSAGE_MAX = "message.max.bytes"
REPLICA_FETCH_MAX = "replica.fetch.max.bytes"
FETCH_MAX = "fetch.max.bytes"
OFFSETS_RETENTION = "offsets.retention.minutes"
TOPIC_MAX = "max.message.bytes"


@dataclass(frozen=True)
class BrokerLimits:
    """The smallest of all brokers, in bytes.

    `message` is the largest batch of records that a topic without a limit of its own takes,
    `replica_fetch` what a follower asks for of one partition, `fetch` what a broker answers to one
    request.
    """

    message: int
    replica_fetch: int
    fetch: int


def of_brokers(cluster: Cluster) -> BrokerLimits:
    found = _smallest(cluster, MESSAGE_MAX, REPLICA_FETCH_MAX, FETCH_MAX)
    return BrokerLimits(found[MESSAGE_MAX], found[REPLICA_FETCH_MAX], found[FETCH_MAX])


def offsets_retention_minutes(cluster: Cluster) -> int:
    """How long brokers keep the position of a group in which nobody is."""
    return _smallest(cluster, OFFSETS_RETENTION)[OFFSETS_RETENTION]


def _smallest(cluster: Cluster, *names: str) -> dict[str, int]:
    """Of each setting the smallest value that a broker has."""
    action = "reading the limits of the brokers"
    answers = []
    for broker in cluster.metadata(action).brokers:
        # The client asks each broker for its own settings, and so takes one at a time.
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        futures = cluster.admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)
        answers.append(cluster.wait(futures[resource], action))
    return {name: min(int(answer[name].value) for answer in answers) for name in names}


def of_topics(cluster: Cluster, topics: Iterable[str]) -> dict[str, int]:
    """The largest batch of records that each topic takes."""
    found = {}
    for topic in topics:
        settings = {each.name: each.value for each in topic_settings.read(cluster, topic)}
        found[topic] = int(settings[TOPIC_MAX] or 0)
    return found
