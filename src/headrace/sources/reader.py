"""What a source is to the rest of Headrace.

`SourceKind` is asked while a definition is checked; it makes a `SourceReader`, which the plan holds
and the runtime reads from. Raw rows have the columns of Spark's Kafka reader (`RAW`), whatever they
come from, so that decoding, dead letters and metadata are the same for all; a source whose rows
need no decoding may give its own columns instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from headrace.model import pipeline as model
from headrace.model.offsets import Offsets, Range
from headrace.model.schema import Schema
from headrace.spans import Diagnostic
from headrace.spec import Options, Setting, Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.admin.client import Clusters

RAW = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


def decoded(form: str, schema: Schema, metadata: str, bad_data: str) -> str:
    """What a record of a declared schema becomes, in words."""
    bad = "; a bad record stops the pipeline" if bad_data == "fail" else ""
    return f"{form} into {decoded_as(schema)}{metadata}{bad}"


def decoded_as(schema: Schema) -> str:
    """Columns in words."""
    return ", ".join(
        f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in schema.columns
    )


@dataclass(frozen=True)
class SourceContext:
    """What a source may take from its pipeline; relative paths begin at `folder`.

    `bootstrap` is the Kafka cluster that the pipeline names first, if it names one.
    """

    pipeline: str
    folder: Path
    bootstrap: str | None


@dataclass(frozen=True)
class Access:
    """What a source may use on the driver to find its range; `warn` tells the operator."""

    spark: SparkSession
    clusters: Clusters
    warn: Callable[[str], None]


class SourceKind(Protocol):
    """What a source's class gives before there is a source: its options, its checks, its making."""

    SPEC: Spec
    STREAMS: bool
    REPLAYS: bool

    def __call__(self, source: model.Source, context: SourceContext) -> SourceReader: ...

    def check(self, options: Options) -> Iterable[Diagnostic]:
        """What is wrong with options that are each right by themselves; needs no cluster."""
        ...

    def columns(self, options: Options, doubtful: bool = False) -> tuple[str, ...] | None:
        """The columns that SQL can read, or None where they cannot be told.

        With `doubtful` options, of which some are wrong, all that might be meant are among them.
        """
        ...


class SourceReader(Protocol):
    """One source of one plan. Everything runs on the driver; Spark does the distributing."""

    # Whether Spark can follow it as a stream; another source is polled with batches instead.
    STREAMS: ClassVar[bool]
    # Whether a range that is read again gives the same records.
    REPLAYS: ClassVar[bool]

    @property
    def name(self) -> str: ...

    @property
    def origin(self) -> str:
        """Where its records come from, in words."""
        ...

    @property
    def shape(self) -> str:
        """What a record becomes, in words."""
        ...

    @property
    def bootstrap(self) -> str | None:
        """The Kafka cluster of its records and dead letters, if there is one."""
        ...

    @property
    def group(self) -> str | None:
        """The consumer group that shows its position; None where there is no Kafka to show it."""
        ...

    @property
    def bad_data(self) -> str:
        """What becomes of a bad record: `dlq`, `skip` or `fail`."""
        ...

    @property
    def dead_letter_topic(self) -> str | None: ...

    @property
    def max_errors(self) -> int | None:
        """How many bad records a batch may have."""
        ...

    @property
    def reason(self) -> str:
        """SQL for a sentence about a bad record, over rows that carry the hidden column."""
        ...

    def first(self, mode: model.Mode) -> Setting:
        """Where a run without a stored position begins."""
        ...

    def settings(self, mode: model.Mode) -> tuple[Setting, ...]:
        """What Spark's reader gets, each with its origin."""
        ...

    def reads(self, topic: str) -> bool:
        """Whether a position with this topic is one of its own."""
        ...

    def stream(self, spark: SparkSession) -> DataFrame:
        """Raw rows as they arrive; Spark's checkpoint decides where from. Only if `STREAMS`."""
        ...

    def find(self, access: Access, stored: Offsets) -> Range:
        """What is there to read now, given what was read before; `stored` is empty at first.

        Called once a batch. Raises DataLoss where records that were not read are gone, unless
        its options say to go on.
        """
        ...

    def newest(self, access: Access, count: int) -> Range:
        """About the last `count` records, for a preview."""
        ...

    def batch(self, spark: SparkSession, found: Range) -> DataFrame:
        """Raw rows of exactly this range; the same ones again if it `REPLAYS`.

        A range without any place has no rows: it is asked for when only their types are wanted.
        """
        ...

    def decode(self, raw: DataFrame, originals: int | None = None) -> DataFrame:
        """Its columns and the hidden column, a row for each record.

        Good rows carry the bytes of their record too, as bad ones always do, if it has at least
        `originals` of them.
        """
        ...
