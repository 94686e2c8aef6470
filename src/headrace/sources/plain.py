"""What the sources that are no Kafka have in common.

`PlainSource` answers for one whose rows come decoded: none can be bad, no consumer group shows its
position, and a single (topic, partition) holds it. A source that differs says so in its own file.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import InternalError
from headrace.formats.carried import COLUMN
from headrace.model import pipeline as model
from headrace.model.offsets import Offsets, Range
from headrace.model.schema import Schema
from headrace.sources.reader import SourceContext
from headrace.spans import Diagnostic
from headrace.spec import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource


@dataclass(frozen=True)
class PlainSource:
    source: model.Source
    context: SourceContext

    @staticmethod
    def check(options: Options) -> Iterator[Diagnostic]:  # noqa: ARG004
        yield from ()

    @staticmethod
    def columns(options: Options, doubtful: bool = False) -> tuple[str, ...] | None:  # noqa: ARG004
        """Only Spark can tell."""
        return None

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def options(self) -> Options:
        return self.source.options

    @property
    def topic(self) -> str:
        """What stands for a topic in its positions."""
        return self.name

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, 0

    @property
    def bootstrap(self) -> str | None:
        return None

    @property
    def group(self) -> None:
        return None

    @property
    def bad_data(self) -> str:
        return "fail"

    @property
    def dead_letter_topic(self) -> str | None:
        return None

    @property
    def max_errors(self) -> int | None:
        return None

    @property
    def reason(self) -> str:
        return "CAST(NULL AS STRING)"

    def reads(self, topic: str) -> bool:
        return topic == self.topic

    def stream(self, spark: SparkSession) -> DataFrame:  # noqa: ARG002
        raise InternalError(f"`{self.name}` is polled and was asked for a stream")

    def located(self, path: str) -> str:
        """A path of its options; a relative one begins beside the pipeline file."""
        return path if "://" in path else str(self.context.folder / path)

    def span_of(self, start: int, end: int, unit: str) -> Range:
        """A range of its one partition."""
        offsets: tuple[Offsets, Offsets] = ({self.key: start}, {self.key: end})
        return Range(*offsets, unit=unit)


def register(spark: SparkSession, kind: type[DataSource]) -> str:
    """Make a Python data source known to Spark; the name to read it by.

    Sessions that share a JVM may refuse a name that another of them has used, so each gets its own.
    """
    name = f"headrace_{uuid.uuid4().hex}"
    spark.dataSource.register(type(kind.__name__, (kind,), {"name": classmethod(lambda _: name)}))
    return name


def name_clashes(options: Options, taken: tuple[str, ...] = (COLUMN,)) -> Iterator[Diagnostic]:
    """Columns of `schema` that something else is called."""
    for name in Schema.parse(options["schema"]).names:
        if name.lower() in taken:
            message = f"the schema declares `{name}`, a column that Headrace needs for itself"
            yield Diagnostic("CONFLICT", message, options.at("schema"), f"remove `{name}` from it")


def unchecked_not_null(options: Options) -> Iterator[Diagnostic]:
    """NOT NULL in a schema of rows that come decoded, where nothing would look at it."""
    for name in Schema.parse(options["schema"]).required:
        message = f"`{name}` is NOT NULL in the schema, which is not checked in rows of this kind"
        hint = f"leave NOT NULL out, and filter in a step: WHERE {name} IS NOT NULL"
        yield Diagnostic("CONFLICT", message, options.at("schema"), hint)
