"""How many bytes partitions take on the brokers' disks."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.admin.client import Cluster
from headrace.admin.offsets import TopicPartitionKey
from headrace.admin.python_client import admin_client


def log_sizes(
    cluster: Cluster, partitions: Iterable[TopicPartitionKey]
) -> dict[TopicPartitionKey, int]:
    """The bytes of each partition, of its largest replica; one that nobody has is left out."""
    wanted: dict[str, list[int]] = {}
    for topic, partition in partitions:
        wanted.setdefault(topic, []).append(partition)
    if not wanted:
        return {}
    with admin_client(cluster, "reading the sizes of partitions") as client:
        brokers = client.describe_log_dirs(wanted)
    found: dict[TopicPartitionKey, int] = {}
    for folder in (folder for broker in brokers for folder in broker["log_dirs"]):
        for topic in folder["topics"]:
            for each in topic["partitions"]:
                key = (topic["name"], each["partition_index"])
                found[key] = max(found.get(key, 0), each["partition_size"])
    return found
