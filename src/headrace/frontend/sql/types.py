"""Types of columns: PostgreSQL's and Flink's names, and what they are in Spark.

`read_type` reads one where the cursor stands; `dialect` uses the same names for casts.
"""

from __future__ import annotations

from headrace.frontend.sql.cursor import MAX_DEPTH, Cursor
from headrace.frontend.sql.tokens import Sort, Token, name
from headrace.model.schema import quote
from headrace.spec import nearest

# Spark's name for each name of a type without parameters.
PLAIN = {
    **dict.fromkeys(("TINYINT", "BYTE"), "TINYINT"),
    **dict.fromkeys(("SMALLINT", "SHORT", "INT2"), "SMALLINT"),
    **dict.fromkeys(("INT", "INTEGER", "INT4"), "INT"),
    **dict.fromkeys(("BIGINT", "LONG", "INT8"), "BIGINT"),
    **dict.fromkeys(("FLOAT", "REAL", "FLOAT4"), "FLOAT"),
    **dict.fromkeys(("DOUBLE", "FLOAT8"), "DOUBLE"),
    **dict.fromkeys(("BOOLEAN", "BOOL"), "BOOLEAN"),
    **dict.fromkeys(("STRING", "TEXT", "UUID", "CITEXT"), "STRING"),
    **dict.fromkeys(("BINARY", "BYTEA", "BYTES", "BLOB", "VARBINARY"), "BINARY"),
    **dict.fromkeys(("VARIANT", "JSON", "JSONB"), "VARIANT"),
    "DATE": "DATE",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_LTZ", "DATETIME"), "TIMESTAMP"),
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ",
}
_DECIMALS = ("DECIMAL", "NUMERIC", "DEC")
_TEXTS = ("VARCHAR", "CHAR", "CHARACTER", "BPCHAR")
# With a precision or length, which Spark's have always or never.
_SIZED = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMPTZ", "VARBINARY", "BINARY", "BYTES")
_NESTED = ("ARRAY", "MAP", "STRUCT", "ROW")
NAMES = frozenset({*PLAIN, *_DECIMALS, *_TEXTS, *_NESTED})
# What other systems have and a column here cannot be, with the way out.
_OTHERS = {
    "TIME": "Spark stores no times of day; declare it TEXT",
    "INTERVAL": "a column cannot be a length of time; declare it BIGINT, in milliseconds",
    "SERIAL": "nothing numbers the rows; declare it INT",
    "BIGSERIAL": "nothing numbers the rows; declare it BIGINT",
    "UNSIGNED": "Spark has no unsigned numbers; take the next larger type",
    "UINT": "Spark has no unsigned numbers; take BIGINT",
    "UINT32": "Spark has no unsigned numbers; take BIGINT",
    "UINT64": "Spark has no unsigned numbers; take DECIMAL(20)",
    "MONEY": "declare it DECIMAL(18, 2)",
    "INT32": "declare it INT",
    "INT64": "declare it BIGINT",
    "NUMBER": "declare it DECIMAL(p, s), BIGINT or DOUBLE",
    "OBJECT": "declare it JSON, MAP<…> or STRUCT<…>",
}


def read_type(cursor: Cursor, of: str, depth: int = 0) -> str:
    """Spark's type; `of` is what has it, for the messages."""
    if depth > MAX_DEPTH:
        raise cursor.fault("this type is nested too deeply")
    if cursor.token.sort is not Sort.WORD:
        raise cursor.expected([], f"the type of {of}", "for example TEXT, BIGINT, TIMESTAMP")
    token = cursor.take()
    found = _named(cursor, token, of, depth)
    if cursor.token.key == "UNSIGNED":
        raise _unknown(cursor, cursor.token, of)
    while cursor.accept("[", "]") or cursor.accept("ARRAY"):
        found = f"ARRAY<{found}>"
    return found


