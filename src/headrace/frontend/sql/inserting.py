"""Rows that are written into a table with columns: by position, as SQL does it.

Called by `compile` for each INSERT and each sink that has columns; a step before the sink gives the
rows the table's names and types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.frontend.sql.statements import Column, Fragment, Name
from headrace.frontend.sql.tables import bare
from headrace.model.schema import quote
from headrace.spans import Diagnostic, Severity
from headrace.spec import unknown


@dataclass(frozen=True)
class Target:
    """A column that is written: `given` by the SELECT, or NULL."""

    name: str
    type: str | None
    given: bool

    def sql(self, column: str | None) -> str:
        value = quote(column) if column is not None else "NULL"
        return f"{f'CAST({value} AS {self.type})' if self.type else value} AS {quote(self.name)}"


@dataclass(frozen=True)
class Insertion:
    """`INSERT INTO table (named) query`; `declared` are the columns that the table has."""

    table: Name
    query: Fragment
    named: tuple[Name, ...]
    declared: tuple[Column, ...] | None

    @property
    def targets(self) -> list[Target]:
        """Columns in the order in which they are selected, and then those that stay NULL."""
        if self.declared is None:
            return [Target(name.text, None, True) for name in self.named]
        by_name = {column.name.text.lower(): column for column in self.declared}
        keys = [name.text.lower() for name in self.named] or list(by_name)
        rest = [key for key in by_name if key not in keys]
        return [
            Target(by_name[key].name.text, by_name[key].type, key in keys)
            for key in (*keys, *rest)
            if key in by_name
        ]

    @property
    def given(self) -> list[str]:
        """The names of the columns that the SELECT gives, in its order."""
        return [target.name for target in self.targets if target.given]

    def faults(self, found: tuple[str, ...] | None) -> Iterator[Diagnostic]:
        """What is wrong with a SELECT of the columns `found`, of which nothing may be known."""
        misnamed = list(self._misnamed())
        if misnamed:
            yield from misnamed
        elif found is None:
            message = f"`{self.table}` has columns, and those of this SELECT cannot be told"
            hint = "name each of them instead of `*`"
            yield Diagnostic("UNKNOWN_COLUMNS", message, self.query.span, hint)
        elif len(found) != len(self.named or self.declared or ()):
            yield self._wrong_count(len(found))
        else:
            yield from self._other_order(found)

    def step(self, found: tuple[str, ...], rows: str) -> str:
        """The SQL that makes rows of the table out of those that were selected."""
        left = iter(found)
        columns = [each.sql(next(left) if each.given else None) for each in self.targets]
        return f"SELECT {', '.join(columns)} FROM {bare(rows)}"

    def _misnamed(self) -> Iterator[Diagnostic]:
        known = [column.name.text for column in self.declared or ()]
        lower = {name.lower() for name in known}
        for name in self.named if self.declared is not None else ():
            if name.text.lower() not in lower:
                yield unknown("column", name.text, known, name.span, f"of `{self.table}`")

    def _wrong_count(self, found: int) -> Diagnostic:
        wanted = len(self.given)
        message = f"`{self.table}` takes {_counted(wanted)}, and this SELECT has {found}"
        hint = f"select {', '.join(self.given)}, in this order"
        return Diagnostic("COLUMN_COUNT", message, self.query.span, hint)

    def _other_order(self, found: tuple[str, ...]) -> Iterator[Diagnostic]:
        """The same names in another order: most likely meant by name, and written by position."""
        have, want = [name.lower() for name in found], [name.lower() for name in self.given]
        if have == want or sorted(have) != sorted(want):
            return
        at = next(at for at, name in enumerate(have) if name != want[at])
        message = f"columns are written by position: `{found[at]}` goes into `{self.given[at]}`"
        hint = f"select them in the order {', '.join(self.given)}"
        yield Diagnostic("COLUMN_ORDER", message, self.query.span, hint, Severity.WARNING)


def _counted(number: int) -> str:
    return f"{number} column" if number == 1 else f"{number} columns"
