"""Diagnostics in the words of SQL.

The checks behind a definition speak of `topic: orders`, which in SQL is `topic = 'orders'`. Called
by `frontend.load` for whatever is said about a pipeline that was written in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from headrace.spans import Diagnostic

_SETTING = re.compile(r"`([a-z_]+): ([^`]+)`")
_COLUMN = re.compile(r"`columns\.(\w+)`")
_CAST = re.compile(r"make one of it in `columns`: `(\w+): CAST\(… AS TIMESTAMP\)`")
_KEY = re.compile(r"`([a-z_]+):`")
_BARE = re.compile(r"-?[0-9]+(\.[0-9]+)?|true|false", re.IGNORECASE)
_WATERMARK = re.compile(r"`watermark: \{column: (\w+), delay: ([^}`]+)\}`")
_WORDS = {"connector_type": "connector"}
_PHRASES = {
    "needs `schema`": "needs columns",
    "in `schema`": "among the columns",
    "declare the columns with `schema`": "declare the columns",
    "declared by `schema`": "declared",
    "of the source's own columns": "of the columns before it",
    "over the source's own columns": "over the table's own columns",
    "give the source a `watermark`": "add `WATERMARK FOR` to the table",
    "of this step's input": "of what is read here",
    "there is no `sink:` to run into": "there is nothing to run into",
    "add `sink:`": "write INSERT INTO, or add `WITH ( sink = '…' )`",
    "add `pipeline: name`, or rename the file": "write CREATE PIPELINE, or rename the file",
}


def in_sql(faults: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    for fault in faults:
        hint = None if fault.hint is None else _spoken(fault.hint)
        yield replace(fault, message=_spoken(fault.message), hint=hint)


def _spoken(text: str) -> str:
    for phrase, spoken in _PHRASES.items():
        text = text.replace(phrase, spoken)
    text = _COLUMN.sub(r"`\1`", _CAST.sub(r"declare it TIMESTAMP, or generate one of it", text))
    text = _WATERMARK.sub(r"`WATERMARK FOR \1 AS \1 - INTERVAL '\2'`", text)
    text = _SETTING.sub(_setting, text)
    return _KEY.sub(lambda match: f"`{_WORDS.get(match[1], match[1])}`", text)


def _setting(match: re.Match[str]) -> str:
    name, value = match.groups()
    if name == "schema":
        return f"`( {value.strip(chr(34))} )` after the table's name"
    return f"`{_WORDS.get(name, name)} = {_value(value)}`"


def _value(text: str) -> str:
    """A value of YAML as it is written in SQL."""
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        inside = (part.partition(":") for part in _parts(text[1:-1]))
        return f"( {', '.join(f'{_name(key)} = {_value(value)}' for key, _, value in inside)} )"
    if text.startswith("[") and text.endswith("]"):
        return f"( {', '.join(_value(part) for part in _parts(text[1:-1]))} )"
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    elif _BARE.fullmatch(text) or text == "…":
        return text
    return "'" + text.replace("'", "''") + "'"


def _name(key: str) -> str:
    key = key.strip().strip("\"'")
    return key if key.replace("_", "").isalnum() else f"'{key}'"


def _parts(text: str) -> Iterator[str]:
    """Between the commas that stand in no brackets and no quotes."""
    depth, quoted, start = 0, "", 0
    for at, letter in enumerate(text):
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "\"'":
            quoted = letter
        elif letter in "{[(":
            depth += 1
        elif letter in "}])":
            depth -= 1
        elif letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]
