"""PostgreSQL's and Arroyo's words in a SELECT or an expression, as Spark's.

`translate` edits the author's text word by word and remembers the edits in its span, so that every
letter of the result still has its place in the file. What Spark understands already is left alone,
and so a translated text is translated to itself. Called by `compile` for every query and generated
column, before `model.query` understands it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from headrace.frontend.sql import windows
from headrace.frontend.sql.cursor import SqlFault
from headrace.frontend.sql.editor import Editor
from headrace.frontend.sql.scopes import NO_ALIAS
from headrace.frontend.sql.statements import Fragment
from headrace.frontend.sql.tokens import Sort, value, words
from headrace.frontend.sql.types import read_type
from headrace.model.schema import literal
from headrace.spans import Diagnostic, edited

_NO_TIMES: Mapping[str, str] = MappingProxyType({})
# Whatever has none of these is Spark's already.
_TRIGGERS = re.compile(
    r"::|->|\b(?:cast|try_cast|extract|date_part|datepart|interval|unnest|array|mod|json|jsonb"
    r"|timestamptz|tumble|hop|session)\b",
    re.IGNORECASE,
)
_FOREIGN_TYPES = words(
    """
    TEXT BYTEA JSON JSONB TIMESTAMPTZ INT2 INT4 INT8 FLOAT4 FLOAT8 BOOL UUID CITEXT BYTES BLOB
    VARBINARY DATETIME BPCHAR
    """
)
# Spark's only with a length after them.
_SIZED_TYPES = words("VARCHAR CHAR CHARACTER")
_FOREIGN_PARTS = words("PRECISION VARYING ROW WITH [")
_JSON = words("JSON JSONB")
_UNITS = "YEAR MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND".split()  # noqa: SIM905
_UNIT_WORDS = frozenset({*_UNITS, *(f"{unit}S" for unit in _UNITS)})
_SPARK_INTERVAL = re.compile(
    rf"\s*(?:[+-]?\s*[0-9]+(?:\.[0-9]+(?=\s*second))?\s*(?:{'|'.join(_UNITS)})s?\s*)+",
    re.IGNORECASE,
)
# What takes the difference of two times and gives one back.
_KEEPS_DIFFERENCE = words(
    "MAX MIN AVG MEAN SUM ABS COALESCE FIRST LAST ANY_VALUE GREATEST LEAST MEDIAN"
)
# What may follow a table in FROM.
_AFTER_TABLE = NO_ALIAS | words(") , ;")
_HASHES = words("HASH XXHASH64")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def translate(
    fragment: Fragment, times: Mapping[str, str] = _NO_TIMES
) -> tuple[Fragment, list[Diagnostic]]:
    """The same SQL in Spark's words, and what has none.

    `times` are the columns of the watermarks by the names of their tables.
    """
    if not _TRIGGERS.search(fragment.sql):
        return fragment, []
    editor = Editor(fragment, {table.lower(): time for table, time in times.items()})
    for at in range(len(editor.tokens)):
        try:
            _translate_word(editor, at)
        except SqlFault as fault:
            editor.cursor.faults.append(fault.diagnostic)
    try:
        edits = editor.edits()
    except SqlFault as fault:
        return fragment, [*editor.cursor.faults, fault.diagnostic]
    if not edits:
        return fragment, editor.cursor.faults
    as_written = fragment.sql == fragment.span.raw and not fragment.span.edits
    span = replace(fragment.span, edits=edits) if as_written else fragment.span
    return Fragment(edited(fragment.sql, edits), span), editor.cursor.faults


def _translate_word(editor: Editor, at: int) -> None:
    rule = _RULES.get(editor.key(at))
    if at in editor.done or editor.key(at - 1) in (".", "AS"):
        return  # a name
    if rule is not None:
        rule(editor, at)
    elif editor.is_call(at) and editor.key(at + 2) == "INTERVAL":
        windows.other_window(editor, at)


# Types.


def _foreign_type(editor: Editor, at: int) -> tuple[str, int] | None:
    """Spark's name of the type that stands here, and its last word; None if it is Spark's own."""
    editor.cursor.at = at
    try:
        spark = read_type(editor.cursor, "this value")
    except SqlFault:
        return None  # Spark has more types than a table may have
    end = editor.cursor.at
    foreign = any(_is_foreign(editor, each) for each in range(at, end))
    return (spark, end - 1) if foreign else None


def _is_foreign(editor: Editor, at: int) -> bool:
    key = editor.key(at)
    sized = key in _SIZED_TYPES and editor.key(at + 1) != "("
    return sized or key in _FOREIGN_TYPES or key in _FOREIGN_PARTS


def _cast_by_colons(editor: Editor, at: int) -> None:
    """`x::TEXT`."""
    found = _foreign_type(editor, at + 1)
    if found is None:
        return
    spark, last = found
    if editor.key(at + 1) in _JSON and last == at + 1:
        editor.open(editor.operand(at), "parse_json(")
        editor.replace_after(at - 1, last, ")")
    else:
        editor.replace(at + 1, last, spark)


def _cast(editor: Editor, at: int) -> None:
    """`CAST(x AS TEXT)`."""
    if not editor.is_call(at):
        return
    closing = editor.closing(at + 1)
    ases = [each for each in editor.top(range(at + 2, closing)) if editor.key(each) == "AS"]
    found = _foreign_type(editor, ases[-1] + 1) if ases else None
    if found is None or found[1] != closing - 1:
        return
    if editor.key(ases[-1] + 1) in _JSON and closing == ases[-1] + 2:
        parse = "try_parse_json" if editor.key(at) == "TRY_CAST" else "parse_json"
        editor.replace(at, at, parse)
        editor.replace_after(ases[-1] - 1, closing - 1, "")
    else:
        editor.replace(ases[-1] + 1, closing - 1, found[0])


def _typed_text(editor: Editor, at: int) -> None:
    """`JSON '{…}'` and `TIMESTAMPTZ '…'`."""
    if editor.sort(at + 1) is not Sort.TEXT or editor.key(at - 1) == "::":
        return
    if editor.key(at) in _JSON:
        editor.replace(at, at, "parse_json(")
        editor.close(at + 1, ")")
    else:
        editor.replace(at, at, "TIMESTAMP")


# Times.


def _interval(editor: Editor, at: int) -> None:
    """`INTERVAL '5 min'`; with a unit after the text, or none but Spark's in it, it stays."""
    if editor.sort(at + 1) is not Sort.TEXT:
        return
    text = editor.tokens[at + 1]
    if editor.key(at + 2) in _UNIT_WORDS:
        return
    interval = editor.interval(at)
    if interval.months and interval.micros:
        hint = "add one after the other: `… + INTERVAL '1 month' + INTERVAL '2 days'`"
        message = "an interval has months or days, and not both"
        raise editor.cursor.fault(message, text, hint, code="BAD_INTERVAL")
    if not _SPARK_INTERVAL.fullmatch(value(text)[0]):
        editor.replace(at + 1, at + 1, literal(interval.spark))


