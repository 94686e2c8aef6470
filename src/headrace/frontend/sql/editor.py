"""The words of a fragment of SQL, and edits of them: what the rules of `dialect` work with.

Rules find words by their number and put text before, after or in place of them. Nested rules do
not disturb each other, as each touches only its own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from headrace.frontend.sql.cursor import Cursor
from headrace.frontend.sql.intervals import Interval, read_interval
from headrace.frontend.sql.scopes import Scopes
from headrace.frontend.sql.statements import Fragment
from headrace.frontend.sql.tokens import Places, Sort, Token, words
from headrace.spans import Edit, Span

# Words before a bracket that do not call it.
_NO_CALL = words(
    """
    AND OR NOT IN ON WHERE SELECT BY WHEN THEN ELSE CASE FROM HAVING BETWEEN LIKE ILIKE RLIKE AS
    DISTINCT ALL ANY EXISTS UNION EXCEPT INTERSECT USING OVER VALUES LIMIT IS RETURN
    """
)
# Functions whose arguments after the first may be `x -> …`.
_HIGHER_ORDER = words(
    """
    TRANSFORM FILTER EXISTS FORALL AGGREGATE REDUCE ZIP_WITH MAP_FILTER MAP_ZIP_WITH
    TRANSFORM_KEYS TRANSFORM_VALUES ARRAY_SORT
    """
)
# Types that a text can follow, to be one value with it.
_BEFORE_TEXT = words("DATE TIMESTAMP TIMESTAMPTZ INTERVAL JSON JSONB X")


class _Inside(Places):
    """Places of a fragment's letters in the file that it stands in."""

    def __init__(self, fragment: Fragment) -> None:
        super().__init__(fragment.sql, fragment.span.file)
        self.fragment = fragment

    def span(self, start: int, end: int | None = None, edits: tuple[Edit, ...] = ()) -> Span:
        _ = end, edits
        return self.fragment.span.within(self.fragment.sql, start)


