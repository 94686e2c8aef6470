"""Tables that take their columns from a sample of their topic: `WITH ( …, schema = 'sample' )`.

The sample is taken once, when the table is created: the catalog keeps the statement with the
columns that were found in place of the word, so that what a pipeline reads does not change by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headrace.errors import DefinitionError, HeadraceError
from headrace.formats.inference import infer
from headrace.frontend.sql.parser import parse
from headrace.frontend.sql.statements import CreateTable, Statement
from headrace.shell.kept import Kept
from headrace.shell.known import Connection, table
from headrace.spans import Diagnostic, Span

RECORDS = 1000
_SCHEMA, _SAMPLE = "schema", "sample"


def complete(
    statements: Iterable[Statement], kept: Kept, tell: Callable[[str], None]
) -> Iterator[Statement]:
    """The statements, those that ask for a sample with the columns that it gave.

    Each is looked at with what those before it create. Raises DefinitionError where no columns can
    be told.
    """
    for statement in statements:
        if isinstance(statement, CreateTable) and _asks(statement) and _is_new(statement, kept):
            statement = _with_columns(statement, kept, tell)
        yield statement
        kept, _ = kept.after(statement)


def _asks(made: CreateTable) -> bool:
    told = made.options.get(_SCHEMA)
    return made.columns is None and told is not None and told.node.text.lower() == _SAMPLE


def _is_new(made: CreateTable, kept: Kept) -> bool:
    """Whether it will be kept; that its name is taken is told elsewhere."""
    return made.or_replace or kept.find(made.name.text) is None


def _with_columns(made: CreateTable, kept: Kept, tell: Callable[[str], None]) -> Statement:
    place = made.options[_SCHEMA].node.span
    asked, _ = kept.after(made)
    definitions, _ = asked.definitions.replaced(asked.values)
    found = definitions.find(made.name.text)
    if not isinstance(found, CreateTable):
        return made  # another kind of thing has the name
    columns = _columns(table(found, definitions), place, tell)
    start = _offset(made, place)
    written = "\\'".join(columns.split("'"))
    text = made.text[:start] + written + made.text[start + len(_SAMPLE) :]
    # Where it stood, so that other faults of the statement keep their places.
    before = "\n" * (made.span.line - 1) + " " * (made.span.column - 1)
    (again,), _ = parse(before + text, made.span.file)
    return again


def _columns(connection: Connection, place: Span, tell: Callable[[str], None]) -> str:
    from headrace.admin import reading

    topics = connection.subscription.topics
    if connection.connector != "kafka" or not topics:
        hint = "declare the columns: `CREATE TABLE name ( id BIGINT, … ) WITH ( … )`"
        raise _failure("only a topic of Kafka by its name can be sampled", place, hint)
    tell(f"sampling {', '.join(topics)} …")
    cluster = connection.cluster()
    try:
        records = [each for topic in topics for each in reading.last(cluster, topic, RECORDS)]
    except HeadraceError as error:
        raise _failure(f"no sample could be taken: {error}", place, error.hint) from error
    found = infer(record.value for record in records)
    if not found.schema:
        hint = "declare the columns, or use `format = 'raw'`"
        message = f"{', '.join(topics)} has no JSON objects among its newest {len(records)} records"
        raise _failure(message, place, hint)
    others = f"; left out as no JSON objects: {found.others:,}" if found.others else ""
    tell(f"columns of {found.records:,} records: {found.schema}{others}")
    return found.schema


def _offset(made: CreateTable, place: Span) -> int:
    """Where a place of the file is in the statement's own text."""
    down = place.line - made.span.line
    if down == 0:
        return place.column - made.span.column
    lines = made.text.split("\n")
    return sum(len(line) + 1 for line in lines[:down]) + place.column - 1


def _failure(message: str, place: Span, hint: str | None) -> DefinitionError:
    return DefinitionError(message, [Diagnostic("NO_SAMPLE", message, place, hint)])
