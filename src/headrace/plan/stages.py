"""The stages of a plan. Data only: built by `planner`, walked by `explain` and by the runtime."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.pipeline import Pipeline, Transform
from headrace.sinks.writer import SinkWriter
from headrace.sources.reader import SourceReader
from headrace.spec import Setting


@dataclass(frozen=True)
class EnsureTopic:
    """Before the first batch: a topic that must be there; `create` it, or refuse to start."""

    topic: str
    bootstrap: str
    purpose: str
    create: bool


@dataclass(frozen=True)
class Read:
    source: SourceReader
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Decode:
    """Bytes to columns; a record that does not fit is a row with a reason.

    `originals`: good rows carry their record's bytes, for a later stage that may refuse them.
    """

    source: SourceReader
    originals: bool = False


@dataclass(frozen=True)
class Apply:
    """One step. `carried`: its rows keep the hidden column, bad ones included."""

    transform: Transform
    carried: bool


@dataclass(frozen=True)
class SetAside:
    """What becomes of the bad records of one source.

    `topic` is None when they are only counted. `beside` names the sink in whose job they are
    written; without it they are a job of their own.
    """

    source: SourceReader
    topic: str | None
    limit: int | None
    beside: str | None = None

    @property
    def alone(self) -> bool:
        """Whether they are written by a job of their own."""
        return self.topic is not None and self.beside is None


@dataclass(frozen=True)
class Write:
    sink: SinkWriter
    settings: tuple[Setting, ...]


Stage = Read | Decode | Apply | SetAside | Write


@dataclass(frozen=True)
class Query:
    """Stages that are one Spark query, and so write batch by batch from one position.

    `frame` is the table whose rows are written; `carried` says whether these hold the hidden
    column.
    """

    name: str
    frame: str
    carried: bool
    stages: tuple[Stage, ...]

    @property
    def sources(self) -> tuple[SourceReader, ...]:
        return tuple(stage.source for stage in self.stages if isinstance(stage, Read))

    @property
    def decodes(self) -> tuple[Decode, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Decode))

    @property
    def transforms(self) -> tuple[Apply, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Apply))

    @property
    def aside(self) -> SetAside | None:
        return next((stage for stage in self.stages if isinstance(stage, SetAside)), None)

    @property
    def writes(self) -> tuple[Write, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Write))


@dataclass(frozen=True)
class Promise:
    """What one target can rely on when something fails in the middle."""

    target: str
    kept: str
    because: str


@dataclass(frozen=True)
class Plan:
    pipeline: Pipeline
    prepare: tuple[EnsureTopic, ...]
    queries: tuple[Query, ...]
    promises: tuple[Promise, ...]

    @property
    def sources(self) -> tuple[SourceReader, ...]:
        """Each source once, in the order of the definition."""
        found = {source.name: source for query in self.queries for source in query.sources}
        return tuple(found[s.name] for s in self.pipeline.sources if s.name in found)

    @property
    def polled(self) -> bool:
        """Whether a stream of it is made of batches, as one of its sources cannot be followed."""
        return any(not source.STREAMS for source in self.sources)

    def counted_by(self, query: Query) -> tuple[str, ...]:
        """The sources whose records are counted in this query: those that no earlier one reads."""
        earlier = {
            source.name
            for other in self.queries[: self.queries.index(query)]
            for source in other.sources
        }
        return tuple(source.name for source in query.sources if source.name not in earlier)

    @property
    def sinks(self) -> tuple[SinkWriter, ...]:
        return tuple(write.sink for query in self.queries for write in query.writes)
