"""Writing a group's positions again and again, as a running pipeline does.

`groups.commit` is one request of the admin client, which after a broker's restart can wait for an
answer that never comes. A consumer that subscribes to nothing does the same, finds the coordinator
again by itself, and can be kept for as long as a pipeline runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.admin.client import REQUEST_SECONDS, Cluster, new_client
from headrace.admin.membership import Committed
from headrace.admin.offsets import TopicPartitionKey


class GroupWriter:
    """Stores positions for one group, which it never joins. Not for several threads at once."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        settings = cluster.client_config(group_id=group, enable_auto_commit=False)
        self._consumer = new_client(Consumer, settings)

    def write(self, offsets: Mapping[TopicPartitionKey, int]) -> None:
        """Returns when the coordinator has them; may wait for minutes while no broker answers."""
        wanted = [TopicPartition(*key, offset) for key, offset in offsets.items()]
        try:
            self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as failure:
            action = f"writing the offsets of group {self._group}"
            raise self._cluster.translated(failure, action, group=self._group) from failure

    def sharer(self, partitions: Iterable[TopicPartitionKey]) -> str | None:
        """A pipeline whose position the group is, as it shares some of these partitions."""
        asked = [TopicPartition(*key) for key in partitions]
        try:
            answer = self._consumer.committed(asked, timeout=REQUEST_SECONDS)
        except KafkaException as failure:
            action = f"reading the offsets of group {self._group}"
            raise self._cluster.translated(failure, action, group=self._group) from failure
        found = (Committed(each.offset, each.metadata or "").sharer for each in answer)
        return next((name for name in found if name is not None), None)

    def close(self) -> None:
        self._consumer.close()
