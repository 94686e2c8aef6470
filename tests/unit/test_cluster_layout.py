"""What a development cluster is planned to be, and the files its nodes start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cluster.layout import (
    DEFAULT_PORT,
    DEFAULT_REGISTRY_PORT,
    Layout,
    NodeAddress,
    load_layout,
    new_cluster_id,
    plan_layout,
    save_layout,
    with_registry,
)
from headrace.cluster.server_config import jvm_options, server_properties
from headrace.errors import DefinitionError


def properties(layout: Layout, number: int) -> dict[str, str]:
    text = server_properties(layout, layout.nodes[number - 1], Path("/data"))
    return dict(line.split("=", 1) for line in text.splitlines())


def test_one_broker_on_kafkas_port_is_the_default() -> None:
    layout = plan_layout(None, None, None)

    assert [(node.id, node.port) for node in layout.nodes] == [(1, DEFAULT_PORT)]
    assert layout.controllers == {1}


def test_three_brokers_have_ids_and_ports_of_their_own_and_three_controllers() -> None:
    layout = plan_layout(None, 3, 9500)

    assert [node.port for node in layout.nodes] == [9500, 9501, 9502]
    assert layout.controllers == {1, 2, 3}
    ports = [node.port for node in layout.nodes] + [node.controller_port for node in layout.nodes]
    assert len(set(ports)) == 6


@pytest.mark.parametrize(("brokers", "controllers"), [(2, {1}), (4, {1, 2, 3})])
def test_controllers_are_one_or_three(brokers: int, controllers: set[int]) -> None:
    assert plan_layout(None, brokers, 9500).controllers == controllers


def test_what_is_on_disk_stays_unless_it_is_named_anew(tmp_path: Path) -> None:
    old = plan_layout(None, 3, 9500)
    save_layout(tmp_path, old)

    again = plan_layout(load_layout(tmp_path), None, None)
    moved = plan_layout(load_layout(tmp_path), None, 9600)

    assert again.bootstrap == old.bootstrap
    assert moved.bootstrap == "127.0.0.1:9600,127.0.0.1:9601,127.0.0.1:9602"
    assert again.cluster_id == moved.cluster_id == old.cluster_id


def test_a_cluster_cannot_change_its_size() -> None:
    with pytest.raises(DefinitionError, match="made with 1 broker") as refused:
        plan_layout(plan_layout(None, 1, None), 3, None)

    assert "dev down --delete" in str(refused.value.hint)


def test_a_folder_without_a_cluster_has_no_layout(tmp_path: Path) -> None:
    assert load_layout(tmp_path) is None


def test_cluster_ids_differ_and_never_look_like_an_option() -> None:
    ids = {new_cluster_id() for _ in range(200)}

    assert len(ids) == 200
    assert all(len(each) == 22 and not each.startswith("-") for each in ids)


def test_a_node_listens_on_the_loopback_address_only() -> None:
    layout = Layout("id", (NodeAddress(1, 9092, 20_001), NodeAddress(2, 9093, None)))

    assert (
        properties(layout, 1)["listeners"] == "BROKER://127.0.0.1:9092,CONTROLLER://127.0.0.1:20001"
    )
    assert properties(layout, 2)["listeners"] == "BROKER://127.0.0.1:9093"
    assert properties(layout, 2)["process.roles"] == "broker"
    assert properties(layout, 2)["controller.quorum.voters"] == "1@127.0.0.1:20001"


@pytest.mark.parametrize(
    ("brokers", "copies", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2")]
)
def test_copies_follow_the_number_of_brokers(brokers: int, copies: str, in_sync: str) -> None:
    settings = properties(plan_layout(None, brokers, 9500), 1)

    assert settings["offsets.topic.replication.factor"] == copies
    assert settings["transaction.state.log.replication.factor"] == copies
    assert settings["transaction.state.log.min.isr"] == in_sync
    assert settings["min.insync.replicas"] == in_sync


def test_the_jvm_runs_with_kafkas_security_switches() -> None:
    options = "\n".join(jvm_options(Path("log4j2.properties")))

    assert "-Dorg.apache.kafka.automatic.config.providers=none" in options
    assert "org.apache.kafka.allowed.login.modules=" in options
    assert "JndiLoginModule" not in options


def test_a_cluster_has_no_registry_until_one_is_asked_for(tmp_path: Path) -> None:
    layout = plan_layout(None, None, None)
    assert with_registry(layout, None, None).registry_port is None

    with_one = with_registry(layout, True, None)
    assert with_one.registry_port == DEFAULT_REGISTRY_PORT
    save_layout(tmp_path, with_one)

    again = plan_layout(load_layout(tmp_path), None, None)
    assert with_registry(again, None, None).registry_port == DEFAULT_REGISTRY_PORT
    assert with_registry(again, None, 9081).registry_port == 9081
    assert with_registry(again, False, None).registry_port is None


def test_a_registrys_free_port_is_none_of_the_brokers_and_is_kept() -> None:
    layout = plan_layout(None, 3, 0)
    first = with_registry(layout, True, 0)

    assert first.registry_port not in {None, *(node.port for node in layout.nodes)}
    assert with_registry(first, True, 0) == first


def test_a_cluster_made_before_there_were_registries_has_none(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"cluster_id": "id", "nodes": [], "config": {}}')

    layout = load_layout(tmp_path)

    assert layout is not None
    assert layout.registry_port is None
