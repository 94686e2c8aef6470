"""A pipeline as its author meant it.

Made by a front-end, read by lint, the planner and `explain`. Two pipelines are equal when they mean
the same: places in files do not count. Nothing here knows Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from headrace.spans import Span
from headrace.spec import Expression, Options

NOWHERE = Span("", 1, 1)


class Mode(StrEnum):
    STREAM = "stream"
    BATCH = "batch"


class Guarantee(StrEnum):
    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


class OutputMode(StrEnum):
    """When a stream writes what it has summed up: once it is final, or whenever it changes."""

    APPEND = "append"
    UPDATE = "update"


@dataclass(frozen=True)
class Watermark:
    """How late a row may be: `delay_ms` behind the newest time of `column` seen so far."""

    column: str
    delay_ms: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Source:
    """`name` is the table that SQL reads.

    `metadata_table` is the path or name that the author gave for the positions of a batch; without
    `store_offsets` it has none. `columns` are what SQL sees, by SQL over the source's own columns;
    without any, it sees these.
    """

    name: str
    connector: str
    options: Options
    metadata_table: str | None = None
    store_offsets: bool = True
    watermark: Watermark | None = None
    columns: tuple[Expression, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class SqlTransform:
    """One SELECT; its rows can be read by later steps and by sinks under `name`.

    `previous` is the table that the word `input` stands for in it, where it is used.
    """

    name: str
    sql: str
    inputs: tuple[str, ...]
    previous: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class PythonTransform:
    """A function DataFrame -> DataFrame, named `module.function`, applied to the one `input`."""

    name: str
    function: str
    inputs: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class PythonRowsTransform:
    """A function from a list of messages to a list, named `module.function`, on the one `input`.

    `schema` are the columns of what comes back; without it they are those that went in. The most
    messages of a list are `batch_size`, or follow from the source.
    """

    name: str
    function: str
    inputs: tuple[str, ...]
    schema: str | None = None
    batch_size: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


class Remember(StrEnum):
    """How long a stream remembers the rows that it has seen."""

    WATERMARK = "watermark"
    FOREVER = "forever"


@dataclass(frozen=True)
class DeduplicateTransform:
    """Of the rows of the one `input` that are alike in the columns `by`, the first.

    How long a row is remembered follows from the watermark where `remember` does not say it.
    """

    name: str
    by: tuple[str, ...]
    inputs: tuple[str, ...]
    remember: Remember | None = None
    span: Span = field(default=NOWHERE, compare=False)


Transform = SqlTransform | PythonTransform | PythonRowsTransform | DeduplicateTransform


@dataclass(frozen=True)
class Sink:
    """`input` is the source or step whose rows it writes."""

    name: str
    connector: str
    input: str
    options: Options
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Pipeline:
    name: str
    mode: Mode
    guarantee: Guarantee
    sources: tuple[Source, ...]
    transforms: tuple[Transform, ...]
    sinks: tuple[Sink, ...]
    options: Options
    file: Path | None = field(default=None, compare=False)

    def source(self, name: str) -> Source:
        return next(source for source in self.sources if source.name == name)

    @property
    def bootstrap(self) -> str | None:
        """The Kafka cluster that it names first, which holds where a component names none."""
        parts = [part.options for part in self.sources] + [part.options for part in self.sinks]
        named = (options for options in parts if "bootstrap_server" in options)
        return next((str(options["bootstrap_server"]) for options in named), None)

    @property
    def output(self) -> str:
        """The rows that a preview shows: the last step's, or the source's when there is no step."""
        return self.transforms[-1].name if self.transforms else self.sources[-1].name
