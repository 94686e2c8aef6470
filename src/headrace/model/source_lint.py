"""What is wrong or doubtful about sources that are no Kafka, seen with the whole pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.model.pipeline import Mode, Pipeline
from headrace.spans import Diagnostic, Severity


def lint_sources(pipeline: Pipeline) -> Iterator[Diagnostic]:
    yield from _nowhere_for_dead_letters(pipeline)
    if pipeline.mode is Mode.BATCH:
        yield from _endless(pipeline)
        yield from _no_effect(pipeline)


def _nowhere_for_dead_letters(pipeline: Pipeline) -> Iterator[Diagnostic]:
    for source in pipeline.sources:
        if "dlq_topic" in source.options and pipeline.bootstrap is None:
            message = f"`dlq_topic` of `{source.name}` needs a Kafka cluster, and none is named"
            hint = "add `bootstrap_server: localhost:9092`, or use `bad_data: skip`"
            yield Diagnostic("MISSING_OPTION", message, source.options.at("dlq_topic"), hint)


def _endless(pipeline: Pipeline) -> Iterator[Diagnostic]:
    for source in pipeline.sources:
        if source.connector == "impulse" and "count" not in source.options:
            message = f"`{source.name}` has no end, and a batch must have one"
            yield Diagnostic("MISSING_OPTION", message, source.span, "add `count: 1000`")


def _no_effect(pipeline: Pipeline) -> Iterator[Diagnostic]:
    for source in pipeline.sources:
        if "max_files_per_batch" in source.options:
            message = "`max_files_per_batch` has no effect with `mode: batch`"
            where = source.options.at("max_files_per_batch")
            yield Diagnostic("NO_EFFECT", message, where, severity=Severity.WARNING)
