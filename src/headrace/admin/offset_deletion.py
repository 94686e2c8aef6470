"""Delete single positions of a consumer group, so that it has none in these partitions."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.admin.client import Cluster
from headrace.admin.offsets import TopicPartitionKey
from headrace.admin.python_client import admin_client, refusal


def delete_offsets(cluster: Cluster, group: str, partitions: Iterable[TopicPartitionKey]) -> None:
    """Forget where a group stands in these partitions; refused while a member reads the topic."""
    from kafka import TopicPartition
    from kafka.errors import NoError

    action = f"deleting offsets of group {group}"
    keys = [TopicPartition(*key) for key in partitions]
    with admin_client(cluster, action, group=group) as client:
        answers = client.delete_group_offsets(group, keys)
    for key, failure in answers.items():
        if failure is not NoError:
            raise refusal(failure, cluster, action, f"{key.topic}[{key.partition}]", group)