def _extract(editor: Editor, at: int) -> None:
    """`EXTRACT(EPOCH FROM x)`."""
    if [editor.key(at + each) for each in (1, 2, 3)] == ["(", "EPOCH", "FROM"]:
        _epoch(editor, at, range(at + 4, editor.closing(at + 1)))


def _date_part(editor: Editor, at: int) -> None:
    """`date_part('epoch', x)`."""
    arguments = editor.arguments(at + 1) if editor.is_call(at) else []
    if len(arguments) == 2 and editor.text(arguments[0]).strip("'").lower() == "epoch":
        _epoch(editor, at, arguments[1])


def _epoch(editor: Editor, at: int, inside: range) -> None:
    """Seconds since 1970 or, of a difference of times, all of its seconds."""
    if not inside:
        raise editor.cursor.fault("there is nothing to take the seconds of", editor.tokens[at])
    if _is_difference(editor, inside):
        lead, end = "CAST(CAST(CAST(", " AS INTERVAL SECOND) AS DECIMAL(20, 6)) AS DOUBLE"
    else:
        lead, end = "CAST(CAST(", " AS TIMESTAMP) AS DOUBLE"
    editor.replace_before(at, inside.start, lead)
    editor.close(inside[-1], end)


def _is_difference(editor: Editor, inside: range) -> bool:
    """Whether one time is taken from another, as far as words can tell."""
    while inside:
        minuses = [at for at in editor.top(inside)[1:] if editor.key(at) == "-"]
        if minuses:
            after = minuses[-1] + 1
            return editor.key(after) != "INTERVAL" and editor.sort(after) is not Sort.NUMBER
        first = inside.start
        if editor.key(first) in _KEEPS_DIFFERENCE and editor.is_call(first):
            arguments = editor.arguments(first + 1)
            inside = arguments[0] if arguments else range(0)
        elif editor.key(first) == "(" and editor.closing(first) == inside[-1]:
            inside = range(first + 1, inside[-1])
        else:
            return editor.key(first) == "INTERVAL"
    return False


