"""Values of Spark, of Arrow and of functions for Spark's workers, as code that makes them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Render = Callable[[Any], str]


def value_code(value: Any, render: Render) -> str:
    """What is no plain Python value; `render` is for what is inside."""
    kind = type(value).__name__
    if kind == "Column":
        return f"expr({render(value._jc.toString())})"
    if kind == "StructType" and hasattr(value, "jsonValue"):
        return f"StructType.fromJson({render(value.jsonValue())})"
    if kind == "Modules":
        # Any file of the folder will do.
        beside = next(iter(value.texts.values())).path
        return f"Modules.beside({render(beside)})"
    if type(value).__module__.startswith("pyarrow"):
        return arrow_code(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = (f"{each.name}={render(getattr(value, each.name))}" for each in fields(value))
        return f"{kind}({', '.join(parts)})"
    return repr(value)


_ARROW_NAMES = {"bool": "bool_", "double": "float64", "float": "float32", "date32[day]": "date32"}


def arrow_code(kind: pa.DataType) -> str:
    import pyarrow.types as types

    if types.is_struct(kind):
        inside = ", ".join(
            f'pa.field("{each.name}", {arrow_code(each.type)}, {each.nullable})' for each in kind
        )
        return f"pa.struct([{inside}])"
    if types.is_list(kind):
        return f"pa.list_({arrow_code(kind.value_type)})"
    if types.is_map(kind):
        return f"pa.map_({arrow_code(kind.key_type)}, {arrow_code(kind.item_type)})"
    if types.is_timestamp(kind):
        return f"pa.timestamp({kind.unit!r}, {kind.tz!r})"
    if types.is_decimal(kind):
        return f"pa.decimal128({kind.precision}, {kind.scale})"
    return f"pa.{_ARROW_NAMES.get(str(kind), str(kind))}()"
