"""What is wrong with a SELECT that cannot be read: in its author's words, not in the parser's.

Each fault is a message, the letter of the text that it is about, and a hint. For `model.query`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]


class Slip(NamedTuple):
    message: str
    offset: int = 0
    hint: str | None = None


# What a misspelt word may have been meant as.
_KEYWORDS = (
    *("select", "distinct", "from", "where", "group", "having", "order", "limit", "union"),
    *("intersect", "except", "join", "inner", "left", "right", "full", "outer", "cross", "lateral"),
    *("using", "between", "like", "case", "when", "then", "else", "with", "interval", "over"),
    *("partition", "values", "exists"),
)
_TYPES = (
    *("string", "bigint", "int", "integer", "smallint", "tinyint", "double", "float", "decimal"),
    *("boolean", "binary", "date", "timestamp", "timestamp_ntz", "variant", "array", "map"),
    "struct",
)
# Words before a bracket that do not call it.
_NO_CALLS = ("AND", "OR", "NOT", "IN", "ON", "WHERE", "SELECT", "BY", "WHEN", "THEN", "ELSE")
_BEFORE_BY = ("GROUP", "ORDER", "PARTITION", "CLUSTER", "SORT", "DISTRIBUTE")
_AFTER_LIST = {
    TokenType.FROM: "FROM",
    TokenType.WHERE: "WHERE",
    TokenType.GROUP_BY: "GROUP BY",
    TokenType.HAVING: "HAVING",
    TokenType.ORDER_BY: "ORDER BY",
    TokenType.LIMIT: "LIMIT",
    TokenType.R_PAREN: "`)`",
}


def not_closed() -> Slip:
    hint = "look for a ', \", ` or /* without its partner"
    return Slip("a text, a name or a comment has no end", 0, hint)


def syntax(error: ParseError, text: str, tokens: list[Token]) -> Slip:
    """The first thing that the parser could not read."""
    if not error.errors:
        return Slip(str(error).splitlines()[0])
    first = error.errors[0]
    found = str(first["highlight"])
    offset = len("".join(text.splitlines(keepends=True)[: first["line"] - 1]))
    # sqlglot counts the column of a token's last character.
    offset += max(first["col"] - len(found), 0)
    at = next((number for number, token in enumerate(tokens) if token.start >= offset), 0)
    problem = str(first["description"]).rstrip(".")
    return _misspelt(tokens, at) or _said(problem, found, offset, tokens, at)


def slips(tokens: list[Token]) -> Iterator[Slip]:
    """What the parser takes, and Spark does not."""
    for token, following in pairwise(tokens):
        after = _AFTER_LIST.get(following.token_type)
        if token.token_type is TokenType.COMMA and after:
            yield Slip(f"a comma too many before {after}", token.start, "remove it")
        if token.token_type is TokenType.PARAMETER and not _is_reference(tokens, token):
            hint = "a reference to a variable is written ${env:NAME}"
            yield Slip(f"`{token.text}` has no meaning here", token.start, hint)
    if tokens and tokens[-1].token_type is TokenType.COMMA:
        yield Slip("a comma too many at the end", tokens[-1].start, "remove it")


def texts_like_columns(tokens: list[Token], text: str, columns: set[str]) -> Iterator[Slip]:
    """Texts in double quotes that are columns to PostgreSQL; arguments are left out, as names of
    fields are often written so.
    """
    arguments: list[bool] = []
    for before, token in pairwise(tokens):
        if token.token_type is TokenType.L_PAREN:
            arguments.append(before.text.isidentifier() and before.text.upper() not in _NO_CALLS)
        elif token.token_type is TokenType.R_PAREN and arguments:
            arguments.pop()
        elif token.token_type is TokenType.STRING and text[token.start] == '"':
            inside = bool(arguments) and arguments[-1]
            if token.text.lower() in columns and not inside and before.text.upper() != "AS":
                message = f'`"{token.text}"` is a text, and there is a column of that name'
                hint = f"a column is written without quotes, or in backticks: `{token.text}`"
                yield Slip(message, token.start, hint)


def _is_reference(tokens: list[Token], token: Token) -> bool:
    """Whether `${env:` begins here, whose variable is told to be missing elsewhere."""
    at = tokens.index(token)
    words = [each.text for each in tokens[at : at + 4]]
    return words[:2] == ["$", "{"] and words[2:3] in (["env"], ["file"], ["secret"])


def _misspelt(tokens: list[Token], at: int) -> Slip | None:
    """A word around the fault that is nearly a word of SQL."""
    for number in (at - 1, at, at + 1, at - 2):
        token = tokens[number] if 0 <= number < len(tokens) else None
        if token is None or token.token_type is not TokenType.VAR:
            continue
        following = tokens[number + 1].text.upper() if number + 1 < len(tokens) else ""
        if token.text.upper() in _BEFORE_BY and following != "BY":
            return Slip(f"expected `BY` after `{token.text}`", token.start)
        close = difflib.get_close_matches(token.text.lower(), _KEYWORDS, n=1, cutoff=0.7)
        if close and close[0] != token.text.lower():
            hint = f"did you mean `{close[0].upper()}`?"
            return Slip(f"`{token.text}` cannot stand here", token.start, hint)
    return None


def _said(problem: str, found: str, offset: int, tokens: list[Token], at: int) -> Slip:
    if problem.startswith("Required keyword"):
        return Slip(f"something is missing, near `{found}`", offset)
    if problem.startswith("Expected table name"):
        return Slip(f"the name of a table is missing after `{found}`", offset)
    if problem.startswith("Expecting "):
        return Slip(f"expected `{problem.removeprefix('Expecting ')}`, found `{found}`", offset)
    if problem == "Expected END after CASE":
        return Slip("this CASE has no END", _last(tokens, at, TokenType.CASE, offset))
    if problem == "Expected AS after CAST":
        return Slip(f"expected `AS`, found `{found}`", offset, "write `CAST(a AS STRING)`")
    if problem == "Expected TYPE after CAST":
        close = difflib.get_close_matches(found.lower(), _TYPES, n=1)
        hint = f"did you mean {close[0].upper()}?" if close else "for example STRING, BIGINT, DATE"
        return Slip(f"`{found}` is not a type", offset, hint)
    if problem.startswith("Invalid expression"):
        return Slip(f"`{found}` cannot stand here", offset, _cure(tokens, at))
    return Slip(f"{problem}, near `{found}`", offset)


def _cure(tokens: list[Token], at: int) -> str | None:
    if tokens[at].token_type is TokenType.DAMP:
        return "write AND"
    beside = at > 0 and _is_value(tokens[at]) and _is_value(tokens[at - 1])
    return "a comma or an operator may be missing before it" if beside else None


def _last(tokens: list[Token], at: int, kind: TokenType, otherwise: int) -> int:
    starts = (token.start for token in reversed(tokens[: at + 1]) if token.token_type is kind)
    return next(starts, otherwise)


def _is_value(token: Token) -> bool:
    values = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER)
    return token.token_type in values
