"""What types of Avro are in Spark, and columns in Avro.

`sql_type` is what Spark makes of a type when it reads, in the words of `model.types`. Logical types
that Spark has no type for stay what they are stored as: `time-millis` an INT, `time-micros` and
times in nanoseconds a BIGINT, `duration` twelve bytes. A union of several types is a STRUCT of its
branches, each by the name of its type, of which one has a value.
"""

from __future__ import annotations

import re
from typing import Any

from headrace.formats.avro_schema import (
    NAME,
    Again,
    Array,
    AvroMap,
    AvroSchema,
    Enum,
    Fixed,
    Node,
    Primitive,
    Record,
    Union,
    alone,
    is_null,
    short,
)
from headrace.formats.encoding import one_value
from headrace.model.schema import Schema
from headrace.model.types import SqlField, SqlType, array, fields_of, map_of, parsed, struct

MAX_DIGITS = 38
_Path = tuple[str, ...]
_PLAIN = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
    # A field that is never anything but null; SQL wants a type for it all the same.
    "null": "STRING",
}
_LOGICAL: dict[tuple[str, str | None], str] = {
    ("int", "date"): "DATE",
    ("long", "timestamp-millis"): "TIMESTAMP",
    ("long", "timestamp-micros"): "TIMESTAMP",
    ("long", "local-timestamp-millis"): "TIMESTAMP_NTZ",
    ("long", "local-timestamp-micros"): "TIMESTAMP_NTZ",
}
# Columns in Avro, each with the logical type.
IN_AVRO: dict[str, Any] = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BINARY": "bytes",
    "STRING": "string",
    "DATE": {"type": "int", "logicalType": "date"},
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-micros"},
    "TIMESTAMP_NTZ": {"type": "long", "logicalType": "local-timestamp-micros"},
}
# Unions of two that Spark reads into the wider one.
PAIRS = {frozenset({"int", "long"}): "BIGINT", frozenset({"float", "double"}): "DOUBLE"}


def sql_type(node: Node, path: _Path = ()) -> SqlType:
    """Raises ValueError for a type that columns cannot have."""
    match node:
        case Primitive() | Fixed() if node.digits is not None:
            return _decimal(node.digits, path)
        case Primitive():
            return SqlType(_LOGICAL.get((node.name, node.logical), _PLAIN[node.name]))
        case Fixed():
            return SqlType("BINARY")
        case Enum():
            return SqlType("STRING")
        case Array():
            return array(sql_type(node.items, (*path, "element")))
        case AvroMap():
            return map_of(sql_type(node.values, (*path, "value")))
        case Record():
            return struct(fields(node, path))
        case Union():
            return _union(node, path)
        case Again():
            raise ValueError(f"{at(path)} is the record `{node.name}` within itself")


def fields(record: Record, path: _Path = ()) -> tuple[SqlField, ...]:
    """Those of a record, as columns."""
    if not record.fields:
        raise ValueError(f"{at(path)} is the record `{record.name}`, which has no fields")
    found = [SqlField(each.name, sql_type(each.type, (*path, each.name))) for each in record.fields]
    _refuse_twice([each.name for each in found], path)
    return tuple(found)


def logical_json(node: Primitive | Fixed) -> dict[str, Any]:
    """The logical type of a node as JSON's values, where Spark makes something of it."""
    if node.digits is not None:
        precision, scale = node.digits
        return {"logicalType": "decimal", "precision": precision, "scale": scale}
    if isinstance(node, Primitive) and (node.name, node.logical) in _LOGICAL:
        return {"logicalType": node.logical}
    return {}


def is_pair(node: Union) -> bool:
    """Whether it is a union of two numbers that Spark reads into the wider of them."""
    return _pair(node) is not None


def member_name(node: Node) -> str:
    """What a branch of a union is called."""
    match node:
        case Array():
            return "array"
        case AvroMap():
            return "map"
        case Fixed() | Enum() | Record() | Again():
            return short(node.name)
        case Primitive():
            return node.name
        case Union():
            raise AssertionError("a union within a union")


def avro_name(text: str) -> str:
    """A text made into a name: each part of it, as a point divides them."""
    parts = (re.sub(r"[^A-Za-z0-9_]", "_", part) for part in text.split(".") if part)
    return ".".join(part if NAME.fullmatch(part) else f"_{part}" for part in parts) or "_"


