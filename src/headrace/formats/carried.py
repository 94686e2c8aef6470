"""The hidden column `__headrace` that a row carries from its source to its sinks.

It holds where the record came from and, when the record is bad, the reason and the original bytes.
A decoded row is thus a value or a reason, and the choice between them is made inside the query:
good rows have an `error` of NULL and no copy of their bytes.
"""

from __future__ import annotations

COLUMN = "__headrace"
ERROR = f"{COLUMN}.error"
IS_BAD = f"{ERROR} IS NOT NULL"
IS_GOOD = f"{ERROR} IS NULL"


def carried(error: str) -> str:
    """SQL for the hidden column, over raw Kafka rows, given SQL for the code of the error."""
    original = ", ".join(
        f"'{name}', IF({error} IS NULL, NULL, {name})" for name in ("key", "value", "headers")
    )
    return (
        f"named_struct('topic', topic, 'partition', partition, 'offset', offset, "
        f"'timestamp', timestamp, 'error', {error}, {original})"
    )


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
