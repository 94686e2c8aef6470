"""What a sink is to the rest of Headrace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from headrace.errors import DefinitionError
from headrace.model import pipeline as model
from headrace.spans import Diagnostic
from headrace.spec import Options, Setting, Spec, unknown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class SinkContext:
    """What a sink may take from its pipeline; relative paths begin at `folder`.

    `bootstrap` is the Kafka cluster that the pipeline names first, if it names one. `exactly_once`
    is what the pipeline asks for.
    """

    pipeline: str
    folder: Path
    bootstrap: str | None
    exactly_once: bool = False

    def located(self, path: str) -> str:
        return path if "://" in path else str(self.folder / path)


class Way(StrEnum):
    """How messages are written exactly once.

    By lineage, what each partition of the source has come to is noted with them; by batch, the
    number of the batch is.
    """

    LINEAGE = "by lineage"
    BATCH = "by batch"


@dataclass(frozen=True)
class Once:
    """What is needed to write a batch exactly once.

    `number` is that of the batch, `life` tells which notes count, `owner` is this run. `starts` and
    `ends` are those of the batch's range in each partition of a Kafka source; `topic_ids` are the
    ids of topics. A task dies at the point `dies_at`, and takes the process `dies_with` along: for
    proofs.
    """

    way: Way
    life: str
    owner: str
    number: int = 0
    starts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    dies_at: str | None = None
    dies_with: int | None = None

    @property
    def ranges(self) -> dict[tuple[str, int], int]:
        """The ends of the ranges that hold something; of a new partition no start is known."""
        return {key: end for key, end in self.ends.items() if end > self.starts.get(key, -1)}


@dataclass(frozen=True)
class Batch:
    """One batch of one run. `id` grows, and stays the same for a batch that is written again.

    `generation` changes when a pipeline's state is made anew, so that ids of another life do not
    count. `positions` is where the sources stand after it, as JSON, for targets that keep a note
    with each commit. `once` is there where messages are to be written exactly once.
    """

    id: int | None
    generation: str
    positions: str | None = None
    once: Once | None = None


def column_twice(options: Options, columns: Iterable[str] | None) -> Iterator[Diagnostic]:
    """Rows that a target with named columns cannot take."""
    seen: set[str] = set()
    for column in columns or ():
        if column.lower() in seen:
            message = f"the rows of this sink have two columns `{column}`"
            hint = "name one of them otherwise, or use `* EXCEPT (…)`"
            yield Diagnostic("COLUMN_TWICE", message, options.span, hint)
        seen.add(column.lower())


def unknown_partitions(options: Options, columns: Iterable[str]) -> Iterator[Diagnostic]:
    """What `partition_by` names and the rows have not."""
    names = tuple(columns)
    known = {column.lower() for column in names}
    for name in options["partition_by"] or ():
        if name.lower() not in known:
            yield unknown("column", name, names, options.at("partition_by"), "of these rows")


class SinkKind(Protocol):
    """What a sink's class gives before there is a sink: its options, its checks, its making."""

    SPEC: Spec
    # Whether writing a batch again with the same id leaves the target as after the first time.
    REPLAY_SAFE: bool
    # Whether `write` gets the hidden column, and tombstones among the rows, where they are known.
    CARRIED: bool

    def __call__(self, sink: model.Sink, context: SinkContext) -> SinkWriter: ...

    def check(self, options: Options, columns: tuple[str, ...] | None) -> Iterable[Diagnostic]:
        """Faults that need no cluster; `columns` are those of its rows, where they are known."""
        ...


class SinkWriter(Protocol):
    """One sink of one plan. Made and used on the driver only; Spark does the distributing."""

    REPLAY_SAFE: ClassVar[bool]
    CARRIED: ClassVar[bool]

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> str:
        """Where it writes, in words."""
        ...

    def settings(self) -> tuple[Setting, ...]:
        """What Spark's writer gets, each with its origin."""
        ...

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Write all of `rows` before returning.

        These are good rows without the hidden column. A sink that is `CARRIED` gets them with it,
        and tombstones too, if the plan's query is row-wise; else as the others do.

        Called on the driver once for each batch, and again with the same batch after a crash. It
        must not return before the target has acknowledged everything: what is not written then is
        lost.
        """
        ...


class NotScripted(DefinitionError):
    """A sink that only Headrace can write as its options ask, or a source that only it can read."""

    def __init__(self, name: str, reason: str, kind: str = "sink") -> None:
        super().__init__(
            f"there is no script for this pipeline: {kind} `{name}`: {reason}",
            hint="run it with `headrace run`; `headrace explain` says what it does",
        )


@runtime_checkable
class Scripted(Protocol):
    """A sink whose `write` looks at rows, so that what it does cannot be written down as a script.

    It says what comes nearest with Spark alone.
    """

    def scripted(self, rows: DataFrame, batch: Batch) -> None:
        """Called by the code view with a stand-in for good rows, whose calls are the script.

        Raises `NotScripted` where Spark alone has nothing that comes near.
        """
        ...


@runtime_checkable
class Reachable(Protocol):
    """A sink that can find out before the first batch whether its target would take one."""

    def reach(self, spark: SparkSession) -> None:
        """Raises what a batch would fail with; changes nothing.

        Called on the driver, once for each run. A pipeline whose sink cannot be reached must say so
        at once, and not when the first record comes.
        """
        ...


@runtime_checkable
class Remembers(Protocol):
    """A sink that is replay-safe because its target knows the newest batch that it has."""

    def newest(self, spark: SparkSession, generation: str) -> int | None:
        """The number of that batch; None if the target has none of this generation.

        Called on the driver, once for each run and before anything is written.
        """
        ...
