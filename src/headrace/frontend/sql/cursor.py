"""A place among the words of a SQL text, and what is said when another word should stand there.

The functions that read parts of statements (`fields`, `columns`, `types`, `intervals`, `parser`)
share one `Cursor`. What they cannot read they raise as `SqlFault`; the caller goes on after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headrace.frontend.sql.statements import Fragment, Name
from headrace.frontend.sql.tokens import Places, Sort, Token, name, tokenize
from headrace.spans import Diagnostic, Span
from headrace.spec import nearest

MAX_DEPTH = 40
# The types whose parts stand in angle brackets; elsewhere these compare.
_BEFORE_ANGLE = ("ARRAY", "MAP", "STRUCT", "ROW")
# Words that no statement gives as a name without quotes: one was left out before them.
_NO_NAMES = ("SELECT", "AS", "TO", "WITH", "FROM", "INTO", "VALUES", "(", ";")


class SqlFault(Exception):
    """Something that cannot be read, with its place."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class Cursor:
    """`faults` are those after which reading went on."""

    def __init__(self, text: str, file: str, places: Places | None = None) -> None:
        self.text = text
        self.places = places or Places(text, file)
        self.tokens = tokenize(text)
        self.at = 0
        self.faults: list[Diagnostic] = []

    # What stands here.

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    @property
    def ended(self) -> bool:
        """Whether the statement ends here."""
        return self.token.key == ";" or self.token.sort is Sort.END

    def ahead(self, count: int = 1) -> Token:
        return self.tokens[min(self.at + count, len(self.tokens) - 1)]

    def looking(self, *keys: str) -> bool:
        """Whether these words and symbols come next."""
        tokens = self.tokens[self.at : self.at + len(keys)]
        return [token.key for token in tokens] == list(keys)

    def at_name(self) -> bool:
        """Whether a name stands here: a word, or one in quotes."""
        quoted = self.token.sort is Sort.TEXT and self.token.text[0] == '"'
        return quoted or self.token.sort in (Sort.WORD, Sort.QUOTED)

    # Going on.

    def take(self) -> Token:
        """The word here; the cursor stays on the last one, the end."""
        token = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, *keys: str) -> bool:
        """Goes past these words if they come next."""
        found = self.looking(*keys)
        if found:
            self.at += len(keys)
        return found

    def expect(self, key: str, where: str = "", hint: str | None = None) -> Token:
        """Goes past one word or symbol, which must be here."""
        if self.token.key != key or self.token.sort is Sort.OPEN:
            raise self.expected([key], where, hint)
        return self.take()

    def expect_new_name(self, what: str, hint: str | None = None) -> Name:
        """A name that is not a word of the statement itself."""
        if self.token.key in _NO_NAMES:
            raise self.expected([], f"the name of {what}", hint)
        return self.expect_name(what, hint)

    def expect_name(self, what: str, hint: str | None = None) -> Name:
        if not self.at_name():
            if self.token.sort is Sort.TEXT:
                hint = "a name stands without quotes, or in backticks"
            raise self.expected([], f"the name of {what}", hint)
        token = self.take()
        quote = 0 if token.sort is Sort.WORD else 1
        span = self.places.span(token.start + quote, token.end - quote)
        return Name(name(token), span)

    def expect_dotted_name(self, what: str, hint: str | None = None) -> Name:
        """A name, or several with dots between them."""
        first = self.expect_name(what, hint)
        text = first.text
        while self.accept("."):
            text += "." + self.expect_name(what).text
        return Name(text, first.span)

    def skip_to(self, *keys: str) -> None:
        """Goes to one of these symbols that stands in no brackets of its own, or to the end."""
        depth = 0
        while not self.ended and (depth or self.token.key not in keys):
            depth += _depth(self.token)
            self.take()

    def items(self, read: Callable[[], None], where: str) -> None:
        """Reads what stands with commas between brackets, of which the first has just been read.

        After a fault it goes on with the next item, however deep inside the last it was.
        """
        opening = self.tokens[self.at - 1]
        while not self.accept(")"):
            first = self.at
            try:
                if self.ended:
                    raise self.not_closed(opening)
                read()
                if not self.looking(")") and not self.ended:
                    self.expect(",", where)
            except SqlFault as fault:
                self.faults.append(fault.diagnostic)
                self._skip_item(first)
                if self.ended:
                    raise Reported from None
                self.accept(",")

    def _skip_item(self, first: int) -> None:
        """Goes to the end of the item that is being read, which begins at `first`."""
        reached, self.at = self.at, first
        depth = angles = 0
        while not self.ended and (
            self.at < reached or depth or angles or self.token.key not in (",", ")")
        ):
            depth += _depth(self.token)
            if self.token.key == "<" and self.tokens[self.at - 1].key in _BEFORE_ANGLE:
                angles += 1
            elif self.token.key == ">" and angles:
                angles -= 1
            self.take()

    # Parts of the text.

    def place(self, token: Token) -> Span:
        return self.places.span(token.start, token.end)

    def fragment(self, first: int, end: int) -> Fragment:
        """The SQL from one word to before another."""
        start, stop = self.tokens[first].start, self.tokens[max(end - 1, first)].end
        return Fragment(self.text[start:stop], self.places.span(start, stop))

    def bracketed(self, what: str) -> Fragment:
        """What stands in a pair of brackets, of which the first is here."""
        opening = self.expect("(", f"before {what}")
        first = self.at
        self.skip_to(")")
        if not self.looking(")"):
            raise self.not_closed(opening)
        if self.at == first:
            raise self.expected([], what)
        self.take()
        return self.fragment(first, self.at - 1)

    # What is wrong here.

    def expected(self, words: Sequence[str], where: str = "", hint: str | None = None) -> SqlFault:
        """Something else should stand here: one of `words`, or what `where` calls it."""
        token = self.token
        if token.sort is Sort.OPEN:
            return self.not_closed(token)
        quoted = [f"`{word}`" for word in words]
        what = " or ".join([part for part in (", ".join(quoted[:-1]), *quoted[-1:]) if part])
        found = "the end of the statement" if token.key == ";" else str(token)
        if token.sort is Sort.TEXT and self._creates_secret():
            found = "a text"  # which may be the secret
        message = f"expected {' '.join(part for part in (what, where) if part)}, found {found}"
        return self.fault(message, hint=self.misspelt(words) or self._open_text() or hint)

    def _creates_secret(self) -> bool:
        """Whether the statement here is CREATE SECRET."""
        before = [token.key for token in self.tokens[: self.at]]
        begin = len(before) - before[::-1].index(";") if ";" in before else 0
        return before[begin : begin + 1] == ["CREATE"] and "SECRET" in before[begin : begin + 4]

    def fault(
        self,
        message: str,
        token: Token | None = None,
        hint: str | None = None,
        code: str = "SQL_SYNTAX",
    ) -> SqlFault:
        return SqlFault(Diagnostic(code, message, self.place(token or self.token), hint))

    def not_closed(self, token: Token) -> SqlFault:
        if token.key == "/*":
            return self.fault("this comment has no end", token, "end it with `*/`")
        if token.key in "([{":
            closing = ")]}"["([{".index(token.key)]
            return self.fault(f"this `{token.key}` is not closed", token, f"add a `{closing}`")
        what = "name" if token.key == "`" else "text"
        hint = f"end it with {token.key}; inside, one is written twice: {token.key * 2}"
        return self.fault(f"this {what} has no end", token, hint)

    def misspelt(self, words: Iterable[str]) -> str | None:
        """Which of the words may be meant by the one that stands here, as a hint."""
        if self.token.sort is not Sort.WORD:
            return None
        by_name = {word.lower(): word for word in words if word[0].isalpha()}
        close = nearest(self.token.text, by_name)
        return f"did you mean `{by_name[close[0]]}`?" if close else None

    def _open_text(self) -> str | None:
        """A text over several lines just before: it may lack its end, and have taken the next."""
        before = self.tokens[self.at - 1] if self.at else self.token
        if before.sort is not Sort.TEXT or "\n" not in before.text:
            return None
        place = self.place(before)
        return f"the text that begins at {place.line}:{place.column} may lack its closing quote"


class Reported(Exception):
    """The statement ended inside something whose faults are told already."""


def _depth(token: Token) -> int:
    return (token.key in ("(", "[")) - (token.key in (")", "]"))
