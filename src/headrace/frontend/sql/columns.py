"""The columns of CREATE TABLE: types, NOT NULL, generated columns and WATERMARK FOR."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.frontend.sql import types
from headrace.frontend.sql.cursor import Cursor, SqlFault
from headrace.frontend.sql.intervals import read_interval, whole_duration
from headrace.frontend.sql.statements import Column, Fragment, Name, WatermarkFor
from headrace.frontend.sql.tokens import Token
from headrace.spans import Diagnostic
from headrace.spec import unknown

_FORM = "for example `( id BIGINT NOT NULL, name TEXT )`"
_DELAY = "write `WATERMARK FOR at AS at - INTERVAL '5 seconds'`"
# What can follow a type elsewhere, and what is meant by it here.
_NOT_HERE = {
    "PRIMARY": "a table that keeps one row a key says `mode = 'upsert', key = '…'` in WITH",
    "UNIQUE": "nothing checks this; `deduplicate` in a view keeps the first of alike rows",
    "DEFAULT": "a value for NULL is `coalesce(column, …)` in the SELECT",
    "COMMENT": "write a comment as `-- …`",
    "METADATA": "say `include_metadata = 'true'` in WITH and name the column `_kafka_partition`, "
    "`_kafka_offset`, `_kafka_timestamp`, `_kafka_key`, `_kafka_headers` or `_kafka_topic`",
    "REFERENCES": "nothing checks this; leave it out",
    "CHECK": "nothing checks this; say it in WHERE",
    "CONSTRAINT": "leave it out; a column can be NOT NULL",
    "FOREIGN": "nothing checks this; leave it out",
    "COLLATE": "leave it out, or use `collate(…)` in the SELECT",
}
_TABLE_WIDE = ("PRIMARY", "UNIQUE", "CONSTRAINT", "FOREIGN", "CHECK")


@dataclass
class _Table:
    columns: list[Column] = field(default_factory=list)
    watermark: WatermarkFor | None = None


def read_columns(cursor: Cursor) -> tuple[tuple[Column, ...] | None, WatermarkFor | None]:
    """All that stands in the brackets, of which the first is here; maybe only a watermark."""
    opening = cursor.expect("(")
    table = _Table()
    before = len(cursor.faults)
    cursor.items(lambda: _item(cursor, table), "between columns")
    if len(cursor.faults) > before:
        return tuple(table.columns), table.watermark
    if not table.columns and table.watermark is None:
        hint = f"{_FORM}; leave the brackets out where the schema comes from elsewhere"
        raise cursor.fault("this table has no columns", opening, hint)
    cursor.faults.extend(_unknown_watermark(table))
    return tuple(table.columns) or None, table.watermark


def _item(cursor: Cursor, table: _Table) -> None:
    if cursor.looking("WATERMARK", "FOR"):
        watermark = _watermark(cursor)
        if table.watermark is not None:
            place = watermark.span
            raise SqlFault(Diagnostic("SQL_SYNTAX", "a table has one watermark", place))
        table.watermark = watermark
        return
    if cursor.looking("WATERMARK") and not _is_type(cursor.ahead()):
        cursor.take()
        raise cursor.expected(["FOR"], "after WATERMARK", _DELAY)
    _refuse(cursor, _TABLE_WIDE)
    column = _column(cursor)
    if any(other.name.text.lower() == column.name.text.lower() for other in table.columns):
        message = f"the column `{column.name}` stands here twice"
        raise SqlFault(Diagnostic("COLUMN_TWICE", message, column.name.span))
    table.columns.append(column)


def _is_type(token: Token) -> bool:
    """Whether a column may be declared with it, so that what stands before it is a name."""
    return token.key in types.NAMES or token.key in ("AS", "GENERATED")


def _refuse(cursor: Cursor, words: tuple[str, ...]) -> None:
    """What looks like a constraint: a column of that name would have a type after it."""
    word = cursor.token.key
    following = cursor.ahead().key
    if word in words and (following in ("(", "KEY") or word in ("CONSTRAINT", "FOREIGN")):
        raise _not_here(cursor, cursor.token)


def _not_here(cursor: Cursor, token: Token) -> SqlFault:
    return cursor.fault(f"{token} has no meaning here", token, _NOT_HERE[token.key])


def _column(cursor: Cursor) -> Column:
    name = cursor.expect_name("a column", _FORM)
    of = f"the column `{name}`"
    if cursor.looking("AS"):
        return Column(name, None, generated=_generated(cursor, of))
    if cursor.looking("GENERATED"):
        type_ = None
    elif cursor.looking(",") or cursor.looking(")"):
        raise cursor.expected([], f"the type of {of}", _FORM)
    else:
        type_ = types.read_type(cursor, of)
    nullable = not cursor.accept("NOT", "NULL")
    generated = _generated(cursor, of) if cursor.looking("GENERATED") else None
    if cursor.accept("NOT", "NULL"):
        nullable = False
    cursor.accept("NULL")
    if cursor.token.key in _NOT_HERE:
        raise _not_here(cursor, cursor.token)
    if not cursor.looking(",") and not cursor.looking(")") and not cursor.ended:
        more = ["NOT NULL", "STORED" if generated else "GENERATED ALWAYS AS"]
        raise cursor.expected([",", ")", *more], f"after {of}")
    return Column(name, type_, nullable, generated)


def _generated(cursor: Cursor, of: str) -> Fragment:
    """`GENERATED ALWAYS AS (…) STORED`, or only `AS (…)`."""
    if cursor.accept("GENERATED"):
        cursor.expect("ALWAYS", f"in {of}", "write `GENERATED ALWAYS AS (expression)`")
    cursor.expect("AS", f"in {of}", "write `GENERATED ALWAYS AS (expression)`")
    if cursor.looking("IDENTITY"):
        raise cursor.fault("nothing numbers the rows", hint="leave the column out")
    if cursor.looking("("):
        fragment = cursor.bracketed(f"the expression of {of}")
    else:
        first = cursor.at
        cursor.skip_to(",", ")")
        if cursor.at == first or cursor.ended:
            raise cursor.expected([], f"the expression of {of}")
        return cursor.fragment(first, cursor.at)
    _ = cursor.accept("STORED") or cursor.accept("VIRTUAL") or cursor.accept("PERSISTED")
    return fragment


def _watermark(cursor: Cursor) -> WatermarkFor:
    first = cursor.place(cursor.token)
    cursor.accept("WATERMARK", "FOR")
    column = cursor.expect_name("the watermark's column", _DELAY)
    delay = 0
    if cursor.accept("AS"):
        bracketed = cursor.accept("(")
        delay = _delay(cursor, column)
        if bracketed:
            cursor.expect(")", "after the watermark", _DELAY)
    return WatermarkFor(column, delay, first)


def _delay(cursor: Cursor, column: Name) -> int:
    same = cursor.at_name() and cursor.token.text.strip('`"').lower() == column.text.lower()
    if not same:
        raise cursor.expected(
            [], f"`{column}` again: a watermark is its column less a delay", _DELAY
        )
    cursor.take()
    if not cursor.accept("-"):
        return 0
    token = cursor.token
    interval = whole_duration(read_interval(cursor), cursor, token, "a watermark's delay")
    return interval.milliseconds


def _unknown_watermark(table: _Table) -> list[Diagnostic]:
    if table.watermark is None or not table.columns:
        return []
    known = [column.name.text for column in table.columns]
    wanted = table.watermark.column
    if wanted.text.lower() in (name.lower() for name in known):
        return []
    return [unknown("column", wanted.text, known, wanted.span, "of this table")]