def _partners(tokens: list[Token]) -> dict[int, int]:
    """For each bracket the one that it belongs to."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token.key in ("(", "["):
            opened.append(at)
        elif token.key in (")", "]") and opened:
            opening = opened.pop()
            partners[opening], partners[at] = at, opening
    return partners


class Editor:
    """`times` are the columns of watermarks by their tables, in lower case.

    `done` are the numbers of words that were replaced with others around them.
    """

    def __init__(self, fragment: Fragment, times: Mapping[str, str]) -> None:
        self.cursor = Cursor(fragment.sql, fragment.span.file, _Inside(fragment))
        self.tokens = self.cursor.tokens
        self.scopes = Scopes(self.tokens)
        self.times = times
        self.done: set[int] = set()
        self._partners = _partners(self.tokens)
        self._opened: dict[int, str] = {}
        self._closed: dict[int, str] = {}
        self._replaced: list[Edit] = []

    # What the rules put.

    def open(self, at: int, text: str) -> None:
        """Text before a word, and before what stands there for an expression inside."""
        start = self.tokens[at].start
        self._opened[start] = text + self._opened.get(start, "")

    def close(self, at: int, text: str) -> None:
        """Text after a word, and after what stands there for an expression inside."""
        end = self.tokens[at].end
        self._closed[end] = self._closed.get(end, "") + text

    def replace(self, first: int, last: int, text: str) -> None:
        """Text in place of the words from one to another."""
        self.done.update(range(first, last + 1))
        self._replaced.append(Edit(self.tokens[first].start, self.tokens[last].end, text))

    def replace_before(self, first: int, following: int, text: str) -> None:
        """Text in place of all from one word to before another."""
        self.done.update(range(first, following))
        self._replaced.append(Edit(self.tokens[first].start, self.tokens[following].start, text))

    def replace_after(self, before: int, last: int, text: str) -> None:
        """Text in place of all that follows one word, up to another."""
        self.done.update(range(before + 1, last + 1))
        self._replaced.append(Edit(self.tokens[before].end, self.tokens[last].end, text))

    def edits(self) -> tuple[Edit, ...]:
        """All of them in order; raises SqlFault where two are about the same words."""
        places = {*self._opened, *self._closed}
        put = [Edit(at, at, self._closed.get(at, "") + self._opened.get(at, "")) for at in places]
        edits = sorted([*put, *self._replaced])
        for edit, following in pairwise(edits):
            if following.start < edit.end:
                token = next(each for each in self.tokens if each.end >= following.start)
                hint = "put the parts in brackets, or write it in Spark's way"
                raise self.cursor.fault("this is too tangled to be translated", token, hint)
        return tuple(edits)

    # What the rules ask.

    def key(self, at: int) -> str:
        return self.tokens[at].key if 0 <= at < len(self.tokens) else ""

    def sort(self, at: int) -> Sort:
        return self.tokens[at].sort if 0 <= at < len(self.tokens) else Sort.END

    def is_call(self, at: int) -> bool:
        return self.sort(at) is Sort.WORD and self.key(at + 1) == "("

    def closing(self, opening: int) -> int:
        if opening not in self._partners:
            raise self.cursor.not_closed(self.tokens[opening])
        return self._partners[opening]

    def opening(self, closing: int) -> int:
        return self._partners.get(closing, closing)

    def arguments(self, opening: int) -> list[range]:
        """The words of each argument of a call."""
        closing = self.closing(opening)
        commas = [at for at in self.top(range(opening + 1, closing)) if self.key(at) == ","]
        bounds = zip([opening, *commas], [*commas, closing], strict=True)
        return [range(before + 1, end) for before, end in bounds if end > before + 1]

    def top(self, inside: range) -> list[int]:
        """Those of the words that stand in no brackets of their own."""
        found, depth = [], 0
        for at in inside:
            depth -= self.key(at) in (")", "]")
            if depth == 0:
                found.append(at)
            depth += self.key(at) in ("(", "[")
        return found

    def text(self, inside: range) -> str:
        return self.cursor.text[self.tokens[inside.start].start : self.tokens[inside[-1]].end]

    def operand(self, end: int) -> int:
        """The first word of the value that ends before the word `end`."""
        at = end - 1
        while at > 0:
            if self.key(at) in (")", "]"):
                closing, at = self.key(at), self.opening(at)
                if at and (closing == "]" or self._names_function(at - 1)):
                    at -= 1
                    continue
            elif self.sort(at) is Sort.TEXT and self.key(at - 1) in _BEFORE_TEXT:
                at -= 1
            if at < 2 or not self._joins(at - 1):
                break
            at -= 2
        return max(at, 0)

    def _joins(self, at: int) -> bool:
        """Whether what stands here joins the value after it to the one before it."""
        if self.key(at) in ("->", "->>"):
            # A cast after a path is of what the path gives.
            return self.sort(at + 1) in (Sort.TEXT, Sort.NUMBER) and not self.is_lambda(at)
        return self.key(at) in (".", "::", ":")

    def is_lambda(self, at: int) -> bool:
        """Whether the arrow here is that of `x -> …` in a function that takes one."""
        first = self.opening(at - 1) if self.key(at - 1) == ")" else at - 1
        if self.key(at) != "->" or self.key(first - 1) != ",":
            return False
        depth = 0
        for each in range(first - 1, 0, -1):
            depth += (self.key(each) in (")", "]")) - (self.key(each) in ("(", "["))
            if depth < 0:
                return self.key(each - 1) in _HIGHER_ORDER
        return False

    def _names_function(self, at: int) -> bool:
        named = self.sort(at) in (Sort.WORD, Sort.QUOTED)
        return named and self.key(at) not in _NO_CALL

    def interval(self, at: int) -> Interval:
        """The interval that begins here; the cursor is then behind it."""
        self.cursor.at = at
        return read_interval(self.cursor)
