"""What becomes of a pipeline's columns when the schema of its messages changes.

`judged` compares the columns that a pipeline reads into with those of a newer schema, nested fields
too, and says which columns it has from then on, or which differences stand in the way. Who calls
it: `runtime.evolving`, for each schema that a registry has and the pipeline does not know yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.model.schema import Column, Schema
from headrace.model.types import SqlField, SqlType, fields_of


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
    columns = judge.fields(fields_of(pinned), fields_of(newer), ())
    if judge.refused:
        return Judgement(pinned, refused=tuple(judge.refused))
    schema = Schema(tuple(Column(each.name, each.type.ddl, each.nullable) for each in columns))
    return Judgement(schema, taken=tuple(judge.taken))


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
        self, old: tuple[SqlField, ...], new: tuple[SqlField, ...], path: tuple[str, ...]
    ) -> tuple[SqlField, ...]:
        """The fields of a record from now on: those that are there, then those that are new."""
        newer = {each.name: each for each in new}
        kept = tuple(self._kept(each, newer.get(each.name), path) for each in old)
        return (*kept, *self._added(old, new, path))

    def _kept(self, old: SqlField, new: SqlField | None, path: tuple[str, ...]) -> SqlField:
        if new is None:
            self._changed(f"- {_named(path, old)} {old.type.words}", Evolution.ADDITIVE)
            return replace(old, nullable=True)
        if new.nullable and not old.nullable:
            change = f"~ {_named(path, old)} {old.words} → may be NULL"
            self._changed(change, Evolution.ADDITIVE)
        kind = self._type(old.type, new.type, (*path, old.name))
        return SqlField(old.name, kind, old.nullable or new.nullable)

    def _added(
        self, old: tuple[SqlField, ...], new: tuple[SqlField, ...], path: tuple[str, ...]
    ) -> Iterator[SqlField]:
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

    def _type(self, old: SqlType, new: SqlType, path: tuple[str, ...]) -> SqlType:
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
        self, old: Iterable[SqlField], new: Iterable[SqlField], path: tuple[str, ...]
    ) -> Iterator[SqlField]:
        """Of an array or a map: always the same ones, whatever their names."""
        for left, right in zip(old, new, strict=True):
            yield replace(left, type=self._type(left.type, right.type, (*path, left.name)))

    def _changed(self, line: str, least: Evolution) -> None:
        (self.taken if self._rule in _ALLOWING[least] else self.refused).append(line)


def _named(path: tuple[str, ...], field: SqlField) -> str:
    return ".".join((*path, field.name))


_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_EXACTLY_DOUBLE = ("TINYINT", "SMALLINT", "INT", "FLOAT")


def _wider(old: SqlType, new: SqlType) -> bool:
    """Whether every value of one type is one of the other, and formats read it as that.

    Delta widens all of these in a table. It can make a DATE a TIMESTAMP_NTZ too, but no message is
    read so: its number of days would be taken for microseconds.
    """
    if old.name in _INTEGERS and new.name in _INTEGERS:
        return _INTEGERS.index(old.name) < _INTEGERS.index(new.name)
    if old.name == new.name == "DECIMAL":
        (digits, scale), (more_digits, more_scale) = old.size, new.size
        return more_scale >= scale and more_digits - more_scale >= digits - scale
    return old.name in _EXACTLY_DOUBLE and new.name == "DOUBLE"
