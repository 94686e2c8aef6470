"""What end-to-end tests share: a pipeline in a folder of its own, and the cluster behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.admin import groups, places, reading, records
from headrace.admin.client import Cluster, connect
from headrace.cluster.dev import DevCluster


@dataclass
class Bench:
    """A topic with rows to come, a folder with a pipeline on it, and ways to look at both."""

    cluster: Cluster
    topic: str
    folder: Path

    def write(self, text: str, name: str = "pipeline.yaml") -> Path:
        """A pipeline file; SERVERS, TOPIC and NAME in it are replaced."""
        file = self.folder / name
        text = text.replace("SERVERS", self.cluster.bootstrap).replace("TOPIC", self.topic)
        file.write_text(text.replace("NAME", self.name))
        return file

    @property
    def name(self) -> str:
        """Of the pipeline, and so of its group: no other test's."""
        return f"clean-{self.topic}"

    def produce(self, values: Iterable[Any], partition: int | None = None) -> None:
        batch = [records.Record(_bytes(value), partition=partition) for value in values]
        records.produce(self.cluster, self.topic, batch).raise_if_rejected()

    def read(self, topic: str) -> list[records.Record]:
        until = reading.Until(end=True)
        return list(reading.consume(self.cluster, topic, places.Earliest(), until))

    def values(self, topic: str) -> list[Any]:
        return [json.loads(record.value or b"null") for record in self.read(topic)]

    def lag(self, group: str) -> int:
        return sum(groups.lag(self.cluster, group).values())


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()


@pytest.fixture
def bench(kafka_cluster: DevCluster, topic: Callable[..., str], tmp_path: Path) -> Bench:
    return Bench(connect(kafka_cluster.bootstrap), topic("orders", partitions=2), tmp_path)


@pytest.fixture
def delete_records(kafka_cluster: DevCluster) -> Callable[[str, dict[int, int]], None]:
    """Removes what is older than an offset, as retention would."""
    from confluent_kafka import TopicPartition

    admin = connect(kafka_cluster.bootstrap).admin

    def delete(topic: str, before: dict[int, int]) -> None:
        asked = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        for future in admin.delete_records(asked).values():
            future.result(30)

    return delete
