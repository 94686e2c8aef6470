"""What JSON Schema says about values, as columns; and columns as JSON Schema.

A schema of JSON restricts what a text may hold, and need not say what it is. So only what gives a
type is looked at: `type`, `properties`, `items`, `format`, references and alternatives of one
type and null. Where several types are possible, or none is said, a column is a VARIANT.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from headrace.formats.encoding import one_value
from headrace.model.schema import Schema
from headrace.model.types import SqlField, SqlType, array, fields_of, map_of, parsed, struct

VARIANT = SqlType("VARIANT")
_DRAFT = "http://json-schema.org/draft-07/schema#"
_PLAIN = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "null": "STRING"}
_TEXTS = {"date": "DATE", "date-time": "TIMESTAMP"}
# What Kafka Connect's converter adds to say which of its own types a number is.
_CONNECT = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "float32": "FLOAT"}
_IN_JSON: dict[str, Any] = {
    "BOOLEAN": {"type": "boolean"},
    "TINYINT": {"type": "integer", "connect.type": "int8"},
    "SMALLINT": {"type": "integer", "connect.type": "int16"},
    "INT": {"type": "integer", "connect.type": "int32"},
    "BIGINT": {"type": "integer"},
    "FLOAT": {"type": "number", "connect.type": "float32"},
    "DOUBLE": {"type": "number"},
    "DECIMAL": {"type": "number"},
    "STRING": {"type": "string"},
    "BINARY": {"type": "string", "contentEncoding": "base64"},
    "DATE": {"type": "string", "format": "date"},
    "TIMESTAMP": {"type": "string", "format": "date-time"},
    "TIMESTAMP_NTZ": {"type": "string"},
    "VARIANT": {},
}
# What a value of JSON is: types of the same family can be read into each other, or are refused
# record by record.
_FAMILIES = {
    "number": {"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"},
    "text": {"STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"},
    "object": {"STRUCT", "MAP"},
}
_ANYTHING = ("STRING", "VARIANT")
_Path = tuple[str, ...]


@dataclass(frozen=True)
class JsonSchema:
    """A schema and those that it refers to, by their names."""

    root: Any
    others: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, references: tuple[tuple[str, str], ...] = ()) -> JsonSchema:
        """Raises ValueError with what is wrong."""
        others = {name: _object(other, f"`{name}`") for name, other in references}
        return cls(_object(text, "it"), others)

    def type(self) -> SqlType:
        """Raises ValueError for what columns cannot be."""
        return self.type_of(self.root, self.root, ())

    def type_of(self, value: Any, document: Any, path: _Path) -> SqlType:
        """The same for a part of a document."""
        return _Types(self).of(value, document, path)

    def properties(self, value: dict[str, Any], document: Any) -> Iterator[tuple[str, Any, Any]]:
        """Those of an object, and of all that it is besides by `allOf`; each with its document."""
        for part in value.get("allOf", ()):
            inner, place = self.resolved(part, document)
            if isinstance(inner, dict):
                yield from self.properties(inner, place)
        for name, inner in value.get("properties", {}).items():
            yield name, inner, document

    def alternative(self, value: Any, document: Any) -> tuple[Any, Any]:
        """What a schema is that is one thing or null; any other as it is."""
        value, document = self.resolved(value, document)
        chosen = [each for each in _alternatives(value) if not _is_null(each)]
        return self.alternative(chosen[0], document) if len(chosen) == 1 else (value, document)

    def may_be_null(self, value: Any, document: Any) -> bool:
        value, document = self.resolved(value, document)
        if not isinstance(value, dict):
            return value is not False
        others = _alternatives(value)
        if others:
            return any(self.may_be_null(each, document) for each in others)
        kinds = _kinds(value)
        return "null" in kinds or not kinds

    def resolved(self, value: Any, document: Any) -> tuple[Any, Any]:
        """What a schema refers to, and the document that is in; the schema itself if it is one."""
        seen: list[str] = []
        while isinstance(value, dict) and isinstance(value.get("$ref"), str):
            reference = value["$ref"]
            if reference in seen:
                raise ValueError(f"`{reference}` refers to itself")
            seen.append(reference)
            value, document = self._target(reference, document)
        return value, document

    def _target(self, reference: str, document: Any) -> tuple[Any, Any]:
        name, _, pointer = reference.partition("#")
        if name and name != document.get("$id"):
            document = self._other(name)
        value = document
        for part in pointer.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, dict | bool):
            return value, document
        raise ValueError(f"`{reference}` refers to nothing")

    def _other(self, name: str) -> Any:
        named = {each.get("$id"): each for each in self.others.values()}
        found = self.others.get(name, named.get(name))
        if found is None:
            raise ValueError(f"`{name}` is referred to, and not there")
        return found


class _Types:
    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema
        self._around: list[int] = []

    def of(self, value: Any, document: Any, path: _Path) -> SqlType:
        value, document = self._schema.resolved(value, document)
        if not isinstance(value, dict):
            return VARIANT
        if id(value) in self._around:
            raise ValueError(f"{at(path)} is within itself, by a reference")
        self._around.append(id(value))
        try:
            return self._of(value, document, path)
        finally:
            self._around.pop()

    def _of(self, value: dict[str, Any], document: Any, path: _Path) -> SqlType:
        others = _alternatives(value)
        if others:
            chosen = [each for each in others if not _is_null(each)]
            return self.of(chosen[0], document, path) if len(chosen) == 1 else VARIANT
        kinds = [each for each in _kinds(value) if each != "null"]
        if "allOf" in value or kinds == ["object"]:
            return self._object(value, document, path)
        if kinds == ["array"]:
            items = value.get("items", True)
            return array(self.of(items, document, (*path, "element")))
        if kinds == ["string"]:
            return _text(value)
        if len(kinds) == 1:
            return SqlType(_CONNECT.get(value.get("connect.type", ""), _PLAIN[kinds[0]]))
        if {*kinds} == {"integer", "number"}:
            return SqlType("DOUBLE")
        return SqlType("STRING") if _kinds(value) == ["null"] else VARIANT

    def _object(self, value: dict[str, Any], document: Any, path: _Path) -> SqlType:
        found: dict[str, SqlType] = {}
        for name, inner, place in self._schema.properties(value, document):
            found[name] = self.of(inner, place, (*path, name))
        _refuse_twice(list(found), path)
        if found:
            return struct(tuple(SqlField(name, kind) for name, kind in found.items()))
        values = value.get("additionalProperties")
        if isinstance(values, dict) and values:
            return map_of(self.of(values, document, (*path, "value")))
        parts = value.get("allOf", ())
        return self.of(parts[0], document, path) if len(parts) == 1 else VARIANT


def made(name: str, rows: Schema) -> Any:
    """A schema, as JSON's values, for rows.

    Every field may be null or missing, and there are no others, so that registries take a new
    field for a compatible change.
    """
    whole = one_value(rows)
    kind = parsed(whole.type) if whole is not None else struct(fields_of(rows))
    return {"$schema": _DRAFT, "title": name, **_made(kind, (), top=True)}


def misfits(own: SqlType, target: SqlType, path: _Path = ()) -> Iterator[str]:
    """Where values of one type are never values of another."""
    if target.name in _ANYTHING or own == VARIANT:
        return
    if own.name == target.name == "STRUCT":
        wanted = {each.name: each.type for each in target.fields}
        for each in own.fields:
            if each.name in wanted:
                yield from misfits(each.type, wanted[each.name], (*path, each.name))
    elif own.name == target.name == "ARRAY":
        yield from misfits(own.fields[0].type, target.fields[0].type, (*path, "element"))
    elif family(own) != family(target):
        there, here = f"{own.words} in the messages", f"{target.words} in the columns"
        yield f"{at(path)} is {there}, and {here}"


def at(path: _Path) -> str:
    return f"`{'.'.join(path)}`" if path else "the message"


def _made(kind: SqlType, path: _Path, top: bool = False) -> dict[str, Any]:
    if kind.name == "STRUCT":
        inside = {each.name: _made(each.type, (*path, each.name)) for each in kind.fields}
        found = {"type": "object", "properties": inside, "additionalProperties": False}
    elif kind.name == "ARRAY":
        found = {"type": "array", "items": _made(kind.fields[0].type, path)}
    elif kind.name == "MAP":
        found = {"type": "object", "additionalProperties": _made(kind.fields[1].type, path)}
    elif kind.name in _IN_JSON:
        found = _IN_JSON[kind.name]
    else:
        raise ValueError(f"{at(path)} is {kind.words}, which JSON has not")
    return found if top or "type" not in found else {**found, "type": [found["type"], "null"]}


def _object(text: str, name: str) -> Any:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as fault:
        place = f"line {fault.lineno}, column {fault.colno}"
        raise ValueError(f"{name} is not JSON: {fault.msg} at {place}") from fault
    if isinstance(found, dict):
        return found
    raise ValueError(f"{name} is no object of JSON")


def _kinds(value: dict[str, Any]) -> list[str]:
    """The types that a schema says, or that follow from what else it says."""
    said = value.get("type")
    if isinstance(said, str | list):
        kinds = [said] if isinstance(said, str) else said
        return [kind for kind in kinds if kind in (*_PLAIN, "string", "object", "array")]
    if "properties" in value or "additionalProperties" in value:
        return ["object"]
    if "items" in value:
        return ["array"]
    some = value.get("enum", [value["const"]] if "const" in value else [])
    return sorted({_kind_of(each) for each in some})


def _kind_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
    return "array" if isinstance(value, list) else "object"


def _text(value: dict[str, Any]) -> SqlType:
    if value.get("contentEncoding") == "base64":
        return SqlType("BINARY")
    return SqlType(_TEXTS.get(value.get("format", ""), "STRING"))


def _alternatives(value: Any) -> list[Any]:
    """What `oneOf` or `anyOf` name, where nothing else says what a value is."""
    if not isinstance(value, dict) or "type" in value or "properties" in value:
        return []
    return [each for key in ("oneOf", "anyOf") for each in value.get(key, ())]


def _is_null(value: Any) -> bool:
    return isinstance(value, dict) and _kinds(value) == ["null"]


def family(kind: SqlType) -> str:
    """What its values are in JSON."""
    return next((name for name, names in _FAMILIES.items() if kind.name in names), kind.name)


def _refuse_twice(names: list[str], path: _Path) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            both = f"`{other}` and `{name}`"
            raise ValueError(f"{at(path)} has {both}, which are the same name in SQL")
