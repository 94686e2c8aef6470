"""A schema for JSON records, told from a sample of them.

Each value has a shape, and shapes are joined until one holds all values; `schema` writes that as
Spark's DDL. Where values disagree, the column takes what both fit into, in the end any JSON value
(VARIANT). Nothing is NOT NULL: that a sample had a field everywhere promises nothing.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot.dialects import Spark

from headrace.model.schema import quote

_LARGEST = 2**63 - 1
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:?\d{2})?")


@dataclass(frozen=True)
class Plain:
    """One of Spark's simple types; NULL where every value is missing."""

    name: str


@dataclass(frozen=True)
class Listed:
    items: Shape


@dataclass(frozen=True)
class Object:
    fields: tuple[tuple[str, Shape], ...]


Shape = Plain | Listed | Object

_NOTHING, _ANYTHING = Plain("NULL"), Plain("VARIANT")
# What holds values of both, where one of them does not.
_WIDER = {
    frozenset(("BIGINT", "DOUBLE")): Plain("DOUBLE"),
    frozenset(("DATE", "TIMESTAMP")): Plain("STRING"),
    frozenset(("DATE", "STRING")): Plain("STRING"),
    frozenset(("TIMESTAMP", "STRING")): Plain("STRING"),
}


@dataclass(frozen=True)
class Inferred:
    """The columns of `records` sampled ones; `others` are no JSON objects and were left out."""

    schema: str
    records: int
    others: int


def infer(values: Iterable[bytes | None]) -> Inferred:
    """The schema that all JSON objects among the values fit into; empty where there is none."""
    shape: Object = Object(())
    records = others = 0
    for value in values:
        found = _read(value)
        if found is None:
            others += value is not None  # a tombstone is no record of the topic's kind
            continue
        records += 1
        shape = _joined_objects(shape, found)
    return Inferred(", ".join(_columns(shape, " ")), records, others)


def _read(value: bytes | None) -> Object | None:
    try:
        read = json.loads(value) if value is not None else None
        found = _shape(read)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, Object) else None


def _shape(value: object) -> Shape:
    if isinstance(value, dict):
        return Object(tuple((name, _shape(each)) for name, each in value.items()))
    if isinstance(value, list):
        items: Shape = _NOTHING
        for each in value:
            items = _joined(items, _shape(each))
        return Listed(items)
    return Plain(_simple(value))


def _simple(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if abs(value) <= _LARGEST else "DOUBLE"
    if isinstance(value, float):
        return "DOUBLE"
    text = str(value)
    if _DATE.fullmatch(text) and _is_time(text):
        return "DATE"
    return "TIMESTAMP" if _TIME.fullmatch(text) and _is_time(text) else "STRING"


def _is_time(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
    except ValueError:
        return False
    return True


def _joined(one: Shape, other: Shape) -> Shape:
    if one == other or other == _NOTHING:
        return one
    if one == _NOTHING:
        return other
    if isinstance(one, Object) and isinstance(other, Object):
        return _joined_objects(one, other)
    if isinstance(one, Listed) and isinstance(other, Listed):
        return Listed(_joined(one.items, other.items))
    if isinstance(one, Plain) and isinstance(other, Plain):
        return _WIDER.get(frozenset((one.name, other.name)), _ANYTHING)
    return _ANYTHING


def _joined_objects(one: Object, other: Object) -> Object:
    """Names that differ only in case are one field, as they are to Spark."""
    fields: dict[str, tuple[str, Shape]] = {name.lower(): (name, each) for name, each in one.fields}
    for name, shape in other.fields:
        known, before = fields.get(name.lower(), (name, _NOTHING))
        fields[name.lower()] = (known, _joined(before, shape))
    return Object(tuple(fields.values()))


def _columns(shape: Object, between: str) -> Iterator[str]:
    for name, each in shape.fields:
        if name:  # a field without a name can be no column
            yield f"{named(name)}{between}{_ddl(each)}"


def named(name: str) -> str:
    """A name as it stands in a list of columns, with quotes where it needs them."""
    plain = _BARE.fullmatch(name) and name.upper() not in Spark.Tokenizer.KEYWORDS
    return name if plain else quote(name)


def _ddl(shape: Shape) -> str:
    if isinstance(shape, Listed):
        return f"ARRAY<{_ddl(shape.items)}>"
    if isinstance(shape, Object):
        # An object without a field is one whose fields nobody knows yet.
        inside = ", ".join(_columns(shape, ": "))
        return f"STRUCT<{inside}>" if inside else "VARIANT"
    return "STRING" if shape == _NOTHING else shape.name
