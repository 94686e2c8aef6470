"""Gather the facts that `runtime.tuning` judges: from brokers, topics, the state and the machine.

Everything is only read: no position moves, no group is joined, no topic is made.
"""

from __future__ import annotations

import datetime
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.admin import groups, limits, quantities, sampling, topics
from headrace.admin.client import Cluster, Clusters
from headrace.admin.forecast import forecasts
from headrace.errors import UnknownGroup
from headrace.model.offsets import Offsets
from headrace.model.pipeline import Pipeline
from headrace.plan.planner import preview_query
from headrace.plan.stages import Plan
from headrace.plan.tasks import is_local, local_tasks
from headrace.runtime import status as pipeline_status
from headrace.runtime.state import PipelineState
from headrace.runtime.tuning import (
    DEFAULT_FETCH_BYTES,
    DEFAULT_FETCH_MAX_BYTES,
    DEFAULT_REQUEST_BYTES,
    Chosen,
    Facts,
    Memory,
    Missing,
    SourceFacts,
    TargetFacts,
    TopicFacts,
)
from headrace.sinks.kafka import KafkaSink
from headrace.sources.kafka import KafkaSource
from headrace.sources.kafka_settings import DEFAULT_BATCH_SIZE
from headrace.spans import Span
from headrace.spec import Options, Setting

DEFAULT_HEAP = "1g"
DEFAULT_EXECUTORS = 2


def measure(
    pipeline: Pipeline,
    plan: Plan | None,
    session: Sequence[Setting],
    state: PipelineState,
    clusters: Clusters,
    sample: int,
) -> Facts:
    """What is so now; `sample` records of each partition are looked at.

    A pipeline without a sink has no plan, and its sources are measured all the same. Raises what
    the brokers refuse, or that they do not answer.
    """
    readers = plan.sources if plan else preview_query(pipeline).sources
    sources = [source for source in readers if isinstance(source, KafkaSource)]
    look = _Look(clusters, state, sample, pipeline)
    missing = [*_missing_topics(sources, clusters), *_missing_targets(plan, clusters)]
    gone = {each.topic for each in missing}
    whole = [source for source in sources if not gone.intersection(source.topics)]
    settings = {setting.name: setting for setting in session}
    master = settings["spark.master"].value
    options = pipeline.options
    return Facts(
        pipeline=pipeline.name,
        mode=pipeline.mode,
        sources=tuple(look.source(source) for source in whole),
        targets=tuple(_targets(plan, clusters, gone)) if plan else (),
        missing=tuple(missing),
        memory=_memory(options, settings),
        tasks=local_tasks(master) if is_local(master) else options["executor_count"],
        executor_count=_chosen_count(options),
        span=Span(str(pipeline.file or pipeline.name), 1, 1),
        trigger_seconds=(options["trigger"] or 0) / 1000,
        changed=look.changed(),
    )


def partitions(plan: Plan, clusters: Clusters) -> dict[str, int]:
    """How many partitions each Kafka source reads."""
    sources = [source for source in plan.sources if isinstance(source, KafkaSource)]
    return {source.name: len(source.ends(clusters)) for source in sources}


def _chosen_count(options: Options) -> Chosen | None:
    if "executor_count" not in options:
        return None
    return Chosen(options["executor_count"], "executor_count", options.at("executor_count"))


# Topics


def _missing_topics(sources: Sequence[KafkaSource], clusters: Clusters) -> Iterator[Missing]:
    for source in sources:
        span = source.options.at("topics" if "topics" in source.options else "topic")
        for topic in source.topics:
            purpose = f"read by `{source.name}`"
            yield from _missing(topic, source.bootstrap, purpose, span, clusters)


def _missing_targets(plan: Plan | None, clusters: Clusters) -> Iterator[Missing]:
    for sink in _kafka_sinks(plan):
        fixed = [each for each in plan.prepare if each.topic == sink.topic] if plan else []
        if fixed and not fixed[0].create:
            span = sink.sink.options.at("topic")
            yield from _missing(sink.topic, sink.bootstrap, fixed[0].purpose, span, clusters)


def _missing(
    topic: str, bootstrap: str, purpose: str, span: Span, clusters: Clusters
) -> Iterator[Missing]:
    cluster = clusters.at(bootstrap)
    if not topics.exists(cluster, topic):
        hint = topics.unknown(cluster, topic).hint
        yield Missing(topic, bootstrap, purpose, span, hint)


def _kafka_sinks(plan: Plan | None) -> list[KafkaSink]:
    return [sink for sink in plan.sinks if isinstance(sink, KafkaSink)] if plan else []


def _targets(plan: Plan, clusters: Clusters, gone: set[str]) -> Iterator[TargetFacts]:
    """The topics with fixed names that are written; one that is not made yet gets the default."""
    named = {stage.topic for stage in plan.prepare}
    requests = {}
    for sink in _kafka_sinks(plan):
        requests[sink.name] = _number(_by_name(sink.settings()), "kafka.max.request.size")
        if sink.topic not in named or sink.topic in gone:
            continue
        request = requests[sink.name] or DEFAULT_REQUEST_BYTES
        taken = _taken(clusters.at(sink.bootstrap), sink.topic)
        purpose = f"written by `{sink.name}`"
        yield TargetFacts(sink.topic, purpose, sink.sink.options.at("topic"), request, *taken)
    for query in plan.queries:
        aside = query.aside
        if aside is None or aside.topic is None or aside.source.bootstrap is None:
            continue
        request = requests.get(aside.beside or "") or DEFAULT_REQUEST_BYTES
        taken = _taken(clusters.at(aside.source.bootstrap), aside.topic)
        purpose, name = f"dead letters of `{aside.source.name}`", aside.source.name
        span = plan.pipeline.source(name).options.at("dlq_topic")
        yield TargetFacts(aside.topic, purpose, span, request, *taken, name)


