"""What the Kafka sink makes of a row, as SQL: topic, key, value, headers, partition and time.

Everything here is text and needs no Spark. The same SQL is used by both writers, by the stage that
refuses rows, and for reading: it runs in the JVM in every case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from headrace.formats.carried import COLUMN, IS_DELETION
from headrace.formats.encoding import ELEMENTS, VALUES, Encoding, JsonEncoding, listed
from headrace.formats.text import TextEncoding
from headrace.model.schema import literal, quote
from headrace.sinks import kafka_topics
from headrace.spec import Options

HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
_HEADER_TEXTS = "ARRAY<STRUCT<key: STRING, value: STRING>>"
NO_HEADERS = f"CAST(NULL AS {HEADERS})"
NO_BYTES = "CAST(NULL AS BINARY)"
_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"

# What an envelope tells, by its names as headers and as fields.
_CE = {
    "id": "ce_id",
    "time": "ce_time",
    "source": "ce_source",
    "type": "ce_type",
    "schema_version": "ce_schemaversion",
}
_FIELDS = {
    "id": "event_id",
    "time": "event_time",
    "source": "event_source",
    "type": "event_type",
    "schema_version": "schema_version",
}


@dataclass(frozen=True)
class Messages:
    """SQL over rows with these `columns`, the hidden one not among them."""

    options: Options
    pipeline: str
    sink: str
    columns: tuple[str, ...]
    encoding: Encoding = field(default_factory=JsonEncoding)
    key_encoding: Encoding = field(default_factory=TextEncoding)

    def expressions(self) -> dict[str, str]:
        """The columns of a message, in the names that Spark's Kafka writer has for them."""
        found = {
            "topic": self.topic,
            "key": self.key,
            "value": self.value,
            "headers": self.headers or NO_HEADERS,
        }
        if self.options["partition"]:
            found["partition"] = self.partition
        if self.options["timestamp"]:
            found["timestamp"] = self.timestamp
        return found

    @property
    def topic(self) -> str:
        return kafka_topics.sql(self.options["topic"])

    @property
    def key(self) -> str:
        key = self.options["key"]
        return self.key_encoding.of_value(key) if key else NO_BYTES

    @property
    def value(self) -> str:
        if self.options["value"]:
            return as_bytes(self.options["value"])
        return self.encoding.of_fields(self.body)

    @property
    def unwritten(self) -> dict[str, str]:
        """Key and value before they are bytes; the value is a struct of its fields."""
        value = self.options["value"] or f"struct({listed(self.body)})"
        return {"key": self.options["key"] or NO_BYTES, "value": value}

    def written(self, unwritten: dict[str, str]) -> dict[str, str]:
        """Their bytes, given SQL for what is `unwritten`."""
        by = TextEncoding() if self.options["value"] else self.encoding
        key = self.key_encoding.of_value(unwritten["key"])
        return {
            "key": key if self.options["key"] else NO_BYTES,
            "value": by.of_value(unwritten["value"]),
        }

    @property
    def missing(self) -> list[tuple[str, str]]:
        """The fields that must have a value, each with SQL for whether it has none."""
        fields = dict(self.body) if not self.options["value"] else {}
        found = [
            (_dotted(path), _is_missing(fields[path[0]], path[1:]))
            for path in self.encoding.required
        ]
        key = self.options["key"]
        for path in self.key_encoding.required if key else ():
            found.append((_dotted(("key", *path)), _is_missing(f"({key})", path)))
        return found

    @property
    def body(self) -> list[tuple[str, str]]:
        """The fields of the value, each with its SQL."""
        left_out = {name.lower() for name in self.options["exclude"]}
        own = [(name, quote(name)) for name in self.columns if name.lower() not in left_out]
        return [*own, *self.added]

    @property
    def added(self) -> list[tuple[str, str]]:
        """The fields that an envelope adds, each with SQL for its text."""
        return list(self._envelope(_FIELDS)) if self._enveloped_as("fields") else []

    @cached_property
    def headers(self) -> str | None:
        named = [(name, sql) for name, sql in self.options["headers"].items()]
        if self._enveloped_as("headers"):
            written = literal(self.encoding.content_type)
            kind = [] if self.options["value"] else [("content-type", written)]
            named += [("ce_specversion", "'1.0'"), *self._envelope(_CE), *kind]
        listed = ", ".join(
            f"named_struct('key', {literal(name)}, 'value', {as_bytes(sql)})" for name, sql in named
        )
        more = self.options["headers_from"]
        if more is None:
            return f"array({listed})" if named else None
        # By way of text, which keeps bytes as they are and takes numbers too.
        others = f"CAST(CAST({more} AS {_HEADER_TEXTS}) AS {HEADERS})"
        return f"concat(array({listed}), coalesce({others}, array()))" if named else others

    @property
    def partition(self) -> str:
        """NULL also for what is no number; `runtime` has refused that by then."""
        partition = self.options["partition"]
        return f"TRY_CAST({partition} AS INT)" if partition else "CAST(NULL AS INT)"

    @property
    def timestamp(self) -> str:
        """Milliseconds; whether they are given as such or as a time is seen by their text."""
        given = self.options["timestamp"]
        if not given:
            return "CAST(NULL AS BIGINT)"
        text = f"CAST({given} AS STRING)"
        time = f"unix_millis(TRY_CAST({text} AS TIMESTAMP))"
        return f"coalesce(TRY_CAST({text} AS BIGINT), {time})"

    @property
    def event_id(self) -> str:
        """NULL where it is not known which record a row comes from."""
        place = f"concat({COLUMN}.topic, '-', {COLUMN}.partition, '-', {COLUMN}.offset)"
        return f"CAST({self.options['envelope']['id'] or place} AS STRING)"

    def _enveloped_as(self, form: str) -> bool:
        return self.options["envelope"] is not None and self.options["envelope"]["as"] == form

    def _envelope(self, names: dict[str, str]) -> Iterator[tuple[str, str]]:
        envelope: Options = self.options["envelope"]
        version = envelope["schema_version"]
        yield names["id"], self.event_id
        yield names["time"], _iso(envelope["time"] or f"{COLUMN}.timestamp")
        yield names["source"], literal(envelope["source"] or self.pipeline)
        yield names["type"], literal(envelope["type"] or self.sink)
        if version is not None:
            yield names["schema_version"], literal(version)


