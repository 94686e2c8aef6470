"""The impulse source: rows that are made up, for examples, tests and measurements without a Kafka.

Row number `n` is the same whenever it is made: its time follows from `n`, `rand()` is computed from
`n`, and functions that would differ from run to run are refused. So a position is the next `n`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from sqlglot.dialects import Spark
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from headrace.formats.carried import COLUMN, located
from headrace.model import expressions
from headrace.model import pipeline as model
from headrace.model.functions import UNREPEATABLE
from headrace.model.offsets import Offsets, Range
from headrace.model.schema import literal, quote
from headrace.sources.plain import PlainSource, register
from headrace.sources.reader import Access
from headrace.spans import Diagnostic, Span
from headrace.spec import Option, Options, Setting, Spec, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INPUTS = ("n", "at")
# Of rows without an end a preview takes no more, whatever it is asked for.
_ENOUGH_ROWS = 100_000
_RANDOM = ("rand", "random")
_TEXTS = (TokenType.STRING, TokenType.IDENTIFIER)


def _time_fault(text: str) -> str | None:
    try:
        _micros(text)
    except ValueError:
        return "must be a time such as 2026-01-01T00:00:00Z"
    return None


def _micros(text: str) -> int:
    time = datetime.datetime.fromisoformat(text)
    aware = time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
    return round(aware.timestamp() * 1_000_000)


@dataclass(frozen=True)
class ImpulseSource(PlainSource):
    STREAMS: ClassVar[bool] = True
    REPLAYS: ClassVar[bool] = True
    SPEC: ClassVar[Spec] = Spec(
        "source",
        "impulse",
        "Rows that are made up, so many a second.",
        (
            Option(
                "rate",
                Type.INTEGER,
                "How many rows a second a stream makes. A batch, and a stream that is run once, "
                "make all rows that are left at once.",
                default=1,
                minimum=1,
            ),
            Option(
                "count",
                Type.INTEGER,
                "How many rows there are; then a stream waits and a batch has nothing to read. "
                "Default: no end, which only a stream can have.",
                minimum=1,
                example="1000",
            ),
            Option(
                "fields",
                Type.PROPERTIES,
                "The columns: a name and an SQL expression for each, over `n` (0, 1, 2, …) and "
                "`at` (`start`, and then `rate` rows a second). `rand()` is the same for the same "
                "`n`. Default: `n` and `at` themselves.",
                default={},
                example="{id: n, customer: \"concat('C-', n % 100)\", amount: rand() * 90}",
            ),
            Option(
                "start",
                Type.TEXT,
                "The time `at` of the first row, in UTC unless it says otherwise.",
                default="2026-01-01T00:00:00Z",
                validate=_time_fault,
            ),
            Option(
                "partitions",
                Type.INTEGER,
                "How many tasks make the rows of a batch.",
                default=1,
                minimum=1,
            ),
        ),
    )

    @staticmethod
    def check(options: Options) -> Iterator[Diagnostic]:
        where = options.at("fields")
        for name, expression in options["fields"].items():
            if name.lower() == COLUMN:
                message = f"`{name}` is a column that Headrace needs for itself"
                yield Diagnostic("CONFLICT", message, where, "choose another name")
            yield from _field_faults(name, expression, where)

    @staticmethod
    def columns(options: Options, doubtful: bool = False) -> tuple[str, ...] | None:  # noqa: ARG004
        return tuple(options["fields"]) or INPUTS

    @property
    def rate(self) -> int:
        return int(self.options["rate"])

    @property
    def count(self) -> int | None:
        return self.options["count"]  # type: ignore[no-any-return]

    @property
    def origin(self) -> str:
        amount = f"{self.count} rows" if self.count else "rows without end"
        return f"{amount} that are made up, {self.rate} a second"

    @property
    def shape(self) -> str:
        fields = ", ".join(f"{sql} AS {name}" for name, sql in self.options["fields"].items())
        return f"numbers into {fields or 'n, at'}"

    def first(self, mode: model.Mode) -> Setting:  # noqa: ARG002
        return Setting("start", "row 0", "rows are numbered")

    def settings(self, mode: model.Mode) -> tuple[Setting, ...]:  # noqa: ARG002
        chosen = ("rate", "count") if self.count else ("rate",)
        return tuple(self.options.setting(name, name) for name in (*chosen, "partitions"))

    def find(self, access: Access, stored: Offsets) -> Range:  # noqa: ARG002
        """All that are left; without an end, which no batch has, those of one second."""
        start = stored.get(self.key, 0)
        end = self.count or start + self.rate
        return self.span_of(start, max(end, start), "records")

    def newest(self, access: Access, count: int) -> Range:  # noqa: ARG002
        """There is no newest row, so the first ones show what all are like."""
        shown = min(count, self.count or _ENOUGH_ROWS)
        found = self.span_of(0, shown, "records")
        return replace(found, partial=shown != self.count)

    def batch(self, spark: SparkSession, found: Range) -> DataFrame:
        start, end = found.start.get(self.key, 0), found.end.get(self.key, 0)
        return spark.range(start, end, 1, self.options["partitions"]).withColumnRenamed("id", "n")

    def stream(self, spark: SparkSession) -> DataFrame:
        from headrace.sources.impulse_stream import Impulse

        reader = spark.readStream.format(register(spark, Impulse))
        reader = reader.option("topic", self.topic)
        for setting in self.settings(model.Mode.STREAM):
            reader = reader.option(setting.name, setting.value)
        return reader.load()

    def decode(self, raw: DataFrame, originals: int | None = None) -> DataFrame:  # noqa: ARG002
        since = f"(n * 1000000) DIV {self.rate}"
        at = f"timestamp_micros({_micros(self.options['start'])} + {since})"
        timed = raw.selectExpr("n", f"{at} AS at")
        place = located(literal(self.topic), offset="n", timestamp="at")
        fields = self.options["fields"] or {name: name for name in INPUTS}
        columns = [f"{_seeded(sql, name)} AS {quote(name)}" for name, sql in fields.items()]
        return timed.selectExpr(*columns, f"{place} AS {COLUMN}")


def _field_faults(name: str, expression: str, where: Span) -> Iterator[Diagnostic]:
    found = list(expressions.faults(f"fields.{name}", expression, where, INPUTS, "`n` and `at`"))
    yield from found
    for word in _unrepeatable(expression) if not found else ():
        message = f"`fields.{name}`: `{word}` gives something else each time a row is made"
        hint = "use `rand()`, `n` and `at`; for an id, `md5(CAST(n AS STRING))`"
        yield Diagnostic("BAD_VALUE", message, where, hint)


def _unrepeatable(expression: str) -> Iterator[str]:
    """Words that stand for something else each time; `rand()` is none, as it will be seeded."""
    seeded = {start for start, _ in _random_calls(expression)}
    for token in Spark().tokenize(expression):
        word = token.text.lower()
        if word in UNREPEATABLE and token.start not in seeded and token.token_type not in _TEXTS:
            yield word


def _seeded(expression: str, name: str) -> str:
    """With each `rand()` as a number in [0, 1) that follows from `n`, the field and its place."""
    for start, end in reversed(list(_random_calls(expression))):
        hashed = f"xxhash64(n, {literal(name)}, {start})"
        number = f"(pmod({hashed}, 9007199254740992) / 9007199254740992D)"
        expression = expression[:start] + number + expression[end:]
    return expression


def _random_calls(expression: str) -> Iterator[tuple[int, int]]:
    """Where each `rand()` begins and ends."""
    tokens: list[Token] = Spark().tokenize(expression)
    for word, opening, closing in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if word.text.lower() in _RANDOM and (opening.text, closing.text) == ("(", ")"):
            yield word.start, closing.end + 1