def _taken(cluster: Cluster, topic: str) -> tuple[int, bool]:
    """How large a message a topic takes, or will take once it is made, and whether it is."""
    if topics.exists(cluster, topic):
        return limits.of_topics(cluster, [topic])[topic], True
    return limits.of_brokers(cluster).message, False


# Sources


@dataclass
class _Look:
    """What one look at the clusters and the state folder finds about sources."""

    clusters: Clusters
    state: PipelineState
    sample: int
    pipeline: Pipeline

    def __post_init__(self) -> None:
        self._status = self.state.read_status()
        self._now_ms = int(time.time() * 1000)

    def source(self, source: KafkaSource) -> SourceFacts:
        cluster = self.clusters.at(source.bootstrap)
        first, last = source.begins(self.clusters), source.ends(self.clusters)
        stands = self._positions(cluster, source)
        read = pipeline_status.reading(self.state, self._status) if self._status else 0.0
        settings = _by_name(source.settings(self.pipeline.mode))
        begin = source.first(self.pipeline.mode)
        start = stands or (first if begin.value == "earliest" else last)
        return SourceFacts(
            name=source.name,
            span=source.source.span,
            topics=tuple(self._topics(cluster, first, last)),
            batch_size=_batch_size(source.options, settings),
            fetch=_fetch(source.options, settings),
            fetch_max=_number(settings, "kafka.fetch.max.bytes") or DEFAULT_FETCH_MAX_BYTES,
            limits=limits.of_brokers(cluster),
            started=bool(stands),
            begins_at="its `offset`" if "offset" in source.options else begin.value,
            waiting=sum(max(end - start.get(key, first[key]), 0) for key, end in last.items()),
            read=read,
            group=source.group,
            members=_members(cluster, source.group),
            forecast=tuple(forecasts(cluster, stands, read)),
        )

    def changed(self) -> str | None:
        """When the run that goes on now was started, if the file is younger.

        A pipeline of the catalog has no file; whoever replaces one that runs is told so there.
        """
        file, status = self.pipeline.file, self._status
        if file is None or not file.is_file() or status is None or status.started is None:
            return None
        if not self.state.running():
            return None
        started = datetime.datetime.fromisoformat(status.started)
        return status.started if file.stat().st_mtime > started.timestamp() else None

    def _positions(self, cluster: Cluster, source: KafkaSource) -> Offsets:
        """Where it stands by its own report, else by its group; empty before its first batch."""
        if self._status is not None:
            known = pipeline_status.by_cluster(self._status.positions)
            own = known.get(source.bootstrap, {})
        else:
            own = groups.committed(cluster, source.group)
        return {key: at for key, at in own.items() if source.reads(key[0])}

    def _topics(self, cluster: Cluster, first: Offsets, last: Offsets) -> Iterator[TopicFacts]:
        rates = sampling.write_rates(cluster, last, self._now_ms)
        names = sorted({topic for topic, _ in last})
        allowed = limits.of_topics(cluster, names)
        for name in names:
            keys = [key for key in last if key[0] == name]
            yield TopicFacts(
                topic=name,
                partitions=len(keys),
                replication=topics.describe(cluster, name).replication,
                records=sum(last[key] - first[key] for key in keys),
                rate=sum(rates.get(key, 0.0) for key in keys),
                sizes=sampling.sizes(cluster, name, self.sample),
                limit=allowed[name],
            )


def _members(cluster: Cluster, group: str) -> int:
    try:
        return len(groups.describe(cluster, group).members)
    except UnknownGroup:
        return 0


def _batch_size(options: Options, settings: Mapping[str, Setting]) -> Chosen:
    value = _number(settings, "maxOffsetsPerTrigger") or DEFAULT_BATCH_SIZE
    origin = "batch_size" if "batch_size" in options else "the default of batch_size"
    return Chosen(value, origin, options.at("batch_size"))


def _fetch(options: Options, settings: Mapping[str, Setting]) -> Chosen:
    value = _number(settings, "kafka.max.partition.fetch.bytes")
    if value is None:
        return Chosen(DEFAULT_FETCH_BYTES, "Kafka's default", options.span)
    for name in ("max_partition_fetch_bytes", "properties"):
        if name in options:
            return Chosen(value, name, options.at(name))
    return Chosen(value, settings["kafka.max.partition.fetch.bytes"].origin, options.span)


def _by_name(settings: Sequence[Setting]) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


def _number(settings: Mapping[str, Setting], name: str) -> int | None:
    return int(settings[name].value) if name in settings else None


# Memory


def _memory(options: Options, settings: Mapping[str, Setting]) -> Memory:
    """Of the driver, where all tasks run in a local session; else of an executor."""
    own = options["spark"] or {}
    local = is_local(settings["spark.master"].value)
    name = "spark.driver.memory" if local else "spark.executor.memory"
    heap = quantities.parse_size(own.get(name, DEFAULT_HEAP))
    origin = "spark" if name in own else "Spark's default"
    executors = 1 if local else _executors(options, settings)
    machine = machine_memory() if local else None
    return Memory(heap, name, origin, executors, machine, options.at("spark"))


def _executors(options: Options, settings: Mapping[str, Setting]) -> int:
    instances = _number(settings, "spark.executor.instances")
    if instances is not None:
        return instances
    cores = _number(settings, "spark.executor.cores") or 1
    count = options["executor_count"]
    return math.ceil(count / cores) if count else DEFAULT_EXECUTORS


def machine_memory() -> int:
    """Bytes that this process may use at all: of the machine, or of the container around it."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        limit = "max"
    return min(whole, int(limit)) if limit.isdecimal() else whole
