"""How Debezium writes the values of a table in JSON, and SQL that reads them back.

A database's types are more than JSON's. Dates come as days, times as a number of a unit that only
the message's own schema names, numbers with a scale as the bytes of a whole number in base64. Such
values are first read as their text, whatever JSON they are (`wire`), and then made what the column
is declared as (`value`), which is NULL where they cannot be. All others are read by Spark's parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.formats.options import ChangeRules
from headrace.model.schema import Column, Schema, quote

# What a message's schema says of a column; `name` is the meaning that its bare `type` has.
KIND = "STRUCT<field: STRING, type: STRING, name: STRING, parameters: STRUCT<scale: STRING>>"
# What PostgreSQL has not sent, as the change did not touch it and it is stored apart.
UNAVAILABLE = "__debezium_unavailable_value"
NOT_SENT = (
    "the connector has not sent a value that the change did not touch (REPLICA IDENTITY FULL "
    "makes PostgreSQL send all): "
)
# Where a change stands in the log of its database, by the connectors' own names for it.
SOURCE = (
    "STRUCT<ts_ms: BIGINT, lsn: BIGINT, file: STRING, pos: BIGINT, row: INT, "
    "commit_lsn: STRING, change_lsn: STRING, event_serial_no: BIGINT, scn: STRING>"
)

_DEBEZIUM, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
# How many microseconds one of a unit is; nanoseconds are less than one.
_UNITS = {
    f"{_DEBEZIUM}Date": "86400000000",
    f"{_CONNECT}Date": "86400000000",
    f"{_DEBEZIUM}Timestamp": "1000",
    f"{_CONNECT}Timestamp": "1000",
    f"{_DEBEZIUM}MicroTimestamp": "1",
}
_NANOSECONDS = f"{_DEBEZIUM}NanoTimestamp"
_ENCODED = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "VARIANT")
_TEXTS = ("string", "float", "double")
_DECIMAL = re.compile(r"DECIMAL(?:\((\d+)(?:,\s*(\d+))?\))?$")
# Without a schema the size of a number tells its unit: up to the year 5138 milliseconds are less
# than the first of these, and microseconds less than the second.
_MICROSECONDS_FROM, _NANOSECONDS_FROM = "100000000000000", "100000000000000000"

# One more than eight bytes can count.
_WORD = "18446744073709551616BD"


def encoded(column: Column) -> bool:
    """Whether its values are in JSON something that Spark's parser would not take for its type."""
    return column.type in _ENCODED or _digits(column) is not None


def wire(column: Column) -> str:
    """The type that Spark's parser reads its values as."""
    return "STRING" if encoded(column) else column.type


def value(column: Column, image: str, kind: str, rules: ChangeRules) -> str:
    """SQL for its value in an image of a row, given SQL for what the schema says of it (`KIND`)."""
    text = f"{image}.{quote(column.name)}"
    digits = _digits(column)
    if digits is not None:
        return _decimal(text, kind, *digits, rules)
    if column.type == "VARIANT":
        # The JSON of a database comes as text.
        return f"coalesce(try_parse_json({text}), CAST({text} AS VARIANT))"
    if column.type == "DATE":
        return _date(text, kind, rules)
    if encoded(column):
        return f"CAST({_timestamp(text, kind, rules)} AS {column.type})"
    return text


def unavailable(column: Column, image: str) -> str | None:
    """SQL that is true where there is no value, but the word for one that was not sent; `column`
    has the type of the image.
    """
    text = f"{image}.{quote(column.name)}"
    if column.type == "BINARY":
        return f"{text} <=> CAST('{UNAVAILABLE}' AS BINARY)"
    if column.type == "STRING":
        return f"{text} <=> '{UNAVAILABLE}'"
    if column.type == "ARRAY<STRING>":
        return f"{text} <=> array('{UNAVAILABLE}')"
    return None


def row_fault(image: Schema, made: Iterable[Column], prefix: str) -> str:
    """SQL for the code of what is wrong with the columns of a row, or NULL. Those that are `made`
    of what came are NULL where that failed.
    """
    raw, now = f"{prefix}image", f"{prefix}now"
    missing = filter(None, (unavailable(each, raw) for each in image.columns))
    wrong = (
        f"{raw}.{quote(each.name)} IS NOT NULL AND {now}.{quote(each.name)} IS NULL"
        for each in made
    )
    found = {"UNAVAILABLE_VALUE": " OR ".join(missing), "WRONG_TYPE": " OR ".join(wrong)}
    cases = " ".join(f"WHEN {sql} THEN '{code}'" for code, sql in found.items() if sql)
    return f"CASE {cases} END" if cases else "NULL"


