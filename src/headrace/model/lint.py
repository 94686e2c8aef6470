"""What is wrong or doubtful about a pipeline as a whole; needs neither Spark nor a cluster."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fnmatch import fnmatchcase

from headrace.model.pipeline import (
    Mode,
    Pipeline,
    PythonRowsTransform,
    Sink,
    Source,
    Transform,
)
from headrace.model.sharing import lint_sharing
from headrace.model.source_lint import lint_sources
from headrace.model.subscription import Subscription, dead_letter_topic
from headrace.spans import Diagnostic, Severity, Span


def lint(pipeline: Pipeline) -> list[Diagnostic]:
    checks = (
        *(_no_cluster, _loops, _dead_letters_read, _unused, _shared),
        *(_no_effect, _no_effect_in_spark, _fetch_sizes),
    )
    found = [fault for check in checks for fault in check(pipeline)]
    return [*found, *lint_sharing(pipeline), *lint_sources(pipeline)]


def _no_cluster(pipeline: Pipeline) -> Iterator[Diagnostic]:
    """A Kafka sink without an address of its own takes the first that the pipeline names."""
    for sink in pipeline.sinks:
        if sink.connector == "kafka" and pipeline.bootstrap is None:
            message = f"sink `{sink.name}` needs `bootstrap_server`, as no source has one"
            hint = "add `bootstrap_server: localhost:9092`"
            yield Diagnostic("MISSING_OPTION", message, sink.span, hint)


def _loops(pipeline: Pipeline) -> Iterator[Diagnostic]:
    """A Kafka sink that writes what a source of the same pipeline reads would never end."""
    for sink in pipeline.sinks:
        if sink.connector != "kafka":
            continue
        where = "allowed_topics" if sink.options["allowed_topics"] else "topic"
        for topic in _written(pipeline, sink):
            if _reader(pipeline, _servers(pipeline, sink), topic) is not None:
                message = f"topic {topic} is read by this pipeline and written too"
                hint = "write to another topic"
                yield Diagnostic("LOOP", message, sink.options.at(where), hint)


def _written(pipeline: Pipeline, sink: Sink) -> Iterator[str]:
    """The topics of a sink, and those of sources that its rows may name."""
    allowed: tuple[str, ...] = sink.options["allowed_topics"] or (sink.options["topic"],)
    yield from (name for name in allowed if "*" not in name)
    read = (Subscription.of(source.options).topics for source in _kafka_sources(pipeline))
    for name in dict.fromkeys(itertools.chain.from_iterable(read)):
        if any("*" in pattern and fnmatchcase(name, pattern) for pattern in allowed):
            yield name


def _dead_letters_read(pipeline: Pipeline) -> Iterator[Diagnostic]:
    """Dead letters that a source of the pipeline would read as records."""
    for source in _kafka_sources(pipeline):
        topic = dead_letter_topic(source.options, pipeline.name)
        if topic is None:
            continue
        reader = _reader(pipeline, source.options["bootstrap_server"], topic)
        # That `dlq_topic` is a topic of its own source has been said where it stands.
        if reader is None or (reader is source and "dlq_topic" in source.options):
            continue
        message = f"`{reader.name}` would read the dead letters of `{source.name}` in {topic}"
        hint = "name a `dlq_topic` that no source reads"
        if reader.options["topic_pattern"]:
            hint += ", or leave it out of the pattern: `(?!.*\\.dlq$).*`"
        yield Diagnostic("LOOP", message, source.span, hint)


def _reader(pipeline: Pipeline, servers: str | None, topic: str) -> Source | None:
    """The source that reads this topic of this cluster, if there is one."""
    for source in _kafka_sources(pipeline):
        here = source.options["bootstrap_server"] == servers
        if here and Subscription.of(source.options).reads(topic):
            return source
    return None


def _kafka_sources(pipeline: Pipeline) -> list[Source]:
    return [source for source in pipeline.sources if source.connector == "kafka"]


def _servers(pipeline: Pipeline, sink: Sink) -> str | None:
    return sink.options["bootstrap_server"] or pipeline.bootstrap


def _unused(pipeline: Pipeline) -> Iterator[Diagnostic]:
    if not pipeline.sinks:
        return
    used = {sink.input for sink in pipeline.sinks}
    for transform in reversed(pipeline.transforms):
        if transform.name in used:
            used.update(transform.inputs)
    for part in (*pipeline.sources, *pipeline.transforms):
        if part.name not in used:
            message = f"nothing reads `{part.name}`, so it is never run"
            yield Diagnostic("UNUSED", message, part.span, severity=Severity.WARNING)


def _shared(pipeline: Pipeline) -> Iterator[Diagnostic]:
    """Two sources with one group on one topic would overwrite each other's position there.

    Where there is no sink, nothing is run and no position moves.
    """
    if not pipeline.sinks:
        return
    for one, other in itertools.combinations(_kafka_sources(pipeline), 2):
        group, also = (each.options["consumer_group"] or pipeline.name for each in (one, other))
        if group != also or one.options["bootstrap_server"] != other.options["bootstrap_server"]:
            continue
        shared = Subscription.of(one.options).overlaps(Subscription.of(other.options))
        if shared is not None:
            message = f"`{one.name}` and `{other.name}` read {shared} with the same group {group}"
            hint = "give one of them a `consumer_group` of its own"
            yield Diagnostic("GROUP_SHARED", message, other.span, hint)


def _no_effect(pipeline: Pipeline) -> Iterator[Diagnostic]:
    """Options of a stream in a pipeline that is none."""
    if pipeline.mode is not Mode.BATCH:
        return
    stream_only = [(pipeline.options, "trigger"), (pipeline.options, "output_mode")]
    for source in _kafka_sources(pipeline):
        stream_only.append((source.options, "timeout_ms"))
        if not any(_follows_the_source(step) for step in pipeline.transforms):
            stream_only.append((source.options, "batch_size"))
    for options, name in stream_only:
        if name in options:
            message = f"`{name}` has no effect with `mode: batch`"
            yield Diagnostic("NO_EFFECT", message, options.at(name), severity=Severity.WARNING)


def _follows_the_source(step: Transform) -> bool:
    """Whether the `batch_size` of a source is that of the step's lists, too."""
    return isinstance(step, PythonRowsTransform) and step.batch_size is None


