"""What a plan will do otherwise than its author may think: warnings that need a plan to be seen."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.plan import stateful
from headrace.plan.stages import Call, OnFailure, Plan, Query
from headrace.spans import Diagnostic, Severity


def doubts(plan: Plan) -> list[Diagnostic]:
    stops = [_failure_stops(call) for query in plan.queries for call in _stopped_at(query)]
    return [*stops, *_no_table(plan), *stateful.doubts(plan)]


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
