"""`headrace dev up --config`, and what the everyday commands say to brokers that forbid things."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from headrace.admin.client import connect
from headrace.cluster import broker_settings
from headrace.cluster.dev import DevCluster
from headrace.errors import NodeFailed
from headrace.testing.broker import kafka

Headrace = Callable[..., Any]
Unique = Callable[[str], str]

FORBIDDEN = {"auto.create.topics.enable": "false", "delete.topic.enable": "false"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("strict")


@pytest.fixture(scope="module")
def strict(folder: Path) -> Iterator[DevCluster]:
    """A broker that neither makes nor deletes topics by itself."""
    with kafka(folder=folder, config=FORBIDDEN) as dev:
        yield dev


def settings(dev: DevCluster) -> Mapping[str, ConfigEntry]:
    """Every setting of node 1, as it says itself."""
    cluster, node = connect(dev.bootstrap), ConfigResource(ResourceType.BROKER, "1")
    answer = cluster.admin.describe_configs([node])[node]
    entries: Mapping[str, ConfigEntry] = cluster.wait(answer, "reading the settings of node 1")
    return entries


def test_brokers_that_make_no_topics_let_producing_fail(
    headrace: Headrace, strict: DevCluster, unique: Unique
) -> None:
    """GS-04"""
    name, server = unique("missing"), ["-b", strict.bootstrap]
    refused = headrace("produce", name, *server, stdin="a\n")
    assert refused.code == 4
    assert f"UnknownTopicOrPartition topic {name} does not exist" in refused.err
    assert f"headrace topics create {name}" in refused.err
    assert name not in headrace("topics", "list", *server).out


def test_brokers_that_delete_no_topics_say_so(
    headrace: Headrace, strict: DevCluster, unique: Unique
) -> None:
    """TP-09"""
    name, server = unique("kept"), ["-b", strict.bootstrap]
    headrace("topics", "create", name, *server)
    refused = headrace("topics", "delete", name, "--yes", *server)
    assert refused.code == 4
    assert "TOPIC_DELETION_DISABLED" in refused.err
    assert name in headrace("topics", "list", *server).out


def test_the_permitted_settings_are_all_that_a_broker_knows_but_the_unsafe(
    strict: DevCluster,
) -> None:
    known = settings(strict).keys()
    assert known >= broker_settings.ALLOWED | broker_settings.DECIDED
    rest = known - broker_settings.ALLOWED - broker_settings.DECIDED
    families = ("sasl.", "ssl.", "security.", "remote.", "delegation.", "log.local.")
    kinds = (".class", ".class.name", ".reporters", ".assignors", ".providers")
    assert {
        name for name in rest if not name.startswith(families) and not name.endswith(kinds)
    } == {
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "cordoned.log.dirs",
        "follower.fetch.last.tiered.offset.enable",
        "kafka.metrics.polling.interval.secs",
    }


def test_changed_settings_wait_for_the_next_start_and_outlive_it(
    headrace: Headrace, strict: DevCluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    changed = headrace("dev", "up", "-c", "num.partitions=3", "-c", "delete.topic.enable=")
    assert changed.code == 0
    assert "warning: node 1 still runs with the settings from before" in changed.err
    status = headrace("dev", "status", "-o", "json").value
    kept = {"auto.create.topics.enable": "false", "num.partitions": "3"}
    assert (status["config"], status["nodes"][0]["outdated"]) == (kept, True)
    assert settings(strict)["num.partitions"].value == "1"

    headrace("dev", "stop", 1)
    refused = headrace("dev", "up", "-c", "log.segment.bytes=5")
    assert refused.code == 4
    assert (
        "NodeFailed node 1 did not start: Invalid value 5 for configuration log.segment.bytes: "
        "Value must be at least 1048576"
    ) in refused.err
    assert headrace("dev", "up").code == 0

    status = headrace("dev", "status", "-o", "json").value
    assert (status["config"], status["nodes"][0]["outdated"]) == (kept, False)
    now = settings(strict)
    assert (now["num.partitions"].value, now["delete.topic.enable"].value) == ("3", "true")


def test_a_setting_that_kafka_refuses_stops_a_new_cluster_with_its_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(NodeFailed, match=r"Invalid value x for configuration num\.partitions"),
        kafka(folder=tmp_path, config={"num.partitions": "x"}),
    ):
        pass
    assert not (tmp_path / ".headrace" / "dev").exists()


def test_settings_that_are_ours_are_refused_before_anything_is_started(
    headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for setting, said in (
        ("node.id=5", "`node.id` is decided by Headrace"),
        ("num.partitons=5", "did you mean `num.partitions`?"),
        ("num.partitions", "is not name=value"),
    ):
        refused = headrace("dev", "up", "--config", setting)
        assert refused.code == 2
        assert said in refused.err
    assert headrace("dev", "status", "-o", "json").value is None
