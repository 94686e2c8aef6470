"""What is different between two schemas, in the words of their fields.

A schema becomes an outline: the path of each field and what stands there (`customer.email` →
`null | string, default null`). Two outlines are compared. This tells a person what has changed;
whether a registry takes the change is the registry's to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from headrace.admin.registry_schemas import Schema, SchemaType

T = TypeVar("T")
Outline = dict[str, str]
WHOLE = "(whole)"
"""The path of the schema itself."""


@dataclass(frozen=True)
class Difference:
    """What stood at a path `before`, and what stands there `after`; None is nothing."""

    path: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"+ {self.path}: {self.after}"
        if self.after is None:
            return f"- {self.path}: {self.before}"
        return f"~ {self.path}: {self.before} → {self.after}"


class BrokenSchema(ValueError):
    """A text that is no schema of its type; says what is wrong, and where."""


def differences(before: Schema, after: Schema) -> tuple[Difference, ...]:
    """In the order of the fields, as they were; `BrokenSchema` if `after` is broken."""
    new = outline(after)
    try:
        old = outline(before)
    except BrokenSchema:
        # It stands in a registry, which understands more than this module.
        return ()
    paths = [*old, *(path for path in new if path not in old)]
    pairs = ((path, old.get(path), new.get(path)) for path in paths)
    return tuple(Difference(path, a, b) for path, a, b in pairs if a != b)


def outline(schema: Schema) -> Outline:
    """Path → what stands there; `BrokenSchema` if it is none."""
    match schema.type:
        case SchemaType.AVRO:
            return _Avro(foreign=bool(schema.references)).outline(json.loads(schema.text))
        case SchemaType.JSON:
            return dict(_json(json.loads(schema.text), "", required=False))
        case SchemaType.PROTOBUF:
            return dict(_protobuf(_Tokens(schema.text), "", ""))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# Avro

_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}


class _Avro:
    """Walks one schema. With `foreign` types, names that it does not define may be references."""

    def __init__(self, foreign: bool) -> None:
        self._foreign = foreign
        self._known: set[str] = set()
        self._found: Outline = {}

    def outline(self, node: Any) -> Outline:
        self._found[WHOLE] = ""
        self._found[WHOLE] = self._type(node, "", "")
        return self._found

    def _type(self, node: Any, path: str, space: str) -> str:
        """The words for a type; what is inside it goes into the outline."""
        match node:
            case str():
                return self._named(node, path, space)
            case list():
                inside = sum(isinstance(each, dict) for each in node)
                return " | ".join(self._branch(each, path, space, inside > 1) for each in node)
            case {"type": "record" | "error"}:
                return self._record(node, path, space)
            case {"type": "enum", "symbols": list(symbols)}:
                return f"enum {self._define(node, path, space)} of {', '.join(map(str, symbols))}"
            case {"type": "fixed", "size": int(size)}:
                return _logical(node, f"fixed {self._define(node, path, space)} of {size} bytes")
            case {"type": "array", "items": items}:
                return f"array of {self._type(items, f'{path}[]', space)}"
            case {"type": "map", "values": values}:
                return f"map of {self._type(values, f'{path}{{}}', space)}"
            case {"type": "enum" | "fixed" | "array" | "map" as kind}:
                raise BrokenSchema(f"{path or WHOLE}: this {kind} is not complete")
            case {"type": inner}:
                return _logical(node, self._type(inner, path, space))
        raise BrokenSchema(f"{path or WHOLE}: {json.dumps(node)} is no type")

    def _branch(self, node: Any, path: str, space: str, several: bool) -> str:
        """A part of a union; parts with something inside have paths of their own."""
        name = node.get("name") or node.get("type") if isinstance(node, dict) else None
        return self._type(node, f"{path}({name})" if several and name else path, space)

    def _record(self, node: dict[str, Any], path: str, space: str) -> str:
        name = self._define(node, path, space)
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise BrokenSchema(f"{path or WHOLE}: record {name} has no list of fields")
        for field in fields:
            if not isinstance(field, dict) or "name" not in field or "type" not in field:
                raise BrokenSchema(f"record {name}: {json.dumps(field)} has no name or no type")
            here = _join(path, str(field["name"]))
            self._found[here] = ""  # its place in the order, before what is inside it
            text = self._type(field["type"], here, name.rpartition(".")[0])
            self._found[here] = text + _field_words(field)
        return f"record {name}"

    def _define(self, node: dict[str, Any], path: str, space: str) -> str:
        name = node.get("name")
        if not isinstance(name, str):
            raise BrokenSchema(f"{path or WHOLE}: this {node['type']} has no name")
        whole = name if "." in name else _join(node.get("namespace", space) or "", name)
        self._known.add(whole)
        return whole

    def _named(self, name: str, path: str, space: str) -> str:
        if name in _PRIMITIVES:
            return name
        whole = name if "." in name or not space else f"{space}.{name}"
        if whole not in self._known and name not in self._known and not self._foreign:
            raise BrokenSchema(f"{path or WHOLE}: there is no type {name}")
        return whole


def _logical(node: dict[str, Any], text: str) -> str:
    kind = node.get("logicalType")
    if kind is None:
        return text
    sizes = [str(node[each]) for each in ("precision", "scale") if each in node]
    return f"{text} as {kind}" + (f"({', '.join(sizes)})" if sizes else "")


def _field_words(field: dict[str, Any]) -> str:
    default = f", default {json.dumps(field['default'])}" if "default" in field else ""
    aliases = field.get("aliases")
    return default + (f", also {', '.join(map(str, aliases))}" if aliases else "")


# JSON Schema

_TOLD_ELSEWHERE = {"type", "properties", "required", "items", "$defs", "definitions"}
_ONLY_TALK = {"$schema", "$id", "$comment", "title", "description", "default", "examples"}
_WAYS = ("allOf", "anyOf", "oneOf")


def _json(node: Any, path: str, required: bool) -> Iterator[tuple[str, str]]:
    if not isinstance(node, dict | bool):
        raise BrokenSchema(f"{path or WHOLE}: {json.dumps(node)} is no schema")
    yield path or WHOLE, _json_words(node) + (", required" if required else "")
    if isinstance(node, bool):
        return
    needed = _part(node, "required", list)
    for name, inner in _part(node, "properties", dict).items():
        yield from _json(inner, _join(path, name), name in needed)
    for keyword in ("$defs", "definitions"):
        for name, inner in _part(node, keyword, dict).items():
            yield from _json(inner, f"{path}#{name}", required=False)
    for keyword in _WAYS:
        for number, inner in enumerate(_part(node, keyword, list), 1):
            yield from _json(inner, f"{path}({keyword} {number})", required=False)
    items = node.get("items", [])
    for inner in items if isinstance(items, list) else [items]:
        yield from _json(inner, f"{path}[]", required=False)


def _part(node: dict[str, Any], keyword: str, kind: type[T]) -> T:
    """What a keyword holds, or nothing of its kind: an old draft may have meant another one."""
    value = node.get(keyword)
    return value if isinstance(value, kind) else kind()


def _json_words(node: dict[str, Any] | bool) -> str:
    if isinstance(node, bool):
        return "anything" if node else "nothing"
    kind = node.get("type")
    words = " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind or "any type")
    left_out = {*_TOLD_ELSEWHERE, *_ONLY_TALK, *_WAYS}
    rest = {name: value for name, value in sorted(node.items()) if name not in left_out}
    return words + "".join(f", {name} {json.dumps(value)}" for name, value in rest.items())


# Protobuf

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w.+-]+|\S""",
    re.DOTALL,
)
_LABELS = ("optional", "required", "repeated")
_NOT_TOLD = ("option", "reserved", "extensions")


