"""What is wrong or doubtful about a pipeline as a whole; needs neither Spark nor a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.model.pipeline import (
    Mode,
    Pipeline,
    PythonRowsTransform,
    Sink,
    Source,
    SqlTransform,
    Transform,
)
from headrace.model.query import Query
from headrace.model.source_lint import lint_sources
from headrace.spans import Diagnostic, Severity


def lint(pipeline: Pipeline) -> list[Diagnostic]:
    checks = (_stream_limits, _no_cluster, _loops, _unused, _shared, _no_effect)
    found = [fault for check in checks for fault in check(pipeline)]
    return [*found, *lint_sources(pipeline)]


def _stream_limits(pipeline: Pipeline) -> Iterator[Diagnostic]:
    if pipeline.mode is not Mode.STREAM:
        return
    for transform in pipeline.transforms:
        if not isinstance(transform, SqlTransform):
            continue
        query, _ = Query.parse(transform.sql, transform.span)
        if query is None:
            continue
        seen = set()
        for words, span in query.stateful_parts():
            if words not in seen:
                seen.add(words)
                message = f"{words} needs all rows at once, and a stream has no end"
                hint = "use `mode: batch`, where it covers the new records of each run"
                yield Diagnostic("NOT_IN_A_STREAM", message, span, hint)
        if query.joins:
            message = "a join of streams keeps the rows of both sides in memory for ever"
            hint = "use `mode: batch` if that is too much"
            yield Diagnostic("STATE_GROWS", message, transform.span, hint, Severity.WARNING)


def _no_cluster(pipeline: Pipeline) -> Iterator[Diagnostic]:
    """A Kafka sink without an address of its own takes the first that the pipeline names."""
    for sink in pipeline.sinks:
        if sink.connector == "kafka" and pipeline.bootstrap is None:
            message = f"sink `{sink.name}` needs `bootstrap_server`, as no source has one"
            hint = "add `bootstrap_server: localhost:9092`"
            yield Diagnostic("MISSING_OPTION", message, sink.span, hint)


def _loops(pipeline: Pipeline) -> Iterator[Diagnostic]:
    """A Kafka sink that writes what a source of the same pipeline reads would never end."""
    read = set()
    for source in _kafka_sources(pipeline):
        for topic in _topics(source):
            read.add((source.options["bootstrap_server"], topic))
    for sink in pipeline.sinks:
        if sink.connector == "kafka" and (_servers(pipeline, sink), sink.options["topic"]) in read:
            message = f"topic {sink.options['topic']} is read by this pipeline and written too"
            hint = "write to another topic"
            yield Diagnostic("LOOP", message, sink.options.at("topic"), hint)


def _kafka_sources(pipeline: Pipeline) -> list[Source]:
    return [source for source in pipeline.sources if source.connector == "kafka"]


def _topics(source: Source) -> tuple[str, ...]:
    return source.options["topics"] or (source.options["topic"],)


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
    """Two sources with one group on one topic would overwrite each other's position there."""
    seen: dict[tuple[str, str, str], str] = {}
    for source in _kafka_sources(pipeline):
        group = source.options["consumer_group"] or pipeline.name
        for topic in _topics(source):
            key = (source.options["bootstrap_server"], group, topic)
            other = seen.setdefault(key, source.name)
            if other != source.name:
                message = f"`{other}` and `{source.name}` read {topic} with the same group {group}"
                hint = "give one of them a `consumer_group` of its own"
                yield Diagnostic("GROUP_SHARED", message, source.span, hint)


def _follows_the_source(step: Transform) -> bool:
    """Whether the `batch_size` of a source is that of the step's lists, too."""
    return isinstance(step, PythonRowsTransform) and step.batch_size is None


def _no_effect(pipeline: Pipeline) -> Iterator[Diagnostic]:
    """Options of a stream in a pipeline that is none."""
    if pipeline.mode is not Mode.BATCH:
        return
    stream_only = [(pipeline.options, "trigger")]
    for source in _kafka_sources(pipeline):
        stream_only.append((source.options, "timeout_ms"))
        if not any(_follows_the_source(step) for step in pipeline.transforms):
            stream_only.append((source.options, "batch_size"))
    for options, name in stream_only:
        if name in options:
            message = f"`{name}` has no effect with `mode: batch`"
            yield Diagnostic("NO_EFFECT", message, options.at(name), severity=Severity.WARNING)
