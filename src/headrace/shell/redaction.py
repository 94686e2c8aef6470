"""Statements without their secrets: for SHOW CREATE, for the history, wherever text is shown.

Works on any text, broken statements included, by its words alone: the value of CREATE SECRET and
that of every option whose name says that it is one. References such as `${secret:name}` stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from headrace.sinks import SINKS
from headrace.sources import SOURCES
from headrace.spec import HIDDEN, Option

_WORD = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))"
    # A quote that nobody closes goes on to the end: what is typed halfway is hidden, too.
    r"|(?P<quoted>'(?:[^'\\]|\\.|'')*(?:'|\Z)|\"(?:[^\"\\]|\\.|\"\")*(?:\"|\Z)|`[^`]*(?:`|\Z))"
    r"|(?P<word>[\w.$-]+)|(?P<mark>\S)",
    re.DOTALL,
)
_TELLING = re.compile(r"pass(word|phrase|wd)|secret|token|api[._-]?key|credential|jaas", re.I)
_REFERENCES = re.compile(r"(\$\{\w+:[^}]*\})*")


def is_secret(option: str) -> bool:
    """Whether the value of an option of this name must not be shown."""
    return option.lower() in _declared() or _TELLING.search(option) is not None


@cache
def _declared() -> frozenset[str]:
    specs = [kind.SPEC for kind in SOURCES.values()] + [kind.SPEC for kind in SINKS.values()]
    return frozenset(name for spec in specs for name in _secret_names(spec.options))


def _secret_names(options: Iterable[Option], outer: str = "") -> Iterator[str]:
    """The names of secret options; of one inside of another, with a dot."""
    for option in options:
        for name in option.names:
            if option.secret:
                yield outer + name
            yield from _secret_names(option.fields, f"{outer}{name}.")


def shown(option: str, value: str) -> str:
    """The value of an option as anyone may see it."""
    hide = is_secret(option) and not _REFERENCES.fullmatch(value)
    return HIDDEN if hide else value


def redacted(text: str) -> str:
    """The text with `'(hidden)'` for each secret that is written in it."""
    parts, done = [], 0
    for start, end in _secrets(text):
        parts += [text[done:start], f"'{HIDDEN}'"]
        done = end
    return "".join([*parts, text[done:]])


def _secrets(text: str) -> Iterator[tuple[int, int]]:
    """Where values stand that are secret: after the name of a secret option, or of a secret."""
    before: list[str] = []  # the words of this statement so far, without quotes
    for match in _WORD.finditer(text):
        if match.lastgroup == "comment":
            continue
        if match.group() == ";":
            before = []
            continue
        word = match.group()
        value = _inside(word) if match.lastgroup == "quoted" else word
        if not _REFERENCES.fullmatch(value) and _is_value_of_secret(before, match):
            yield match.span()
        before.append(value)


def _is_value_of_secret(before: list[str], match: re.Match[str]) -> bool:
    if match.lastgroup == "mark":
        return False
    if len(before) >= 2 and before[-1] == "=":
        return is_secret(before[-2])
    creates = [word.upper() for word in before[:4]]
    if creates[:1] != ["CREATE"] or "SECRET" not in creates or match.lastgroup != "quoted":
        return False
    return before[-1].upper() != "ENV" and len(before) > creates.index("SECRET") + 1


def _inside(quoted: str) -> str:
    mark = quoted[0]
    return quoted[1:-1] if len(quoted) > 1 and quoted.endswith(mark) else quoted[1:]
