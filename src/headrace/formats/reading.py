"""How the bytes of a record become columns: what a format is to the sources, and the decoding.

A `Reading` is one format with one schema. It gives SQL, which Spark runs in its JVM, in steps: each
names a column that later ones may use. What is not SQL, a function over Arrow batches, it makes
known to the session first. `decode` puts the steps together with what is the same for all formats:
tombstones, metadata, the key, and the hidden column of `formats.carried`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from headrace.formats.carried import COLUMN, DELETION, ERROR, TOMBSTONE, carried, told
from headrace.model.schema import Column, Schema, literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The columns of steps begin with one of these: those for the value, and those for the key.
VALUE, KEY = "__", "__key_"
# The code of a record whose key is bad is that of the fault after this.
BAD_KEY = "KEY_"
NO_VALUE = "NULL_VALUE"
_NO_VALUE_WORDS = "the record has no value"

# Names of columns and SQL for them, each over the columns before it.
Steps = tuple[tuple[str, str], ...]


class Reading(Protocol):
    """One format with one schema; text only, and the same text for the same schema."""

    @property
    def name(self) -> str:
        """What it is called in an explanation: `JSON`, `Avro by subject orders-value`."""
        ...

    @property
    def schema(self) -> Schema:
        """The columns of a record."""
        ...

    @property
    def scalar(self) -> bool:
        """Whether a record is one value, which is then the one column, and no set of fields."""
        ...

    def register(self, spark: SparkSession) -> None:
        """Make functions known that its SQL calls; may be called again and again."""
        ...

    def steps(self, source: str, prefix: str) -> Steps:
        """What is computed once and used by `fault` and `row`; `source` is SQL for the bytes, and
        the names of columns begin with `prefix`.
        """
        ...

    def fault(self, source: str, prefix: str) -> str:
        """SQL for the code of what is wrong, or NULL. It is asked only where there are bytes.

        Good records pass every question, so these must be cheap ones.
        """
        ...

    def row(self, prefix: str) -> str:
        """SQL for a struct that has the schema's columns, where there is no fault."""
        ...

    def reason(self, code: str, source: str) -> str:
        """SQL for a sentence about a record with a fault, given SQL for its code and its bytes.

        It belongs where only bad records come.
        """
        ...


@runtime_checkable
class Deleting(Protocol):
    """A reading whose records may tell which row they delete; their fault is then TOMBSTONE."""

    def deleted(self, prefix: str) -> str:
        """SQL for a struct that has the schema's columns as far as they are known, or NULL.
        It is asked for records without a value, too.
        """
        ...


@dataclass(frozen=True)
class KeyReading:
    """How keys are read, and the one column that they become."""

    column: str
    reading: Reading


def decode(
    raw: DataFrame,
    reading: Reading,
    metadata: tuple[str, ...] = (),
    tombstones: bool = True,
    originals: int | None = None,
    key: KeyReading | None = None,
) -> DataFrame:
    """The columns of value and key, `metadata` expressions and the hidden column; a row each.

    Without `tombstones` a record that has no value is a bad one. The columns of a bad record are
    all NULL, also those that could be read: the author's SQL is evaluated for them too, and must
    find nothing there that it could fail on. Those of a deletion are what its key, where that is
    read, and its format tell of it.
    """
    judged = _judged(raw, reading, tombstones, key)
    row = judged.selectExpr("*", f"IF(__error IS NULL, {reading.row(VALUE)}, NULL) AS __row")
    columns = [
        f"{_value(each, reading, key)} AS {quote(each.name)}" for each in reading.schema.columns
    ]
    if key is not None:
        there = f"coalesce(__error, '{DELETION}') = '{DELETION}' AND key IS NOT NULL"
        row = row.selectExpr("*", f"IF({there}, {key.reading.row(KEY)}, NULL) AS __key")
        columns.append(f"{_whole(key.reading, '__key')} AS {quote(key.column)}")
    return row.selectExpr(*columns, *metadata, f"{carried('__error', originals)} AS {COLUMN}")


def whole(reading: Reading) -> str:
    """SQL for the value as one, among the `metadata` of `decode`; NULL for no value."""
    return _whole(reading, "__row")


