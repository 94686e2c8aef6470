"""Whether rows can be written as a JSON Schema wants it, and what becomes of their NULLs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.formats.json_schema_types import VARIANT, JsonSchema, at, family
from headrace.model.types import SqlField, SqlType

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_Path = tuple[str, ...]


@dataclass(frozen=True)
class Fit:
    """`required` are the fields that must have a value. With `drops_nulls` those that have none are
    left out of a message, else they are null in it.
    """

    required: tuple[_Path, ...] = ()
    drops_nulls: bool = False


@dataclass
class _Found:
    """What a look at a schema has found; the fields are named by their paths."""

    faults: list[str] = field(default_factory=list)
    required: list[_Path] = field(default_factory=list)
    # Fields that may be missing, and not null; and whether some may be null, and not missing.
    optional: list[_Path] = field(default_factory=list)
    keeps_nulls: bool = False


def fitted(schema: JsonSchema, rows: SqlType) -> Fit:
    """How rows are written; raises ValueError with every reason why they cannot be."""
    found = _Found()
    _look(schema, schema.root, schema.root, rows, (), found)
    if found.faults:
        raise ValueError("; ".join(found.faults))
    if found.keeps_nulls:
        return Fit((*found.required, *found.optional))
    return Fit(tuple(found.required), drops_nulls=bool(found.optional))


def _look(
    schema: JsonSchema, value: Any, document: Any, kind: SqlType, path: _Path, found: _Found
) -> None:
    own = schema.type_of(value, document, path)
    value, document = schema.alternative(value, document)
    if own == VARIANT or kind == VARIANT:
        return
    if not _takes(own, kind):
        found.faults.append(
            f"{at(path)} is {kind.words} in the rows, and {own.words} in the schema"
        )
    elif kind.name == "STRUCT" and own.name == "STRUCT":
        _look_inside(schema, value, document, kind, path, found)
    elif kind.name == "ARRAY" and isinstance(value.get("items"), dict):
        inside = (*path, "element")
        _look(schema, value["items"], document, kind.fields[0].type, inside, found)


def _look_inside(
    schema: JsonSchema, value: Any, document: Any, kind: SqlType, path: _Path, found: _Found
) -> None:
    properties = {name: (inner, place) for name, inner, place in schema.properties(value, document)}
    must = {*value.get("required", ())}
    for each in kind.fields:
        inside = (*path, each.name)
        if each.name in properties:
            inner, place = properties[each.name]
            _look(schema, inner, place, each.type, inside, found)
            _look_at_null(each, each.name in must, schema.may_be_null(inner, place), inside, found)
        elif value.get("additionalProperties") is False:
            found.faults.append(f"{at(inside)} is no field of the schema")
    for name in sorted(must - {each.name for each in kind.fields}):
        found.faults.append(f"{at((*path, name))} has no column, and must be there by the schema")


def _look_at_null(
    field: SqlField, must: bool, may_be_null: bool, path: _Path, found: _Found
) -> None:
    if must and may_be_null:
        found.keeps_nulls = True
    elif not may_be_null and field.nullable:
        (found.required if must else found.optional).append(path)


def _takes(own: SqlType, kind: SqlType) -> bool:
    """Whether a schema takes the values of a column."""
    if own.name in _INTEGERS:
        return kind.name in _INTEGERS or (kind.name == "DECIMAL" and kind.size[1] == 0)
    return family(own) == family(kind)
