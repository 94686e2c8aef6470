"""Trees of Avro types as JSON again, complete in themselves: what a schema refers to is inside.

A type that is used twice is written twice, each time in a namespace of its own, as Avro allows one
definition of a name and bytes do not depend on names. Only logical types are kept that Spark makes
something of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from headrace.formats.avro_schema import (
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
    short,
)
from headrace.formats.avro_types import logical_json


def schema_json(schema: AvroSchema) -> Any:
    """A schema as JSON's values."""
    return Emitter(schema.records).node(schema.root)


class Emitter:
    """One text; `names` numbers the namespaces, and is shared by what comes into the same text."""

    def __init__(
        self,
        records: Mapping[str, Record],
        names: Iterator[int] | None = None,
        hidden: bool = False,
    ) -> None:
        """With `hidden`, fields get names that no column has."""
        self.records = records
        self.names = names or count(1)
        self._hidden = hidden
        # The records around what is being written, by the names that they got.
        self._around: dict[str, str] = {}

    def node(self, node: Node) -> Any:
        match node:
            case Primitive():
                return {"type": node.name, **logical_json(node)}
            case Fixed():
                head = self.head("fixed", short(node.name))
                return {**head, "size": node.size, **logical_json(node)}
            case Enum():
                return {**self.head("enum", short(node.name)), "symbols": list(node.symbols)}
            case Array():
                return {"type": "array", "items": self.node(node.items)}
            case AvroMap():
                return {"type": "map", "values": self.node(node.values)}
            case Union():
                return [self.node(each) for each in node.branches]
            case Again():
                return self._around.get(node.name) or self.node(self.records[node.name])
            case Record():
                head = self.head("record", short(node.name))
                with self.within(node, head):
                    types = [self.node(each.type) for each in node.fields]
                return {**head, "fields": fields_json(self.field_names(node), types)}

    def head(self, kind: str, name: str) -> dict[str, Any]:
        """The beginning of a named type."""
        return {"type": kind, "name": name, "namespace": f"n{next(self.names)}"}

    def field_names(self, record: Record) -> list[str]:
        if self._hidden:
            return [f"__passed_{number}" for number, _ in enumerate(record.fields)]
        return [each.name for each in record.fields]

    @contextmanager
    def within(self, record: Record, head: dict[str, Any]) -> Iterator[None]:
        """While the fields of a record are written, which may be of its own type."""
        before = self._around.get(record.name)
        self._around[record.name] = f"{head['namespace']}.{head['name']}"
        yield
        if before is None:
            del self._around[record.name]
        else:
            self._around[record.name] = before


def fields_json(names: list[str], types: list[Any]) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind} for name, kind in zip(names, types, strict=True)]
