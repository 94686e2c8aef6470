"""A declared schema, `id BIGINT NOT NULL, customer STRING`, read without Spark.

`Schema.parse` takes Spark's own DDL and gives frozen columns; `ddl` gives the text back for Spark.
Who calls it: the option check of sources (to report faults) and the planner (to decode).
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

_TYPES = {
    "BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN", "TEXT",
    "VARCHAR", "CHAR", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPTZ", "TIMESTAMPLTZ",
    "ARRAY", "MAP", "STRUCT",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Schema:
    columns: tuple[Column, ...]

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Raises ValueError with what is wrong."""
        try:
            tree = sqlglot.parse_one(f"CREATE TABLE t ({text})", read="spark")
        except (ParseError, TokenError) as error:
            raise ValueError(f"is not a list of `name TYPE, …`: {_first_line(error)}") from error
        table = tree.find(exp.Schema)
        columns = tuple(_column(each) for each in table.expressions) if table else ()
        if not columns:
            raise ValueError("has no columns")
        _refuse_twice(columns)
        return cls(columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if not column.nullable)

    def ddl(self) -> str:
        """For Spark: names quoted, and no NOT NULL, which `from_json` would take as a promise."""
        return ", ".join(f"{quote(column.name)} {column.type}" for column in self.columns)


def quote(name: str) -> str:
    """A name as Spark SQL takes it whatever it contains."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text as a string in Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def schema_fault(text: str) -> str | None:
    """What is wrong with a schema, for the option check."""
    try:
        Schema.parse(text)
    except ValueError as error:
        return str(error)
    return None


def _column(definition: exp.Expression) -> Column:
    if not isinstance(definition, exp.ColumnDef) or definition.args.get("kind") is None:
        raise ValueError(f"gives no type to `{definition.name or definition.sql('spark')}`")
    kind = definition.args["kind"]
    for part in kind.find_all(exp.DataType):
        if not isinstance(part.this, exp.DataType.Type) or part.this.value not in _TYPES:
            shown = part.sql("spark")
            raise ValueError(f"has an unknown type `{shown}` for `{definition.name}`")
    not_null = any(
        isinstance(constraint.kind, exp.NotNullColumnConstraint)
        and not constraint.kind.args.get("allow_null")
        for constraint in definition.constraints
    )
    return Column(definition.name, kind.sql("spark"), not not_null)


def _refuse_twice(columns: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise ValueError(f"names the column `{column.name}` twice")
        seen.add(column.name.lower())


def _first_line(error: Exception) -> str:
    errors = getattr(error, "errors", None)
    if errors:
        return f"unexpected `{errors[0]['highlight']}`"
    return str(error).splitlines()[0]
