"""The settings of a topic: those in force with who set them, and changes to some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from headrace.admin.client import REQUEST_SECONDS, Cluster
from headrace.errors import KafkaRefused

_SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "cluster",
    ConfigSource.STATIC_BROKER_CONFIG: "static",
    ConfigSource.DEFAULT_CONFIG: "default",
}


@dataclass(frozen=True)
class Setting:
    """One setting with its value in force; a secret one has no value.

    `source` is who set it: `topic`, `broker` (one broker, while it runs), `cluster` (all brokers,
    while they run), `static` (the brokers' files) or `default` (built in).
    """

    name: str
    value: str | None
    source: str


def read(cluster: Cluster, topic: str) -> list[Setting]:
    """Every setting of a topic, sorted by name."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    futures = cluster.admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)
    entries = cluster.wait(futures[resource], f"reading the settings of topic {topic}", topic)
    return sorted(map(_setting, entries.values()), key=lambda setting: setting.name)


def value(cluster: Cluster, topic: str, name: str) -> str | None:
    """One setting of a topic as it is in force; None for a name that it has not."""
    return next((each.value for each in read(cluster, topic) if each.name == name), None)


def change(
    cluster: Cluster,
    topic: str,
    assign: Mapping[str, str],
    remove: Iterable[str] = (),
    validate_only: bool = False,
) -> None:
    """Set some settings and take back others in one step; the rest stay as they are."""
    removed = list(remove)
    changes = [_entry(name, AlterConfigOpType.SET, value) for name, value in assign.items()]
    changes += [_entry(name, AlterConfigOpType.DELETE, None) for name in removed]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    futures = cluster.admin.incremental_alter_configs(
        [resource], validate_only=validate_only, request_timeout=REQUEST_SECONDS
    )
    try:
        cluster.wait(futures[resource], f"changing the settings of topic {topic}", topic)
    except KafkaRefused as error:
        suggest(error, [*assign, *removed], [setting.name for setting in read(cluster, topic)])
        raise


def suggest(error: KafkaRefused, given: Iterable[str], known: Iterable[str]) -> None:
    """Give the refusal of an unknown setting the nearest known name as its hint."""
    names = set(known)
    unknown = [name for name in given if name not in names]
    near = get_close_matches(unknown[0], names, n=1) if unknown and names else []
    if near:
        error.hint = f"did you mean `{near[0]}`?"


def _setting(entry: Any) -> Setting:
    source = _SOURCES.get(ConfigSource(entry.source), "unknown")
    return Setting(entry.name, entry.value, source)


def _entry(name: str, operation: AlterConfigOpType, value: str | None) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=operation)
