"""What a conversion has to say: what did not map, what must be added, what is done otherwise.

A reader of another tool's file takes its keys one by one (`Keys`). Each is given a meaning, is said
to be lost with a reason, or is said to be needless; one that is never asked for is lost, too, so
that nothing disappears in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.convert.draft import Draft
from headrace.spans import Diagnostic, Field, Node, Severity, Span

# Something is asked for that the result does not do.
LOST = "NOT_CONVERTED"
# The result needs something that the file does not say.
TO_ADD = "TO_ADD"
# Converted, and not quite the same.
DIFFERS = "DIFFERS"
# Left out, because nothing has to be set for it here.
NEEDLESS = "NOT_NEEDED"


def is_gap(finding: Diagnostic) -> bool:
    """Whether the result does less than the file asks for, or not all by itself."""
    return finding.code in (LOST, TO_ADD) or finding.severity is Severity.ERROR


@dataclass(frozen=True)
class Reading:
    """A definition of another tool in our terms, and what is to be said about it."""

    draft: Draft
    findings: tuple[Diagnostic, ...]


@dataclass
class Report:
    """Findings as they are made, in the order of the file in the end."""

    findings: list[Diagnostic] = field(default_factory=list)

    def lost(self, what: str, span: Span, why: str, hint: str | None = None) -> None:
        self._add(LOST, f"`{what}` {why}", span, hint)

    def to_add(self, what: str, span: Span, hint: str | None = None) -> None:
        self._add(TO_ADD, what, span, hint)

    def differs(self, what: str, span: Span, how: str, hint: str | None = None) -> None:
        self._add(DIFFERS, f"`{what}` {how}", span, hint)

    def needless(self, what: str, span: Span, why: str) -> None:
        self._add(NEEDLESS, f"`{what}` {why}", span, None)

    def _add(self, code: str, message: str, span: Span, hint: str | None) -> None:
        self.findings.append(Diagnostic(code, message, span, hint, Severity.WARNING))

    @property
    def ordered(self) -> tuple[Diagnostic, ...]:
        return tuple(sorted(self.findings, key=lambda finding: finding.span))


class Keys:
    """The keys of a mapping, each to be taken once."""

    def __init__(self, fields: Mapping[str, Field], span: Span, report: Report) -> None:
        self.span = span
        self.report = report
        self._left = dict(fields)
        self._all = dict(fields)

    def __contains__(self, name: str) -> bool:
        return name in self._all

    def at(self, name: str) -> Span:
        return self._all[name].key if name in self._all else self.span

    def take(self, *names: str) -> str | None:
        """The text of the first of these keys that is there; all of them count as understood."""
        taken = [self._left.pop(name, None) for name in names]
        found = [each.node for each in taken if each is not None and each.node.value is not None]
        return found[0].text.strip() if found and not _is_nested(found[0].value) else None

    def peek(self, name: str) -> str | None:
        """The text of a key that is taken elsewhere."""
        each = self._all.get(name)
        return each.node.text.strip() if each and each.node.value is not None else None

    def flag(self, name: str, default: bool) -> bool:
        text = self.take(name)
        return default if text is None else text.lower() == "true"

    def listed(self, *names: str) -> list[str]:
        """Text with commas, or a list."""
        for name in names:
            each = self._left.get(name)
            if each is not None and isinstance(each.node.value, list):
                del self._left[name]
                return [item.text.strip() for item in each.node.value]
        text = self.take(*names) or ""
        return [item.strip() for item in text.split(",") if item.strip()]

    def nested(self, name: str) -> Keys | None:
        """A mapping inside, as keys of its own."""
        each = self._left.pop(name, None)
        if each is None or not isinstance(each.node.value, dict):
            return None
        inside = {f"{name}.{key}": value for key, value in each.node.value.items()}
        return Keys(inside, each.key, self.report)

    # For readers that give most keys on as they are, by other names.

    def get(self, name: str) -> Field | None:
        return self._all.get(name)

    def rename(self, name: str, other: str) -> None:
        if name in self._left:
            self.put(other, self._left.pop(name))

    def set(self, name: str, value: str) -> None:
        """Another value, at the place of the key."""
        where = self.at(name)
        self.put(name, Field(where, Node(value, where)))

    def put(self, name: str, field: Field) -> None:
        self._left[name] = self._all[name] = field

    def rest(self) -> dict[str, Field]:
        """What was not taken."""
        return dict(self._left)

    def drop(self, names: Iterable[str]) -> None:
        """Keys that are understood as a whole."""
        for name in names:
            self._left.pop(name, None)

    def left(self, prefix: str) -> list[str]:
        """The names that begin so and were not taken."""
        return [name for name in self._left if name.startswith(prefix)]

    def below(self, prefix: str) -> dict[str, str]:
        """Takes what is left with this beginning of its name, by the rest of it."""
        return {name.removeprefix(prefix): self.take(name) or "" for name in self.left(prefix)}

    def lose(self, names: Iterable[str], why: str, hint: str | None = None) -> None:
        for name in self._present(names):
            self.report.lost(name, self.at(name), why, hint)

    def pass_over(self, names: Iterable[str], why: str) -> None:
        for name in self._present(names):
            self.report.needless(name, self.at(name), why)

    def lose_rest(self, why: str = "has no equal here") -> None:
        self.lose(list(self._left), why)

    def _present(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            if self._left.pop(name, None) is not None:
                yield name


def _is_nested(value: object) -> bool:
    return isinstance(value, list | dict)
