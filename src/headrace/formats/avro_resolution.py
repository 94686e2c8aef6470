"""How messages of one Avro schema are read into columns: `resolved` makes the two schemas for it.

`from_avro` reads by the schema of the writer into one of a reader. Bytes of Avro hold no names, so
both are made anew here, with names that fit each other: fields are called as the columns are, those
that no column wants are passed over, and a type that is used twice is two types. A leaf keeps the
writer's own type where Spark makes the same of it, as only that knows its unit or scale.

The message is put into a record, as `value`, with a number after it, the `mark`. That is added to
the bytes of each message, too: one that does not end where its schema says has another one there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

from headrace.formats.avro_json import Emitter, fields_json
from headrace.formats.avro_schema import (
    NAME,
    NO_DEFAULT,
    PRIMITIVES,
    Again,
    Array,
    AvroField,
    AvroMap,
    AvroSchema,
    Enum,
    Fixed,
    Node,
    Primitive,
    Record,
    Union,
    alone,
    short,
)
from headrace.formats.avro_types import (
    IN_AVRO,
    PAIRS,
    at,
    is_nothing,
    is_pair,
    logical_json,
    member_name,
    sql_type,
    words,
)
from headrace.model.types import SqlField, SqlType, array, map_of, struct

VALUE, MARK = "value", "mark"
# Any number would do; it is long so that no bytes are it by accident.
MARK_NUMBER = 6840209914700106781
MARK_BYTES = bytes.fromhex("bab0f0aca5aba7edbd01")

# What Avro itself reads a plain type into.
_PROMOTED = {
    "int": {"BIGINT": "long", "FLOAT": "float", "DOUBLE": "double"},
    "long": {"FLOAT": "float", "DOUBLE": "double"},
    "float": {"DOUBLE": "double"},
    "string": {"BINARY": "bytes"},
    "bytes": {"STRING": "string"},
}
_WHOLE_DIGITS = {"INT": 10, "BIGINT": 19}
_Path = tuple[str, ...]


@dataclass(frozen=True)
class Resolution:
    """Two schemas as text, and what `from_avro` makes of them: `value` and `mark` in a STRUCT.

    Where that is not of the type of the columns, which is `target`, a cast makes it so.
    """

    writer: str
    reader: str
    found: SqlType
    target: SqlType


def resolved(
    writer: AvroSchema, target: SqlType, newest: AvroSchema | None = None
) -> Resolution | list[str]:
    """How messages of a schema become values of a type; or every reason why they cannot.

    `newest` is the schema that gives defaults, and other names for fields.
    """
    resolver = _Resolver(writer, newest)
    both = resolver.both(writer.root, target, newest.root if newest is not None else None, ())
    if resolver.faults:
        return resolver.faults
    return Resolution(
        _marked(both.writer), _marked(both.reader), with_mark(both.kind), with_mark(target)
    )


def castable(own: SqlType, target: SqlType) -> bool:
    """Whether every value of a plain type has a place in another."""
    if own == target:
        return True
    if own.name == "DECIMAL" or own.name in _WHOLE_DIGITS:
        digits, scale = own.size or (_WHOLE_DIGITS[own.name], 0)
        if target.name == "DECIMAL":
            return target.size[1] >= scale and target.size[0] - target.size[1] >= digits - scale
        return target.name == "DOUBLE" or (own.name, target.name) == ("INT", "BIGINT")
    return (own.name, target.name) in {("FLOAT", "DOUBLE"), ("DATE", "TIMESTAMP_NTZ")}


@dataclass(frozen=True)
class _Both:
    """A type as the writer has it and as the reader wants it, and what Spark makes of the latter.

    Both are JSON's values.
    """

    writer: Any
    reader: Any
    kind: SqlType


_NOTHING = SqlType("VOID")


class _Resolver:
    """One resolution; what stands in its way is collected in `faults`."""

    def __init__(
        self, writer: AvroSchema, newest: AvroSchema | None, names: Iterator[int] | None = None
    ) -> None:
        self._emitter = Emitter(writer.records, names, hidden=True)
        self._newest = newest
        self.faults: list[str] = []

    def both(self, node: Node, target: SqlType, newest: Node | None, path: _Path) -> _Both:
        node = self._expanded(node)
        newest = self._latest(newest)
        if is_nothing(node):
            reader, kind = self._missing(target)
            return _Both(self._emitter.node(node), ["null", reader], kind)
        if target.name == "STRUCT" and (_is_several(node) or _is_several(newest)):
            return self._several(node, target, newest, path)
        match node:
            case Union():
                return self._one_or_null(node, target, newest, path)
            case Record() if target.name == "STRUCT":
                return self._record(node, target, newest, path)
            case Array() if target.name == "ARRAY":
                return self._array(node, target, newest, path)
            case AvroMap() if target.name == "MAP" and target.fields[0].type.name == "STRING":
                return self._map(node, target, newest, path)
            case Primitive() | Enum() | Fixed():
                return self._leaf(node, target, path)
        return self._unfit(node, target, path)

    def _leaf(
        self, node: Primitive | Enum | Fixed, target: SqlType, path: _Path, promotes: bool = True
    ) -> _Both:
        try:
            own = sql_type(node, path)
        except ValueError as fault:
            self.faults.append(str(fault))
            return _Both("null", "null", _NOTHING)
        made = self._emitter.node(node)
        if promotes and own != target and isinstance(node, Primitive) and not logical_json(node):
            promoted = _PROMOTED.get(node.name, {}).get(target.name)
            if promoted is not None:
                return _Both(made, promoted, target)
        return _Both(made, made, own) if castable(own, target) else self._unfit(node, target, path)

    def _one_or_null(
        self, union: Union, target: SqlType, newest: Node | None, path: _Path
    ) -> _Both:
        if is_pair(union):
            plain = [member_name(each) for each in union.branches]
            kind = SqlType(PAIRS[frozenset(plain) - {"null"}])
            fits = castable(kind, target)
            return _Both(plain, plain, kind) if fits else self._unfit(union, target, path)
        if len(union.members) > 1:
            return self._unfit(union, target, path)
        both = self.both(union.members[0], target, newest, path)
        writer, reader = (
            ["null" if each is not union.members[0] else inner for each in union.branches]
            for inner in (both.writer, both.reader)
        )
        return _Both(writer, reader, both.kind)

    def _array(self, node: Array, target: SqlType, newest: Node | None, path: _Path) -> _Both:
        inside = newest.items if isinstance(newest, Array) else None
        both = self.both(node.items, target.fields[0].type, inside, (*path, "element"))
        writer, reader = ({"type": "array", "items": each} for each in (both.writer, both.reader))
        return _Both(writer, reader, array(both.kind))

    def _map(self, node: AvroMap, target: SqlType, newest: Node | None, path: _Path) -> _Both:
        inside = newest.values if isinstance(newest, AvroMap) else None
        both = self.both(node.values, target.fields[1].type, inside, (*path, "value"))
        writer, reader = ({"type": "map", "values": each} for each in (both.writer, both.reader))
        return _Both(writer, reader, map_of(both.kind))

    def _record(self, node: Record, target: SqlType, newest: Node | None, path: _Path) -> _Both:
        newer = {each.name: each for each in newest.fields} if isinstance(newest, Record) else {}
        sources = _matched(node, target, newer)
        head = self._emitter.head("record", short(node.name))
        names = _names(target)
        with self._emitter.within(node, head):
            fields = [
                self._field(
                    node.fields[sources[each.name]] if each.name in sources else None,
                    SqlField(name, each.type),
                    newer.get(each.name),
                    (*path, each.name),
                )
                for each, name in zip(target.fields, names, strict=True)
            ]
            written = fields_json(
                self._emitter.field_names(node),
                [
                    None if n in sources.values() else self._emitter.node(each.type)
                    for n, each in enumerate(node.fields)
                ],
            )
        for each, both in zip(target.fields, fields, strict=True):
            if each.name in sources:
                written[sources[each.name]] = both.writer
        return _Both(
            {**head, "fields": written},
            {**head, "fields": [both.reader for both in fields]},
            struct(tuple(map(SqlField, names, (both.kind for both in fields)))),
        )

    def _field(
        self, source: AvroField | None, field: SqlField, latest: AvroField | None, path: _Path
    ) -> _Both:
        """A field of a record, as it is called in both schemas. One that the writer has not is the
        newest schema's default, or else null.
        """
        if source is not None:
            newest = latest.type if latest is not None else None
            both = self.both(source.type, field.type, newest, path)
            writer = {"name": field.name, "type": both.writer}
            return _Both(writer, {"name": field.name, "type": both.reader}, both.kind)
        if latest is not None and latest.default is not NO_DEFAULT:
            resolver = self._of_newest()
            both = resolver.both(latest.type, field.type, latest.type, path)
            default = resolver.default(latest.default, latest.type, field.type)
            if not resolver.faults:
                reader = {"name": field.name, "type": both.reader, "default": default}
                return _Both(None, reader, both.kind)
        inside, kind = self._missing(field.type)
        return _Both(None, {"name": field.name, "type": ["null", inside], "default": None}, kind)

    def _of_newest(self) -> _Resolver:
        """One that takes types of the newest schema for those of a writer."""
        assert self._newest is not None  # a type of it is there
        return _Resolver(self._newest, self._newest, self._emitter.names)

    def default(self, value: Any, node: Node, target: SqlType) -> Any:
        """A default as the reader's schema has it, whose records may have fewer fields."""
        node = self._expanded(node.branches[0] if isinstance(node, Union) else node)
        match node:
            case Record() if isinstance(value, dict) and target.name == "STRUCT":
                return dict(self._defaults(value, node, target))
            case Array() if isinstance(value, list) and target.name == "ARRAY":
                kind = target.fields[0].type
                return [self.default(each, node.items, kind) for each in value]
            case AvroMap() if isinstance(value, dict) and target.name == "MAP":
                inside = target.fields[1].type
                return {key: self.default(each, node.values, inside) for key, each in value.items()}
        return value

    def _defaults(
        self, value: dict[str, Any], record: Record, target: SqlType
    ) -> Iterator[tuple[str, Any]]:
        sources = _matched(record, target, {})
        for field, name in zip(target.fields, _names(target), strict=True):
            if field.name not in sources:
                continue
            source = record.fields[sources[field.name]]
            given = value.get(source.name, source.default)
            if given is NO_DEFAULT:
                self.faults.append(f"the default of `{record.name}` has no `{source.name}`")
            yield name, self.default(given, source.type, field.type)

    def _missing(self, target: SqlType) -> tuple[Any, SqlType]:
        """Some type that Spark makes the wanted one of, for what is never there; or one to cast."""
        match target.name:
            case "STRUCT":
                return self._missing_record(target)
            case "ARRAY":
                reader, kind = self._missing(target.fields[0].type)
                return {"type": "array", "items": ["null", reader]}, array(kind)
            case "MAP":
                reader, kind = self._missing(target.fields[1].type)
                return {"type": "map", "values": ["null", reader]}, map_of(kind)
            case "DECIMAL":
                node = Primitive("bytes", "decimal", (target.size[0], target.size[1]))
                return self._emitter.node(node), target
            case "TINYINT" | "SMALLINT":
                return "int", SqlType("INT")
        if target.name in IN_AVRO:
            return IN_AVRO[target.name], target
        return "string", SqlType("STRING")

    def _missing_record(self, target: SqlType) -> tuple[Any, SqlType]:
        found = [self._missing(each.type) for each in target.fields]
        names = _names(target)
        fields = fields_json(names, [["null", reader] for reader, _ in found])
        made = {**self._emitter.head("record", "missing"), "fields": fields}
        return made, struct(tuple(map(SqlField, names, (kind for _, kind in found))))

    def _several(self, node: Node, target: SqlType, newest: Node | None, path: _Path) -> _Both:
        """A union of several types; the columns have a field for each."""
        own = node.branches if isinstance(node, Union) else (node,)
        newer = {member_name(each): each for each in newest.members} if _is_several(newest) else {}
        fields = {each.name: each for each in target.fields}
        written: list[Any] = []
        read: dict[str, tuple[Any, SqlField]] = {}
        for each in own:
            name = _member_among(fields, each, newer)
            if is_nothing(each):
                written.append("null")
            elif name is None or name in read:
                what = f"{at(path)} may be of type `{member_name(each)}`"
                self.faults.append(f"{what}, and has no field for it in the columns")
            else:
                both = self._branch(each, fields[name].type, newer.get(name), (*path, name))
                written.append(both.writer)
                read[name] = both.reader, SqlField(member_name(each), both.kind)
        for name in fields.keys() - read.keys():
            read[name] = self._absent_branch(fields[name], newer.get(name), (*path, name))
        if len(fields) == 1:
            self.faults.append(f"{at(path)} is of several types, and has one field in the columns")
        readers = ["null", *(read[name][0] for name in fields)]
        writer = written if isinstance(node, Union) else (written or ["null"])[0]
        return _Both(writer, readers, struct(tuple(read[name][1] for name in fields)))

    def _branch(self, node: Node, target: SqlType, newest: Node | None, path: _Path) -> _Both:
        if isinstance(node, Primitive):
            # Not promoted, as what it would become may be another branch.
            return self._leaf(node, target, path, promotes=False)
        return self.both(node, target, newest, path)

    def _absent_branch(
        self, field: SqlField, newest: Node | None, path: _Path
    ) -> tuple[Any, SqlField]:
        """A branch that the writer has not: only its name and type matter."""
        if newest is not None:
            resolver = self._of_newest()
            both = resolver.both(newest, field.type, newest, path)
            if not resolver.faults:
                return both.reader, SqlField(field.name, both.kind)
        if field.name in PRIMITIVES:
            node = Primitive(field.name)
            return field.name, SqlField(field.name, sql_type(node))
        reader, kind = self._missing(field.type)
        if isinstance(reader, dict) and reader["type"] in ("record", "array", "map"):
            if reader["type"] == "record":
                reader["name"] = field.name
            return reader, SqlField(field.name, kind)
        made = {**self._emitter.head("enum", field.name), "symbols": ["_"]}
        return made, SqlField(field.name, SqlType("STRING"))

    def _unfit(self, node: Node, target: SqlType, path: _Path) -> _Both:
        there, here = f"{words(node)} in the messages", f"{target.words} in the columns"
        self.faults.append(f"{at(path)} is {there}, and {here}")
        return _Both("null", "null", _NOTHING)

    def _expanded(self, node: Node) -> Node:
        return self._emitter.records[node.name] if isinstance(node, Again) else node

    def _latest(self, node: Node | None) -> Node | None:
        """A type of the newest schema, without null."""
        if node is None or self._newest is None:
            return None
        records = self._newest.records
        node = alone(records[node.name] if isinstance(node, Again) else node)
        return records[node.name] if isinstance(node, Again) else node


