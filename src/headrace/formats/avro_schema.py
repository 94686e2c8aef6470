"""Avro schemas as trees: `parsed` takes their JSON apart, or says what is wrong with it.

Only what can be told from a schema alone is here. What its types are in Spark is in `avro_types`,
how messages of one schema are read into columns in `avro_resolution`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Stands for the default of a field that has none; `None` is one.
NO_DEFAULT: Any = object()


@dataclass(frozen=True)
class Primitive:
    """`digits` are precision and scale of a decimal."""

    name: str
    logical: str | None = None
    digits: tuple[int, int] | None = None


@dataclass(frozen=True)
class Fixed:
    name: str
    size: int
    logical: str | None = None
    digits: tuple[int, int] | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Enum:
    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Array:
    items: Node


@dataclass(frozen=True)
class AvroMap:
    values: Node


@dataclass(frozen=True)
class Union:
    branches: tuple[Node, ...]

    @property
    def nullable(self) -> bool:
        return any(is_null(each) for each in self.branches)

    @property
    def members(self) -> tuple[Node, ...]:
        """All but null."""
        return tuple(each for each in self.branches if not is_null(each))


@dataclass(frozen=True)
class AvroField:
    name: str
    type: Node
    default: Any = NO_DEFAULT
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """`name` is the full one, as that of all named types."""

    name: str
    fields: tuple[AvroField, ...]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Again:
    """A record within itself; `AvroSchema.records` has it."""

    name: str


Node = Primitive | Fixed | Enum | Array | AvroMap | Union | Record | Again


@dataclass(frozen=True)
class AvroSchema:
    root: Node
    records: Mapping[str, Record] = field(default_factory=dict, compare=False)


def parsed(text: str, references: tuple[tuple[str, str], ...] = ()) -> AvroSchema:
    """The schema that a text is; `references` are those that it uses, needed ones first.

    Raises ValueError with what is wrong, and where.
    """
    parser = _Parser()
    for name, referred in references:
        try:
            parser.node(_json(referred), "", ())
        except ValueError as fault:
            raise ValueError(f"in `{name}`, which it refers to: {fault}") from fault
    try:
        root = parser.node(_json(text), "", ())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return AvroSchema(root, parser.records)


def is_null(node: Node) -> bool:
    return isinstance(node, Primitive) and node.name == "null"


def short(name: str) -> str:
    """A name without its namespace."""
    return name.rpartition(".")[2]


def alone(node: Node) -> Node:
    """The one type of a union of it and null; any other node as it is."""
    if isinstance(node, Union) and len(node.members) == 1:
        return node.members[0]
    return node


def may_be_null(node: Node) -> bool:
    return is_null(node) or (isinstance(node, Union) and node.nullable)


def _json(text: str) -> Any:
    if text.strip() in PRIMITIVES:
        return text.strip()
    try:
        return json.loads(text)
    except json.JSONDecodeError as fault:
        place = f"line {fault.lineno}, column {fault.colno}"
        raise ValueError(f"it is not JSON: {fault.msg} at {place}") from fault


class _Parser:
    """One schema and what it refers to; names are known in the order of the text."""

    def __init__(self) -> None:
        self.named: dict[str, Node] = {}
        self.records: dict[str, Record] = {}

    def node(self, value: Any, namespace: str, path: tuple[str, ...]) -> Node:
        match value:
            case str():
                return self._by_name(value, namespace, path)
            case list():
                return self._union(value, namespace, path)
            case {"type": "record" | "error"}:
                return self._record(value, namespace, path)
            case {"type": "enum"}:
                return self._enum(value, namespace, path)
            case {"type": "fixed"}:
                return self._fixed(value, namespace, path)
            case {"type": "array", "items": items}:
                return Array(self.node(items, namespace, (*path, "element")))
            case {"type": "map", "values": values}:
                return AvroMap(self.node(values, namespace, (*path, "value")))
            case {"type": str(name)} if name in PRIMITIVES:
                return Primitive(name, *_logical(value))
            case {"type": "array" | "map" as name}:
                inside = "items" if name == "array" else "values"
                raise ValueError(f"{_at(path)} is of type {name} and has no `{inside}`")
            case {"type": inner}:
                return self.node(inner, namespace, path)
        raise ValueError(f"{_at(path)} has no type: {_shown(value)}")

    def _by_name(self, name: str, namespace: str, path: tuple[str, ...]) -> Node:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for each in (full, name):
            if each in self.named:
                return self.named[each]
        raise ValueError(f"{_at(path)} is of an unknown type `{name}`")

    def _union(self, branches: list[Any], namespace: str, path: tuple[str, ...]) -> Node:
        if not branches:
            raise ValueError(f"{_at(path)} is a union of nothing")
        found = tuple(self.node(each, namespace, path) for each in branches)
        if any(isinstance(each, Union) for each in found):
            raise ValueError(f"{_at(path)} is a union within a union")
        return Union(found)

    def _record(self, value: dict[str, Any], namespace: str, path: tuple[str, ...]) -> Node:
        name, inside = self._name(value, namespace, path)
        self.named[name] = Again(name)
        fields = value.get("fields")
        found = tuple(self._field(each, inside, path) for each in _list(fields, "fields", name))
        twice = {each.name for each in found if [one.name for one in found].count(each.name) > 1}
        if twice:
            raise ValueError(f"the record `{name}` has the field `{min(twice)}` twice")
        record = Record(name, found, _aliases(value))
        self.named[name] = self.records[name] = record
        return record

    def _field(self, value: Any, namespace: str, path: tuple[str, ...]) -> AvroField:
        name = value.get("name") if isinstance(value, dict) else None
        if not name or not isinstance(name, str):
            raise ValueError(f"{_at(path)} has a field without a name: {_shown(value)}")
        inside = (*path, name)
        if "type" not in value:
            raise ValueError(f"{_at(inside)} has no type")
        kind = self.node(value["type"], namespace, inside)
        return AvroField(name, kind, value.get("default", NO_DEFAULT), _aliases(value))

    def _enum(self, value: dict[str, Any], namespace: str, path: tuple[str, ...]) -> Node:
        name, _ = self._name(value, namespace, path)
        symbols = tuple(map(str, _list(value.get("symbols"), "symbols", name)))
        self.named[name] = Enum(name, symbols, value.get("default"), _aliases(value))
        return self.named[name]

    def _fixed(self, value: dict[str, Any], namespace: str, path: tuple[str, ...]) -> Node:
        name, _ = self._name(value, namespace, path)
        size = value.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise ValueError(f"{_at(path)}: the fixed `{name}` has no `size`")
        logical, digits = _logical(value)
        if digits is not None and digits[0] > (8 * size - 1) * math.log10(2):
            logical = digits = None
        self.named[name] = Fixed(name, size, logical, digits, _aliases(value))
        return self.named[name]

    def _name(
        self, value: dict[str, Any], namespace: str, path: tuple[str, ...]
    ) -> tuple[str, str]:
        """The full name of a type, and the namespace of what is in it."""
        name, own = value.get("name"), value.get("namespace", namespace)
        if not isinstance(name, str) or not name:
            raise ValueError(f"{_at(path)} is of type {value['type']} and has no `name`")
        full = name if "." in name or not own else f"{own}.{name}"
        if full in self.named:
            raise ValueError(f"{_at(path)} defines `{full}` a second time")
        return full, full.rpartition(".")[0]


def _logical(value: dict[str, Any]) -> tuple[str | None, tuple[int, int] | None]:
    """A logical type and, of a decimal, its digits. One that is not valid counts as none, as Avro
    wants it.
    """
    name = value.get("logicalType")
    if name != "decimal":
        return (name if isinstance(name, str) else None), None
    precision, scale = value.get("precision"), value.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None, None
    return ("decimal", (precision, scale)) if 0 <= scale <= precision >= 1 else (None, None)


def _list(value: Any, key: str, name: str) -> list[Any]:
    if isinstance(value, list):
        return value
    raise ValueError(f"`{name}` has no list of `{key}`")


def _aliases(value: dict[str, Any]) -> tuple[str, ...]:
    return tuple(each for each in value.get("aliases") or () if isinstance(each, str))


def _at(path: tuple[str, ...]) -> str:
    return f"`{'.'.join(path)}`" if path else "it"


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
