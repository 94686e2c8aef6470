"""Types of Spark as trees: `STRUCT<a: ARRAY<INT>>` taken apart, and put together again.

`Schema` keeps a type as its text. Whoever looks inside, to compare it with another or to find what
it is in another language, asks `parsed` here; `ddl` gives the text back. No Spark is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from headrace.model.schema import Schema, quote

# The digits of a DECIMAL, and how many of them follow the point, where it does not say.
_DECIMAL = (10, 0)


@dataclass(frozen=True)
class SqlType:
    """A plain type by its name, DECIMAL with its `size`, or one of several parts.

    The parts of an ARRAY are `element`, those of a MAP `key` and `value`.
    """

    name: str
    size: tuple[int, ...] = ()
    fields: tuple[SqlField, ...] = ()

    @property
    def ddl(self) -> str:
        if self.name == "STRUCT":
            inside = (f"{quote(each.name)}: {each.type.ddl}" for each in self.fields)
            return f"STRUCT<{', '.join(inside)}>"
        if self.fields:
            return f"{self.name}<{', '.join(each.type.ddl for each in self.fields)}>"
        if self.size:
            return f"{self.name}({', '.join(map(str, self.size))})"
        return self.name

    @property
    def words(self) -> str:
        """As it is shown: without the quotes, which few names need."""
        return self.ddl.replace("`", "")


@dataclass(frozen=True)
class SqlField:
    name: str
    type: SqlType
    nullable: bool = True

    @property
    def words(self) -> str:
        return self.type.words if self.nullable else f"{self.type.words} NOT NULL"


def array(element: SqlType) -> SqlType:
    return SqlType("ARRAY", fields=(SqlField("element", element),))


def map_of(value: SqlType) -> SqlType:
    """With texts for keys, as nearly every format has it."""
    fields = (SqlField("key", SqlType("STRING")), SqlField("value", value))
    return SqlType("MAP", fields=fields)


def struct(fields: tuple[SqlField, ...]) -> SqlType:
    return SqlType("STRUCT", fields=fields)


@lru_cache(10_000)
def parsed(text: str) -> SqlType:
    """The type that a text of Spark's DDL names."""
    return _of(exp.DataType.build(text, dialect="spark"))


def fields_of(schema: Schema) -> tuple[SqlField, ...]:
    """The columns of a schema as the fields of a record."""
    return tuple(SqlField(each.name, parsed(each.type), each.nullable) for each in schema.columns)


def _of(kind: exp.DataType) -> SqlType:
    parts = kind.expressions
    match kind.this:
        case exp.DataType.Type.STRUCT:
            return struct(tuple(SqlField(part.name, _of(part.args["kind"])) for part in parts))
        case exp.DataType.Type.ARRAY:
            return array(_of(parts[0]))
        case exp.DataType.Type.MAP:
            key, value = (_of(part) for part in parts)
            return SqlType("MAP", fields=(SqlField("key", key), SqlField("value", value)))
        case exp.DataType.Type.DECIMAL:
            given = tuple(int(part.name) for part in parts)
            return SqlType("DECIMAL", size=(*given, *_DECIMAL[len(given) :]))
    return SqlType(kind.sql("spark"))
