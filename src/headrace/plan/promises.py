"""What a plan can promise, worked out from what its sinks declare.

`of` gives one promise a target; `refusals` says why a guarantee that was asked for cannot be kept,
and what to change, each reason for itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.model.kafka_properties import idempotence_fault
from headrace.model.pipeline import Guarantee, Mode
from headrace.plan.stages import Plan, Promise, Query
from headrace.sinks.kafka import KafkaSink
from headrace.sinks.writer import SinkWriter, Way
from headrace.sources.kafka import KafkaSource
from headrace.sources.kafka_settings import DEFAULT_BATCH_SIZE
from headrace.spans import Diagnostic

EXACTLY_ONCE = "exactly once"
AT_LEAST_ONCE = "at least once"
NOTHING = "may lose records"

# How many messages a second a transaction is trusted to take, on a slow machine.
RATE = 20_000

_BY = {
    Way.LINEAGE: (
        "by lineage: messages and the position of their source's partition are one transaction"
    ),
    Way.BATCH: "by batch: the messages of a batch and its number are one transaction",
}


def of(plan: Plan) -> tuple[Promise, ...]:
    return tuple(_promises(plan))


def _promises(plan: Plan) -> Iterator[Promise]:
    doubt = _why_not_again(plan)
    for query in plan.queries:
        for sink in (write.sink for write in query.writes):
            yield _of_sink(query, sink, doubt)
    told: set[str] = set()
    for query in plan.queries:
        topic = query.aside.topic if query.aside is not None else None
        if topic is not None and topic not in told:
            told.add(topic)
            yield _of_letters(query, topic, doubt)


def _of_sink(query: Query, sink: SinkWriter, doubt: str | None) -> Promise:
    if doubt is None and sink.REPLAY_SAFE:
        because = "a batch that is written again is recognised by its id in the target"
        return Promise(sink.target, EXACTLY_ONCE, because)
    if doubt is None and isinstance(sink, KafkaSink) and query.way is not None:
        return Promise(sink.target, EXACTLY_ONCE, _BY[query.way])
    because = "positions move after the write, so a crash between them writes a batch again"
    return _weakened(sink, Promise(sink.target, AT_LEAST_ONCE, doubt or because))


def _of_letters(query: Query, topic: str, doubt: str | None) -> Promise:
    target = f"dead letters in {topic}"
    if doubt is None and query.way is not None:
        return Promise(target, EXACTLY_ONCE, _BY[query.way])
    return Promise(target, AT_LEAST_ONCE, doubt or "written before positions move")


def _why_not_again(plan: Plan) -> str | None:
    """Why a batch that was cut off cannot be done again as it was, if so."""
    if plan.shared is not None:
        return (
            f"whoever takes over a partition of `{plan.shared.name}` reads again what was not yet "
            "committed to the group"
        )
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
        for sink in query.kafka_sinks:
            if sink.needs_record and not query.carried:
                message = (
                    f"the envelope of `{sink.name}` takes id and time from a source's record, and "
                    f"the rows of `{query.frame}` do not each come from one"
                )
                span = sink.options.at("envelope")
                hint = "give it an `id` and a `time` of their own"
                yield Diagnostic("CANNOT_KEEP", message, span, hint)


def _guarantee(plan: Plan) -> Iterator[Diagnostic]:
    if plan.pipeline.guarantee is not Guarantee.EXACTLY_ONCE:
        return
    span = plan.pipeline.options.at("guarantee")
    hint = "use `guarantee: at_least_once`"
    for promise in plan.promises:
        if promise.kept != EXACTLY_ONCE:
            message = f"exactly_once cannot be kept for {promise.target}: {promise.because}"
            yield Diagnostic("CANNOT_KEEP", message, span, hint)
    for query in plan.queries:
        if query.way is None:
            continue
        yield from _uncommitted(query)
        for sink in query.kafka_sinks:
            yield from _producer(sink, query.way)
            if query.way is Way.BATCH:
                yield from _as_a_whole(plan, query, sink)


def _uncommitted(query: Query) -> Iterator[Diagnostic]:
    for source in query.sources:
        if not isinstance(source, KafkaSource):
            continue
        options = source.source.options
        if options["properties"].get("isolation.level") == "read_uncommitted":
            message = (
                f"exactly_once: `{source.name}` reads records of transactions that may be aborted"
            )
            span = options.at("properties")
            yield Diagnostic("CANNOT_KEEP", message, span, "remove `isolation.level`")


def _producer(sink: KafkaSink, way: Way) -> Iterator[Diagnostic]:
    """What a producer of transactions cannot be told."""
    options = sink.options
    if options["writer"] is not None:
        message = (
            f"exactly_once: `writer: {options['writer']}` of `{sink.name}` has no transactions"
        )
        span = options.at("writer")
        yield Diagnostic("CANNOT_KEEP", message, span, "remove `writer`")
    producer = sink.producer
    off = producer.get("enable.idempotence", "true") != "true"
    fault = "`idempotence: false` doubles what is retried" if off else idempotence_fault(producer)
    if fault is not None:
        named = ("idempotence", "acks", "retries", "properties")
        span = options.at(next((name for name in named if name in options), "properties"))
        message = f"exactly_once: sink `{sink.name}`: {fault}"
        yield Diagnostic("CANNOT_KEEP", message, span, "leave it out")
    limit, patience = sink.transaction_ms(way), producer.get("delivery.timeout.ms")
    if patience is not None and int(patience) > limit:
        message = (
            f"exactly_once: sink `{sink.name}` would try to deliver a record for {patience} ms, "
            f"and its transactions end after {limit} ms"
        )
        name = "delivery_timeout_ms" if "delivery_timeout_ms" in options else "properties"
        hint = f"lower it, or set `transaction_timeout_ms: {patience}`"
        yield Diagnostic("CANNOT_KEEP", message, options.at(name), hint)


def _as_a_whole(plan: Plan, query: Query, sink: KafkaSink) -> Iterator[Diagnostic]:
    """What a batch that is one transaction cannot be."""
    options = sink.options
    if sink.entry_place is None:
        message = (
            f"exactly_once: `{sink.name}` is written by batch, which is noted at one of its topics,"
            " and `allowed_topics` has only patterns"
        )
        hint = "name at least one topic without `*` in `allowed_topics`"
        yield Diagnostic("CANNOT_KEEP", message, options.at("allowed_topics"), hint)
    if plan.pipeline.mode is not Mode.STREAM:
        return  # how much a batch has to read is known when it begins
    limit = sink.transaction_ms(Way.BATCH)
    most = sum(_batch_size(plan, source.name) for source in query.sources)
    if most > RATE * limit / 1000:
        message = (
            f"exactly_once: a batch of {most:,} records is one transaction of `{sink.name}`, and "
            f"may take longer than its {limit:,} ms"
        )
        longer = most * 1000 // RATE + 1
        hint = f"set `batch_size` of the sources lower, or `transaction_timeout_ms: {longer}`"
        yield Diagnostic("CANNOT_KEEP", message, options.at("transaction_timeout_ms"), hint)


def _batch_size(plan: Plan, source: str) -> int:
    told = plan.pipeline.source(source).options.values.get("batch_size")
    return int(told or DEFAULT_BATCH_SIZE)
