"""Before the first batch: brokers answer, source topics exist, topics to write are made.

A pipeline whose address or topic is wrong must say so at once, and not look healthy while it waits.
"""

from __future__ import annotations

from headrace.admin import topics
from headrace.admin.client import Cluster, Clusters
from headrace.plan.stages import EnsureTopic, Plan


def prepare(plan: Plan, clusters: Clusters) -> None:
    """Raises the error of the first stage that cannot be satisfied."""
    for stage in plan.prepare:
        _ensure(stage, clusters.at(stage.bootstrap))


def _ensure(stage: EnsureTopic, cluster: Cluster) -> None:
    if stage.create:
        topics.ensure(cluster, stage.topic)
    elif not topics.exists(cluster, stage.topic):
        raise topics.unknown(cluster, stage.topic)
