"""The columns of rows, from Spark's own types: `schema_of`.

Where a schema of messages is made for rows, or rows are held against one, this is what is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.schema import Column, Schema, quote

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType


def schema_of(rows: StructType) -> Schema:
    """The columns in the words of `model.schema`; which of them are NOT NULL is what Spark knows.

    Raises ValueError with every column whose type has no word there.
    """
    columns: list[Column] = []
    faults: list[str] = []
    for field in rows.fields:
        try:
            columns.append(column_of(field))
        except ValueError as fault:
            faults.append(str(fault))
    if faults:
        raise ValueError("; ".join(faults))
    return Schema(tuple(columns))


def column_of(field: StructField) -> Column:
    """Raises ValueError for a type that no message can have."""
    declared = f"column {_ddl(field.dataType)}"
    try:
        (parsed,) = Schema.parse(declared).columns
    except ValueError:
        kind = field.dataType.simpleString().upper()
        raise ValueError(f"`{field.name}` is {kind}, which must be cast to another type") from None
    return Column(field.name, parsed.type, field.nullable)


def _ddl(kind: DataType) -> str:
    from pyspark.sql import types

    match kind:
        case types.StructType():
            inside = (f"{quote(each.name)}: {_ddl(each.dataType)}" for each in kind.fields)
            return f"STRUCT<{', '.join(inside)}>"
        case types.ArrayType():
            return f"ARRAY<{_ddl(kind.elementType)}>"
        case types.MapType():
            return f"MAP<{_ddl(kind.keyType)}, {_ddl(kind.valueType)}>"
        case types.StringType() | types.VarcharType() | types.CharType():
            return "STRING"  # whatever its collation and length
        case _:
            return kind.simpleString().upper()
