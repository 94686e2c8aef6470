"""What the queries of a stream remember from batch to batch, and when they write what comes of it.

`complete` gives a query its watermarks, what it keeps, and its output mode; `refusals` says what
Spark would not run, and `doubts` what is kept for ever. What a step does with time is found by
`model.stateful`; here steps are put together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from headrace.admin.quantities import duration
from headrace.formats.messages import returned_columns
from headrace.model.pipeline import (
    DeduplicateTransform,
    Mode,
    OutputMode,
    Pipeline,
    PythonRowsTransform,
    PythonTransform,
    Remember,
    SqlTransform,
    Transform,
)
from headrace.model.query import Query as SqlQuery
from headrace.model.schema import Schema
from headrace.model.stateful import ADD_WATERMARK, Keeping, Kept, read
from headrace.model.timing import Table
from headrace.plan.stages import Apply, Call, Decode, Plan, Query, Select, Stage, Watermark
from headrace.sources import SOURCES
from headrace.spans import Diagnostic, Severity

_HINTS = {
    Keeping.AGGREGATE: "if old groups may be forgotten, give the source a `watermark` and add "
    "`window(…)` of its column to GROUP BY",
    Keeping.JOIN: "give both sources a `watermark`, and bound the time of one side by the other: "
    "`AND b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR`",
    Keeping.DUPLICATES: ADD_WATERMARK,
}


@dataclass
class Memory:
    """What is found on the way through the steps of one query."""

    tables: dict[str, Table] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)
    faults: list[Diagnostic] = field(default_factory=list)


def complete(pipeline: Pipeline, query: Query) -> Query:
    """The query of a plan with all that concerns its state; rows that are carried need none."""
    if pipeline.mode is not Mode.STREAM or query.carried:
        return query
    memory = _follow(pipeline, query)
    stages = tuple(_stages(pipeline, query, memory))
    kept = tuple(memory.kept)
    return replace(query, stages=stages, kept=kept, output_mode=_output_mode(pipeline, kept))


def refusals(plan: Plan) -> list[Diagnostic]:
    """What Spark would refuse when the stream is started, with what to do about it."""
    found: list[Diagnostic] = []
    if plan.pipeline.mode is not Mode.STREAM:
        return found
    for query in plan.queries:
        if query.carried:
            continue
        memory = _follow(plan.pipeline, query)
        found += memory.faults or _modes(plan.pipeline, memory.kept)
        found += _polled(plan, memory)
    return sorted(dict.fromkeys(found), key=lambda fault: fault.span)


def doubts(plan: Plan) -> list[Diagnostic]:
    """State that grows for ever, and options that nothing follows."""
    grows = [_grows(kept) for query in plan.queries for kept in query.kept if kept.grows]
    refused = {fault.span for fault in refusals(plan)}
    told = [fault for fault in dict.fromkeys(grows) if fault.span not in refused]
    return [*told, *_no_effect(plan)]


# Steps put together


def _follow(pipeline: Pipeline, query: Query) -> Memory:
    memory = Memory()
    for source in query.sources:
        watermark = pipeline.source(source.name).watermark
        timed = frozenset({watermark.column.lower()} if watermark is not None else ())
        memory.tables[source.name] = Table(timed, names=_columns(pipeline, source.name))
    for stage in query.transforms:
        _pass(memory, stage.transform)
    return memory


def _columns(pipeline: Pipeline, name: str) -> frozenset[str] | None:
    source = pipeline.source(name)
    if source.columns:
        return frozenset(each.name.lower() for each in source.columns)
    columns = SOURCES[source.connector].columns(source.options)
    return None if columns is None else frozenset(column.lower() for column in columns)


def _pass(memory: Memory, step: Transform) -> None:
    if isinstance(step, SqlTransform):
        _sql(memory, step)
    elif isinstance(step, DeduplicateTransform):
        _deduplicate(memory, step)
    elif isinstance(step, PythonRowsTransform):
        memory.tables[step.name] = _returned(memory.tables[step.inputs[0]], step)
    else:
        memory.tables[step.name] = Table(opaque=True)


def _sql(memory: Memory, step: SqlTransform) -> None:
    query, _ = SqlQuery.parse(step.sql, step.span)
    assert query is not None  # a definition with broken SQL has no plan
    tables = {name: memory.tables[name] for name in step.inputs}
    if step.previous is not None:
        tables["input"] = memory.tables[step.previous]
    reading = read(query, tables)
    memory.tables[step.name] = reading.table
    memory.kept += reading.kept
    memory.faults += reading.faults


def _returned(table: Table, step: PythonRowsTransform) -> Table:
    """What comes back of a function of messages: its watermark is set anew, by the name."""
    if step.schema is not None:
        names = frozenset(name.lower() for name in Schema.parse(step.schema).names)
    elif table.names is not None:
        names = frozenset(returned_columns(tuple(table.names)))
    else:
        return replace(table, opaque=True)
    return Table(table.timed & names, names=names)


def _deduplicate(memory: Memory, step: DeduplicateTransform) -> None:
    table = memory.tables[step.inputs[0]]
    memory.tables[step.name] = table
    remember = _remember(step, table)
    if remember is Remember.WATERMARK and not table.timed and not table.opaque:
        message = "`remember: watermark` needs rows that have one"
        memory.faults.append(Diagnostic("NOT_IN_A_STREAM", message, step.span, ADD_WATERMARK))
        return
    timed = [column for column in step.by if column.lower() in table.timed]
    until = None
    if remember is Remember.WATERMARK:
        until = "the watermark has passed its time by the delay"
    elif timed:
        until = f"the watermark has passed its `{timed[0]}`"
    memory.kept.append(
        Kept(
            Keeping.DUPLICATES,
            f"every {', '.join(f'`{column}`' for column in step.by)} seen",
            until,
            step.span,
            grows=until is None,
            chained=table.summed and remember is Remember.WATERMARK,
        )
    )


def _remember(step: DeduplicateTransform, table: Table) -> Remember:
    if step.remember is not None:
        return step.remember
    by_time = any(column.lower() in table.timed for column in step.by)
    return Remember.WATERMARK if table.timed and not by_time else Remember.FOREVER


def _stages(pipeline: Pipeline, query: Query, memory: Memory) -> Iterator[Stage]:
    """A watermark is set where rows stop being traced to records, as a function of messages would
    lose it, and Spark lets none be set twice.
    """
    plain = {query.frame}.union(
        *(stage.transform.inputs for stage in query.transforms if not stage.carried)
    )
    selected = {stage.table for stage in query.selects}
    for stage in query.stages:
        yield _resolved(stage, memory)
        name = _carried_table(stage, selected)
        if name in plain and memory.tables[name].timed:
            yield _watermark(pipeline, query, name, memory.tables[name])


def _resolved(stage: Stage, memory: Memory) -> Stage:
    """How long a step remembers, said in the plan where the definition leaves it open."""
    if not isinstance(stage, Apply) or not isinstance(stage.transform, DeduplicateTransform):
        return stage
    step = stage.transform
    remember = _remember(step, memory.tables[step.inputs[0]])
    return replace(stage, transform=replace(step, remember=remember))


def _carried_table(stage: Stage, selected: set[str]) -> str | None:
    """The table that a stage completes; a source is complete when it has its own columns."""
    if isinstance(stage, Decode):
        return stage.source.name if stage.source.name not in selected else None
    if isinstance(stage, Select):
        return stage.table
    if isinstance(stage, Apply | Call) and stage.carried:
        return stage.transform.name
    return None


def _watermark(pipeline: Pipeline, query: Query, name: str, table: Table) -> Watermark:
    """Of the one source that the rows of a carried table come from."""
    steps = {stage.transform.name: stage.transform for stage in query.transforms}
    origin = name
    while origin in steps:
        (origin,) = steps[origin].inputs
    watermark = pipeline.source(origin).watermark
    assert watermark is not None  # no column is timed without one
    own = watermark.column.lower()
    column = watermark.column if own in table.timed else min(table.timed)
    return Watermark(name, column, watermark.delay_ms)


# The output mode


def _output_mode(pipeline: Pipeline, kept: Sequence[Kept]) -> OutputMode:
    asked = pipeline.options["output_mode"]
    if asked is not None:
        return OutputMode(asked)
    return OutputMode.APPEND if all(each.final for each in kept) else OutputMode.UPDATE


def _modes(pipeline: Pipeline, kept: Sequence[Kept]) -> Iterator[Diagnostic]:
    mode = _output_mode(pipeline, kept)
    for each in kept:
        found = _not_appended(each) if mode is OutputMode.APPEND else _not_updated(each)
        if found is not None:
            yield Diagnostic("NOT_IN_A_STREAM", found[0], each.span, found[1])


def _not_appended(kept: Kept) -> tuple[str, str] | None:
    if kept.final is not False:
        return None
    message = f"`output_mode: append` writes a row once it is final, and {kept.what} never is"
    return message, f"{_HINTS[Keeping.AGGREGATE]}; or use `output_mode: update`"


def _not_updated(kept: Kept) -> tuple[str, str] | None:
    """Rows that are still to change can be written, and not be taken up by what remembers them."""
    final = "let every GROUP BY have a time with a watermark, so that rows become final"
    if kept.kind is Keeping.SESSIONS:
        return "sessions are written once they have ended, not in `output_mode: update`", final
    if kept.kind is Keeping.OUTER_JOIN:
        message = "an outer join of streams writes a row once it is final, not in `output_mode: "
        return f"{message}update`", final
    if kept.chained:
        message = "rows that are summed up already, and still change, cannot be taken up by "
        return f"{message}{_TAKES_UP[kept.kind]}", final
    return None


_TAKES_UP = {
    Keeping.AGGREGATE: "another aggregation",
    Keeping.JOIN: "a join",
    Keeping.DUPLICATES: "`deduplicate`",
}


def _polled(plan: Plan, memory: Memory) -> Iterator[Diagnostic]:
    if not plan.polled or not memory.kept:
        return
    names = ", ".join(f"`{source.name}`" for source in plan.sources if not source.STREAMS)
    message = f"Spark cannot follow {names}, so this stream is made of batches, and they remember "
    message += "nothing of each other"
    hint = "use `mode: batch`, where each run sums up what is new"
    yield Diagnostic("NOT_IN_A_STREAM", message, memory.kept[0].span, hint)


# Warnings


def _grows(kept: Kept) -> Diagnostic:
    kind = Keeping.JOIN if kept.kind is Keeping.OUTER_JOIN else kept.kind
    message = f"the state grows for ever: {kept.what}"
    return Diagnostic("STATE_GROWS", message, kept.span, _HINTS[kind], Severity.WARNING)


def _no_effect(plan: Plan) -> Iterator[Diagnostic]:
    if plan.pipeline.mode is not Mode.STREAM:
        return
    opaque = any(
        isinstance(stage.transform, PythonTransform)
        for query in plan.queries
        for stage in query.transforms
    )
    kept = [each for query in plan.queries for each in query.kept]
    options = plan.pipeline.options
    if "output_mode" in options and not kept and not opaque:
        message = "`output_mode` has no effect, as no step sums up, joins or remembers anything"
        yield Diagnostic("NO_EFFECT", message, options.at("output_mode"), None, Severity.WARNING)
    for source in plan.pipeline.sources:
        if source.watermark is not None and not kept and not opaque:
            message = f"the watermark of `{source.name}` has no effect, as no step needs its time"
            span = source.watermark.span
            yield Diagnostic("NO_EFFECT", message, span, None, Severity.WARNING)


def told(pipeline: Pipeline, query: Query) -> Iterator[str]:
    """State and output mode of a query in words; nothing where it keeps nothing."""
    if not query.kept:
        return
    when = {
        OutputMode.APPEND: "each row is written once, when it is final",
        OutputMode.UPDATE: "a row is written whenever a batch has changed it",
    }
    mode = pipeline.options.setting("output mode", "output_mode", query.output_mode)
    yield f"{mode.name} {mode.value}, by {mode.origin}: {when[query.output_mode]}"
    yield from (f"kept: {kept.words}" for kept in query.kept)


def late(stage: Watermark) -> str:
    """What a watermark means, in words."""
    behind = f"more than {duration(stage.delay_ms / 1000)} " if stage.delay_ms else ""
    newest = "the newest of the batches before"
    return f"`{stage.table}`: a row is late when its `{stage.column}` is {behind}behind {newest}"