def made(name: str, rows: Schema, before: AvroSchema | None = None) -> Any:
    """A schema, as JSON's values, for rows; raises ValueError with every column that has no place.

    Every field may be null, with that as its default, so that columns may come and go later.
    Records that the schema `before` has, too, keep the names that they have there, as compatible
    schemas must.
    """
    whole = one_value(rows)
    kind = parsed(whole.type) if whole is not None else struct(fields_of(rows))
    path = ("the key",) if whole is not None else ()
    return _made(kind, avro_name(name), path, before.root if before is not None else None)


def _made(kind: SqlType, name: str, path: _Path, before: Node | None) -> Any:
    before = alone(before) if before is not None else None
    if kind.name == "STRUCT":
        return _made_record(kind, name, path, before if isinstance(before, Record) else None)
    if kind.name == "ARRAY":
        items = before.items if isinstance(before, Array) else None
        return {"type": "array", "items": _or_null(_made(kind.fields[0].type, name, path, items))}
    if kind.name == "MAP":
        key, value = (each.type for each in kind.fields)
        if key.name != "STRING":
            raise ValueError(f"{at(path)} is {kind.words}, and keys of Avro's maps are STRING")
        values = before.values if isinstance(before, AvroMap) else None
        return {"type": "map", "values": _or_null(_made(value, name, path, values))}
    if kind.name == "DECIMAL":
        precision, scale = kind.size
        decimal = {"logicalType": "decimal", "precision": precision, "scale": scale}
        return {"type": "bytes", **decimal}
    if kind.name not in IN_AVRO:
        hint = "; to_json(…) makes a text of it" if kind.name == "VARIANT" else ""
        raise ValueError(f"{at(path)} is {kind.words}, which Avro has not{hint}")
    return IN_AVRO[kind.name]


def _made_record(kind: SqlType, name: str, path: _Path, before: Record | None) -> Any:
    faults: list[str] = []
    found = []
    name = before.name if before is not None else name
    types = {each.name: each.type for each in before.fields} if before is not None else {}
    for each in kind.fields:
        try:
            found.append(_made_field(each, name, (*path, each.name), types.get(each.name)))
        except ValueError as fault:
            faults.append(str(fault))
    if faults:
        raise ValueError("; ".join(faults))
    namespace, _, own = name.rpartition(".")
    head = {"type": "record", "name": own}
    return head | ({"namespace": namespace} if namespace else {}) | {"fields": found}


def _made_field(field: SqlField, record: str, path: _Path, before: Node | None) -> Any:
    if not NAME.fullmatch(field.name):
        raise ValueError(f"{at(path)} is no name in Avro: name it otherwise with AS")
    inner = _made(field.type, f"{record}_{field.name}", path, before)
    return {"name": field.name, "type": _or_null(inner), "default": None}


def _or_null(kind: Any) -> Any:
    return ["null", kind]


def _decimal(digits: tuple[int, int], path: _Path) -> SqlType:
    if digits[0] > MAX_DIGITS:
        raise ValueError(f"{at(path)} is a decimal of {digits[0]} digits; Spark's have up to 38")
    return SqlType("DECIMAL", size=digits)


def _union(node: Union, path: _Path) -> SqlType:
    members = node.members
    if len(members) <= 1:
        return sql_type(alone(node) if members else Primitive("null"), path)
    pair = _pair(node)
    if pair is not None:
        return SqlType(pair)
    names = [member_name(each) for each in members]
    _refuse_twice(names, path)
    kinds = (sql_type(each, (*path, name)) for each, name in zip(members, names, strict=True))
    return struct(tuple(SqlField(name, kind) for name, kind in zip(names, kinds, strict=True)))


def _pair(node: Union) -> str | None:
    members = node.members
    if len(members) != 2 or not all(isinstance(each, Primitive) for each in members):
        return None
    return PAIRS.get(frozenset(member_name(each) for each in members))


def _refuse_twice(names: list[str], path: _Path) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            both = f"`{other}` and `{name}`"
            raise ValueError(f"{at(path)} has {both}, which are the same name in SQL")


def at(path: _Path) -> str:
    return f"`{'.'.join(path)}`" if path else "the message"


def words(node: Node) -> str:
    """What a type is, in Spark's words where it has some."""
    try:
        return sql_type(node).words
    except ValueError:
        inside = alone(node)
        if isinstance(inside, Record | Again):
            return f"the record `{inside.name}`"
        return "a union" if isinstance(inside, Union) else f"of type {member_name(inside)}"


def is_nothing(node: Node) -> bool:
    """Whether it is never anything but null."""
    return is_null(node) or (isinstance(node, Union) and not node.members)
