"""Option lists: `( topic = 'orders', 'fetch.min.bytes' = 1024, topics = ('a', 'b') )`.

They become the same nodes as the options of a YAML file. A value may be a text, a number, TRUE or
FALSE, a list of values, or options in brackets of their own.
"""

from __future__ import annotations

import math
import re

from headrace.frontend.sql.cursor import MAX_DEPTH, Cursor
from headrace.frontend.sql.tokens import Sort, Token, value
from headrace.spans import Diagnostic, Field, Node

_INTEGER = re.compile(r"[0-9]{1,30}")
_DECIMAL = re.compile(r"[0-9.]{1,400}(?:[eE][+-]?[0-9]{1,9})?")
_FORM = "options are written `( name = 'value', other = 10 )`"
_VALUES = "a text in quotes, a number, TRUE or FALSE"


def read_fields(cursor: Cursor, depth: int = 0) -> dict[str, Field]:
    """The options in brackets, of which the first is here."""
    if depth > MAX_DEPTH:
        raise cursor.fault("this is nested too deeply")
    cursor.expect("(", hint=_FORM)
    fields: dict[str, Field] = {}
    cursor.items(lambda: _field(cursor, fields, depth), "between options")
    return fields


def _field(cursor: Cursor, fields: dict[str, Field], depth: int) -> None:
    token = cursor.token
    name = _name(cursor)
    span = cursor.place(token)
    cursor.expect("=", f"after the option `{name}`", _FORM)
    node = _node(cursor, name, depth)
    if name in fields:
        before = fields[name].key
        hint = f"it is set at {before.line}:{before.column}, too; keep one of them"
        cursor.faults.append(Diagnostic("KEY_TWICE", f"`{name}` stands here twice", span, hint))
    else:
        fields[name] = Field(span, node)


def _name(cursor: Cursor) -> str:
    """A bare name is folded to lower case, as SQL does; one with dots or quotes stays."""
    if cursor.token.sort is Sort.TEXT:
        return value(cursor.take())[0]
    bare = cursor.token.sort is Sort.WORD
    name = cursor.expect_dotted_name("an option", _FORM).text
    return name.lower() if bare and "." not in name else name


def _node(cursor: Cursor, name: str, depth: int) -> Node:
    token = cursor.token
    if token.sort is Sort.TEXT:
        return _text(cursor, cursor.take())
    if token.sort is Sort.NUMBER or cursor.looking("-") or cursor.looking("+"):
        return _number(cursor)
    if token.key in ("TRUE", "FALSE"):
        cursor.take()
        return Node(token.key == "TRUE", cursor.place(token), token.text)
    if cursor.looking("ARRAY") and cursor.ahead().key in ("[", "("):
        cursor.take()
        return _list(cursor, name, depth)
    if token.key == "[":
        return _list(cursor, name, depth)
    if token.key == "(":
        if _is_options(cursor):
            return Node(dict(read_fields(cursor, depth + 1)), cursor.place(token))
        return _list(cursor, name, depth)
    raise _no_value(cursor, name)


def _no_value(cursor: Cursor, name: str) -> Exception:
    token = cursor.token
    if token.sort is not Sort.WORD:
        return cursor.expected([], f"{_VALUES} for `{name}`")
    if token.key == "NULL":
        return cursor.fault(f"`{name}` cannot be NULL", hint="leave the option out")
    text = token.text
    if cursor.ahead().sort is Sort.TEXT:  # INTERVAL '5 seconds'
        text = value(cursor.ahead())[0]
    message = f"the value of `{name}` needs quotes"
    return cursor.fault(message, hint=f"write `{name} = '{text}'`")


def _text(cursor: Cursor, token: Token) -> Node:
    text, lead, edits = value(token)
    span = cursor.places.span(token.start + lead, token.end - 1, edits)
    return Node(text, span, text)


def _number(cursor: Cursor) -> Node:
    first = cursor.token
    sign = cursor.take().key if first.sort is Sort.SYMBOL else ""
    token = cursor.token
    if token.sort is not Sort.NUMBER:
        raise cursor.expected([], f"a number after `{sign}`")
    span = cursor.places.span(first.start, token.end)
    written = sign + cursor.take().text
    if _INTEGER.fullmatch(token.text):
        return Node(int(written), span, written)
    if _DECIMAL.fullmatch(token.text) and math.isfinite(number := float(written)):
        return Node(number, span, written)
    hint = f"if it is meant as text, write '{token.text}'"
    raise cursor.fault(f"{token} is not a number", token, hint)


def _list(cursor: Cursor, name: str, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise cursor.fault("this is nested too deeply")
    opening = cursor.take()
    closing = "]" if opening.key == "[" else ")"
    nodes: list[Node] = []
    while not cursor.accept(closing):
        if cursor.ahead().key == "=":
            raise cursor.not_closed(opening)
        nodes.append(_node(cursor, name, depth + 1))
        if not cursor.looking(closing):
            cursor.expect(",", f"or `{closing}` in the list of `{name}`")
    return Node(nodes, cursor.place(opening))


def _is_options(cursor: Cursor) -> bool:
    """Whether names stand in the brackets here, and not values; `()` is no option at all."""
    if cursor.ahead().key == ")":
        return True
    at = 2
    while cursor.ahead(at).key == ".":
        at += 2
    return cursor.ahead(at).key == "="
