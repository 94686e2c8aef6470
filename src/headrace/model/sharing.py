"""Whether a pipeline can share the partitions of its topics with the others of its group.

Partitions move from one pipeline to another while they run, and all that moves with them is the
offset in the group. So nothing else may hang on a partition: no sums, no table of offsets, no
ledger. `obstacles` says what does, each thing for itself. Who calls it: lint, for a source that has
`share_partitions`; and whoever wants to know before setting it.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.model.pipeline import (
    DeduplicateTransform,
    Guarantee,
    Mode,
    Pipeline,
    Source,
    SqlTransform,
    Transform,
)
from headrace.model.query import Query
from headrace.model.stateful import read
from headrace.model.timing import Table
from headrace.spans import Diagnostic, Span

_ALONE = "or remove `share_partitions`"


def lint_sharing(pipeline: Pipeline) -> Iterator[Diagnostic]:
    for source in sharing(pipeline):
        yield from obstacles(pipeline, source)


def sharing(pipeline: Pipeline) -> Iterator[Source]:
    """The sources that are to share their partitions."""
    for source in pipeline.sources:
        if source.connector == "kafka" and source.options["share_partitions"]:
            yield source


def obstacles(pipeline: Pipeline, source: Source) -> list[Diagnostic]:
    """All that keeps this Kafka source from sharing its partitions, whether or not it is to."""
    return [
        Diagnostic(
            "CANNOT_SHARE", f"the partitions of `{source.name}` cannot be shared: {why}", at, hint
        )
        for why, at, hint in (
            *_of_pipeline(pipeline),
            *_of_sources(pipeline, source),
            *_of_steps(pipeline),
        )
    ]


_Reason = tuple[str, Span, str]


def _of_pipeline(pipeline: Pipeline) -> Iterator[_Reason]:
    options = pipeline.options
    if pipeline.mode is Mode.BATCH:
        why = "a batch ends, and a member of a group stays to take over from others"
        yield why, options.at("mode"), f"use `mode: stream`, {_ALONE}"
    if pipeline.guarantee is Guarantee.EXACTLY_ONCE:
        why = "exactly_once is noted for one pipeline, and another may take over in the middle"
        yield why, options.at("guarantee"), f"use `guarantee: at_least_once`, {_ALONE}"


def _of_sources(pipeline: Pipeline, source: Source) -> Iterator[_Reason]:
    for other in pipeline.sources:
        if other.name != source.name:
            why = f"`{other.name}` is read as well, and a batch of both has one position"
            yield why, other.span, f"give each source a pipeline of its own, {_ALONE}"
    if source.metadata_table is not None or not source.store_offsets:
        why = "its position is that of the group, not of a table"
        yield why, source.span, "remove `metadata_table` and `store_offsets`"
    if source.options["offset"] is not None:
        why = "`offset` would move the position of every pipeline of the group"
        hint = f"move the group while none of them runs: `{_reset(pipeline, source)}`"
        yield why, source.options.at("offset"), hint


def _reset(pipeline: Pipeline, source: Source) -> str:
    group = source.options["consumer_group"] or pipeline.name
    return f"headrace groups reset {group}"


def _of_steps(pipeline: Pipeline) -> Iterator[_Reason]:
    hint = f"put this step into a pipeline that reads the result of this one, {_ALONE}"
    for step in pipeline.transforms:
        for what, span in _remembered(step):
            yield f"what `{step.name}` remembers would not move with them: {what}", span, hint


def _remembered(step: Transform) -> Iterator[tuple[str, Span]]:
    """What a step keeps from batch to batch; of a function of DataFrames nobody knows."""
    if isinstance(step, DeduplicateTransform):
        yield f"every {', '.join(f'`{column}`' for column in step.by)} seen", step.span
    if not isinstance(step, SqlTransform):
        return
    query, _ = Query.parse(step.sql, step.span)
    tables = {name: Table(opaque=True) for name in (*step.inputs, "input")}
    for kept in read(query, tables).kept if query is not None else ():
        yield kept.what, kept.span
