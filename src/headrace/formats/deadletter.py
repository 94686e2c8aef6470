"""Dead letters: what is written for a record that cannot be decoded.

The original key, value and headers as they were, and headers that say where the record came from
and what is wrong with it. `expressions` gives the four columns that Spark's Kafka writer takes, as
SQL over rows that carry the hidden column; `reason` is that of the source's format.
"""

from __future__ import annotations

from headrace.formats.carried import COLUMN
from headrace.model.schema import literal

HEADER_PREFIX = "headrace.dlq."


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
    return {
        "topic": literal(topic),
        "key": f"{COLUMN}.key",
        "value": f"{COLUMN}.value",
        "headers": f"concat(coalesce({COLUMN}.headers, {none}), array({added}))",
    }
