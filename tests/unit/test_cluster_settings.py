"""Broker settings of the user's own: which are taken, where they are kept, what they replace."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cluster import broker_settings
from headrace.cluster.daemon import last_error, last_print
from headrace.cluster.layout import Layout, NodeAddress, load_layout, plan_layout, save_layout
from headrace.cluster.server_config import server_properties
from headrace.errors import DefinitionError


def properties(layout: Layout) -> dict[str, str]:
    text = server_properties(layout, layout.nodes[0], Path("/data"))
    return dict(line.split("=", 1) for line in text.splitlines())


def test_settings_are_kept_with_the_cluster(tmp_path: Path) -> None:
    save_layout(tmp_path, plan_layout(None, 1, 9500, {"num.partitions": "8"}))

    again = plan_layout(load_layout(tmp_path), None, None)

    assert again.config == {"num.partitions": "8"}


def test_a_new_setting_joins_the_old_ones_and_an_empty_one_is_taken_back() -> None:
    kept = {"num.partitions": "8", "log.retention.ms": "1000"}

    settings = broker_settings.merged(kept, {"log.retention.ms": "", "num.io.threads": " 2 "})

    assert settings == {"num.io.threads": "2", "num.partitions": "8"}


def test_a_cluster_made_before_there_were_settings_has_none(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(
        '{"cluster_id": "x", "nodes": [{"id": 1, "port": 9092, "controller_port": 20001}]}'
    )

    layout = load_layout(tmp_path)

    assert layout is not None
    assert layout.config == {}


def test_the_users_settings_win_over_ours() -> None:
    ours = plan_layout(None, 1, 9500)
    theirs = plan_layout(None, 1, 9500, {"auto.create.topics.enable": "false"})

    assert properties(ours)["auto.create.topics.enable"] == "true"
    assert properties(theirs)["auto.create.topics.enable"] == "false"


def test_who_a_node_is_stays_ours_whatever_the_file_says() -> None:
    layout = Layout("id", (NodeAddress(1, 9092, 20_001),), {"node.id": "7", "listeners": "x"})

    assert properties(layout)["node.id"] == "1"
    assert properties(layout)["listeners"].startswith("BROKER://127.0.0.1:9092")


def test_a_backslash_reaches_kafka_as_it_was_given() -> None:
    layout = Layout("id", (NodeAddress(1, 9092, 20_001),), {"broker.rack": r"a\b"})

    assert properties(layout)["broker.rack"] == r"a\\b"


@pytest.mark.parametrize("name", ["node.id", "listeners", "log.dirs", "controller.quorum.voters"])
def test_what_headrace_decides_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match=f"`{name}` is decided by Headrace") as refused:
        plan_layout(None, 1, 9500, {name: "x"})

    assert "--port" in str(refused.value.hint)


@pytest.mark.parametrize(
    "name",
    [
        "authorizer.class.name",
        "config.providers",
        "metric.reporters",
        "sasl.jaas.config",
        "ssl.keystore.location",
    ],
)
def test_classes_files_and_logins_are_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match="not permitted"):
        broker_settings.merged({}, {name: "x"})


def test_a_misspelt_setting_is_told_the_nearest() -> None:
    with pytest.raises(DefinitionError) as refused:
        broker_settings.merged({}, {"num.partitons": "8"})

    assert refused.value.hint == "did you mean `num.partitions`?"


def test_a_value_cannot_bring_another_setting_along() -> None:
    with pytest.raises(DefinitionError, match="line break"):
        broker_settings.merged({}, {"broker.rack": "a\nnode.id=7"})


def test_of_a_refused_setting_only_kafkas_sentence_is_told() -> None:
    refusal = "org.apache.kafka.common.config.ConfigException: Invalid value x for y: Not a number"
    logged = f"2026-01-01 10:00:00,000 ERROR Exiting (Kafka$)\n{refusal}\n\tat a.B.c(B.java:1)\n"
    printed = f'Exception in thread "main" {refusal}\n\tat a.B.c(B.java:1)\n\t... 3 more\n\n'

    assert last_error(logged) == "Invalid value x for y: Not a number"
    assert last_print(printed) == "Invalid value x for y: Not a number"
    assert last_print("Error: could not find Java\n") == "Error: could not find Java"
    assert last_print("\n") is None
