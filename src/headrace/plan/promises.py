"""What a plan can promise, worked out from what its sinks declare.

`of` gives one promise a target; `refusals` says why a guarantee that was asked for cannot be kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.model.pipeline import Guarantee
from headrace.plan.stages import Plan, Promise
from headrace.sinks.kafka import KafkaSink
from headrace.sinks.writer import SinkWriter
from headrace.spans import Diagnostic

EXACTLY_ONCE = "exactly once"
AT_LEAST_ONCE = "at least once"
NOTHING = "may lose records"


def of(plan: Plan) -> tuple[Promise, ...]:
    return tuple(_promises(plan))


def _promises(plan: Plan) -> Iterator[Promise]:
    doubt = _why_not_again(plan)
    for sink in plan.sinks:
        if doubt is None and sink.REPLAY_SAFE:
            because = "a batch that is written again is recognised by its id in the target"
            yield Promise(sink.target, EXACTLY_ONCE, because)
        else:
            because = "positions move after the write, so a crash between them writes a batch again"
            yield _weakened(sink, Promise(sink.target, AT_LEAST_ONCE, doubt or because))
    asides = (query.aside for query in plan.queries)
    for topic in dict.fromkeys(aside.topic for aside in asides if aside and aside.topic):
        because = "written before positions move"
        yield Promise(f"dead letters in {topic}", AT_LEAST_ONCE, because)


def _why_not_again(plan: Plan) -> str | None:
    """Why a batch that was cut off cannot be done again as it was, if so."""
    for source in plan.sources:
        if not source.REPLAYS:
            return f"`{source.name}` does not give the same records when it is read again"
        if plan.in_batches and not plan.pipeline.source(source.name).store_offsets:
            return f"`{source.name}` stores no offsets, so every run reads its records again"
    return None


def _weakened(sink: SinkWriter, promise: Promise) -> Promise:
    """Some sinks can be told not to wait for what they need to promise anything."""
    lost = sink.may_lose if isinstance(sink, KafkaSink) else None
    return promise if lost is None else Promise(sink.target, NOTHING, lost)


def refusals(plan: Plan) -> list[Diagnostic]:
    """Every reason why something that was asked for cannot be kept by this plan."""
    return [*_untraced(plan), *_guarantee(plan)]


def _untraced(plan: Plan) -> Iterator[Diagnostic]:
    """Envelopes that tell of a record, on rows of which no one knows the record."""
    for query in plan.queries:
        for sink in (write.sink for write in query.writes):
            if isinstance(sink, KafkaSink) and sink.needs_record and not query.carried:
                message = (
                    f"the envelope of `{sink.name}` takes id and time from a source's record, and "
                    f"the rows of `{query.frame}` do not each come from one"
                )
                span = sink.options.at("envelope")
                hint = "give it an `id` and a `time` of their own"
                yield Diagnostic("CANNOT_KEEP", message, span, hint)


def _guarantee(plan: Plan) -> list[Diagnostic]:
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
