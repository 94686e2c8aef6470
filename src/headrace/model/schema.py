"""A declared schema, `id BIGINT NOT NULL, customer STRING`, read without Spark.

`Schema.parse` takes Spark's own DDL and gives frozen columns; `ddl` gives the text back for Spark.
Who calls it: the option check of sources (to report faults) and the planner (to decode).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

_TYPES = {
    "BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN", "TEXT",
    "BINARY", "DATE", "TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPTZ", "TIMESTAMPLTZ", "ARRAY", "MAP",
    "STRUCT", "VARIANT",
}  # fmt: skip
# How many types or numbers may stand in the brackets of a type, where it takes any.
_PARAMETERS = {"ARRAY": (1,), "MAP": (2,), "DECIMAL": (0, 1, 2), "STRUCT": range(1, 10_000)}


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Schema:
    columns: tuple[Column, ...]

    @classmethod
    @lru_cache(1_000)
    def parse(cls, text: str) -> Schema:
        """Raises ValueError with what is wrong."""
        try:
            parts = [_quoted(part) for part in _split(text)]
            tree = sqlglot.parse_one(f"CREATE TABLE t ({', '.join(parts)}\n)", read="spark")
            columns = tuple(_column(each) for each in tree.this.expressions)
        except (ParseError, TokenError) as error:
            raise ValueError(f"is not a list of `name TYPE, …`: {_first_line(error)}") from error
        except RecursionError:
            raise ValueError("is nested too deeply") from None
        if not parts:
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
    if text.strip().lower() == "sample":
        shell = "CREATE TABLE in `headrace sql` takes them from there"
        return f"is no list of columns: `headrace infer TOPIC` proposes one of a sample; {shell}"
    try:
        Schema.parse(text)
    except ValueError as error:
        return str(error)
    return None


def _split(text: str) -> list[list[Token]]:
    """The words of each column: between the commas that stand in no brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in Spark().tokenize(text):
        if token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING):
            depth += token.text.count("<") + token.text.count("(")
            depth -= token.text.count(">") + token.text.count(")")
        if depth < 0 or token.token_type is TokenType.SEMICOLON:
            raise ValueError(f"is not a list of `name TYPE, …`: unexpected `{token.text}`")
        if token.token_type is TokenType.COMMA and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    if not parts[-1]:
        parts.pop()
    if not all(parts):
        raise ValueError("is not a list of `name TYPE, …`: unexpected `,`")
    return parts


def _quoted(column: list[Token]) -> str:
    """The column with its name in quotes, so that any word can be one."""
    name, *rest = column
    return " ".join([quote(name.text), *(_verbatim(token) for token in rest)])


def _verbatim(token: Token) -> str:
    if token.token_type is TokenType.IDENTIFIER:
        return quote(token.text)
    return literal(token.text) if token.token_type is TokenType.STRING else str(token.text)


def _column(definition: exp.Expression) -> Column:
    if not isinstance(definition, exp.ColumnDef) or definition.args.get("kind") is None:
        raise ValueError(f"gives no type to `{definition.name or definition.sql('spark')}`")
    kind = definition.args["kind"]
    for part in kind.find_all(exp.DataType):
        problem = _type_fault(part)
        if problem:
            raise ValueError(f"{problem} `{definition.name}`")
    if kind.find(exp.NotNullColumnConstraint):
        inside = f"says NOT NULL inside `{definition.name}`, which cannot be checked"
        raise ValueError(f"{inside}; only a whole column can be NOT NULL")
    not_null = any(
        isinstance(constraint.kind, exp.NotNullColumnConstraint)
        and not constraint.kind.args.get("allow_null")
        for constraint in definition.constraints
    )
    return Column(definition.name, kind.sql("spark"), not not_null)


def _type_fault(part: exp.DataType) -> str | None:
    if not isinstance(part.this, exp.DataType.Type):
        return f"has an unknown type `{part.sql('spark')}` for"
    name = part.this.value
    if name in ("VARCHAR", "CHAR"):
        return f"has the type `{name}`, where Spark takes only STRING, for"
    if name not in _TYPES:
        return f"has an unknown type `{name}` for"
    if len(part.expressions) not in _PARAMETERS.get(name, (0,)):
        return f"has an incomplete type `{part.sql('spark')}` for"
    if name == "DECIMAL" and not all(_digits(each) for each in part.expressions):
        return f"has an impossible type `{part.sql('spark')}` for"
    return None


def _digits(size: exp.Expr) -> bool:
    return size.name.isascii() and size.name.isdigit() and int(size.name[:9]) <= 38


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
