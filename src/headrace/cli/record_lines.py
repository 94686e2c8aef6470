"""How records are written as lines of text or JSON, and read back from them.

A record as JSON is one object a line, and can be sent back as it was printed:

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1772366400000,
     "key": "anna", "value": "{\\"id\\": 1}", "headers": [{"key": "trace", "value": "a1"}]}

Bytes that are not UTF-8 are written in base64, and `encoding` names the fields where that is so:
`"encoding": {"value": "base64"}`; a header has its own. A value of null is a tombstone. For
sending, only `value` is needed; one that is no string is sent as the JSON that it is, headers may
also be one object, and `topic` and `offset` are ignored.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from headrace.admin import times
from headrace.admin.records import Headers, Record
from headrace.errors import DefinitionError

_FIELDS = {"topic", "partition", "offset", "timestamp", "key", "value", "headers", "encoding"}


class UnreadableLine(Exception):
    """A line of input that is no record; `str()` says why."""


def to_json(record: Record) -> str:
    return json.dumps(to_fields(record), ensure_ascii=False)


def to_fields(record: Record) -> dict[str, Any]:
    """A record as values that JSON has."""
    encoding: dict[str, str] = {}
    line: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _encode(record.key, encoding, "key"),
        "value": _encode(record.value, encoding, "value"),
        "headers": [_header_to_json(*header) for header in record.headers],
    }
    if encoding:
        line["encoding"] = encoding
    return line


def from_json(line: bytes) -> Record:
    """The record that a line describes; `UnreadableLine` when it describes none."""
    try:
        fields = json.loads(line)
    except ValueError as failure:
        raise UnreadableLine(f"not JSON: {failure}") from failure
    if not isinstance(fields, dict):
        raise UnreadableLine("not a JSON object")
    unknown = sorted(set(fields) - _FIELDS)
    if unknown:
        raise UnreadableLine(
            f"unknown field `{unknown[0]}`; known are {', '.join(sorted(_FIELDS))}"
        )
    if "value" not in fields:
        raise UnreadableLine("no `value`; write null for a tombstone")
    encoding = fields.get("encoding") or {}
    if not isinstance(encoding, dict):
        raise UnreadableLine("`encoding` is not an object")
    return Record(
        value=_decode(fields["value"], encoding.get("value")),
        key=_decode(fields.get("key"), encoding.get("key")),
        headers=_headers_from_json(fields.get("headers")),
        partition=_count(fields, "partition"),
        timestamp=_timestamp(fields.get("timestamp")),
    )


def from_text(line: bytes, key: bytes | None, separator: bytes | None) -> Record:
    """A record whose value is the line, or what follows the separator; before it stands the key."""
    if separator is None:
        return Record(line, key)
    found, middle, value = line.partition(separator)
    if not middle:
        shown = separator.decode(errors="replace")
        raise UnreadableLine(f"no key separator `{shown}` in it")
    return Record(value, found)


def to_text(record: Record, keys: bool, headers: bool, metadata: bool) -> bytes:
    """The value, and before it, each with a tab between, what else was asked for."""
    columns: list[bytes] = []
    if metadata:
        when = "-" if record.timestamp is None else times.show(record.timestamp)
        columns.append(f"{record.topic}[{record.partition}]@{record.offset}\t{when}".encode())
    if headers:
        columns.append(b",".join(_header_to_text(*header) for header in record.headers) or b"-")
    if keys:
        columns.append(_shown(record.key))
    return b"\t".join([*columns, _shown(record.value)])


def _shown(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _header_to_text(name: str, value: bytes | None) -> bytes:
    return name.encode() + b"=" + _shown(value)


def _encode(data: bytes | None, encoding: dict[str, str], field: str) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        encoding[field] = "base64"
        return base64.b64encode(data).decode()


def _header_to_json(name: str, value: bytes | None) -> dict[str, Any]:
    encoding: dict[str, str] = {}
    header: dict[str, Any] = {"key": name, "value": _encode(value, encoding, "encoding")}
    return {**header, **encoding}


def _decode(value: Any, encoding: Any) -> bytes | None:
    if encoding not in (None, "base64"):
        raise UnreadableLine(f"unknown encoding `{encoding}`; known is base64")
    if value is None:
        return None
    if encoding == "base64":
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError) as failure:
            raise UnreadableLine(f"not base64: {failure}") from failure
    if isinstance(value, str):
        return _utf8(value)
    return _utf8(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as failure:
        raise UnreadableLine(f"not Unicode: {failure.reason}") from failure


def _headers_from_json(headers: Any) -> Headers:
    if headers is None:
        return ()
    if isinstance(headers, Mapping):
        return tuple((name, _decode(value, None)) for name, value in headers.items())
    if not isinstance(headers, list):
        raise UnreadableLine("`headers` is neither a list nor an object")
    return tuple(_header_from_json(header) for header in headers)


def _header_from_json(header: Any) -> tuple[str, bytes | None]:
    if not isinstance(header, dict) or not isinstance(header.get("key"), str):
        raise UnreadableLine('a header is not {"key": …, "value": …}')
    return header["key"], _decode(header.get("value"), header.get("encoding"))


def _count(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None or (type(value) is int and value >= 0):
        return value
    raise UnreadableLine(f"`{name}` is not a number from 0")


def _timestamp(value: Any) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    try:
        return times.parse(str(value))
    except DefinitionError as failure:
        raise UnreadableLine(str(failure)) from failure
