"""The statements of Headrace's SQL, as data.

Made by `parser.parse`; read by `definitions`, which compiles pipelines, and by the shell, which
does them one by one. Every name and every value has its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.spans import Field, Span

Fields = Mapping[str, Field]


class Kind(StrEnum):
    """What a catalog can hold."""

    SECRET = "secret"
    CONNECTION = "connection"
    TABLE = "table"
    VIEW = "view"
    PIPELINE = "pipeline"


@dataclass(frozen=True)
class Name:
    text: str
    span: Span

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Fragment:
    """SQL that an author wrote inside a statement: a SELECT or an expression.

    `span.raw` is the same text, so that `span.within(sql, offset)` finds each of its letters.
    """

    sql: str
    span: Span


@dataclass(frozen=True)
class Statement:
    """`text` is the whole statement as it was written, without its semicolon."""

    text: str = field(repr=False)
    span: Span


@dataclass(frozen=True)
class Create(Statement):
    name: Name
    or_replace: bool
    if_not_exists: bool


@dataclass(frozen=True)
class Broken(Create):
    """What could not be read but for its name: whoever uses it is not told that it is unknown."""

    kind: Kind


@dataclass(frozen=True)
class CreateSecret(Create):
    """A value, or the environment variable that holds it. The value is in no `repr`."""

    value: str | None = field(repr=False)
    variable: str | None


@dataclass(frozen=True)
class CreateConnection(Create):
    connector: Name
    options: Fields


@dataclass(frozen=True)
class Column:
    """`type` is Spark's; None where a generated column leaves it to its expression."""

    name: Name
    type: str | None
    nullable: bool = True
    generated: Fragment | None = None


@dataclass(frozen=True)
class WatermarkFor:
    column: Name
    delay_ms: int
    span: Span


@dataclass(frozen=True)
class CreateTable(Create):
    """Without columns the schema comes from elsewhere: `columns` is None, never empty."""

    columns: tuple[Column, ...] | None
    watermark: WatermarkFor | None
    options: Fields


@dataclass(frozen=True)
class CreateView(Create):
    """`AS SELECT …`; or a step that is no SELECT, by options: `WITH ( python = 'shop.clean' )`."""

    query: Fragment | None
    options: Fields = field(default_factory=dict)


@dataclass(frozen=True)
class Insert(Statement):
    """`columns` are those named after the table, if any are."""

    table: Name
    columns: tuple[Name, ...]
    query: Fragment


@dataclass(frozen=True)
class CreatePipeline(Create):
    """`AS SELECT …`, or `AS BEGIN INSERT INTO …; … END` with a sink for each."""

    options: Fields
    query: Fragment | None
    inserts: tuple[Insert, ...] = ()


@dataclass(frozen=True)
class Drop(Statement):
    """`cascade` drops what depends on it, too; `purge` also the state of a pipeline."""

    kind: Kind
    name: Name
    if_exists: bool
    cascade: bool = False
    purge: bool = False


@dataclass(frozen=True)
class Show(Statement):
    """`SHOW CONNECTIONS`: `what` is a word of `SHOWN`. Or `create`, with the name of a thing."""

    what: str
    name: Name | None = None
    kind: Kind | None = None


SHOWN = (
    *("connections", "tables", "views", "pipelines", "secrets"),
    *("topics", "groups", "brokers", "dead_letters"),
)


@dataclass(frozen=True)
class Describe(Statement):
    name: Name
    kind: Kind | None = None


@dataclass(frozen=True)
class Explain(Statement):
    """Of a pipeline by its name, or of a statement that is not kept."""

    code: bool
    name: Name | None = None
    statement: Statement | None = None


class Verb(StrEnum):
    START = "start"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True)
class Control(Statement):
    """`START PIPELINE name WITH ( once = true )`."""

    verb: Verb
    name: Name
    options: Fields = field(default_factory=dict)


@dataclass(frozen=True)
class Set(Statement):
    """`SET scan = all`; without a value it is shown, without a name all are."""

    name: Name | None
    value: str | None


@dataclass(frozen=True)
class Select(Statement):
    query: Fragment
