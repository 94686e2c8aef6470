"""What a plan will do otherwise than its author may think: warnings that need a plan to be seen."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.formats.options import Part
from headrace.model.evolution import Evolution
from headrace.model.pipeline import DeduplicateTransform, SqlTransform, Transform
from headrace.model.query import Query as SqlQuery
from headrace.plan import stateful
from headrace.plan.stages import Call, OnFailure, Plan, Query
from headrace.sinks.delta import DeltaSink
from headrace.sources.kafka import KafkaSource
from headrace.spans import Diagnostic, Severity


def doubts(plan: Plan) -> list[Diagnostic]:
    stops = [_failure_stops(call) for query in plan.queries for call in _stopped_at(query)]
    return [*stops, *_no_table(plan), *_staying_behind(plan), *stateful.doubts(plan)]


def _stopped_at(query: Query) -> Iterator[Call]:
    """Functions that stop the pipeline, though bad records are to be put aside or passed over."""
    if any(source.bad_data != "fail" for source in query.sources):
        yield from (call for call in query.calls if call.on_failure is OnFailure.STOPS)


def _failure_stops(call: Call) -> Diagnostic:
    return Diagnostic(
        "FAILURE_STOPS",
        f"a message that {call.transform.function} fails for stops the pipeline, whatever "
        "`bad_data` says, as its rows come or go through a step that is not row-wise",
        call.transform.span,
        "put such steps into a pipeline of their own, after this one",
        Severity.WARNING,
    )


def _no_table(plan: Plan) -> Iterator[Diagnostic]:
    """Options about a table of offsets in a stream that has none."""
    if plan.in_batches:
        return
    for source in plan.pipeline.sources:
        if source.metadata_table is not None or not source.store_offsets:
            message = f"`{source.name}` keeps its position in Spark's checkpoint, not in a table"
            hint = "`metadata_table` and `store_offsets` are for `mode: batch`"
            yield Diagnostic("NO_EFFECT", message, source.span, hint, Severity.WARNING)


def _staying_behind(plan: Plan) -> Iterator[Diagnostic]:
    """Delta tables that would not take the columns which their sources take up while they run."""
    for query in plan.queries:
        rules = {
            Evolution(source.options["schema_evolution"])
            for source in query.sources
            if isinstance(source, KafkaSource) and _evolves(source) and _reaches(query, source.name)
        } - {Evolution.FREEZE}
        for sink in (write.sink for write in query.writes if isinstance(write.sink, DeltaSink)):
            options = sink.sink.options
            if rules and not options["merge_schema"]:
                yield _behind(sink, "new columns", "merge_schema")
            elif Evolution.WIDEN in rules and not options["widen_types"]:
                yield _behind(sink, "types that became wider", "widen_types")


def _evolves(source: KafkaSource) -> bool:
    """Whether the columns of its values are those that a registry has."""
    wanted = source.registered.get(Part.VALUE)
    return wanted is not None and wanted.schema is None


def _reaches(query: Query, source: str) -> bool:
    """Whether columns that no step names pass from a source into the sinks, by `SELECT *`."""
    followed = {source} - {select.table for select in query.selects}
    for stage in query.transforms:
        step = stage.transform
        if followed.intersection(step.inputs) and _passes_all(step):
            followed.add(step.name)
    return query.frame in followed


def _passes_all(step: Transform) -> bool:
    if isinstance(step, SqlTransform):
        parsed, _ = SqlQuery.parse(step.sql, step.span)
        return parsed is not None and parsed.output_columns({}) is None
    return isinstance(step, DeduplicateTransform)


def _behind(sink: DeltaSink, what: str, option: str) -> Diagnostic:
    return Diagnostic(
        "STAYS_BEHIND",
        f"{what} of the registry's schema stop the pipeline at the Delta table of `{sink.name}`",
        sink.sink.span,
        f"set `{option}: true` in the sink, or `schema_evolution: freeze` in the source",
        Severity.WARNING,
    )
