"""Arroyo's and Laminar's SQL as a pipeline of ours.

Laminar's connections and tables are statements that the SQL front-end takes as they are; Arroyo's
options have other names, and its tables say some things by columns: a `watermark`, what Kafka knows
of a record. The statements are read by our own parser, their options and columns translated, and
the pipeline compiled as any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.convert.arroyo_options import CONNECTORS, MARKS, METADATA, Table
from headrace.convert.comments import DASHES, Comments
from headrace.convert.draft import of_tree, unknown
from headrace.convert.ours import chosen, tell
from headrace.convert.report import Keys, Reading, Report
from headrace.errors import DefinitionError
from headrace.frontend.sql import compile, parser
from headrace.frontend.sql.definitions import Definitions
from headrace.frontend.sql.statements import (
    Column,
    CreateConnection,
    CreatePipeline,
    CreateTable,
    CreateView,
    Fragment,
    Insert,
    Name,
    Statement,
    WatermarkFor,
)
from headrace.frontend.sql.tables import bare
from headrace.frontend.sql.tokens import Places, Sort, Token, tokenize, value
from headrace.spans import Diagnostic, Edit, Field, Node, Severity, edited

_UNITS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
# `at - INTERVAL '5 seconds'`, or with the unit behind the quotes.
_DELAY = re.compile(
    rf"(\w+)\s*-\s*INTERVAL\s*'\s*(\d+)\s*'?\s*({'|'.join(_UNITS)})s?\s*'?", re.IGNORECASE
)
_WINDOWS = re.compile(r"\b(?:tumble|hop|session)\s*\(", re.IGNORECASE)
_RECORD_TIME = "_kafka_timestamp"
_MEMORY = "memory"
_LATE_MS = 1000  # by which Arroyo's watermarks are behind where nothing is said


def read(path: Path, text: str, pipeline: str | None = None) -> Reading:
    """The one pipeline of a file, or that of the name; raises what cannot be understood."""
    reader = _Reader(Report(), windowed=_WINDOWS.search(text) is not None)
    known = _known(text, str(path), reader.report)
    statements, faults = parser.parse(known, str(path))
    _refuse(path, faults)
    translated = _without_memory([reader.statement(each) for each in statements])
    definitions, faults = Definitions.of(translated, path.stem)
    _refuse(path, faults)
    made = reader.with_guarantee(_pipeline(definitions, pipeline, path))
    for statement in statements:
        if statement.span != made.span:
            tell(statement, made.name.text, reader.report)
    tree, faults = compile.Compiler(definitions).tree(made)
    _refuse(path, faults)
    if tree is None:
        raise DefinitionError(f"{path}: `{made.name}` reads nothing")
    for key, each in unknown(tree):
        reader.report.lost(key, each.key, "has no equal here")
    draft = of_tree(tree, path.stem, Comments(known, DASHES))
    heading = (f"From {path.name}, of Arroyo or Laminar.", *draft.heading)
    return Reading(replace(draft, heading=heading), reader.report.ordered)


def is_arroyo(text: str) -> bool:
    """Whether a text has words that only Arroyo has."""
    options = "|".join(map(re.escape, MARKS))
    connectors = "|".join(CONNECTORS)
    marks = (
        rf"\b(?:{options})['\"`]?\s*=|\bMETADATA\s*(?:FROM|\()|\bwatermark\s+TIMESTAMP\s+GEN"
        rf"|\bconnector['\"`]?\s*=\s*'(?:{connectors})'"
    )
    return re.search(marks, text, re.IGNORECASE) is not None


# Text


def _known(text: str, file: str, report: Report) -> str:
    """The text without words that our parser has not, by others that mean the same."""
    tokens = tokenize(text)
    places = Places(text, file)
    edits: list[Edit] = []
    for at, token in enumerate(tokens):
        keys = [each.key for each in tokens[at : at + 2]]
        if token.key == "METADATA":
            edits += _metadata(tokens[at : at + 4])
        elif token.key == "UNSIGNED":
            how = "has no equal: numbers have a sign, and half of the values"
            report.differs(token.text, places.span(token.start, token.end), how)
            edits.append(Edit(token.start, token.end, ""))
        elif keys == ["PRIMARY", "KEY"] and tokens[at + 2].key in (",", ")", "NOT"):
            why = "has no equal in a table that is read; a sink says `mode` and `key`"
            report.lost("PRIMARY KEY", places.span(token.start, token.end), why)
            edits.append(Edit(token.start, tokens[at + 1].end, ""))
        elif keys == ["CREATE", "TABLE"]:
            edits += _in_memory(tokens, at)
    return edited(text, tuple(sorted(edits)))


def _metadata(tokens: list[Token]) -> Iterator[Edit]:
    """`METADATA FROM 'x'` and `metadata('x')` by the columns that we have for them."""
    first, *rest = tokens
    keys = [token.key for token in rest]
    texts = [value(token)[0] for token in rest if token.sort is Sort.TEXT]
    column = METADATA.get(texts[0]) if texts else None
    if column and keys[:1] == ["FROM"]:
        yield Edit(first.start, rest[1].end, f"GENERATED ALWAYS AS ({column})")
    elif column and keys == ["(", "", ")"]:
        yield Edit(first.start, rest[2].end, column)


def _in_memory(tokens: list[Token], at: int) -> Iterator[Edit]:
    """A table that is nowhere, between two queries: it is marked, and becomes a view."""
    end = next(
        i for i in range(at, len(tokens)) if tokens[i].key == ";" or tokens[i].sort is Sort.END
    )
    if tokens[end - 1].key == ")" and "WITH" not in [token.key for token in tokens[at:end]]:
        yield Edit(tokens[end - 1].end, tokens[end - 1].end, f" WITH ( connector = '{_MEMORY}' )")


# Statements


@dataclass
class _Reader:
    """One pass over the statements of a file.

    `windowed` says that something in it sums up windows of time. `once` are the tables that are
    written exactly once, `connections` the connectors behind each connection.
    """

    report: Report
    windowed: bool
    once: set[str] = field(default_factory=set)
    connections: dict[str, str] = field(default_factory=dict)

    def statement(self, statement: Statement) -> Statement:
        if isinstance(statement, CreateConnection):
            kind = statement.connector.text.lower()
            self.connections[statement.name.text.lower()] = kind
            table = Table(kind, False, self._keys(statement))
            return replace(statement, options=table.options())
        return self._create_table(statement) if isinstance(statement, CreateTable) else statement

    def with_guarantee(self, made: CreatePipeline) -> CreatePipeline:
        """Exactly once, where one of its sinks asks for that."""
        asked = [each.table for each in made.inserts if each.table.text.lower() in self.once]
        if not asked:
            return made
        where = asked[0].span
        guarantee = Field(where, Node("exactly_once", where))
        return replace(made, options={**made.options, "guarantee": guarantee})

    def _create_table(self, statement: CreateTable) -> CreateTable:
        named = statement.options.get("connector")
        word = named.node.text.lower() if named is not None else ""
        kind = self.connections.get(word, word)
        table = Table(kind, kind == word, self._keys(statement))
        options = table.options()
        if table.once:
            self.once.add(statement.name.text.lower())
        # The columns of impulse are made by its options.
        columns = None if kind == "impulse" else statement.columns
        made = self._with_watermark(replace(statement, options=options, columns=columns), table)
        if not any(_reads_metadata(column) for column in made.columns or ()):
            return made
        where = made.name.span
        metadata = {"include_metadata": Field(where, Node(True, where))}
        return replace(made, options={**made.options, **metadata})

    def _keys(self, made: CreateTable | CreateConnection) -> Keys:
        return Keys(made.options, made.name.span, self.report)

    def _with_watermark(self, made: CreateTable, table: Table) -> CreateTable:
        """By a column of this name, or by options; else, for windows, by the records' times."""
        columns = made.columns or ()
        wanted = (table.watermark or "watermark").lower()
        named = next((each for each in columns if each.name.text.lower() == wanted), None)
        if made.watermark is not None:
            return made
        if named is not None and named.generated is not None:
            rest = tuple(each for each in columns if each is not named)
            return self._by_column(replace(made, columns=rest), named, named.generated.sql)
        if table.event_time:
            return _watermarked(made, table.event_time, _LATE_MS)
        if not (self.windowed and columns and table.connector == "kafka" and table.is_source):
            return made
        how = "has no column of time: its windows are of the times of its records, as there"
        self.report.differs(made.name.text, made.name.span, how)
        column = Column(Name(_RECORD_TIME, made.name.span), "TIMESTAMP")
        return _watermarked(replace(made, columns=(*columns, column)), _RECORD_TIME, _LATE_MS)

    def _by_column(self, made: CreateTable, column: Column, sql: str) -> CreateTable:
        found = _DELAY.fullmatch(sql.strip())
        if found is not None:
            return _watermarked(made, found[1], int(found[2]) * _UNITS[found[3].lower()])
        why = "is more than a column less an interval, which is all that a watermark can be here"
        self.report.lost(column.name.text, column.name.span, why, "add WATERMARK FOR")
        return made


