"""Arroyo's and Laminar's SQL as a pipeline of ours.

Laminar's connections and tables are statements that the SQL front-end takes as they are; Arroyo's
options have other names, and its tables say some things by columns: a `watermark`, what Kafka knows
of a record. The statements are read by our own parser, their options and columns translated, and
the pipeline compiled as any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.convert.arroyo_options import MARKS, METADATA, Table
from headrace.convert.comments import DASHES, Comments
from headrace.convert.draft import of_tree
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
    Name,
    Statement,
    WatermarkFor,
)
from headrace.frontend.sql.tokens import Sort, Token, tokenize, value
from headrace.spans import Diagnostic, Edit, Field, Node, Severity, edited

_UNITS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
# `at - INTERVAL '5 seconds'`, or with the unit behind the quotes.
_DELAY = re.compile(
    rf"(\w+)\s*-\s*INTERVAL\s*'\s*(\d+)\s*'?\s*({'|'.join(_UNITS)})s?\s*'?", re.IGNORECASE
)
_WINDOWS = re.compile(r"\b(?:tumble|hop|session)\s*\(", re.IGNORECASE)
_RECORD_TIME = "_kafka_timestamp"
_LATE_MS = 1000  # by which Arroyo's watermarks are behind where nothing is said


def read(path: Path, text: str, pipeline: str | None = None) -> Reading:
    """The one pipeline of a file, or that of the name; raises what cannot be understood."""
    reader = _Reader(Report(), windowed=_WINDOWS.search(text) is not None)
    known = _known(text)
    statements, faults = parser.parse(known, str(path))
    _refuse(path, faults)
    definitions, faults = Definitions.of(map(reader.statement, statements), path.stem)
    _refuse(path, faults)
    made = reader.with_guarantee(_pipeline(definitions, pipeline, path))
    for statement in statements:
        tell(statement, made.name.text, reader.report)
    tree, faults = compile.Compiler(definitions).tree(made)
    _refuse(path, faults)
    if tree is None:
        raise DefinitionError(f"{path}: `{made.name}` reads nothing")
    draft = of_tree(tree, path.stem, Comments(known, DASHES))
    heading = (f"From {path.name}, of Arroyo or Laminar.", *draft.heading)
    return Reading(replace(draft, heading=heading), reader.report.ordered)


def is_arroyo(text: str) -> bool:
    """Whether a text has words that only Arroyo has."""
    options = "|".join(map(re.escape, MARKS))
    marks = rf"\b(?:{options})['\"`]?\s*=|\bMETADATA\s*(?:FROM|\()|\bwatermark\s+TIMESTAMP\s+GEN"
    return re.search(marks, text, re.IGNORECASE) is not None


# Text


def _known(text: str) -> str:
    """`METADATA FROM 'x'` and `metadata('x')` by the columns that we have for them."""
    tokens = tokenize(text)
    edits = [edit for at in range(len(tokens)) for edit in _edit(tokens, at)]
    return edited(text, tuple(edits))


def _edit(tokens: list[Token], at: int) -> Iterable[Edit]:
    first, *rest = tokens[at : at + 4]
    if first.key != "METADATA":
        return
    keys = [token.key for token in rest]
    if keys[:1] == ["FROM"] and rest[1].sort is Sort.TEXT:
        column = METADATA.get(value(rest[1])[0])
        if column:
            yield Edit(first.start, rest[1].end, f"GENERATED ALWAYS AS ({column})")
    elif keys[:1] == ["("] and rest[1].sort is Sort.TEXT and keys[2:] == [")"]:
        column = METADATA.get(value(rest[1])[0])
        if column:
            yield Edit(first.start, rest[2].end, column)


# Statements


@dataclass
class _Reader:
    """One pass over the statements of a file; `once` are the tables that are written exactly once.

    `windowed` says that something in the file sums up windows of time.
    """

    report: Report
    windowed: bool
    once: set[str] = field(default_factory=set)

    def statement(self, statement: Statement) -> Statement:
        if isinstance(statement, CreateConnection):
            kind = statement.connector.text.lower()
            table = self._table(statement.name, kind, statement.options)
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
        inline = statement.options.get("connector")
        kind = inline.node.text.lower() if inline is not None else ""
        table = self._table(statement.name, kind, statement.options)
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

    def _table(self, name: Name, kind: str, options: Mapping[str, Field]) -> Table:
        return Table(name.text, kind, Keys(options, name.span, self.report))

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
        self.report.differs(table.name, made.name.span, how)
        column = Column(Name(_RECORD_TIME, made.name.span), "TIMESTAMP")
        return _watermarked(replace(made, columns=(*columns, column)), _RECORD_TIME, _LATE_MS)

    def _by_column(self, made: CreateTable, column: Column, sql: str) -> CreateTable:
        found = _DELAY.fullmatch(sql.strip())
        if found is not None:
            return _watermarked(made, found[1], int(found[2]) * _UNITS[found[3].lower()])
        why = "is more than a column less an interval, which is all that a watermark can be here"
        self.report.lost(column.name.text, column.name.span, why, "add WATERMARK FOR")
        return made


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
