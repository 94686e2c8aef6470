"""Whether a node serves clients: asked of Kafka itself, never guessed from time or open ports."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.cluster.layout import NodeAddress

_SILENT = logging.getLogger(f"{__name__}.client")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


class Caller:
    """Calls one node. The connection is kept between calls; refused ones are no news."""

    def __init__(self, node: NodeAddress) -> None:
        self._node = node
        settings: dict[str, str | int | float] = {
            "bootstrap.servers": node.address,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
        }
        self._admin = AdminClient(settings, logger=_SILENT)

    def answers(self, seconds: float = 0.3) -> bool:
        """Whether the node itself says that it belongs to its cluster.

        Asking another one would not do: for some seconds the cluster still counts a broker that was
        killed. A broker that starts answers nobody before its cluster has taken it in.
        """
        try:
            return self._node.id in self._admin.list_topics(timeout=seconds).brokers
        except KafkaException:
            return False
