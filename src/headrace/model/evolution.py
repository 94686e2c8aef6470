"""What becomes of a pipeline's columns when the schema of its messages changes.

`judged` compares the columns that a pipeline reads into with those of a newer schema, nested fields
too, and says which columns it has from then on, or which differences stand in the way. Who calls
it: `runtime.evolving`, for each schema that a registry has and the pipeline does not know yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from sqlglot import exp

from headrace.model.schema import Column, Schema, quote


class Evolution(StrEnum):
    """Which changes of the registry's schema a pipeline takes up by itself."""

    ADDITIVE = "additive"
    WIDEN = "widen"
    FREEZE = "freeze"


@dataclass(frozen=True)
class Judgement:
    """`columns` are those from now on; where something is `refused`, they are as they were.

    Each difference is one line: `+ currency STRING`, `- note STRING`, `~ amount INT → BIGINT`, with
    a field inside a column as `address.zip`.
    """

    columns: Schema
    taken: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def judged(pinned: Schema, newer: Schema, rule: Evolution) -> Judgement:
    """What a newer schema makes of the columns that a pipeline has.

    New columns come last and may be NULL, as older messages have them not. A column that is gone
    stays, and is NULL from now on. A type that became narrower is read into the one that is there.
    """
    judge = _Judge(rule)
    columns = judge.fields(_fields_of(pinned), _fields_of(newer), ())
    if judge.refused:
        return Judgement(pinned, refused=tuple(judge.refused))
    schema = Schema(tuple(Column(each.name, each.type.ddl, each.nullable) for each in columns))
    return Judgement(schema, taken=tuple(judge.taken))


@dataclass(frozen=True)
class _Type:
    """A type of Spark's: a plain one by its name, or one of several parts.

    The parts of an ARRAY are `element`, those of a MAP `key` and `value`.
    """

    name: str
    size: tuple[int, ...] = ()
    fields: tuple[_Field, ...] = ()

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
class _Field:
    name: str
    type: _Type
    nullable: bool = True

    @property
    def words(self) -> str:
        return self.type.words if self.nullable else f"{self.type.words} NOT NULL"


def _fields_of(schema: Schema) -> tuple[_Field, ...]:
    return tuple(_Field(each.name, _type(each.type), each.nullable) for each in schema.columns)


def _type(text: str) -> _Type:
    return _of(exp.DataType.build(text, dialect="spark"))


def _of(kind: exp.DataType) -> _Type:
    parts = kind.expressions
    match kind.this:
        case exp.DataType.Type.STRUCT:
            fields = tuple(_Field(part.name, _of(part.args["kind"])) for part in parts)
            return _Type("STRUCT", fields=fields)
        case exp.DataType.Type.ARRAY:
            return _Type("ARRAY", fields=(_Field("element", _of(parts[0])),))
        case exp.DataType.Type.MAP:
            names = ("key", "value")
            fields = tuple(_Field(name, _of(part)) for name, part in zip(names, parts, strict=True))
            return _Type("MAP", fields=fields)
        case exp.DataType.Type.DECIMAL:
            given = tuple(int(part.name) for part in parts)
            return _Type("DECIMAL", size=(*given, *_DECIMAL[len(given) :]))
    return _Type(kind.sql("spark"))


# The digits of a DECIMAL, and how many of them follow the point, where it does not say.
_DECIMAL = (10, 0)
# Which rules allow a change that needs at least this one.
_ALLOWING = {
    Evolution.ADDITIVE: (Evolution.ADDITIVE, Evolution.WIDEN),
    Evolution.WIDEN: (Evolution.WIDEN,),
}


class _Judge:
    """One comparison; what is taken up and what is refused is collected on the way."""

    def __init__(self, rule: Evolution) -> None:
        self._rule = rule
        self.taken: list[str] = []
        self.refused: list[str] = []

    def fields(
        self, old: tuple[_Field, ...], new: tuple[_Field, ...], path: tuple[str, ...]
    ) -> tuple[_Field, ...]:
        """The fields of a record from now on: those that are there, then those that are new."""
        newer = {each.name: each for each in new}
        kept = tuple(self._kept(each, newer.get(each.name), path) for each in old)
        return (*kept, *self._added(old, new, path))

    def _kept(self, old: _Field, new: _Field | None, path: tuple[str, ...]) -> _Field:
        if new is None:
            self._changed(f"- {_named(path, old)} {old.type.words}", Evolution.ADDITIVE)
            return replace(old, nullable=True)
        if new.nullable and not old.nullable:
            change = f"~ {_named(path, old)} {old.words} → may be NULL"
            self._changed(change, Evolution.ADDITIVE)
        kind = self._type(old.type, new.type, (*path, old.name))
        return _Field(old.name, kind, old.nullable or new.nullable)

    def _added(
        self, old: tuple[_Field, ...], new: tuple[_Field, ...], path: tuple[str, ...]
    ) -> Iterator[_Field]:
        names = {each.name for each in old}
        taken = {each.name.lower(): each.name for each in old}
        for each in new:
            if each.name in names:
                continue
            line = f"+ {_named(path, each)} {each.type.words}"
            other = taken.get(each.name.lower())
            if other is not None:
                self.refused.append(f"{line}: in Spark this is the same name as {other}")
                continue
            taken[each.name.lower()] = each.name
            self._changed(line, Evolution.ADDITIVE)
            yield replace(each, nullable=True)

    def _type(self, old: _Type, new: _Type, path: tuple[str, ...]) -> _Type:
        if old == new:
            return old
        if old.name == new.name == "STRUCT":
            return replace(old, fields=self.fields(old.fields, new.fields, path))
        if old.name == new.name and old.fields:
            return replace(old, fields=tuple(self._parts(old.fields, new.fields, path)))
        line = f"~ {'.'.join(path)} {old.words} → {new.words}"
        if _wider(new, old):
            self._changed(f"{line}, which is read as {old.words}", Evolution.ADDITIVE)
            return old
        if _wider(old, new):
            self._changed(line, Evolution.WIDEN)
            return new
        self.refused.append(line)
        return old

    def _parts(
        self, old: Iterable[_Field], new: Iterable[_Field], path: tuple[str, ...]
    ) -> Iterator[_Field]:
        """Of an array or a map: always the same ones, whatever their names."""
        for left, right in zip(old, new, strict=True):
            yield replace(left, type=self._type(left.type, right.type, (*path, left.name)))

    def _changed(self, line: str, least: Evolution) -> None:
        (self.taken if self._rule in _ALLOWING[least] else self.refused).append(line)


def _named(path: tuple[str, ...], field: _Field) -> str:
    return ".".join((*path, field.name))


_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_OTHERS = {("FLOAT", "DOUBLE"), ("DATE", "TIMESTAMP_NTZ")}


def _wider(old: _Type, new: _Type) -> bool:
    """Whether every value of one type is one of the other: what Delta widens in a table by itself,
    and so neither INT to DOUBLE nor to DECIMAL.
    """
    if old.name in _INTEGERS and new.name in _INTEGERS:
        return _INTEGERS.index(old.name) < _INTEGERS.index(new.name)
    if old.name == new.name == "DECIMAL":
        (digits, scale), (more_digits, more_scale) = old.size, new.size
        return more_scale >= scale and more_digits - more_scale >= digits - scale
    return (old.name, new.name) in _OTHERS
