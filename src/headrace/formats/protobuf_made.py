"""A `.proto` for rows: what is registered where the definition gives no schema.

Every field says whether it was set, so that NULL stays NULL. A field keeps the number that it has
in the subject's newest schema, and numbers that were used are not used again. Where that schema has
a field for all columns already, it is the schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto

from headrace.formats.protobuf_types import columns_of, entry_of, fields_for, is_map
from headrace.model.schema import Schema
from headrace.model.types import SqlField, SqlType, fields_of

_SCALARS = {
    "BOOLEAN": "bool",
    "TINYINT": "int32",
    "SMALLINT": "int32",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "bytes",
    "DECIMAL": "string",
}
_MESSAGES = {
    "TIMESTAMP": ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
    "TIMESTAMP_LTZ": ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
    "DATE": ("google.type.Date", "google/type/date.proto"),
}
_KEYS = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "STRING")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a column comes back as, where that is another type.
_COMES_BACK = {
    "TINYINT": "INT",
    "SMALLINT": "INT",
    "DECIMAL": "STRING",
    "TIMESTAMP_LTZ": "TIMESTAMP",
}
# Protobuf keeps these numbers for itself.
_RESERVED = range(19_000, 20_000)


def made(name: str, rows: Schema, newest: Descriptor | None = None) -> str:
    """Raises ValueError with every column that a message cannot have."""
    package, _, message = name.rpartition(".")
    text = _Text()
    lines = list(text.message(message, fields_of(rows), newest))
    if text.faults:
        raise ValueError("; ".join(text.faults))
    head = ['syntax = "proto3";', ""]
    head += [f"package {package};", ""] if package else []
    imports = [f'import "{each}";' for each in sorted(text.imports)]
    return "\n".join([*head, *imports, *([""] if imports else []), *lines, ""])


def holds(message: Descriptor, rows: Schema) -> bool:
    """Whether rows can be written as this message without another type for any column."""
    _, faults = fields_for(message, fields_of(rows), writing=True)
    if faults:
        return False
    try:
        there = fields_of(columns_of(message))
    except ValueError:
        return False
    return _same(fields_of(rows), there)


@dataclass
class _Text:
    """One file on its way."""

    imports: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def message(
        self, name: str, fields: tuple[SqlField, ...], newest: Descriptor | None, path: str = ""
    ) -> Iterator[str]:
        yield f"message {name} {{"
        yield from (f"  {line}" for line in self._body(fields, newest, path))
        yield "}"

    def _body(
        self, fields: tuple[SqlField, ...], newest: Descriptor | None, path: str
    ) -> Iterator[str]:
        numbers, reserved = _numbers(fields, newest)
        yield from reserved
        taken = {each.name.lower() for each in fields}
        for each in fields:
            where = f"{path}{each.name}"
            if not _IDENTIFIER.fullmatch(each.name):
                self.faults.append(f"`{where}` is no name of a Protobuf field")
            inner = _struct_inside(each.type)
            record = _record_name(each.name, taken)
            if inner is not None:
                before = _message_of(newest, each.name)
                yield from self.message(record, inner.fields, before, f"{where}.")
            yield f"{self._type(each.type, record, where)} {each.name} = {numbers[each.name]};"

    def _type(self, type: SqlType, record: str, path: str) -> str:
        if type.name == "ARRAY":
            return f"repeated {self._element(type.fields[0].type, record, path)}"
        if type.name == "MAP":
            key, value = type.fields
            if key.type.name not in _KEYS:
                self.faults.append(f"`{path}` has {key.type.words} for keys")
                return ""
            return f"map<{_SCALARS[key.type.name]}, {self._element(value.type, record, path)}>"
        element = self._element(type, record, path)
        return f"optional {element}" if type.name in _SCALARS else element

    def _element(self, type: SqlType, record: str, path: str) -> str:
        if type.name == "STRUCT":
            return record
        if type.name in _MESSAGES:
            message, file = _MESSAGES[type.name]
            self.imports.add(file)
            return message
        if type.name not in _SCALARS:
            self.faults.append(f"`{path}` is {type.words}, which no field of Protobuf can be")
        return _SCALARS.get(type.name, "")


def _struct_inside(type: SqlType) -> SqlType | None:
    """The struct that a column is, or has for elements or values."""
    inner = type.fields[-1].type if type.name in ("ARRAY", "MAP") else type
    return inner if inner.name == "STRUCT" else None


def _record_name(column: str, taken: set[str]) -> str:
    """For the message inside; it must not be the name of a field, nor that of another."""
    name = "".join(part[:1].upper() + part[1:] for part in column.split("_")) + "Record"
    while name.lower() in taken:
        name += "_"
    taken.add(name.lower())
    return name


def _message_of(newest: Descriptor | None, name: str) -> Descriptor | None:
    found = newest.fields_by_name.get(name) if newest is not None else None
    if found is None:
        return None
    inside = entry_of(found)[1] if is_map(found) else found
    return inside.message_type


def _numbers(
    fields: tuple[SqlField, ...], newest: Descriptor | None
) -> tuple[dict[str, int], list[str]]:
    """A number for each field, and the lines that keep those which are not used any more."""
    before = {each.name: each.number for each in newest.fields} if newest is not None else {}
    names = {each.name for each in fields}
    gone = {name: number for name, number in before.items() if name not in names}
    kept_back = _kept_back(newest)
    numbers = {name: before[name] for name in names & set(before)}
    used = {*before.values(), *(number for first, end in kept_back for number in (first, end - 1))}
    next_number = max(used, default=0) + 1
    for each in fields:
        if each.name not in numbers:
            while next_number in _RESERVED:
                next_number += 1
            numbers[each.name] = next_number
            next_number += 1
    spans = sorted([*kept_back, *((number, number + 1) for number in gone.values())])
    return numbers, _reserved_lines(spans)


def _kept_back(newest: Descriptor | None) -> list[tuple[int, int]]:
    if newest is None:
        return []
    proto = DescriptorProto()
    newest.CopyToProto(proto)
    return [(each.start, each.end) for each in proto.reserved_range]


def _reserved_lines(spans: list[tuple[int, int]]) -> list[str]:
    if not spans:
        return []
    words = (str(a) if end - a == 1 else f"{a} to {end - 1}" for a, end in spans)
    return [f"reserved {', '.join(words)};"]


def _same(columns: tuple[SqlField, ...], there: tuple[SqlField, ...]) -> bool:
    """Whether columns would come back as they are, as far as messages have their types at all."""
    by_name = {each.name: each.type for each in there}
    return all(
        each.name in by_name and _comes_back(each.type, by_name[each.name]) for each in columns
    )


def _comes_back(type: SqlType, there: SqlType) -> bool:
    if type.name == "STRUCT":
        return there.name == "STRUCT" and _same(type.fields, there.fields)
    if type.name in ("ARRAY", "MAP"):
        return type.name == there.name and all(
            _comes_back(own.type, other.type)
            for own, other in zip(type.fields, there.fields, strict=True)
        )
    return type == there or _COMES_BACK.get(type.name) == there.name
