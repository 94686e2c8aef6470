"""How large a row's message will be, and how large it may be, as Kafka counts.

The Java client refuses what exceeds its `max.request.size` by an upper bound of its own; a broker
refuses a batch of one record that exceeds the topic's `max.message.bytes`. Both are a constant more
than what is counted here: key, value and headers with their lengths. Counting needs the encoded
value, so rows are first held against a bound that costs nothing (`at_most`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headrace.model.kafka_properties import DEFAULT_MAX_REQUEST

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_BATCH = 61  # bytes before the first record of a batch
_CLIENT_RECORD = 21  # what the Java client adds at most for a record
_RECORD = 3  # attributes, and differences of time and offset that are 0
_LONGEST = 5  # bytes of a length
# What stands before an encoded key or value: the id of its schema, and which message it is.
_FRAME = 64
# More than any number, date or time has as JSON, its comma included. In other formats all of these
# are shorter, and so are the names of fields.
_SCALAR = 64
# A character of text is at most six in JSON; three bytes make four of BASE64.
_TEXT, _BINARY = 6, 2


def largest(client: int | None, topic: int | None) -> int:
    """The most that key, value and headers may come to; `topic` is None where nothing limits it."""
    fits = (client or DEFAULT_MAX_REQUEST) - _BATCH - _CLIENT_RECORD
    return fits if topic is None else min(fits, _single_record(topic))


def _single_record(topic: int) -> int:
    rest = topic - _BATCH
    return next((rest - n - _RECORD for n in range(1, 6) if _length(rest - n) <= n), 0)


def _length(number: int) -> int:
    """How many bytes Kafka writes a length with: seven bits each, and one bit is for a sign."""
    return (number.bit_length() + 7) // 7


def counted(key_bytes: str, value_bytes: str, headers: str | None) -> str:
    """SQL for the size of a message, given SQL for its headers and for the sizes of the others."""
    return f"({_part(key_bytes)} + {_part(value_bytes)} + {_headers(headers)})"


def nearly(key_bytes: str, value_bytes: str, headers: str | None) -> str:
    """The same, or a few bytes more; it costs less to find."""
    sizes = f"coalesce({key_bytes}, 0) + coalesce({value_bytes}, 0)"
    return f"({sizes} + {2 * _LONGEST} + {_headers(headers)})"


def at_most(
    texts: Iterable[str], columns: Sequence[tuple[str, str, DataType]], headers: str | None
) -> str | None:
    """SQL for a bound of the size, without encoding the value; None where there is none.

    `texts` are what is written as it is; `columns` are those of the JSON object or of what else
    the value is, each with its name, SQL and type.
    """
    found = [_bound(column, kind) for _, column, kind in columns]
    if any(bound is None for bound in found):
        return None
    names = sum(_TEXT * len(name.encode()) + 4 for name, _, _ in columns)
    fixed = f"{2 * (_LONGEST + _FRAME) + 2 + names}L"
    sizes = [f"coalesce(octet_length({text}), 0)" for text in texts]
    return f"({' + '.join([fixed, *sizes, *filter(None, found), _headers(headers)])})"


def _bound(column: str, kind: DataType) -> str | None:
    from pyspark.sql import types as t

    if isinstance(kind, t.StringType):
        return f"{_TEXT}L * coalesce(octet_length({column}), 0) + 6"
    if isinstance(kind, t.BinaryType):
        return f"{_BINARY}L * coalesce(octet_length({column}), 0) + 8"
    if isinstance(kind, t.NumericType | t.BooleanType | t.DateType | t.TimestampType):
        return f"{_SCALAR}"
    return None


def _headers(headers: str | None) -> str:
    if headers is None:
        return "1"
    each = f"s + {_part('octet_length(h.key)')} + {_part('octet_length(h.value)')}"
    count = _length_sql(f"coalesce(size({headers}), 0)")
    return f"({count} + coalesce(aggregate({headers}, 0L, (s, h) -> {each}), 0))"


def _part(size: str) -> str:
    """A size and the length before it; what is NULL has only a length."""
    return f"coalesce({_length_sql(size)} + {size}, 1)"


def _length_sql(size: str) -> str:
    return f"(length(bin({size})) + 7) div 7"
