"""From a pipeline to a plan. No side effects: nothing is asked of a cluster and no JVM is started.

Sinks that write the same rows share a query, and so one position. The bad records of a source are
written by the first query in which every row can be traced to its record; where there is none, they
get a query of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

from headrace.model.pipeline import (
    Guarantee,
    Mode,
    Pipeline,
    PythonRowsTransform,
    SqlTransform,
    Transform,
)
from headrace.model.query import Query as SqlQuery
from headrace.plan import promises, stateful
from headrace.plan.stages import (
    Apply,
    Call,
    Decode,
    EnsureTopic,
    OnFailure,
    Plan,
    Query,
    Read,
    Refuse,
    Select,
    SetAside,
    Stage,
    Write,
)
from headrace.sinks import SINKS
from headrace.sinks.kafka import KafkaSink
from headrace.sinks.writer import SinkContext, SinkWriter, Way
from headrace.sources import SOURCES
from headrace.sources.kafka import KafkaSource
from headrace.sources.reader import SourceContext, SourceReader

# How many messages a function gets at once: unless it is said, and at most if only the source says.
DEFAULT_LIST = 1_000
LONGEST_LIST = 10_000


def plan(pipeline: Pipeline) -> Plan:
    return _Planner(pipeline).plan()


class _Planner:
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        folder = pipeline.file.resolve().parent if pipeline.file else Path.cwd()
        source_context = SourceContext(pipeline.name, folder, pipeline.bootstrap)
        self.sources: dict[str, SourceReader] = {
            source.name: SOURCES[source.connector](source, source_context)
            for source in pipeline.sources
        }
        self.exactly_once = pipeline.guarantee is Guarantee.EXACTLY_ONCE
        sink_context = SinkContext(pipeline.name, folder, pipeline.bootstrap, self.exactly_once)
        self.sinks: list[SinkWriter] = [
            SINKS[sink.connector](sink, sink_context) for sink in pipeline.sinks
        ]
        self.transforms = {transform.name: transform for transform in pipeline.transforms}

    def plan(self) -> Plan:
        found = (stateful.complete(self.pipeline, query) for query in self._queries())
        queries = [replace(query, way=self._way(query)) for query in found]
        ensured = tuple(dict.fromkeys(self._prepare(queries)))
        result = Plan(self.pipeline, ensured, tuple(queries), ())
        return replace(result, promises=promises.of(result))

    @cached_property
    def reads_as(self) -> Mode:
        """A source that is shared, or cannot be followed by Spark, makes batches of all of them."""
        frames = {sink.input for sink in self.pipeline.sinks}
        steps = [step for frame in frames for step in self._needed(frame)]
        read = frames.union(*(step.inputs for step in steps))
        streams = all(_followed(source) for name, source in self.sources.items() if name in read)
        return self.pipeline.mode if streams else Mode.BATCH

    def reading_only(self) -> Query:
        return self._query("preview", self.pipeline.output, [], set())

    def _queries(self) -> Iterator[Query]:
        set_aside: set[str] = set()
        by_frame: dict[str, list[SinkWriter]] = {}
        for sink, definition in zip(self.sinks, self.pipeline.sinks, strict=True):
            by_frame.setdefault(definition.input, []).append(sink)
        for number, (frame, sinks) in enumerate(by_frame.items()):
            yield self._query("main" if number == 0 else frame, frame, sinks, set_aside)
        for source in self.sources.values():
            needs_query = source.dead_letter_topic or source.max_errors is not None
            if by_frame and source.name not in set_aside and needs_query:
                reading = (Read(source, source.settings(self.reads_as)), Decode(source))
                stages = (*reading, self._aside(source, ()))
                yield Query(f"dead.{source.name}", source.name, True, stages)

    def _query(self, name: str, frame: str, sinks: list[SinkWriter], set_aside: set[str]) -> Query:
        """The query for one table; notes in `set_aside` the source and the steps whose bad records
        it handles.
        """
        steps = self._needed(frame)
        inputs = {frame, *(table for step in steps for table in step.inputs)}
        sources = [source for name, source in self.sources.items() if name in inputs]
        carried = len(sources) == 1 and all(_rowwise(step) for step in steps)
        calls = {step.name for step in steps if isinstance(step, PythonRowsTransform)}
        handled: set[str] = set()
        refusals: list[Refuse] = []
        if carried and sources[0].bad_data != "fail":
            letters = sources[0].dead_letter_topic is not None
            refusals = [Refuse(sink, letters) for sink in sinks if isinstance(sink, KafkaSink)]
            refusing = {f"sink {refuse.sink.name}" for refuse in refusals}
            handled = {sources[0].name, *calls, *refusing} - set_aside
        stages: list[Stage] = []
        for source in sources:
            decode = _decode(source, bool(handled & calls), refusals)
            yields = replace(decode, keeps_bad=source.name in handled)
            stages += [Read(source, source.settings(self.reads_as)), yields]
            stages += self._select(source)
        stages += [*self._steps(steps, carried, handled, set_aside), *refusals]
        if handled:
            stages.append(self._aside(sources[0], tuple(sinks)))
        set_aside |= handled
        stages += [Write(sink, sink.settings()) for sink in sinks]
        return Query(name, frame, carried, tuple(stages))

    def _select(self, source: SourceReader) -> Iterator[Select]:
        definition = self.pipeline.source(source.name)
        if definition.columns:
            yield Select(source.name, definition.columns)

    def _way(self, query: Query) -> Way | None:
        """By lineage where each row comes from one record of a partition on the same cluster."""
        if not self.exactly_once or not query.clusters:
            return None
        (source, *others) = query.sources
        traced = query.carried and not others and isinstance(source, KafkaSource)
        return Way.LINEAGE if traced and query.clusters == {source.bootstrap} else Way.BATCH

    def _steps(
        self, steps: list[Transform], all_carried: bool, handled: set[str], set_aside: set[str]
    ) -> Iterator[Stage]:
        """Where not all rows can be traced, those up to a function of messages still are, so that
        it can name the record that it fails for.
        """
        calls = [step for step in steps if isinstance(step, PythonRowsTransform)]
        before = {step.name for call in calls for step in self._needed(call.name)}
        traced = {*self.sources}
        for step in steps:
            carried = all_carried or (
                step.name in before and _rowwise(step) and traced.issuperset(step.inputs)
            )
            if carried:
                traced.add(step.name)
            if not isinstance(step, PythonRowsTransform):
                yield Apply(step, carried)
                continue
            on_failure = OnFailure.STOPS
            if carried:
                on_failure = self._on_failure(step, all_carried, handled, set_aside)
            yield Call(step, carried, self._list_size(step), on_failure)

    def _on_failure(
        self,
        step: PythonRowsTransform,
        all_carried: bool,
        handled: set[str],
        set_aside: set[str],
    ) -> OnFailure:
        (source,) = self._sources_of(step)
        if source.bad_data == "fail":
            return OnFailure.STOPS
        if all_carried:
            return OnFailure.KEPT if step.name in handled else OnFailure.LEFT
        # They cannot be written by this query, and a second one, in which the function is called
        # again, may find others. To drop and count them is all that could be done.
        if source.bad_data != "skip" or source.max_errors is not None:
            return OnFailure.STOPS
        if step.name in set_aside:
            return OnFailure.LEFT
        set_aside.add(step.name)
        return OnFailure.KEPT

    def _sources_of(self, step: Transform) -> list[SourceReader]:
        tables = {table for each in self._needed(step.name) for table in each.inputs}
        return [source for name, source in self.sources.items() if name in tables]

    def _list_size(self, step: PythonRowsTransform) -> int:
        if step.batch_size is not None:
            return step.batch_size
        names = {source.name for source in self._sources_of(step)}
        options = [source.options for source in self.pipeline.sources if source.name in names]
        told = [each["batch_size"] for each in options if "batch_size" in each]
        return min(*told, LONGEST_LIST) if told else DEFAULT_LIST

    def _aside(self, source: SourceReader, sinks: tuple[SinkWriter, ...]) -> SetAside:
        """Dead letters ride with a Kafka sink on the same cluster, which saves a job each batch."""
        topic = source.dead_letter_topic
        beside = next(
            (s.name for s in sinks if isinstance(s, KafkaSink) and s.bootstrap == source.bootstrap),
            None,
        )
        return SetAside(source, topic, source.max_errors, beside if topic else None)

    def _needed(self, frame: str) -> list[Transform]:
        """The steps that the rows of `frame` come through, in the order of the definition."""
        wanted = {frame}
        for transform in reversed(self.pipeline.transforms):
            if transform.name in wanted:
                wanted.update(transform.inputs)
        return [step for step in self.pipeline.transforms if step.name in wanted]

    def _prepare(self, queries: list[Query]) -> Iterator[EnsureTopic]:
        for query in queries:
            for source in query.sources:
                if isinstance(source, KafkaSource):
                    for topic in source.topics:
                        purpose = f"read by `{source.name}`"
                        yield EnsureTopic(topic, source.bootstrap, purpose, False)
            if query.aside and query.aside.topic:
                purpose = f"dead letters of `{query.aside.source.name}`"
                servers = query.aside.source.bootstrap or ""
                yield EnsureTopic(query.aside.topic, servers, purpose, True)
            for write in query.writes:
                if isinstance(write.sink, KafkaSink):
                    yield from _written(write.sink)


def _followed(source: SourceReader) -> bool:
    """Whether Spark reads it as a stream."""
    return source.STREAMS and not (isinstance(source, KafkaSource) and source.shares)


def _written(sink: KafkaSink) -> Iterator[EnsureTopic]:
    new = sink.new_topic
    for topic in sink.topics:
        ensure = EnsureTopic(topic, sink.bootstrap, f"written by `{sink.name}`", new is not None)
        yield ensure if new is None else replace(ensure, **asdict(new))


def _decode(source: SourceReader, called: bool, refusals: list[Refuse]) -> Decode:
    """How good rows carry their record: all of it for what may refuse any, most often nothing."""
    if source.dead_letter_topic is None or not (called or refusals):
        return Decode(source)
    least = 0 if called else min(refuse.sink.least_refused for refuse in refusals)
    return Decode(source, originals=least)


def _rowwise(step: Transform) -> bool:
    """Whether each row of it can be traced to a record; a function of messages sees to that."""
    if isinstance(step, PythonRowsTransform):
        return True
    if not isinstance(step, SqlTransform):
        return False
    query, _ = SqlQuery.parse(step.sql, step.span)
    return query is not None and query.rowwise


def preview_query(pipeline: Pipeline) -> Query:
    """The reading half of a plan, for the rows of the last step; it writes nothing."""
    return _Planner(pipeline).reading_only()
