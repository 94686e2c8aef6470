"""Dead letters: what is written for a record that cannot be decoded.

The original key, value and headers as they were, and headers that say where the record came from
and what is wrong with it. A record that was a letter before and was sent again keeps the count of
that; whatever else the earlier letter said is left out. `expressions` gives the four columns that
Spark's Kafka writer takes, as SQL over rows that carry the hidden column; `reason` is that of the
source's format.
"""

from __future__ import annotations

from headrace.admin.letters import ATTEMPTS, HEADER_PREFIX
from headrace.formats.carried import COLUMN
from headrace.model.schema import literal

__all__ = ["HEADER_PREFIX", "expressions"]


def expressions(topic: str, pipeline: str, reason: str) -> dict[str, str]:
    facts = {
        "pipeline": literal(pipeline),
        "topic": f"{COLUMN}.topic",
        "partition": f"{COLUMN}.partition",
        "offset": f"{COLUMN}.offset",
        "timestamp": f"unix_millis({COLUMN}.timestamp)",
        "error": f"{COLUMN}.error",
        "message": reason,
        "time": "date_format(current_timestamp(), \"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\")",
    }
    added = ", ".join(
        f"named_struct('key', '{HEADER_PREFIX}{name}', "
        f"'value', CAST(CAST({sql} AS STRING) AS BINARY))"
        for name, sql in facts.items()
    )
    none = "CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"
    kept = f"NOT startswith(header.key, '{HEADER_PREFIX}') OR header.key = '{ATTEMPTS}'"
    own = f"filter(coalesce({COLUMN}.headers, {none}), header -> {kept})"
    return {
        "topic": literal(topic),
        "key": f"{COLUMN}.key",
        "value": f"{COLUMN}.value",
        "headers": f"concat({own}, array({added}))",
    }