def needs_record(options: Options) -> bool:
    """Whether a message tells something of the source's record, which its row must then carry."""
    envelope = options["envelope"]
    return envelope is not None and not (envelope["id"] and envelope["time"])


def envelope_fields(options: Options) -> list[str]:
    """The names of fields that an envelope adds to the JSON object."""
    envelope = options["envelope"]
    if envelope is None or envelope["as"] != "fields":
        return []
    return [name for part, name in _FIELDS.items() if part != "schema_version" or envelope[part]]


def tombstone(topic: str, key: str) -> dict[str, str]:
    """A record with a key and no value, which keeps the key and headers that it had. One that tells
    what it deletes has the `key`, as SQL, that the row had.
    """
    return {
        "topic": literal(topic),
        "key": f"coalesce(IF({IS_DELETION}, {key}, NULL), {COLUMN}.key)",
        "value": NO_BYTES,
        "headers": f"{COLUMN}.headers",
    }


def as_bytes(sql: str) -> str:
    """Text in UTF-8; bytes come through it as they are."""
    return f"CAST(CAST({sql} AS STRING) AS BINARY)"


def _dotted(path: tuple[str, ...]) -> str:
    """`lines[].sku`: the name of a field with those around it."""
    return ".".join(path).replace(f".{ELEMENTS}", ELEMENTS).replace(f".{VALUES}", VALUES)


def _is_missing(column: str, path: tuple[str, ...], depth: int = 0) -> str:
    """SQL for whether what a path leads to is NULL, and nothing before it is."""
    if not path:
        return f"{column} IS NULL"
    name, *rest = path
    if name not in (ELEMENTS, VALUES):
        inside = _is_missing(f"{column}.{quote(name)}", tuple(rest), depth)
        return f"{column} IS NOT NULL AND {inside}"
    each = f"each{depth}"
    values = column if name == ELEMENTS else f"map_values({column})"
    inside = _is_missing(each, tuple(rest), depth + 1)
    return f"coalesce(exists({values}, {each} -> {inside}), false)"


def _iso(sql: str) -> str:
    return f"date_format({sql}, {literal(_TIME)})"