def _without_memory(statements: Sequence[Statement]) -> list[Statement]:
    """Tables in memory as views of what is inserted into them."""
    kept = {
        each.name.text.lower(): each
        for each in statements
        if isinstance(each, CreateTable) and _is_in_memory(each)
    }
    views = [
        _view(kept[each.table.text.lower()], each)
        for each in statements
        if isinstance(each, Insert) and each.table.text.lower() in kept
    ]
    rest = [each for each in statements if _written(each) not in kept]
    return [*views, *rest]


def _is_in_memory(table: CreateTable) -> bool:
    connector = table.options.get("connector")
    return connector is not None and connector.node.text == _MEMORY


def _written(statement: Statement) -> str | None:
    if isinstance(statement, CreateTable):
        return statement.name.text.lower()
    return statement.table.text.lower() if isinstance(statement, Insert) else None


def _view(table: CreateTable, insert: Insert) -> CreateView:
    """The rows that are inserted, by the names of the table's columns."""
    names = ", ".join(bare(column.name.text) for column in table.columns or ())
    sql = f"SELECT * FROM (\n{insert.query.sql}\n) AS {bare(table.name.text)}({names})"
    return CreateView(
        text=insert.text,
        span=insert.span,
        name=table.name,
        or_replace=False,
        if_not_exists=False,
        query=Fragment(sql, insert.query.span),
    )


def _watermarked(made: CreateTable, column: str, delay_ms: int) -> CreateTable:
    span = made.name.span
    return replace(made, watermark=WatermarkFor(Name(column, span), delay_ms, span))


def _reads_metadata(column: Column) -> bool:
    made = column.generated.sql if column.generated is not None else column.name.text
    return "_kafka_" in made


# Pipelines


def _pipeline(definitions: Definitions, wanted: str | None, path: Path) -> CreatePipeline:
    """One by its name, the only one, or the SELECT that a file ends with."""
    if not definitions.pipelines and definitions.previews:
        last = definitions.previews[-1]
        return replace(last, name=Name(path.stem, last.name.span))
    return definitions.pipelines[chosen(definitions, wanted, path)]


def _refuse(path: Path, faults: Iterable[Diagnostic]) -> None:
    errors = [fault for fault in faults if fault.severity is Severity.ERROR]
    if errors:
        raise DefinitionError(f"{path} cannot be understood", errors)
