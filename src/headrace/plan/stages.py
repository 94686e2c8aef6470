"""The stages of a plan. Data only: built by `planner`, walked by `explain` and by the runtime."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headrace.model.pipeline import (
    DeduplicateTransform,
    Mode,
    OutputMode,
    Pipeline,
    PythonRowsTransform,
    PythonTransform,
    SqlTransform,
)
from headrace.model.stateful import Kept
from headrace.sinks.kafka import KafkaSink
from headrace.sinks.writer import SinkWriter, Way
from headrace.sources.kafka import KafkaSource
from headrace.sources.reader import SourceReader
from headrace.spec import Expression, Setting


@dataclass(frozen=True)
class EnsureTopic:
    """Before the first batch: a topic that must be there; `create` it, or refuse to start.

    A count that is None is the brokers' own default.
    """

    topic: str
    bootstrap: str
    purpose: str
    create: bool
    partitions: int | None = None
    replication: int | None = None
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Read:
    source: SourceReader
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Decode:
    """Bytes to columns; a record that does not fit is a row with a reason.

    Good rows whose value has at least `originals` bytes carry their record, for a later stage that
    may refuse them; with None, no good row does.
    `keeps_bad`: bad records stay in the query; otherwise another one sets them aside.
    """

    source: SourceReader
    originals: int | None = None
    keeps_bad: bool = True


@dataclass(frozen=True)
class Select:
    """The columns that the definition gives to a source; its rows keep the hidden column."""

    table: str
    columns: tuple[Expression, ...]


@dataclass(frozen=True)
class Apply:
    """One step. `carried`: its rows keep the hidden column, bad ones included."""

    transform: SqlTransform | PythonTransform | DeduplicateTransform
    carried: bool


class OnFailure(StrEnum):
    """What becomes of a record that the function of a step fails for."""

    KEPT = "it is a bad record"
    LEFT = "it is a bad record, which another query sets aside"
    STOPS = "the pipeline stops"


@dataclass(frozen=True)
class Call:
    """One step that is a function of messages, called with lists of at most `batch_size`.

    Not `carried` are the rows of a step before it that no one can trace.
    """

    transform: PythonRowsTransform
    carried: bool
    batch_size: int
    on_failure: OnFailure


@dataclass(frozen=True)
class Watermark:
    """The rows of a table get a watermark, where they stop being traced to records."""

    table: str
    column: str
    delay_ms: int


@dataclass(frozen=True)
class Refuse:
    """Rows that a sink cannot write become bad records, for every sink of the query.

    `letters`: bad records become dead letters, so only rows that carry their record's bytes do.
    """

    sink: KafkaSink
    letters: bool


@dataclass(frozen=True)
class SetAside:
    """What becomes of the bad records of one source.

    `topic` is None when they are only counted. `beside` names the sink in whose job they are
    written; without it they are a job of their own. How `largest` a letter may be is known when a
    run begins.
    """

    source: SourceReader
    topic: str | None
    limit: int | None
    beside: str | None = None
    largest: int = 0

    @property
    def alone(self) -> bool:
        """Whether they are written by a job of their own."""
        return self.topic is not None and self.beside is None


@dataclass(frozen=True)
class Write:
    sink: SinkWriter
    settings: tuple[Setting, ...]


Stage = Read | Decode | Select | Apply | Call | Watermark | Refuse | SetAside | Write


@dataclass(frozen=True)
class Query:
    """Stages that are one Spark query, and so write batch by batch from one position.

    `frame` is the table whose rows are written; `carried` says whether these hold the hidden
    column. `way` is how its messages are written exactly once, where that is asked for. What a
    stream remembers between batches is `kept`.
    """

    name: str
    frame: str
    carried: bool
    stages: tuple[Stage, ...]
    way: Way | None = None
    kept: tuple[Kept, ...] = ()
    output_mode: OutputMode = OutputMode.APPEND

    @property
    def sources(self) -> tuple[SourceReader, ...]:
        return tuple(stage.source for stage in self.stages if isinstance(stage, Read))

    @property
    def decodes(self) -> tuple[Decode, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Decode))

    @property
    def selects(self) -> tuple[Select, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Select))

    @property
    def transforms(self) -> tuple[Apply | Call, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Apply | Call))

    @property
    def watermarks(self) -> tuple[Watermark, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Watermark))

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Call))

    @property
    def refusals(self) -> tuple[Refuse, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Refuse))

    @property
    def aside(self) -> SetAside | None:
        return next((stage for stage in self.stages if isinstance(stage, SetAside)), None)

    @property
    def writes(self) -> tuple[Write, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, Write))

    @property
    def kafka_sinks(self) -> tuple[KafkaSink, ...]:
        return tuple(write.sink for write in self.writes if isinstance(write.sink, KafkaSink))

    @property
    def clusters(self) -> set[str]:
        """The addresses of the Kafka clusters that it writes to."""
        found = {sink.bootstrap for sink in self.kafka_sinks}
        aside = self.aside
        if aside is not None and aside.topic is not None:
            found.add(aside.source.bootstrap or "")
        return found


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
        """Whether it is a stream made of batches, as one of its sources cannot be followed."""
        stream = self.pipeline.mode is Mode.STREAM
        return stream and any(not source.STREAMS for source in self.sources)

    @property
    def shared(self) -> KafkaSource | None:
        """The source whose partitions are shared with others of its group; it is then the only one.

        Such a stream is made of batches, too, and its position is that of the group.
        """
        found = (each for each in self.sources if isinstance(each, KafkaSource) and each.shares)
        return next(found, None)

    @property
    def in_batches(self) -> bool:
        """Whether Headrace finds each range and stores the position, and not Spark."""
        return self.pipeline.mode is Mode.BATCH or self.polled or self.shared is not None

    @property
    def poll_ms(self) -> int:
        """The least time between the starts of two batches of a polled stream."""
        return int(self.pipeline.options["trigger"] or 1000)

    @property
    def reads_as(self) -> Mode:
        """How its sources are read: a stream that is made of batches is read as they are."""
        return Mode.BATCH if self.in_batches else self.pipeline.mode

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
