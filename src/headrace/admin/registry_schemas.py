"""A schema as a registry takes it: its type, its text and what it refers to; read from files.

Comes in: a file, and what the command line says about it. Goes out: a `Schema`. The type is told by
the file's suffix, else by what is in it. No registry is asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from headrace.errors import DefinitionError


class SchemaType(StrEnum):
    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


@dataclass(frozen=True)
class Reference:
    """Another schema that this one uses: `name` is what it is called in the text."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()


_SUFFIXES = {
    ".avsc": SchemaType.AVRO,
    ".proto": SchemaType.PROTOBUF,
    ".jsonschema": SchemaType.JSON,
}
# Types of a whole Avro schema, each with what must stand beside it.
_AVRO_PARTS = {"record": "fields", "error": "fields", "enum": "symbols", "fixed": "size"}
_ONLY_AVRO = {"bytes", "double", "float", "int", "long", "map"}
_ONLY_JSON = {"integer", "number", "object"}
_JSON_WORDS = {
    "$defs",
    "$id",
    "$ref",
    "$schema",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "definitions",
    "oneOf",
    "properties",
}
_PROTOBUF = re.compile(
    r"^\s*(syntax|edition)\s*=|^\s*(message|enum|package|import)\b", re.MULTILINE
)


def read(
    file: Path, type: SchemaType | None = None, references: Sequence[Reference] = ()
) -> Schema:
    """The schema in a file; `DefinitionError` where it is none or its type cannot be told."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        raise DefinitionError(f"reading {file}: {failure}") from failure
    return parse(text, str(file), type, references)


def parse(
    text: str, name: str, type: SchemaType | None = None, references: Sequence[Reference] = ()
) -> Schema:
    """The same for a text that is called `name`."""
    if not text.strip():
        raise DefinitionError(f"{name} is empty")
    known = type or _by_suffix(name) or _by_content(text)
    if known is None:
        raise DefinitionError(
            f"{name}: the type of this schema cannot be told",
            hint="name it: --type avro, protobuf or json",
        )
    if known is not SchemaType.PROTOBUF:
        _check_json(text, name, known)
    return Schema(known, text, tuple(references))


def reference(text: str) -> Reference:
    """`NAME=SUBJECT:VERSION`, as the command line has it; a subject may hold colons."""
    name, _, target = text.partition("=")
    subject, _, version = target.rpartition(":")
    if not (name and subject and version.isdecimal()):
        raise DefinitionError(
            f"--reference `{text}` is not NAME=SUBJECT:VERSION",
            hint="as in --reference money.proto=money:1",
        )
    return Reference(name, subject, int(version))


def _by_suffix(name: str) -> SchemaType | None:
    if name.endswith(".schema.json"):
        return SchemaType.JSON
    suffix = Path(name).suffix.lower()
    if suffix == ".avdl":
        raise DefinitionError(
            f"{name} is Avro IDL, which registries do not take",
            hint="make a schema of it first, with `idl2schemata` of Avro's tools",
        )
    return _SUFFIXES.get(suffix)


def _by_content(text: str) -> SchemaType | None:
    try:
        value = json.loads(text)
    except ValueError:
        return SchemaType.PROTOBUF if _PROTOBUF.search(text) else None
    if isinstance(value, bool):
        return SchemaType.JSON
    if isinstance(value, str | list):
        return SchemaType.AVRO
    return _of_object(value) if isinstance(value, dict) else None


def _of_object(value: dict[str, Any]) -> SchemaType | None:
    """Avro or JSON Schema; None for what can be both, such as `{"type": "string"}`."""
    kind = value.get("type")
    if not isinstance(kind, str):
        return SchemaType.JSON if kind is not None or _JSON_WORDS & value.keys() else None
    if _AVRO_PARTS.get(kind) in value or kind in _ONLY_AVRO:
        return SchemaType.AVRO
    return SchemaType.JSON if kind in _ONLY_JSON or _JSON_WORDS & value.keys() else None


def _check_json(text: str, name: str, type: SchemaType) -> None:
    try:
        json.loads(text)
    except json.JSONDecodeError as failure:
        raise DefinitionError(
            f"{name}:{failure.lineno}:{failure.colno}: not JSON, as a schema of type {type} is: "
            f"{failure.msg}"
        ) from failure