def _named(cursor: Cursor, token: Token, of: str, depth: int) -> str:
    word = token.key
    if word in _DECIMALS:
        return _decimal(cursor, token)
    if word in _TEXTS:
        cursor.accept("VARYING")
        _length(cursor, token)
        return "STRING"
    if word in _NESTED:
        return _nested(cursor, token, of, depth)
    if word in _SIZED and cursor.looking("("):
        _length(cursor, token)
    if word == "TIMESTAMP":
        return _timestamp(cursor)
    if word == "DOUBLE":
        cursor.accept("PRECISION")
    if word not in PLAIN:
        raise _unknown(cursor, token, of)
    return PLAIN[word]


def _timestamp(cursor: Cursor) -> str:
    if cursor.accept("WITHOUT", "TIME", "ZONE"):
        return "TIMESTAMP_NTZ"
    if cursor.accept("WITH", "LOCAL", "TIME", "ZONE") or cursor.accept("WITH", "TIME", "ZONE"):
        return "TIMESTAMP"
    return "TIMESTAMP"


def _unknown(cursor: Cursor, token: Token, of: str) -> Exception:
    close = nearest(token.text, [word.lower() for word in sorted(NAMES)])
    hint = _OTHERS.get(token.key)
    if hint is None and close:
        hint = f"did you mean {close[0].upper()}?"
    if hint is None:
        hint = "for example TEXT, BIGINT, INT, DOUBLE, BOOLEAN, TIMESTAMP, DATE, DECIMAL(10, 2)"
    return cursor.fault(f"{token} is not a type, for {of}", token, hint, code="UNKNOWN_TYPE")


def _numbers(cursor: Cursor, most: int, token: Token) -> list[int]:
    """The whole numbers in the brackets after a type, if it has any."""
    if not cursor.accept("("):
        return []
    numbers: list[int] = []
    while True:
        digits = cursor.token.text
        if cursor.token.sort is not Sort.NUMBER or not digits.isascii() or not digits.isdigit():
            raise cursor.expected([], f"a whole number for {token}")
        numbers.append(int(cursor.take().text[:9]))
        if len(numbers) == most or not cursor.accept(","):
            break
    cursor.expect(")", f"after {token}({', '.join(map(str, numbers))}")
    return numbers


def _length(cursor: Cursor, token: Token) -> None:
    _numbers(cursor, 1, token)


def _decimal(cursor: Cursor, token: Token) -> str:
    numbers = _numbers(cursor, 2, token)
    precision, scale = (*numbers, *(10, 0)[len(numbers) :])
    if not 0 < precision <= 38 or scale > precision:
        hint = "up to 38 digits in all, and not more after the point than in all"
        raise cursor.fault(f"{token} cannot have these digits", token, hint, code="UNKNOWN_TYPE")
    return f"DECIMAL({precision}, {scale})"


def _nested(cursor: Cursor, token: Token, of: str, depth: int) -> str:
    closing = ")" if cursor.looking("(") and token.key in ("STRUCT", "ROW") else ">"
    cursor.expect("(" if closing == ")" else "<", f"after {token}", _FORMS[token.key])
    if token.key in ("STRUCT", "ROW"):
        fields = [_field(cursor, of, depth)]
        while cursor.accept(","):
            fields.append(_field(cursor, of, depth))
        inside = f"STRUCT<{', '.join(fields)}>"
    elif token.key == "MAP":
        key = read_type(cursor, of, depth + 1)
        cursor.expect(",", "between the two types of a MAP", _FORMS["MAP"])
        inside = f"MAP<{key}, {read_type(cursor, of, depth + 1)}>"
    else:
        inside = f"ARRAY<{read_type(cursor, of, depth + 1)}>"
    cursor.expect(closing, f"after the parts of {token}", _FORMS[token.key])
    return inside


_FORMS = {
    "ARRAY": "write ARRAY<TEXT> or TEXT[]",
    "MAP": "write MAP<TEXT, BIGINT>",
    "STRUCT": "write STRUCT<name TEXT, amount DOUBLE>",
    "ROW": "write STRUCT<name TEXT, amount DOUBLE>",
}


def _field(cursor: Cursor, of: str, depth: int) -> str:
    if not cursor.at_name():
        raise cursor.expected([], f"the name of a field in {of}", _FORMS["STRUCT"])
    field = name(cursor.take())
    cursor.accept(":")
    return f"{quote(field)} {read_type(cursor, f'the field `{field}`', depth + 1)}"
