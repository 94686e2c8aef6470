"""Positions of groups: what is sent again, and what is not."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from headrace.admin import groups
from headrace.admin.client import Cluster
from headrace.errors import BrokerTimeout, UnknownTopicOrPartition

LOADING = KafkaError.COORDINATOR_LOAD_IN_PROGRESS


class Coordinator:
    """Stands for the admin client; answers each request with the next of `codes`."""

    def __init__(self, *codes: int | None) -> None:
        self._codes = list(codes)
        self.asked = 0

    def alter_consumer_group_offsets(self, requests: list[Any], **_: object) -> dict[str, Any]:
        self.asked += 1
        code = self._codes.pop(0)
        error = None if code is None else KafkaError(code)
        answer: Future[Any] = Future()
        partition = SimpleNamespace(topic="t", partition=0, error=error)
        answer.set_result(SimpleNamespace(topic_partitions=[partition]))
        return {requests[0].group_id: answer}

    def poll(self, _: float) -> None:
        pass


def commit(coordinator: Coordinator) -> None:
    cluster = Cluster("h:1", {}, coordinator)  # type: ignore[arg-type]
    groups.commit(cluster, "g", {("t", 0): 5})


def test_a_coordinator_that_is_still_loading_is_waited_for() -> None:
    coordinator = Coordinator(LOADING, KafkaError.NOT_COORDINATOR, None)

    commit(coordinator)

    assert coordinator.asked == 3


def test_the_wait_for_a_coordinator_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "REQUEST_SECONDS", -1.0)

    with pytest.raises(BrokerTimeout):
        commit(Coordinator(LOADING))


def test_what_cannot_work_later_either_is_not_tried_again() -> None:
    coordinator = Coordinator(KafkaError.UNKNOWN_TOPIC_OR_PART)

    with pytest.raises(UnknownTopicOrPartition):
        commit(coordinator)

    assert coordinator.asked == 1


def test_no_positions_are_no_request() -> None:
    coordinator = Coordinator()

    groups.commit(Cluster("h:1", {}, coordinator), "g", {})  # type: ignore[arg-type]

    assert coordinator.asked == 0