def reason(reading: Reading, key: KeyReading | None = None) -> str:
    """SQL for a sentence about a bad record, over rows that carry the hidden column."""
    words = reading.reason(ERROR, f"{COLUMN}.value")
    if key is not None:
        code = f"substr({ERROR}, {len(BAD_KEY) + 1})"
        in_key = key.reading.reason(code, f"{COLUMN}.key")
        words = f"IF(startswith({ERROR}, '{BAD_KEY}'), concat('in the key: ', {in_key}), {words})"
    return told(f"IF({ERROR} = '{NO_VALUE}', '{_NO_VALUE_WORDS}', {words})")


def cases(code: str, sentences: dict[str, str]) -> str:
    """SQL that chooses by a code among sentences, which are SQL too."""
    whens = " ".join(f"WHEN '{each}' THEN {sentence}" for each, sentence in sentences.items())
    return f"CASE {code} {whens} END"


def no_value(tombstones: bool) -> str:
    """A tombstone deletes what has its key; without a key there is nothing that it could mean."""
    return f"IF(key IS NULL, '{NO_VALUE}', '{TOMBSTONE}')" if tombstones else f"'{NO_VALUE}'"


def _judged(
    raw: DataFrame, reading: Reading, tombstones: bool, key: KeyReading | None
) -> DataFrame:
    """The rows with the columns of all steps, and `__error`."""
    stepped = _stepped(raw, reading, "value", VALUE)
    error = f"IF(value IS NULL, {no_value(tombstones)}, {reading.fault('value', VALUE)})"
    if key is None and not isinstance(reading, Deleting):
        return stepped.selectExpr("*", f"{error} AS __error")
    known = [f"{reading.deleted(VALUE)} IS NOT NULL"] if isinstance(reading, Deleting) else []
    found = stepped.selectExpr("*", f"{error} AS __found")
    wrong_key = "NULL"
    if key is not None:
        found = _stepped(found, key.reading, "key", KEY)
        wrong_key = f"concat('{BAD_KEY}', {key.reading.fault('key', KEY)})"
        known.append("key IS NOT NULL")
    deletion = f"IF({' OR '.join(known)}, '{DELETION}', '{TOMBSTONE}')"
    wrong_key = f"IF(key IS NULL, NULL, {wrong_key})"
    error = (
        f"CASE WHEN __found IS NULL THEN {wrong_key} "
        f"WHEN __found = '{TOMBSTONE}' THEN coalesce({wrong_key}, {deletion}) ELSE __found END"
    )
    return found.selectExpr("*", f"{error} AS __error")


def _value(column: Column, reading: Reading, key: KeyReading | None) -> str:
    """SQL for a column, over rows that have `__row` and `__key`. Of a deletion, that of the key."""
    name = quote(column.name)
    deleted = f"{reading.deleted(VALUE)}.{name}" if isinstance(reading, Deleting) else None
    in_key = _in_key(reading, key)
    if in_key:
        told = f"__key.{name}" if column.name in in_key else "NULL"
        deleted = f"IF(key IS NOT NULL, {told}, {deleted or 'NULL'})"
    return f"IF(__error <=> '{DELETION}', {deleted}, __row.{name})" if deleted else f"__row.{name}"


def _in_key(reading: Reading, key: KeyReading | None) -> set[str]:
    """The columns that the key has, too, and in the same type."""
    if key is None or key.reading.scalar:
        return set()
    own = {(each.name, each.type) for each in reading.schema.columns}
    return {each.name for each in key.reading.schema.columns if (each.name, each.type) in own}


def _stepped(frame: DataFrame, reading: Reading, source: str, prefix: str) -> DataFrame:
    reading.register(frame.sparkSession)
    for name, sql in reading.steps(source, prefix):
        frame = frame.selectExpr("*", f"{sql} AS {name}")
    return frame


def _whole(reading: Reading, row: str) -> str:
    names = reading.schema.names
    if reading.scalar:
        return f"{row}.{quote(names[0])}"
    # By name: the struct may hold more than the columns.
    fields = ", ".join(f"{literal(name)}, {row}.{quote(name)}" for name in names)
    return f"IF({row} IS NULL, NULL, named_struct({fields}))"
