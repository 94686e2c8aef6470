"""What a plan can promise, worked out from what its sinks declare.

`of` gives one promise a target; `refusals` says why a guarantee that was asked for cannot be kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.model.pipeline import Guarantee, Mode
from headrace.plan.stages import Plan, Promise
from headrace.spans import Diagnostic

EXACTLY_ONCE = "exactly once"
AT_LEAST_ONCE = "at least once"


def of(plan: Plan) -> tuple[Promise, ...]:
    return tuple(_promises(plan))


def _promises(plan: Plan) -> Iterator[Promise]:
    stream = plan.pipeline.mode is Mode.STREAM
    replays = all(source.REPLAYS for source in plan.sources)
    for sink in plan.sinks:
        if stream and replays and sink.REPLAY_SAFE:
            because = "a batch that is written again is recognised by its id in the target"
            yield Promise(sink.target, EXACTLY_ONCE, because)
        else:
            because = "positions move after the write, so a crash between them writes a batch again"
            yield Promise(sink.target, AT_LEAST_ONCE, because)
    for query in plan.queries:
        if query.aside and query.aside.topic:
            because = "written before positions move"
            target = f"dead letters in {query.aside.topic}"
            yield Promise(target, AT_LEAST_ONCE, because)


def refusals(plan: Plan) -> list[Diagnostic]:
    """Every reason why `guarantee: exactly_once` cannot be kept by this plan."""
    if plan.pipeline.guarantee is not Guarantee.EXACTLY_ONCE:
        return []
    span = plan.pipeline.options.at("guarantee")
    hint = "use `guarantee: at_least_once`"
    return [
        Diagnostic(
            "CANNOT_KEEP", f"exactly_once cannot be kept for {p.target}: {p.because}", span, hint
        )
        for p in plan.promises
        if p.kept != EXACTLY_ONCE
    ]
