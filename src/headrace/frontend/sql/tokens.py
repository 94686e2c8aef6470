"""The words of a SQL text, with their places: Spark's rules for quotes, comments and numbers.

`tokenize` never fails: what is not closed is a token of its own (`OPEN`), which the parser reports
where it begins. Read by `parser` and `dialect`; one pass over a file, whatever is in it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from headrace.spans import Edit, Span, edited


def words(text: str) -> frozenset[str]:
    """A set of words, written one after the other."""
    return frozenset(text.split())


class Sort(StrEnum):
    WORD = "word"
    QUOTED = "quoted name"
    TEXT = "text"
    NUMBER = "number"
    SYMBOL = "symbol"
    OPEN = "what is not closed"
    END = "end"


class Token(NamedTuple):
    """`key` is a bare word in upper case, or a symbol; empty for everything else.

    `text` is what stands between `start` and `end`, quotes included.
    """

    sort: Sort
    key: str
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        return "the end of the file" if self.sort is Sort.END else f"`{_shown(self.text)}`"


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 30 else line[:29] + "…"


_TOKEN = re.compile(
    r"""
      (?P<space> \s++ | --(?:\\\r?\n|[^\r\n])*+ )
    | (?P<comment> /\* )
    | (?P<text> [rR](?:'[^']*+'|"[^"]*+")
              | '(?:[^'\\]++|\\.|'')*+' | "(?:[^"\\]++|\\.|"")*+" )
    | (?P<quoted> `(?:[^`]++|``)*+` )
    | (?P<open> ['"`] )
    | (?P<number> (?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?:[bB][dD]|[lLsSyYdDfF])?+(?!\w) )
    | (?P<word> \w++ )
    | (?P<symbol> ::|->>|->|=>|<=>|<=|>=|<>|!=|==|\|\||. )
    """,  # noqa: E501 - one rule, one line
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")


def tokenize(text: str) -> list[Token]:
    """All words in order, the last of sort END."""
    return [*_tokens(text), Token(Sort.END, "", "", len(text), len(text))]


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while found := _TOKEN.match(text, at):
        kind, start, at = found.lastgroup, at, found.end()
        if kind == "space":
            continue
        part = found.group()
        if kind == "word":
            yield Token(Sort.WORD, part.upper(), part, start, at)
        elif kind == "symbol":
            yield Token(Sort.SYMBOL, part, part, start, at)
        elif kind == "text":
            yield Token(Sort.TEXT, "", part, start, at)
        elif kind == "number":
            yield Token(Sort.NUMBER, "", part, start, at)
        elif kind == "quoted":
            yield Token(Sort.QUOTED, "", part, start, at)
        elif kind == "comment" and (end := _comment_end(text, at)):
            at = end
        else:
            at = len(text)
            yield Token(Sort.OPEN, part, text[start:], start, at)


def _comment_end(text: str, at: int) -> int | None:
    """Where a comment ends; to Spark, comments may stand in comments."""
    depth = 1
    for mark in _COMMENT.finditer(text, at):
        depth += 1 if mark.group() == "/*" else -1
        if not depth:
            return mark.end()
    return None


_ESCAPE = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}


def value(token: Token) -> tuple[str, int, tuple[Edit, ...]]:
    """The text in quotes, how many characters of the token stand before it, and the edits that
    made it.

    A backslash before a letter that it does not escape stays: `'\\d+'` is a pattern.
    """
    lead = 2 if token.text[0] in "rR" else 1
    raw = token.text[lead:-1]
    if lead == 2:
        return raw, lead, ()
    edits = tuple(_edits(raw, token.text[0]))
    return edited(raw, edits), lead, edits


def _edits(raw: str, quote: str) -> Iterator[Edit]:
    if "\\" not in raw and quote not in raw:
        return
    for found in _ESCAPE.finditer(raw):
        letter = found[1]
        if letter is None and found.group() == quote * 2:
            yield Edit(found.start(), found.end(), quote)
        elif letter in _ESCAPES:
            yield Edit(found.start(), found.end(), _ESCAPES[letter])


def name(token: Token) -> str:
    """The name that a bare or quoted word is."""
    if token.sort is Sort.QUOTED:
        return token.text[1:-1].replace("``", "`")
    return value(token)[0] if token.sort is Sort.TEXT else token.text


def is_complete(text: str) -> bool:
    """Whether a person who typed this has ended the statement: nothing is open, and a `;` is last.

    The `;` inside `BEGIN … END` ends none.
    """
    tokens = tokenize(text)[:-1]
    if not tokens or tokens[-1].key != ";":
        return False
    begins = [at for at in range(len(tokens)) if begins_block(tokens, at)]
    return not begins or any(ends_block(tokens, at) for at in range(begins[-1], len(tokens)))


def begins_block(tokens: list[Token], at: int) -> bool:
    """Whether `AS BEGIN` stands here, of which the statements end at `END`."""
    return tokens[at].key == "BEGIN" and at > 0 and tokens[at - 1].key == "AS"


def ends_block(tokens: list[Token], at: int) -> bool:
    """Whether the `END` of a block stands here, and not that of a CASE."""
    return tokens[at].key == "END" and tokens[at - 1].key in (";", "BEGIN")


class Places:
    """Places of a text's characters in its file."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.lines = [0, *(found.end() for found in re.finditer("\n", text))]

    def span(self, start: int, end: int | None = None, edits: tuple[Edit, ...] = ()) -> Span:
        """Where a part of the text stands; with `end` it knows its own letters."""
        line = bisect_right(self.lines, start)
        raw = "" if end is None else self.text[start:end]
        return Span(self.file, line, start - self.lines[line - 1] + 1, raw, edits)