def _digits(column: Column) -> tuple[int, int] | None:
    """Precision and scale of a column of numbers that have them."""
    found = _DECIMAL.match(column.type)
    return (int(found[1] or 10), int(found[2] or 0)) if found else None


def _date(text: str, kind: str, rules: ChangeRules) -> str:
    days = f"date_from_unix_date(try_cast({text} AS INT))"
    written = f"try_cast(rtrim('Z', {text}) AS DATE)"
    units = ", ".join(f"'{name}'" for name in (*_UNITS, _NANOSECONDS) if "Date" not in name)
    time = f"CAST({_timestamp(text, kind, rules)} AS DATE)"
    cases = f"WHEN {kind}.name IN ({units}) THEN {time} WHEN {_is_written(text)} THEN {written}"
    return f"CASE {cases} ELSE {days} END"


def _is_written(text: str) -> str:
    """Whether a day or a time is no number. To try it as one is dear where it fails, as Spark makes
    an exception of that first.
    """
    return f"locate('-', {text}, 2) > 0"


def _timestamp(text: str, kind: str, rules: ChangeRules) -> str:
    number = f"try_cast({text} AS BIGINT)"
    units = " ".join(f"WHEN '{name}' THEN {size}L" for name, size in _UNITS.items())
    by_size = (
        f"CASE WHEN abs({number}) < {_MICROSECONDS_FROM}L THEN 1000L "
        f"WHEN abs({number}) < {_NANOSECONDS_FROM}L THEN 1L END"
    )
    # Nanoseconds have no size: they are less than one.
    unnamed = {"milliseconds": "1000L", "microseconds": "1L", "nanoseconds": "NULL"}
    size = (
        f"CASE {kind}.name {units} WHEN '{_NANOSECONDS}' THEN NULL "
        f"ELSE {unnamed.get(rules.timestamps, by_size)} END"
    )
    nanoseconds = f"({number} - pmod({number}, 1000L)) div 1000L"
    micros = f"IF({size} IS NULL, {nanoseconds}, try_multiply({number}, {size}))"
    written = f"try_cast({text} AS TIMESTAMP)"
    return f"IF({_is_written(text)}, {written}, timestamp_micros({micros}))"


def _decimal(text: str, kind: str, precision: int, scale: int, rules: ChangeRules) -> str:
    """A whole number and its scale, which may be its own; or the number as it is written."""
    typed = f"DECIMAL({precision}, {scale})"
    own = f"startswith({text}, '{{')"
    whole = _whole_number(f"IF({own}, get_json_object({text}, '$.value'), {text})")
    known = f"coalesce({kind}.parameters.scale, '{scale}')"
    places = f"try_cast(IF({own}, get_json_object({text}, '$.scale'), {known}) AS INT)"
    scaled = f"try_cast(concat({whole}, 'E', -{places}) AS {typed})"
    is_whole = own
    if rules.decimals == "precise":
        # Asked also where there is a schema: Connect can be told to write these as numbers.
        texts = ", ".join(f"'{name}'" for name in _TEXTS)
        base64 = f"{text} RLIKE '^([A-Za-z0-9+/]{{4}})*[A-Za-z0-9+/=]{{4}}$'"
        is_whole = f"{own} OR (NOT coalesce({kind}.type IN ({texts}), false) AND {base64})"
    return f"IF({is_whole}, {scaled}, try_cast({text} AS {typed}))"


def _whole_number(text: str) -> str:
    """SQL, STRING, for the whole number in the bytes that a base64 text holds, of up to 16."""
    digits = f"hex(try_to_binary({text}, 'base64'))"
    negative = f"{digits} >= '8'"
    fill = f"IF({negative}, 'F', '0')"
    small = f"conv(lpad({digits}, 16, {fill}), 16, -10)"
    both = f"lpad({digits}, 32, {fill})"
    # Towards zero, so that no part of a number of 38 digits has more.
    carry = f"IF({negative}, 1, 0)"
    high = f"CAST(conv(left({both}, 16), 16, -10) AS BIGINT) + {carry}"
    low = f"CAST(conv(right({both}, 16), 16, 10) AS DECIMAL(20, 0)) - {carry} * {_WORD}"
    large = f"CAST(try_add(try_multiply(CAST({high} AS DECIMAL(19, 0)), {_WORD}), {low}) AS STRING)"
    return (
        f"CASE WHEN length({digits}) <= 16 THEN {small} "
        f"WHEN length({digits}) <= 32 THEN {large} END"
    )