class _Tokens:
    """Statements of a .proto file: words up to `;`, or up to the `{` of a block."""

    def __init__(self, text: str) -> None:
        self._tokens = [found[0] for found in _TOKEN.finditer(text) if found["skip"] is None]
        self._next = 0

    def statement(self) -> tuple[list[str], str] | None:
        """Its words and how it ended: `;`, `{` or `}`; None at the end of the text."""
        words: list[str] = []
        depth = 0
        for token in self._rest():
            depth += {"[": 1, "]": -1}.get(token, 0)
            if depth == 0 and token in ";{}":
                return words, token
            words.append(token)
        if words:
            raise BrokenSchema(f"the text ends after `{' '.join(words[-5:])}`")
        return None

    def skip_block(self) -> None:
        depth = 1
        for token in self._rest():
            depth += {"{": 1, "}": -1}.get(token, 0)
            if depth == 0:
                return

    def _rest(self) -> Iterator[str]:
        while self._next < len(self._tokens):
            self._next += 1
            yield self._tokens[self._next - 1]


def _protobuf(tokens: _Tokens, path: str, inside: str) -> Iterator[tuple[str, str]]:
    """The statements of a block; `inside` is the kind of the block, or nothing."""
    while (statement := tokens.statement()) is not None:
        words, end = statement
        if end == "}":
            return
        if end == "{":
            yield from _block(tokens, words, path)
        elif words and words[0] not in _NOT_TOLD:
            yield _proto_line(words, path, inside)
    if inside:
        raise BrokenSchema(f"{path} is not closed")


def _block(tokens: _Tokens, words: list[str], path: str) -> Iterator[tuple[str, str]]:
    match words:
        case ["message" | "enum" as kind, name]:
            here = _join(path, name)
            yield here, kind
            yield from _protobuf(tokens, here, kind)
        case ["oneof", name]:
            yield from _protobuf(tokens, path, f"oneof {name}")
        case _:
            # Options, services, extensions and groups: nothing of a message's own fields.
            tokens.skip_block()


def _proto_line(words: list[str], path: str, inside: str) -> tuple[str, str]:
    if not inside:
        return _file_line(words)
    if "=" not in words or words.index("=") in (0, len(words) - 1):
        raise BrokenSchema(f"{path}: `{' '.join(words)}` is no field")
    equals = words.index("=")
    *kind, name = words[:equals]
    number = f"= {words[equals + 1]}"
    if inside == "enum":
        return _join(path, name), number
    if not kind or kind in ([label] for label in _LABELS):
        raise BrokenSchema(f"{path}: field `{name}` has no type")
    within = f" of {inside}" if inside.startswith("oneof") else ""
    return _join(path, name), f"{_proto_type(kind)} {number}{within}"


def _file_line(words: list[str]) -> tuple[str, str]:
    if words[0] in ("syntax", "edition", "package"):
        return words[0], words[-1].strip("\"'")
    if words[0] == "import":
        return f"import {words[-1]}", "imported"
    raise BrokenSchema(f"`{' '.join(words)}` is no statement of a .proto file")


def _proto_type(words: list[str]) -> str:
    text = " ".join(words)
    return re.sub(r"map < (\S+) , (\S+) >", r"map<\1, \2>", text)
