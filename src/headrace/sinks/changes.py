"""What a batch changes in a table with keys: for each key its newest row, or its deletion.

For every sink that has `mode: upsert`. `OPTIONS` and `faults` are its options and their checks;
`Changes.of` turns the rows of a batch into one row a key, with a column that says whether it
deletes. `values` is the other way to look at a batch: its rows, for sinks that append.

Where rows can be traced to their records, the newest is the one with the highest offset. Offsets
order the records of one partition only; those of one key are in one partition as long as their
producers choose it by the key and its topic gets no new partitions. What cannot be decided is
raised inside the query, with a mark in the text that `refusal` understands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import DuplicateKey, HeadraceError, UnusableKey
from headrace.formats.carried import COLUMN, IS_DELETION, IS_GOOD, IS_TOMBSTONE
from headrace.model import pipeline as model
from headrace.model.schema import literal, quote
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Type, unknown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELETED = f"{COLUMN}_deleted"
_ORDER = f"{COLUMN}_order"
_RANK = f"{COLUMN}_rank"
_UNUSABLE = "HEADRACE_UNUSABLE_KEY "
_DUPLICATE = "HEADRACE_DUPLICATE_KEY "

OPTIONS = (
    Option(
        "mode",
        Type.CHOICE,
        "`append` adds every row. `upsert` keeps one row a key: the newest replaces the one that "
        "is there, and a tombstone deletes it.",
        default="append",
        choices=("append", "upsert"),
    ),
    Option(
        "key",
        Type.LIST,
        "The columns that tell rows apart, for `mode: upsert`. A tombstone's record key is the "
        "value of the one column as text, or a JSON object with all of them.",
        default=(),
        example="[id]",
    ),
    Option(
        "order_by",
        Type.TEXT,
        "The column whose greatest value is the newest row of a key in a batch. Default: the "
        "record's offset, where rows can be traced to records.",
        example="updated_at",
    ),
    Option(
        "bad_tombstone",
        Type.CHOICE,
        "What to do with a tombstone whose record key is not a value of `key`: `fail` stops the "
        "pipeline, `skip` passes over it.",
        default="fail",
        choices=("fail", "skip"),
    ),
)


def faults(options: Options, columns: tuple[str, ...] | None) -> Iterator[Diagnostic]:
    """What is wrong with the options of `OPTIONS`."""
    if options["mode"] == "upsert" and not options["key"] and "key" not in options.meant:
        example = "add `key: [id]` with the columns that tell rows apart"
        yield Diagnostic("MISSING_OPTION", "`mode: upsert` needs `key`", options.span, example)
    for name in ("key", "order_by", "bad_tombstone"):
        if name in options and options["mode"] != "upsert":
            message = f"`{name}` is of use only with `mode: upsert`"
            yield Diagnostic("CONFLICT", message, options.at(name), "add `mode: upsert`")
    if columns is not None:
        known = {column.lower() for column in columns}
        for name in ("key", "order_by"):
            named = (options[name],) if isinstance(options[name], str) else options[name] or ()
            for column in named:
                if column.lower() not in known:
                    yield unknown("column", column, columns, options.at(name), "of these rows")


def values(rows: DataFrame) -> DataFrame:
    """The rows that are values, without the hidden column."""
    return rows.where(IS_GOOD).drop(COLUMN) if COLUMN in rows.columns else rows


def refusal(text: str) -> HeadraceError | None:
    """The error that a query of this module raised, from all that Spark says about it."""
    for mark, make in ((_UNUSABLE, UnusableKey), (_DUPLICATE, DuplicateKey)):
        if mark in text:
            found, _ = json.JSONDecoder().raw_decode(text[text.index(mark) + len(mark) :])
            return make(**found)
    return None


@dataclass(frozen=True)
class Changes:
    sink: str
    key: tuple[str, ...]
    order_by: str | None
    skip_bad_tombstones: bool

    @classmethod
    def by(cls, sink: model.Sink) -> Changes:
        options = sink.options
        skip = options["bad_tombstone"] == "skip"
        return cls(sink.name, options["key"], options["order_by"], skip)

    def of(self, rows: DataFrame) -> DataFrame:
        """The columns of `rows` and `DELETED`; each key once."""
        traced = COLUMN in rows.columns
        keyed = self._with_tombstones(rows) if traced else rows.selectExpr("*", f"false {DELETED}")
        usable = self._with_usable_keys(keyed, traced)
        if traced or self.order_by:
            ranked = usable.selectExpr("*", f"{self._rank(traced)} AS {_RANK}")
        else:
            ranked = usable.selectExpr("*", f"{self._only_one()} AS {_RANK}")
        columns = [column for column in rows.columns if column != COLUMN]
        newest = ranked.where(f"{_RANK} = 1")
        return newest.select(*(quote(column) for column in columns), DELETED)

    def _with_tombstones(self, rows: DataFrame) -> DataFrame:
        """Tombstones get the values of their key columns, which their records' keys hold, unless
        their rows do.
        """
        from_key = self._from_record_key(rows)
        columns = []
        for column in rows.columns:
            name = quote(column)
            if column.lower() in from_key:
                key = (
                    f"IF({IS_DELETION} AND {name} IS NOT NULL, {name}, {from_key[column.lower()]})"
                )
                columns.append(f"IF({IS_TOMBSTONE}, {key}, {name}) AS {name}")
            elif column != COLUMN:
                columns.append(name)
        place = ", ".join(f"'{name}', {COLUMN}.{name}" for name in ("offset", "partition", "topic"))
        order = f"named_struct({place}) AS {_ORDER}"
        return rows.selectExpr(*columns, f"{IS_TOMBSTONE} AS {DELETED}", order)

    def _from_record_key(self, rows: DataFrame) -> dict[str, str]:
        """SQL for the value of each key column in a record's key; NULL where there is none."""
        types = {field.name.lower(): field.dataType.simpleString() for field in rows.schema}
        wanted = {column.lower(): types[column.lower()] for column in self.key}
        text = f"CAST({COLUMN}.key AS STRING)"
        ddl = ", ".join(f"{quote(column)} {kind}" for column, kind in wanted.items())
        named = {column: f"from_json({text}, {literal(ddl)}).{quote(column)}" for column in wanted}
        if len(wanted) > 1:
            return named
        ((column, kind),) = wanted.items()
        if kind == "binary":
            return {column: f"{COLUMN}.key"}
        alone = f"try_cast(IF(is_valid_utf8({text}), {text}, NULL) AS {kind})"
        # Of a deletion that a function has passed by; else a text in braces may be the key itself.
        return {column: f"IF({IS_DELETION}, coalesce({named[column]}, {alone}), {alone})"}

    def _with_usable_keys(self, keyed: DataFrame, traced: bool) -> DataFrame:
        unusable = " OR ".join(f"{quote(column)} IS NULL" for column in self.key)
        if self.skip_bad_tombstones:
            keyed = keyed.where(f"NOT ({DELETED} AND ({unusable}))")
        names = ", ".join(self.key)
        tombstone = f"the key of the tombstone is not a value of {names}"
        place = f"concat({_ORDER}.topic, '[', {_ORDER}.partition, ']@', {_ORDER}.offset)"
        told = _raised(
            _UNUSABLE,
            sink=literal(self.sink),
            place=place if traced else "'a row'",
            reason=f"IF({DELETED}, {literal(tombstone)}, {literal(f'{names} is NULL')})",
        )
        first = next(c for c in keyed.columns if c.lower() == self.key[0].lower())
        return keyed.selectExpr(
            *(
                f"IF({unusable}, {told}, {quote(column)}) AS {quote(column)}"
                if column == first
                else quote(column)
                for column in keyed.columns
            )
        )

    def _rank(self, traced: bool) -> str:
        order = f"{_ORDER} DESC" if traced else ""
        if self.order_by:
            value = quote(self.order_by)
            if traced:
                # A tombstone has no value of its own: it is as new as what was there before it, in
                # its own partition where there is something.
                own = f"{self._keys}, {_ORDER}.topic, {_ORDER}.partition"
                before = ", ".join(
                    f"max({value}) OVER (PARTITION BY {part} ORDER BY {_ORDER})"
                    for part in (own, self._keys)
                )
                value = f"IF({DELETED} AND {value} IS NULL, coalesce({before}), {value})"
            order = ", ".join(filter(None, (f"{value} DESC NULLS LAST", order)))
        return f"row_number() OVER (PARTITION BY {self._keys} ORDER BY {order})"

    def _only_one(self) -> str:
        count = f"count(1) OVER (PARTITION BY {self._keys})"
        key = f"to_json(struct({self._keys}))"
        told = _raised(_DUPLICATE, sink=literal(self.sink), key=key)
        return f"IF({count} > 1, {told}, 1)"

    @property
    def _keys(self) -> str:
        return ", ".join(quote(column) for column in self.key)


def _raised(mark: str, **facts: str) -> str:
    """SQL that stops the query with an error of ours; the facts are SQL, too."""
    told = ", ".join(f"'{name}', {sql}" for name, sql in facts.items())
    return f"raise_error(concat('{mark}', to_json(named_struct({told}))))"
