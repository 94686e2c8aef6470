"""From a pipeline to a plan. No side effects: nothing is asked of a cluster and no JVM is started.

Sinks that write the same rows share a query, and so one position. The bad records of a source are
written by the first query in which every row can be traced to its record; where there is none, they
get a query of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headrace.model.pipeline import Pipeline, SqlTransform, Transform
from headrace.model.query import Query as SqlQuery
from headrace.plan import promises
from headrace.plan.stages import (
    Apply,
    Decode,
    EnsureTopic,
    Plan,
    Query,
    Read,
    SetAside,
    Stage,
    Write,
)
from headrace.sinks import SINKS
from headrace.sinks.kafka import KafkaSink
from headrace.sinks.writer import SinkContext, SinkWriter
from headrace.sources import SOURCES
from headrace.sources.kafka import KafkaSource
from headrace.sources.reader import SourceContext, SourceReader


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
        sink_context = SinkContext(pipeline.name, folder, pipeline.bootstrap)
        self.sinks: list[SinkWriter] = [
            SINKS[sink.connector](sink, sink_context) for sink in pipeline.sinks
        ]
        self.transforms = {transform.name: transform for transform in pipeline.transforms}

    def plan(self) -> Plan:
        queries = list(self._queries())
        ensured = tuple(dict.fromkeys(self._prepare(queries)))
        result = Plan(self.pipeline, ensured, tuple(queries), ())
        return replace(result, promises=promises.of(result))

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
                stages = (*self._reading([source]), self._aside(source, ()))
                yield Query(f"dead.{source.name}", source.name, True, stages)

    def _query(self, name: str, frame: str, sinks: list[SinkWriter], set_aside: set[str]) -> Query:
        """The query for one table; notes in `set_aside` the source whose bad records it handles."""
        steps = self._needed(frame)
        inputs = {frame, *(table for step in steps for table in step.inputs)}
        sources = [source for name, source in self.sources.items() if name in inputs]
        carried = len(sources) == 1 and all(_rowwise(step) for step in steps)
        stages: list[Stage] = [*self._reading(sources)]
        stages += [Apply(step, carried) for step in steps]
        if carried and sources[0].name not in set_aside and sources[0].bad_data != "fail":
            set_aside.add(sources[0].name)
            stages.append(self._aside(sources[0], tuple(sinks)))
        stages += [Write(sink, sink.settings()) for sink in sinks]
        return Query(name, frame, carried, tuple(stages))

    def _reading(self, sources: list[SourceReader]) -> Iterator[Stage]:
        for source in sources:
            yield Read(source, source.settings(self.pipeline.mode))
            yield Decode(source)

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
                    sink = write.sink
                    create: bool = sink.sink.options["create_topic"]
                    purpose = f"written by `{sink.name}`"
                    yield EnsureTopic(sink.topic, sink.bootstrap, purpose, create)


def _rowwise(step: Transform) -> bool:
    if not isinstance(step, SqlTransform):
        return False
    query, _ = SqlQuery.parse(step.sql, step.span)
    return query is not None and query.rowwise


def preview_query(pipeline: Pipeline) -> Query:
    """The reading half of a plan, for the rows of the last step; it writes nothing."""
    return _Planner(pipeline).reading_only()