# JSON.


def _json_path(editor: Editor, at: int) -> None:
    """`doc -> 'a' ->> 'b'`, as one path into a VARIANT."""
    if at == 0 or editor.is_lambda(at):
        return
    path, as_text, end = "$", False, at
    while editor.key(end) in ("->", "->>") and not as_text:
        step = _step(editor, end)
        if step is None:
            break
        path, as_text, end = path + step, editor.key(end) == "->>", end + 2
    if end == at:
        return
    start = editor.operand(at)
    if editor.key(start) == "END" or (
        editor.key(start) != "(" and editor.sort(start) is Sort.SYMBOL
    ):
        message = "it is unclear what this is taken from"
        raise editor.cursor.fault(message, editor.tokens[at], "put that in brackets")
    kind = ", 'string'" if as_text else ""
    editor.open(start, "variant_get(")
    editor.replace_after(at - 1, end - 1, f", {literal(path)}{kind})")


def _step(editor: Editor, at: int) -> str | None:
    """What an arrow adds to a path; None where Spark must judge."""
    token = editor.tokens[at + 1]
    if token.sort is Sort.NUMBER and token.text.isdigit():
        return f"[{token.text}]"
    if token.sort is Sort.TEXT:
        key = value(token)[0]
        if _PLAIN_KEY.fullmatch(key):
            return f".{key}"
        if "'" in key and '"' in key:
            raise editor.cursor.fault("a key with both kinds of quotes cannot be reached", token)
        return f"['{key}']" if '"' in key else f'["{key}"]'
    if editor.key(at) == "->":
        return None
    hint = "write `variant_get(document, '$.' || name, 'string')`"
    raise editor.cursor.fault("after `->>` stands a text or a whole number", token, hint)


# Lists.


def _array(editor: Editor, at: int) -> None:
    """`ARRAY[1, 2]`."""
    if editor.key(at + 1) == "[":
        closing = editor.closing(at + 1)
        editor.replace(at + 1, at + 1, "(")
        editor.replace(closing, closing, ")")


def _unnest(editor: Editor, at: int) -> None:
    if not editor.is_call(at):
        return
    if len(editor.arguments(at + 1)) != 1:
        hint = "of several, side by side: `inline(arrays_zip(a, b))`"
        raise editor.cursor.fault("UNNEST takes one list", editor.tokens[at], hint)
    if editor.scopes.clauses[at] == "FROM":
        _unnest_table(editor, at)
    else:
        _unnest_column(editor, at)


def _unnest_column(editor: Editor, at: int) -> None:
    in_list = editor.key(at - 1) in ("SELECT", ",", "DISTINCT", "ALL")
    if editor.scopes.clauses[at] != "SELECT" or not in_list:
        message = "UNNEST stands by itself in the list of SELECT, or in FROM"
        hint = "write `FROM t, UNNEST(t.items) AS item`, and use `item`"
        raise editor.cursor.fault(message, editor.tokens[at], hint)
    editor.replace(at, at, "explode")
    closing = editor.closing(at + 1)
    if editor.key(closing + 1) in (",", "FROM", ")") or editor.sort(closing + 1) is Sort.END:
        editor.close(closing, " AS unnest")