def _matched(record: Record, target: SqlType, newer: dict[str, AvroField]) -> dict[str, int]:
    """For each wanted field the number of that in the record: of its name, of an older name, or of
    its name in other letters. No field is found twice.
    """
    names = [each.name for each in record.fields]
    found = {each.name: names.index(each.name) for each in target.fields if each.name in names}
    for field in target.fields:
        latest = newer.get(field.name)
        older = [name for name in names if latest is not None and name in latest.aliases]
        folded = [name for name in names if name.lower() == field.name.lower()]
        others = older[:1] or (folded if len(folded) == 1 else [])
        for name in others if field.name not in found else ():
            if names.index(name) not in found.values():
                found[field.name] = names.index(name)
    return found


def _names(target: SqlType) -> list[str]:
    """Those of the fields of a struct, as far as Avro has such names."""
    return [
        each.name if NAME.fullmatch(each.name) else f"_{number}"
        for number, each in enumerate(target.fields)
    ]


def _member_among(fields: dict[str, SqlField], node: Node, newer: dict[str, Node]) -> str | None:
    """The field for a branch of a union: of its name, or of the type whose alias that is."""
    name = member_name(node)
    if name in fields:
        return name
    for each, newest in newer.items():
        aliases = newest.aliases if isinstance(newest, Record | Enum | Fixed) else ()
        if each in fields and name in map(short, aliases):
            return each
    return None


def _is_several(node: Node | None) -> TypeGuard[Union]:
    return isinstance(node, Union) and len(node.members) > 1 and not is_pair(node)


def _marked(value: Any) -> str:
    fields = fields_json([VALUE, MARK], [value, "long"])
    record = {"type": "record", "name": "message", "namespace": "headrace", "fields": fields}
    return json.dumps(record, ensure_ascii=False)


def with_mark(value: SqlType) -> SqlType:
    """The type of what is read, given that of the message."""
    return struct((SqlField(VALUE, value), SqlField(MARK, SqlType("BIGINT"))))
