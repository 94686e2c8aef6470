"""MirrorMaker's source connector: records of topics, copied to another cluster as they are."""

from __future__ import annotations

import re

from headrace.convert.connect_parts import BOOTSTRAP, Connector
from headrace.convert.draft import Part, Plain

_PARTITIONS = "are made with the broker's number of partitions, which may not be enough"


def source(connector: Connector) -> None:
    keys = connector.keys
    alias = keys.take("source.cluster.alias") or "source"
    keys.take("target.cluster.alias")
    policy = (keys.take("replication.policy.class") or "").rpartition(".")[2]
    separator = keys.take("replication.policy.separator") or "."
    prefix = "" if policy == "IdentityReplicationPolicy" else f"{alias}{separator}"
    values: dict[str, Plain] = {
        "connector_type": "kafka",
        "bootstrap_server": keys.take("source.cluster.bootstrap.servers") or "",
        **_topics(keys.listed("topics") or [".*"]),
        "consumer_group": connector.name,
        "auto_offset_reset": "earliest",
        "format": "raw",
    }
    connector.sources.append(Part("source", values))
    written: dict[str, Plain] = {
        "connector_type": "kafka",
        "bootstrap_server": keys.take("target.cluster.bootstrap.servers") or BOOTSTRAP,
        "topic": f"{prefix}${{topic}}",
        "allowed_topics": [f"{prefix}*"],
        "key": "key",
        "value": "value",
        "headers_from": "headers",
        "partition": "partition",
        "timestamp": "timestamp",
    }
    factor = keys.take("replication.factor")
    if factor is not None and factor.isdecimal():
        written["create_topic"] = {"replication_factor": int(factor)}
    connector.sinks.append(Part("sink", written))
    _tell(connector)


def _topics(named: list[str]) -> dict[str, Plain]:
    """Each may be a name or a pattern."""
    if all(re.fullmatch(r"[A-Za-z0-9_-]+", each) for each in named):
        return {"topics": named}
    return {"topic_pattern": "|".join(named)}


def _tell(connector: Connector) -> None:
    keys = connector.keys
    keys.lose(("topics.exclude", "topics.blacklist"), "has no equal", "name the topics to copy")
    synced = [*keys.left("sync."), *keys.left("offset-syncs."), *keys.left("emit.")]
    keys.lose(synced, "has no equal: only records are copied")
    keys.pass_over(keys.left("refresh."), "is not needed: new topics of a pattern are found")
    connector.report.differs("topics", keys.at("topics"), _PARTITIONS, "make the topics before")
