"""SQL of an operator's about dead letters: `--where` picks some, `--patch` changes them.

It is Spark's SQL, as in the steps of a pipeline, over one row a letter. Its form is checked without
Spark (`parse_where`, `parse_patch`), its columns and types when `Expressions` is made, both before
any letter is read. A letter for which an expression fails is told apart from the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.admin.letters import Letter
from headrace.errors import DefinitionError
from headrace.frontend.options import PIPELINE
from headrace.model.functions import BUILT_IN_COLUMNS
from headrace.model.pipeline import Guarantee, Mode, Pipeline
from headrace.model.query import Query
from headrace.model.schema import literal
from headrace.runtime import failures
from headrace.runtime.session import settings, start
from headrace.spans import Diagnostic, Span
from headrace.spec import Options

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = {
    "value": "CAST(value AS STRING)",
    "json": "try_parse_json(CAST(value AS STRING))",
    "key": "CAST(key AS STRING)",
    "headers": "headers",
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp_millis(timestamp)",
    "error": "error",
    "message": "message",
    "pipeline": "pipeline",
    "attempts": "attempts",
    "time": "timestamp_millis(time)",
}
_TARGET = re.compile(r"\s*(?:(value|key)|json:(?:(\w+)|`([^`]+)`))\s*=(?!=)", re.IGNORECASE)
_TABLE = "letters"
_LEAD = "SELECT "
_OBJECT = "MAP<STRING, VARIANT>"
_NAME = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")
_PLACE = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")


@dataclass(frozen=True)
class Expression:
    """One SQL expression, well-formed and about one letter at a time."""

    text: str
    span: Span


@dataclass(frozen=True)
class Patch:
    """What is set, `value`, `key` or a `field` of the JSON in the value, and to what."""

    expression: Expression
    part: str
    field: str | None = None


@dataclass(frozen=True)
class Failed:
    """An expression that gives nothing usable for one letter."""

    reason: str


@dataclass(frozen=True)
class Patched:
    key: bytes | None
    value: bytes | None


def parse_where(text: str) -> Expression:
    return _expression(text, Span("--where", 1, 1, text))


def parse_patches(texts: Sequence[str]) -> tuple[Patch, ...]:
    patches = tuple(map(_parse_patch, texts))
    targets = [(patch.part, patch.field) for patch in patches]
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice:
        raise DefinitionError(f"--patch sets {'json:' + twice[1] if twice[1] else twice[0]} twice")
    if ("value", None) in targets and any(field for _, field in targets):
        raise DefinitionError(
            "--patch sets the value, and a field of it besides", hint="set one or the other"
        )
    return patches


def _parse_patch(text: str) -> Patch:
    target = _TARGET.match(text)
    if target is None:
        raise DefinitionError(
            f"--patch `{text}` does not say what is set",
            hint="write `value = …`, `key = …`, or `json:amount = …` for a field of the value",
        )
    expression = text[target.end() :]
    lead = len(expression) - len(expression.lstrip())
    span = Span("--patch", 1, target.end() + lead + 1, expression.strip())
    part, field = (target[1] or "value").lower(), target[2] or target[3]
    return Patch(_expression(expression.strip(), span), part, field)


def _expression(text: str, span: Span) -> Expression:
    """Refuses what is no single expression over the columns of one letter, with every reason."""
    query, faults = Query.parse(f"{_LEAD}{text}\nFROM {_TABLE}", span, len(_LEAD), len(text))
    if query is not None and not faults:
        known = {_TABLE: (*COLUMNS, *BUILT_IN_COLUMNS)}
        faults = [*query.unknown_columns(known, "of a letter"), *_shape(query, span)]
    if faults:
        raise DefinitionError(f"{span.file} `{text}` has {len(faults)} fault(s)", faults)
    return Expression(text, span)


def _shape(query: Query, span: Span) -> Iterator[Diagnostic]:
    if len(query.tree.selects) != 1 or query.tree.selects[0].is_star:
        yield Diagnostic("SQL_SYNTAX", "one expression is needed here", span)
    elif not query.rowwise:
        message = "an expression about one letter is needed here: no aggregate, window or query"
        yield Diagnostic("SQL_SYNTAX", message, span)


@contextmanager
def spark_session(log: Path, debug: bool = False) -> Iterator[SparkSession]:
    """A Spark for expressions, on this machine, for the length of the block."""
    nothing = Pipeline(
        "dlq", Mode.BATCH, Guarantee.AT_LEAST_ONCE, (), (), (), Options(PIPELINE, {})
    )
    session = start(settings(nothing), log, debug)
    try:
        yield session
    finally:
        session.stop()


class Expressions:
    """The expressions of one command, ready to be asked about letters."""

    def __init__(
        self, spark: SparkSession, where: Expression | None = None, patches: Sequence[Patch] = ()
    ) -> None:
        self._spark = spark
        self._where = where
        self._patches = tuple(patches)
        self._check()

    def chosen(self, letters: Sequence[Letter]) -> list[bool | Failed]:
        """For each letter whether `--where` holds; NULL is no."""
        if self._where is None:
            return [True] * len(letters)
        columns = [_column(self._where).alias("chosen")]
        return [
            row if isinstance(row, Failed) else bool(row["chosen"])
            for row in self._ask(letters, columns)
        ]

    def patched(self, letters: Sequence[Letter]) -> list[Patched | Failed]:
        """Key and value of each letter as the patches make them."""
        if not self._patches:
            return [Patched(each.record.key, each.record.value) for each in letters]
        rows = self._ask(letters, self._patching())
        return [self._patch(*pair) for pair in zip(letters, rows, strict=True)]

    def _patch(self, letter: Letter, row: dict[str, Any] | Failed) -> Patched | Failed:
        if isinstance(row, Failed):
            return row
        fields = [patch.field for patch in self._patches if patch.field]
        if row["value"] is None and fields:
            return Failed(f"its value is no JSON object that could have a field `{fields[0]}`")
        if row["value"] is None and letter.record.value is not None:
            return Failed("its value would be NULL, and a record without one deletes")
        return Patched(row["key"], row["value"])

    def _patching(self) -> list[Column]:
        from pyspark.sql import functions as F  # noqa: N812

        made = {"key": F.col("key"), "value": F.col("value")}
        made |= {
            each.part: _column(each.expression) for each in self._patches if each.field is None
        }
        fields = {each.field: each.expression for each in self._patches if each.field}
        if fields:
            made["value"] = _with_fields(fields)
        return [column.cast("string").cast("binary").alias(name) for name, column in made.items()]

    def _check(self) -> None:
        """Have Spark look at names and types, over no letters."""
        nothing = self._frame([])
        if self._where is not None:
            kind = _analyse(nothing, self._where)
            if kind != "boolean":
                _refuse(self._where, f"it is {kind.upper()}, and yes or no is needed")
        for patch in self._patches:
            kind = _analyse(nothing, patch.expression)
            if patch.field is None and kind in ("variant", "map", "struct", "array"):
                _refuse(patch.expression, f"it is {kind.upper()}", "make text of it by to_json(…)")

    def _ask(
        self, letters: Sequence[Letter], columns: Sequence[Column]
    ) -> list[dict[str, Any] | Failed]:
        """One row a letter. When some letter fails, halves are asked until it is found."""
        from pyspark.errors import PySparkException

        if not letters:
            return []
        try:
            return list(self._frame(letters).select(*columns).toArrow().to_pylist())
        except PySparkException as error:
            if len(letters) == 1:
                return [Failed(_reason(error))]
        except Exception as error:
            raise failures.translate(error, "evaluating expressions about letters") from error
        middle = len(letters) // 2
        return self._ask(letters[:middle], columns) + self._ask(letters[middle:], columns)

    def _frame(self, letters: Sequence[Letter]) -> DataFrame:
        frame = self._spark.createDataFrame(_table(letters))
        return frame.selectExpr(*(f"{sql} AS {name}" for name, sql in COLUMNS.items()))


def _table(letters: Sequence[Letter]) -> pyarrow.Table:
    """The letters as Spark takes them without starting a Python worker."""
    import pyarrow

    text, number = pyarrow.string(), pyarrow.int64()
    columns: dict[str, tuple[pyarrow.DataType, Callable[[Letter], Any]]] = {
        "value": (pyarrow.binary(), lambda letter: letter.record.value),
        "key": (pyarrow.binary(), lambda letter: letter.record.key),
        "headers": (pyarrow.map_(text, text), _headers),
        "topic": (text, lambda letter: letter.topic),
        "partition": (number, lambda letter: letter.partition),
        "offset": (number, lambda letter: letter.offset),
        "timestamp": (number, lambda letter: letter.timestamp),
        "error": (text, lambda letter: letter.error),
        "message": (text, lambda letter: letter.message),
        "pipeline": (text, lambda letter: letter.pipeline),
        "attempts": (number, lambda letter: letter.attempts),
        "time": (number, lambda letter: letter.record.timestamp),
    }
    return pyarrow.table(
        {
            name: pyarrow.array(list(map(get, letters)), kind)
            for name, (kind, get) in columns.items()
        }
    )


def _headers(letter: Letter) -> list[tuple[str, str]]:
    """Each name once, with the last of its values."""
    found = {name: (value or b"").decode(errors="replace") for name, value in letter.headers}
    return list(found.items())


def _column(expression: Expression) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.expr(expression.text)


def _with_fields(fields: dict[str, Expression]) -> Column:
    """The value, a JSON object, with other fields; NULL when it is none."""
    from pyspark.sql import functions as F  # noqa: N812

    names = ", ".join(map(literal, fields))
    made = F.struct(*(_column(each).alias(name) for name, each in fields.items()))
    text = F.to_json(made, {"ignoreNullFields": "false"})
    others = F.expr(f"map_filter(from_json(value, '{_OBJECT}'), (k, v) -> k NOT IN ({names}))")
    return F.to_json(
        F.map_concat(others, F.from_json(text, _OBJECT)), {"ignoreNullFields": "false"}
    )


def _analyse(frame: DataFrame, expression: Expression) -> str:
    """The name of its type."""
    from pyspark.errors import PySparkException

    try:
        return frame.select(_column(expression)).schema[0].dataType.typeName()
    except PySparkException as error:
        _refuse(expression, _reason(error), place=_place(error, expression))


def _refuse(
    expression: Expression, reason: str, hint: str | None = None, place: Span | None = None
) -> NoReturn:
    fault = Diagnostic("SQL_SYNTAX", reason, place or expression.span, hint)
    raise DefinitionError(f"{expression.span.file} `{expression.text}`: {reason}", [fault])


def _place(error: Exception, expression: Expression) -> Span | None:
    found = _PLACE.search(str(error))
    if found is None:
        return None
    lines = expression.text.splitlines(keepends=True)[: int(found[1]) - 1]
    return expression.span.within(expression.text, len("".join(lines)) + int(found[2]))


def _reason(error: Exception) -> str:
    """Spark's own sentence, without its names and numbers for it."""
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return _NAME.sub("", first).split(" SQLSTATE")[0].strip().rstrip(".")
