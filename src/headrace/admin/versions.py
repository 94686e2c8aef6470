"""Which version of Kafka's protocol brokers speak, and whether another is the same."""

from __future__ import annotations

from headrace.admin.client import Cluster
from headrace.admin.python_client import admin_client


def spoken(cluster: Cluster) -> str:
    """The version of the oldest broker, as far as its requests tell: `4.3`."""
    action = "asking for versions"
    brokers = cluster.metadata(action).brokers
    with admin_client(cluster, action) as client:
        found = [client.get_broker_version_data(broker).broker_version for broker in brokers]
    return ".".join(map(str, min(found)))


def same(version: str, other: str) -> bool:
    """Whether two versions agree as far as both go: 4.3 and 4.3.1 do."""
    pairs = zip(version.split("."), other.split("."), strict=False)
    return all(int(one) == int(another) for one, another in pairs)
