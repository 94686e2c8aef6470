"""Rows as messages of Avro, by any schema that they fit: `AvroEncoding`.

`to_avro` wants a struct whose fields are those of the schema, of exactly its types. What rows have
may differ in the order, may be narrower, and may lack what has a default or may be null. `_Shape`
makes the SQL for that; where nothing differs it is the rows' own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.formats.avro_json import schema_json
from headrace.formats.avro_resolution import castable
from headrace.formats.avro_schema import (
    NO_DEFAULT,
    Again,
    Array,
    AvroField,
    AvroMap,
    AvroSchema,
    Enum,
    Fixed,
    Node,
    Record,
    Union,
    alone,
    may_be_null,
    short,
)
from headrace.formats.avro_types import at, is_pair, member_name, sql_type, words
from headrace.formats.encoding import ELEMENTS, ROW_REFUSED, VALUES, Fields, one_value
from headrace.formats.framing import Frame
from headrace.model.schema import Schema, literal, quote
from headrace.model.types import SqlField, SqlType, fields_of, parsed, struct

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Path = tuple[str, ...]
_NARROW = ("TINYINT", "SMALLINT")


@dataclass(frozen=True)
class AvroEncoding:
    """`rows` are the types of what is written; `frame` is what stands before each message."""

    schema: AvroSchema
    rows: Schema
    frame: Frame | None = None
    name: str = "Avro"
    content_type: str = "application/vnd.apache.avro+binary"

    @property
    def required(self) -> tuple[_Path, ...]:
        return tuple(_required(self._kind, self.schema.root, self.schema, ()))

    @property
    def _kind(self) -> SqlType:
        """The type of a whole message, as the rows have it."""
        whole = one_value(self.rows)
        return parsed(whole.type) if whole is not None else struct(fields_of(self.rows))

    def faults(self) -> list[str]:
        """Why rows cannot be written by this schema."""
        shape = _Shape(self.schema)
        whole = one_value(self.rows)
        if whole is not None:
            shape.of("value", parsed(whole.type), self.schema.root, ())
        else:
            self._record(shape, [(each.name, quote(each.name)) for each in self.rows.columns])
        return shape.faults

    def register(self, spark: SparkSession) -> None:
        if self.frame is not None:
            self.frame.register(spark)

    def of_fields(self, fields: Fields) -> str:
        return self._written(self._record(_Shape(self.schema), fields))

    def of_value(self, sql: str) -> str:
        return self._written(_Shape(self.schema).of(f"({sql})", self._kind, self.schema.root, ()))

    def _record(self, shape: _Shape, fields: Fields) -> str:
        types = {each.name: each.type for each in fields_of(self.rows)}
        root = alone(self.schema.root)
        if not isinstance(root, Record):
            shape.faults.append(f"a message by its schema is one {sql_type(root).words}, no record")
            return "NULL"
        parts = [(SqlField(name, types[name]), sql) for name, sql in fields]
        return shape.record(parts, root, ())

    def _written(self, sql: str) -> str:
        avro = f"to_avro({sql}, {literal(json.dumps(schema_json(self.schema)))})"
        return avro if self.frame is None else self.frame.around(avro)


class _Shape:
    """SQL that gives a value the form of a type of Avro; what cannot have it is in `faults`."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self.faults: list[str] = []

    def of(self, sql: str, have: SqlType, node: Node, path: _Path) -> str:
        """`sql` itself if nothing has to be done."""
        node = self._expanded(alone(self._expanded(node)))
        match node:
            case Record() if have.name == "STRUCT":
                return self._nested(sql, have, node, path)
            case Array() if have.name == "ARRAY":
                inner = self.of("x", have.fields[0].type, node.items, (*path, "element"))
                return sql if inner == "x" else f"transform({sql}, x -> {inner})"
            case AvroMap() if have.name == "MAP" and have.fields[0].type.name == "STRING":
                inner = self.of("v", have.fields[1].type, node.values, (*path, "value"))
                return sql if inner == "v" else f"transform_values({sql}, (k, v) -> {inner})"
            case Union() if not is_pair(node) and node.members:
                return self._union(sql, have, node, path)
            case Record() | Array() | AvroMap() | Again():
                return self._unfit(sql, have, node, path)
        return self._leaf(sql, have, node, path)

    def record(self, parts: list[tuple[SqlField, str]], node: Record, path: _Path) -> str:
        """SQL for a struct that fits a record, made of these parts."""
        named = {field.name.lower(): (field, sql) for field, sql in parts}
        made = []
        for each in node.fields:
            found = named.pop(each.name.lower(), None)
            inside = (*path, each.name)
            if found is not None:
                field, sql = found
                made.append(f"{literal(each.name)}, {self.of(sql, field.type, each.type, inside)}")
            elif not self._left_out(each, inside):
                made.append(f"{literal(each.name)}, {self._default(each)}")
        for field, _ in named.values():
            self.faults.append(f"{at((*path, field.name))} is no field of the schema")
        return f"named_struct({', '.join(made)})"

    def _left_out(self, field: AvroField, path: _Path) -> bool:
        """Whether a field that rows have not may be left to `to_avro`, which writes null for it."""
        if field.default is NO_DEFAULT and not may_be_null(field.type):
            self.faults.append(f"{at(path)} has no column, and no default in the schema")
            return True
        return field.default is None or field.default is NO_DEFAULT

    def _default(self, field: AvroField) -> str:
        """SQL for the default of a field: Avro's own, of a message that has no fields at all."""
        default = {"name": "field", "type": self._json(field.type), "default": field.default}
        options = f"map('avroSchema', {_in_record(default)})"
        return f"from_avro(X'', {_in_record()}, {options}).field"

    def _null(self, node: Node) -> str:
        """SQL for a NULL of the type that Spark makes of a branch, inside of which are unions."""
        field = {"name": "field", "type": self._json(node)}
        return f"from_avro(CAST(NULL AS BINARY), {_in_record(field)}).field"

    def _json(self, node: Node) -> Any:
        return schema_json(AvroSchema(node, self._schema.records))

    def _nested(self, sql: str, have: SqlType, node: Record, path: _Path) -> str:
        parts = [(each, f"{sql}.{quote(each.name)}") for each in have.fields]
        same = [each.name.lower() for each in node.fields] == [
            each.name.lower() for each in have.fields
        ]
        made = self.record(parts, node, path)
        fits = same and made == _as_it_is(parts, node)
        return sql if fits else f"IF({sql} IS NULL, NULL, {made})"

    def _union(self, sql: str, have: SqlType, node: Union, path: _Path) -> str:
        """A struct of all branches, as Spark wants it, of which one has a value.

        Rows have a struct of them by their names, or a value for just one of them.
        """
        names = [member_name(each) for each in node.members]
        by_name = {each.name.lower(): each for each in have.fields} if have.fields else {}
        if have.name == "STRUCT" and by_name.keys() <= {name.lower() for name in names}:
            values = [
                self._branch(sql, by_name.get(name.lower()), member, (*path, name))
                for name, member in zip(names, node.members, strict=True)
            ]
        else:
            chosen = self._chosen(have, node)
            if chosen is None:
                return self._unfit(sql, have, node, path)
            values = [
                self.of(sql, have, each, path) if each is chosen else self._null(each)
                for each in node.members
            ]
        made = ", ".join(f"'member{number}', {value}" for number, value in enumerate(values))
        return f"IF({sql} IS NULL, NULL, named_struct({made}))"

    def _branch(self, sql: str, field: SqlField | None, member: Node, path: _Path) -> str:
        if field is None:
            return self._null(member)
        return self.of(f"{sql}.{quote(field.name)}", field.type, member, path)

    def _chosen(self, have: SqlType, node: Union) -> Node | None:
        """The one branch that a value fits."""
        fitting = []
        for each in node.members:
            trial = _Shape(self._schema)
            trial.of("x", have, each, ())
            if not trial.faults:
                fitting.append(each)
        exact = [each for each in fitting if _same(each, have)]
        return exact[0] if exact else fitting[0] if len(fitting) == 1 else None

    def _leaf(self, sql: str, have: SqlType, node: Node, path: _Path) -> str:
        try:
            need = sql_type(node, path)
        except ValueError as fault:
            self.faults.append(str(fault))
            return sql
        if have == need:
            return self._limited(sql, node, path)
        if have.name in _NARROW:
            return self._leaf(f"CAST({sql} AS INT)", SqlType("INT"), node, path)
        return (
            f"CAST({sql} AS {need.ddl})"
            if castable(have, need)
            else self._unfit(sql, have, node, path)
        )

    def _limited(self, sql: str, node: Node, path: _Path) -> str:
        """The same value, of which not all are in an enum or of the size of a fixed."""
        match node:
            case Enum():
                symbols = ", ".join(map(literal, node.symbols)) or "NULL"
                words = literal(f"{at(path)} is no symbol of {short(node.name)}: ")
                return _only_if(sql, f"{sql} IN ({symbols})", f"concat({words}, {sql})")
            case Fixed() if node.digits is None:
                words = literal(f"{at(path)} is not of {node.size} bytes, as {short(node.name)} is")
                return _only_if(sql, f"octet_length({sql}) = {node.size}", words)
        return sql

    def _unfit(self, sql: str, have: SqlType, node: Node, path: _Path) -> str:
        here, there = f"{have.words} in the rows", f"{words(node)} in the schema"
        self.faults.append(f"{at(path)} is {here}, and {there}")
        return sql

    def _expanded(self, node: Node) -> Node:
        return self._schema.records[node.name] if isinstance(node, Again) else node


