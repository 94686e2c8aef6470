"""Before the first batch: brokers answer, source topics exist, topics to write are made.

A pipeline whose address or topic is wrong must say so at once, and not look healthy while it waits.
What only a cluster can say, how large messages may be and how many partitions there are, is put
into the plan here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.admin import topic_settings, topics
from headrace.admin.client import Cluster, Clusters
from headrace.plan.stages import EnsureTopic, Plan, Refuse, SetAside, Stage, Write
from headrace.runtime import failures
from headrace.sinks.kafka import KafkaSink
from headrace.sinks.writer import Reachable
from headrace.sources.kafka import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A dead letter is its record and headers that say what was wrong with it.
LETTER_ROOM = 64 * 1024
MAX_MESSAGE = "max.message.bytes"


def prepare(plan: Plan, clusters: Clusters, warn: Callable[[str], None]) -> Plan:
    """The plan with what the clusters say; raises the error of the first stage that cannot be
    satisfied.
    """
    # Source topics come first: how large their messages are decides how letters are kept.
    for stage in sorted(plan.prepare, key=lambda stage: stage.create):
        _ensure(stage, clusters.at(stage.bootstrap), _room(plan, stage, clusters))
    for source in plan.sources:
        if isinstance(source, KafkaSource):
            for remark in source.remarks(clusters):
                warn(remark)
    queries = (
        replace(query, stages=tuple(_informed(stage, clusters) for stage in query.stages))
        for query in plan.queries
    )
    return replace(plan, queries=tuple(queries))


def reach_targets(plan: Plan, spark: SparkSession) -> None:
    """Raises what the first batch would fail with, for targets that only Spark's JVM can ask."""
    for sink in plan.sinks:
        if isinstance(sink, Reachable):
            try:
                sink.reach(spark)
            except Exception as error:
                action = f"writing `{sink.name}` to {sink.target}"
                raise failures.translate(error, action) from error


def _ensure(stage: EnsureTopic, cluster: Cluster, room: int) -> None:
    if not stage.create:
        if not topics.exists(cluster, stage.topic):
            raise topics.unknown(cluster, stage.topic)
        return
    config = dict(stage.config)
    if room:
        config.setdefault(MAX_MESSAGE, str(room))
    topics.ensure(cluster, stage.topic, stage.partitions, stage.replication, config)


def _room(plan: Plan, stage: EnsureTopic, clusters: Clusters) -> int:
    """How large the messages of a topic must be allowed to be for the dead letters in it."""
    asides = [query.aside for query in plan.queries if query.aside is not None]
    return max(
        (
            _largest_letter(aside, clusters)
            for aside in asides
            if (aside.topic, aside.source.bootstrap) == (stage.topic, stage.bootstrap)
        ),
        default=0,
    )


def _informed(stage: Stage, clusters: Clusters) -> Stage:
    if isinstance(stage, Write | Refuse) and isinstance(stage.sink, KafkaSink):
        return replace(stage, sink=stage.sink.at(clusters.at(stage.sink.bootstrap)))
    if isinstance(stage, SetAside) and stage.topic is not None:
        return replace(stage, largest=_largest_letter(stage, clusters))
    return stage


def _largest_letter(aside: SetAside, clusters: Clusters) -> int:
    """The largest message that the source's topics take, and room to say what is wrong with it."""
    source = aside.source
    if not isinstance(source, KafkaSource):
        return 0
    cluster = clusters.at(source.bootstrap)
    read = [name for name in topics.names(cluster) if source.reads(name)]
    limits = [int(topic_settings.value(cluster, name, MAX_MESSAGE) or 0) for name in read]
    return max(limits, default=0) + LETTER_ROOM
