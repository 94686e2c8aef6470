"""The hidden column `__headrace` that a row carries from its source to its sinks.

It holds where the record came from and, when the record is bad, the reason and the original bytes.
A decoded row is thus a value, a deletion or a reason, and the choice between them is made inside
the query: good rows have an `error` of NULL and, unless something later on may need them, no copy
of their bytes. All columns of a row that is no value are NULL, but for a deletion that tells what
it deletes.
"""

from __future__ import annotations

from collections.abc import Mapping

COLUMN = "__headrace"
ERROR = f"{COLUMN}.error"
# Stands where the code of an error does: a record with a key and no value, which deletes.
TOMBSTONE = "TOMBSTONE"
# The same for a deletion whose key is known: it is in the row's columns, and steps make of it what
# they make of those of a value.
DELETION = "DELETION"
DELETES = (TOMBSTONE, DELETION)
# The code of a record that could be decoded, and that a function of the author's fails for.
PYTHON_ERROR = "PYTHON_ERROR"
IS_GOOD = f"{ERROR} IS NULL"
IS_DELETION = f"{ERROR} <=> '{DELETION}'"
IS_TOMBSTONE = f"coalesce({ERROR} IN {DELETES}, false)"
IS_BAD = f"{ERROR} NOT IN {DELETES}"
IS_NOT_BAD = f"coalesce({ERROR}, '{TOMBSTONE}') IN {DELETES}"
# What passes by the filters of the author's SQL.
IS_NO_VALUE = f"{ERROR} IS NOT NULL"

# What a step after the decoding found wrong is told here; a format tells its own reasons later,
# and only for bad records.
MESSAGE = f"{COLUMN}.message"
# Decoded, and found bad by a function or a sink after that.
IS_REFUSED = f"({IS_BAD} AND {MESSAGE} IS NOT NULL)"


def carried(error: str, originals: int | None = None) -> str:
    """SQL for the hidden column, over raw rows, given SQL for the code of the error.

    Good rows keep the bytes of their record, too, if it has at least `originals` of them.
    """
    fields = ", ".join(
        f"'{name}', {_bytes_of(name, error, originals)}" for name in ("key", "value", "headers")
    )
    return (
        f"named_struct('topic', topic, 'partition', partition, 'offset', offset, "
        f"'timestamp', timestamp, 'error', {error}, 'message', CAST(NULL AS STRING), {fields})"
    )


def _bytes_of(name: str, error: str, originals: int | None) -> str:
    if originals == 0:
        return name
    small = "" if originals is None else f" AND coalesce(octet_length(value), 0) < {originals}"
    return f"IF({error} IS NULL{small}, NULL, {name})"


def located(
    topic: str,
    partition: str = "0",
    offset: str = "NULL",
    timestamp: str = "NULL",
) -> str:
    """SQL for the hidden column of a row that came decoded, given SQL for where it came from."""
    place = (
        f"'topic', {topic}, 'partition', CAST({partition} AS INT), "
        f"'offset', CAST({offset} AS BIGINT), 'timestamp', CAST({timestamp} AS TIMESTAMP)"
    )
    nothing = {
        "error": "STRING",
        "message": "STRING",
        "key": "BINARY",
        "value": "BINARY",
        "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    }
    rest = ", ".join(f"'{name}', CAST(NULL AS {kind})" for name, kind in nothing.items())
    return f"named_struct({place}, {rest})"


def replaced(names: list[str], fields: Mapping[str, str]) -> str:
    """SQL for the hidden column with other `fields`; `names` are all that it has."""
    parts = (f"'{name}', {fields.get(name, f'{COLUMN}.{name}')}" for name in names)
    return f"named_struct({', '.join(parts)})"


def told(reason: str) -> str:
    """SQL for a sentence about a bad record: what a step said, or else what the format says."""
    return f"coalesce({MESSAGE}, {reason})"


# What a query that must stop at a bad record fails with; the rest of the text is JSON.
REFUSAL = "HEADRACE_BAD_RECORD "


def refusing(reason: str) -> str:
    """SQL for the hidden column that stops the query at the first bad record, and names it."""
    facts = ", ".join(
        f"'{name}', {COLUMN}.{name}" for name in ("topic", "partition", "offset", "error")
    )
    refusal = (
        f"raise_error(concat('{REFUSAL}', to_json(named_struct({facts}, 'message', {reason}))))"
    )
    return f"IF({IS_BAD}, {refusal}, {COLUMN})"
