"""A plan in words. Walks the same stages that the runtime executes, so it cannot tell another
story.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import singledispatch
from typing import Any

from headrace.formats.options import Part, Wanted
from headrace.model.pipeline import DeduplicateTransform, Mode, Source, SqlTransform
from headrace.plan import stateful
from headrace.plan.stages import (
    Apply,
    Call,
    Decode,
    EnsureTopic,
    Plan,
    Query,
    Read,
    Refuse,
    Select,
    SetAside,
    Stage,
    Watermark,
    Write,
)
from headrace.plan.tasks import is_local, local_tasks
from headrace.sinks.kafka import KafkaSink
from headrace.sources.kafka import KafkaSource
from headrace.sources.reader import SourceReader
from headrace.spec import Expression, Setting


def explain(
    plan: Plan, session: tuple[Setting, ...], partitions: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """What will be done, as plain values in reading order; Spark is started with `session`.

    `partitions` are those of each source's topics, for whoever has asked the brokers.
    """
    return {
        "pipeline": plan.pipeline.name,
        "mode": str(plan.pipeline.mode),
        "before": [*(_ensure(stage) for stage in plan.prepare), *_registries(plan)],
        "queries": [_query(plan, query) for query in plan.queries],
        "side_by_side": list(_side_by_side(plan, session, partitions or {})),
        "position": list(_position(plan)),
        "promise": [
            {"target": p.target, "delivered": p.kept, "because": p.because} for p in plan.promises
        ],
        "spark": _settings(session),
    }


def _ensure(stage: EnsureTopic) -> str:
    action = "make topic if it is missing" if stage.create else "topic must exist"
    counts = {"partitions": stage.partitions, "replicas": stage.replication}
    asked = [f"{count} {name}" for name, count in counts.items() if count is not None]
    asked += [f"{name}={value}" for name, value in stage.config]
    shape = f" with {', '.join(asked)}" if asked else ""
    return f"{action}: {stage.topic} at {stage.bootstrap}{shape} ({stage.purpose})"


def _registries(plan: Plan) -> Iterator[str]:
    """What registries are asked, and told, before anything is read or written."""
    for source in plan.sources:
        for part, wanted in source.registered.items() if isinstance(source, KafkaSource) else ():
            subjects = ", ".join(wanted.subjects) or "each id that comes"
            yield f"know the schemas of {subjects} {_at(wanted)} ({part}s of `{source.name}`)"
    for sink in plan.sinks:
        if isinstance(sink, KafkaSink):
            yield from _written_by(sink)


def _written_by(sink: KafkaSink) -> Iterator[str]:
    for part, wanted in sink.wanted.items():
        whose = f"{', '.join(wanted.subjects)} {_at(wanted)}"
        if wanted.registered and sink.options["register_schema"]:
            yield f"register the schema of {whose} if it is new ({part}s of `{sink.name}`)"
        elif wanted.registered:
            yield f"the newest schema of {whose} must fit the {part}s of `{sink.name}`"


def _at(wanted: Wanted) -> str:
    return f"at {wanted.registry.words}" if wanted.registry is not None else ""


def _query(plan: Plan, query: Query) -> dict[str, Any]:
    stages = [
        {"stage": type(stage).__name__, "does": words(stage), "settings": _stage_settings(stage)}
        for stage in query.stages
    ]
    state = list(stateful.told(plan.pipeline, query))
    return {"name": query.name, "stages": stages, "state": state}


@singledispatch
def words(stage: Stage) -> str:
    """What a stage does, in one sentence."""
    raise TypeError(stage)


@words.register
def _(stage: Read) -> str:
    return f"{stage.source.origin}, as `{stage.source.name}`"


@words.register
def _(stage: Decode) -> str:
    return stage.source.shape


@words.register
def _(stage: Select) -> str:
    return f"`{stage.table}`: {', '.join(_column(each) for each in stage.columns)}"


def _column(column: Expression) -> str:
    sql = " ".join((column.sql or column.name).split())
    return sql if sql == column.name else f"{sql} AS {column.name}"


@words.register
def _(stage: Apply) -> str:
    step = stage.transform
    if isinstance(step, SqlTransform):
        return f"`{step.name}`: {' '.join(step.sql.split())}"
    if isinstance(step, DeduplicateTransform):
        by = ", ".join(f"`{column}`" for column in step.by)
        return f"`{step.name}`: of the rows of {step.inputs[0]} with the same {by}, the first"
    return f"`{step.name}`: {step.function}({step.inputs[0]})"


@words.register
def _(stage: Call) -> str:
    step = stage.transform
    lists = f"lists of at most {stage.batch_size} messages of {step.inputs[0]}"
    back = f" into {step.schema}" if step.schema else ""
    return (
        f"`{step.name}`: {step.function}({lists}){back}; where it fails for one, {stage.on_failure}"
    )


@words.register
def _(stage: Watermark) -> str:
    return stateful.late(stage)


@words.register
def _(stage: Refuse) -> str:
    return f"rows that `{stage.sink.name}` cannot write are bad records: {stage.sink.refused_for}"


@words.register
def _(stage: SetAside) -> str:
    limit = "" if stage.limit is None else f"; more than {stage.limit} in a batch stop the pipeline"
    if stage.topic is None:
        return f"bad records of `{stage.source.name}` are counted and dropped{limit}"
    how = f"in the same job as sink `{stage.beside}`" if stage.beside else "in a job of their own"
    return f"bad records of `{stage.source.name}` to topic {stage.topic}, {how}{limit}"


@words.register
def _(stage: Write) -> str:
    sink = stage.sink
    how = f"{_written(sink)}, {sink.by}" if isinstance(sink, KafkaSink) else ""
    return f"`{sink.name}` to {sink.target}{how}"


def _written(sink: KafkaSink) -> str:
    """In which formats, where they are not JSON and text."""
    wanted = sink.wanted
    value, key = wanted.get(Part.VALUE), wanted.get(Part.KEY)
    values = f" as {value.format}" if value is not None and value.format != "json" else ""
    return values + (f" with keys as {key.format}" if key is not None else "")


def _stage_settings(stage: Stage) -> list[dict[str, str]]:
    return _settings(stage.settings) if isinstance(stage, Read | Write) else []


def _settings(settings: tuple[Setting, ...]) -> list[dict[str, str]]:
    return [{"name": s.name, "value": s.value, "origin": s.origin} for s in settings]


def _side_by_side(
    plan: Plan, session: tuple[Setting, ...], partitions: Mapping[str, int]
) -> Iterator[str]:
    yield _tasks(plan, {setting.name: setting for setting in session})
    for source in plan.sources:
        if not isinstance(source, KafkaSource):
            continue
        if source.name in partitions:
            count = partitions[source.name]
            yield f"`{source.name}`: {count} partitions, each read by one task at a time"
        else:
            yield (
                f"`{source.name}`: each partition of a topic is read by one task at a time, so "
                "tasks beyond the number of partitions have nothing to read"
            )


def _tasks(plan: Plan, session: Mapping[str, Setting]) -> str:
    """How many tasks run at once, and what decides it."""
    master = session["spark.master"]
    if is_local(master.value):
        count = "one a core" if "*" in master.value else f"{local_tasks(master.value)} at once"
        return f"tasks: {count}, by {master.value} ({master.origin})"
    options = plan.pipeline.options
    if "executor_count" in options:
        return f"tasks: {options['executor_count']} at once, by executor_count at {master.value}"
    return f"tasks: one a core of the executors at {master.value}"


def _position(plan: Plan) -> Iterator[str]:
    if plan.shared is not None:
        yield from _shared(plan.shared)
        return
    if plan.polled:
        every = f"a batch begins every {plan.poll_ms} ms"
        yield f"one of the sources cannot be followed by Spark: {every}"
    if not plan.in_batches:
        yield "kept in Spark's checkpoint, which moves after every sink of a batch has acknowledged"
    for source in plan.sources:
        if plan.in_batches:
            yield _stored(plan.pipeline.source(source.name))
        yield _first(source, plan.reads_as)
        if isinstance(source, KafkaSource) and source.reset is not None:
            yield f"`{source.name}`: {source.reset_in_words}"
        if source.group is not None:
            yield f"`{source.name}`: shown to Kafka's tools as group {source.group}"
    for query in plan.queries:
        for sink in query.kafka_sinks if query.way is not None else ():
            yield f"`{sink.name}`: what is written is noted in the group {sink.ledger.group}"


def _shared(source: KafkaSource) -> Iterator[str]:
    name, group = source.name, source.group
    yield f"`{name}`: kept in group {group}, written after every sink of a batch has acknowledged"
    yield (
        f"`{name}`: shares the partitions with all members of group {group}; one that joins or "
        "stops moves them at once"
    )
    dies = next(each for each in source.membership if each.name == "session.timeout.ms")
    yield f"`{name}`: the partitions of one that dies move after {dies.value} ms ({dies.origin})"
    yield _first(source, Mode.STREAM)


def _first(source: SourceReader, mode: Mode) -> str:
    first = source.first(mode)
    if first.value == "none":
        return f"`{source.name}`: every partition must have a stored position ({first.origin})"
    return f"`{source.name}`: a first run begins at {first.value} ({first.origin})"


def _stored(source: Source) -> str:
    if not source.store_offsets:
        return f"`{source.name}`: not stored, so every run begins where a first one would"
    place = source.metadata_table or "a Delta table in the state folder"
    return f"`{source.name}`: kept in {place}, written after every sink has acknowledged"
