"""The brokers of a cluster, as they tell clients where to find them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.admin.client import REQUEST_SECONDS, Cluster


@dataclass(frozen=True)
class Broker:
    """`host` and `port` are what the broker advertises, wherever it was asked."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def list_all(cluster: Cluster) -> list[Broker]:
    """Those that are up, by id."""
    future = cluster.admin.describe_cluster(request_timeout=REQUEST_SECONDS)
    nodes = cluster.wait(future, "listing brokers").nodes
    return sorted(
        (Broker(node.id, node.host, node.port, node.rack or None) for node in nodes),
        key=lambda broker: broker.id,
    )