def _same(node: Node, have: SqlType) -> bool:
    try:
        return sql_type(node) == have
    except ValueError:
        return False


def _in_record(*fields: Any) -> str:
    return literal(json.dumps({"type": "record", "name": "one", "fields": list(fields)}))


def _as_it_is(parts: list[tuple[SqlField, str]], node: Record) -> str:
    pairs = zip(node.fields, parts, strict=True)
    return f"named_struct({', '.join(f'{literal(each.name)}, {sql}' for each, (_, sql) in pairs)})"


def _required(kind: SqlType, node: Node, schema: AvroSchema, path: _Path) -> Iterator[_Path]:
    """What rows may have NULL in, and the schema may not."""
    node = alone(schema.records[node.name] if isinstance(node, Again) else node)
    parts: list[tuple[_Path, SqlField, Node]] = []
    match node:
        case Record() if kind.name == "STRUCT":
            named = {each.name.lower(): each for each in kind.fields}
            for each in node.fields:
                field = named.get(each.name.lower())
                if field is not None:
                    parts.append(((*path, field.name), field, each.type))
        case Array() if kind.name == "ARRAY":
            parts.append(((*path, ELEMENTS), kind.fields[0], node.items))
        case AvroMap() if kind.name == "MAP":
            parts.append(((*path, VALUES), kind.fields[1], node.values))
    for inside, field, inner in parts:
        if field.nullable and not may_be_null(inner):
            yield inside
        yield from _required(field.type, inner, schema, inside)


def _only_if(sql: str, condition: str, words: str) -> str:
    """SQL for a value that ends the query where a condition does not hold, with words for it."""
    told = f"to_json(named_struct('error', 'NOT_AVRO', 'message', {words}))"
    refusal = f"raise_error(concat('{ROW_REFUSED}', {told}))"
    return f"IF({sql} IS NULL OR {condition}, {sql}, {refusal})"