def _unnest_table(editor: Editor, at: int) -> None:
    """As a table function, which sees the tables before it by LATERAL."""
    closing = editor.closing(at + 1)
    if [editor.key(closing + 1), editor.key(closing + 2)] == ["WITH", "ORDINALITY"]:
        hint = "write `LATERAL posexplode(items) AS t(number, item)`, which counts from 0"
        message = "Spark knows no WITH ORDINALITY"
        raise editor.cursor.fault(message, editor.tokens[closing + 1], hint)
    columns, last = _name_rows(editor, closing)
    function = "explode" if columns == 1 else "inline"
    if _is_left_joined(editor, at):
        # Spark's optimizer forgets the LEFT before `explode`, and with it rows without elements.
        function += "_outer"
    lateral = "" if editor.key(at - 1) in ("FROM", "LATERAL") else "LATERAL "
    editor.replace(at, at, lateral + function)
    if editor.key(last + 1) == "ON":
        _drop_condition(editor, last)


def _name_rows(editor: Editor, closing: int) -> tuple[int, int]:
    """Sees to it that the rows have a name and a column; how many these are, and the last word."""
    alias = closing + 2 if editor.key(closing + 1) == "AS" else closing + 1
    if editor.sort(alias) not in (Sort.WORD, Sort.QUOTED) or editor.key(alias) in NO_ALIAS:
        editor.close(closing, " AS unnest(unnest)")
        return 1, closing
    if editor.key(alias + 1) == "(":
        return len(editor.arguments(alias + 1)), editor.closing(alias + 1)
    editor.close(alias, f"({editor.tokens[alias].text})")
    return 1, alias


def _is_left_joined(editor: Editor, at: int) -> bool:
    """`LEFT [OUTER] JOIN [LATERAL]` stands before it."""
    join = at - 2 if editor.key(at - 1) == "LATERAL" else at - 1
    left = join - 2 if editor.key(join - 1) == "OUTER" else join - 1
    return editor.key(join) == "JOIN" and editor.key(left) == "LEFT"


def _drop_condition(editor: Editor, before: int) -> None:
    """`ON true`, with which Spark would make a join of it, that no stream can do."""
    trivial = editor.key(before + 2) == "TRUE" and editor.key(before + 3) in _AFTER_TABLE
    if not trivial and editor.sort(before + 3) is not Sort.END:
        token = editor.tokens[before + 1]
        hint = "write it in WHERE, or take the elements first: `UNNEST(filter(items, x -> …))`"
        raise editor.cursor.fault("UNNEST takes no condition but `ON true`", token, hint)
    editor.replace_after(before, before + 2, "")


def _mod(editor: Editor, at: int) -> None:
    """`MOD(hash(id), 2)` shares rows out, and Spark's `hash` is often below zero."""
    hashed = editor.is_call(at) and editor.is_call(at + 2) and editor.key(at + 2) in _HASHES
    if hashed and editor.key(editor.closing(at + 3) + 1) == ",":
        editor.replace(at, at, "pmod")


_RULES: dict[str, Callable[[Editor, int], None]] = {
    "::": _cast_by_colons,
    "CAST": _cast,
    "TRY_CAST": _cast,
    "JSON": _typed_text,
    "JSONB": _typed_text,
    "TIMESTAMPTZ": _typed_text,
    "INTERVAL": _interval,
    "EXTRACT": _extract,
    "DATE_PART": _date_part,
    "DATEPART": _date_part,
    "->": _json_path,
    "->>": _json_path,
    "ARRAY": _array,
    "UNNEST": _unnest,
    "MOD": _mod,
    "WINDOW": windows.spark_window,
    "SESSION_WINDOW": windows.spark_window,
    "TUMBLE": windows.short_window,
    "HOP": windows.short_window,
    "SESSION": windows.short_window,
}