_OF_A_GROUP = ("session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms")


def _no_effect_in_spark(pipeline: Pipeline) -> Iterator[Diagnostic]:
    """What other clients need, and Spark's does by itself."""
    kafka: list[Source | Sink] = [*_kafka_sources(pipeline)]
    kafka += [sink for sink in pipeline.sinks if sink.connector == "kafka"]
    for part in kafka:
        if part.options["api_version"] is not None:
            message = "`api_version` has no effect: Spark's client and the brokers agree on one"
            yield _warning("NO_EFFECT", message, part.options.at("api_version"))
    for source in _kafka_sources(pipeline):
        options = source.options
        if options["share_partitions"]:
            continue
        named = ["`session_timeout_ms`"] if "session_timeout_ms" in options else []
        named += [f"`{name}`" for name in _OF_A_GROUP if name in (options["properties"] or {})]
        if named:
            message = f"{', '.join(named)}: no position depends on it, as Spark's consumers "
            message += "assign partitions themselves and join no group"
            at = "session_timeout_ms" if "session_timeout_ms" in options else "properties"
            yield _warning("NO_EFFECT", message, options.at(at))


def _fetch_sizes(pipeline: Pipeline) -> Iterator[Diagnostic]:
    for source in _kafka_sources(pipeline):
        wanted = source.options["max_partition_fetch_bytes"]
        whole = (source.options["properties"] or {}).get("fetch.max.bytes", "")
        if wanted is not None and whole.isdecimal() and int(whole) < wanted:
            message = f"`fetch.max.bytes` ends a fetch at {whole} bytes, before "
            message += "`max_partition_fetch_bytes`"
            yield _warning("NO_EFFECT", message, source.options.at("max_partition_fetch_bytes"))


def _warning(code: str, message: str, span: Span) -> Diagnostic:
    return Diagnostic(code, message, span, severity=Severity.WARNING)
