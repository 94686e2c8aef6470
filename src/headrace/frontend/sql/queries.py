"""The SELECTs of views and pipelines, translated and understood once each.

Called by `compile`, which asks for the tables of a query, and for its columns where rows must fit
those of a table that they are written into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from headrace.frontend.sql import dialect, tokens
from headrace.frontend.sql.components import Components
from headrace.frontend.sql.definitions import Definitions
from headrace.frontend.sql.statements import CreateTable, CreateView, Fragment, Name
from headrace.model.query import Query
from headrace.model.schema import Schema, quote, schema_fault
from headrace.spans import Diagnostic, Edit, Span

_NAMES = (tokens.Sort.WORD, tokens.Sort.QUOTED)


@dataclass(frozen=True)
class Selected:
    """A query in Spark's words; `query` is None where it cannot be read."""

    fragment: Fragment
    query: Query | None
    faults: tuple[Diagnostic, ...] = ()

    @cached_property
    def tables(self) -> dict[str, Span]:
        return self.query.tables if self.query is not None else {}

    @property
    def whole(self) -> str | None:
        """The table of a plain `SELECT * FROM table`, which needs no step."""
        words = tokens.tokenize(self.fragment.sql)[:-1]
        keys = [word.key for word in words[:3]]
        if len(words) == 4 and keys == ["SELECT", "*", "FROM"] and words[3].sort in _NAMES:
            return tokens.name(words[3])
        return None

    def naming(self, names: list[str]) -> Selected:
        """With a name for each column that has none, where one can be written after it.

        `names` are those that the columns will be written into, in the same order.
        """
        columns = self.query.tree.selects if self.query is not None else []
        ends = _ends(self.fragment.sql)
        if not len(ends) == len(columns) == len(names):
            return self
        added: list[Edit] = []
        seen: set[str] = set()
        for column, end, name in zip(columns, ends, names, strict=True):
            own = column.alias_or_name.lower()
            if not isinstance(column, exp.Alias) and not column.is_star:
                unnamed = not isinstance(column, exp.Column) or own in seen
                added += [Edit(end, end, f" AS {quote(name)}")] if unnamed else []
            seen.add(own)
        if not added:
            return self
        sql, span = self.fragment.span.inserting(self.fragment.sql, tuple(added))
        query, _ = Query.parse(sql, span)
        return Selected(Fragment(sql, span), query, self.faults)


class Queries:
    def __init__(self, definitions: Definitions, components: Components) -> None:
        self.definitions = definitions
        self.components = components
        self._selected: dict[tuple[Span, str], Selected] = {}
        self._columns: dict[str, tuple[str, ...] | None] = {}

    def select(self, fragment: Fragment) -> Selected:
        key = fragment.span, fragment.sql
        if key not in self._selected:
            made, faults = dialect.translate(fragment, self._times)
            query, wrong = Query.parse(made.sql, made.span)
            # What could not be translated cannot be read either; one of both is enough.
            unread = wrong if query is None and not faults else []
            self._selected[key] = Selected(made, query, (*faults, *unread))
        return self._selected[key]

    def output(self, selected: Selected) -> tuple[str, ...] | None:
        """The names of its columns, where they can be told without Spark."""
        if selected.query is None:
            return None
        told = {name: self.columns(name) for name in selected.tables}
        known = {name: columns for name, columns in told.items() if columns is not None}
        return selected.query.output_columns(known)

    def columns(self, table: str) -> tuple[str, ...] | None:
        """Those of a table or view, where they can be told without Spark."""
        key = table.lower()
        if key not in self._columns:
            self._columns[key] = None  # what a view has that reads itself
            self._columns[key] = self._find_columns(key)
        return self._columns[key]

    def _find_columns(self, key: str) -> tuple[str, ...] | None:
        made = self.definitions.find(key)
        if isinstance(made, CreateTable):
            return self.components.columns(made)
        if not isinstance(made, CreateView):
            return None
        if made.query is not None:
            return self.output(self.select(made.query))
        if "schema" in made.options:
            text = made.options["schema"].node.text
            return None if schema_fault(text) else Schema.parse(text).names
        inputs = list(step_inputs(made))
        return self.columns(inputs[0].text) if inputs and "deduplicate" in made.options else None

    @cached_property
    def _times(self) -> dict[str, str]:
        """The column of time of each table that has a watermark, and of views over one of them."""
        found = {
            table.name.text.lower(): table.watermark.column.text
            for table in self.definitions.each(CreateTable)
            if table.watermark is not None
        }
        views = {
            view.name.text.lower(): _mentioned(view) for view in self.definitions.each(CreateView)
        }
        while added := {
            view: times.pop()
            for view, names in views.items()
            if view not in found and len(times := {found[n] for n in names & found.keys()}) == 1
        }:
            found |= added
        return found


def step_inputs(view: CreateView) -> Iterator[Name]:
    """What a view without a SELECT is made of."""
    if view.query is None and "from" in view.options:
        node = view.options["from"].node
        yield Name(node.text, node.span)


def _mentioned(view: CreateView) -> set[str]:
    """All names in a view, those of the tables that it reads among them."""
    if view.query is None:
        return {each.text.lower() for each in step_inputs(view)}
    words: Iterable[tokens.Token] = tokens.tokenize(view.query.sql)
    return {tokens.name(word).lower() for word in words if word.sort in _NAMES}


def _ends(sql: str) -> list[int]:
    """Where each column ends of the first SELECT that stands in no brackets."""
    ends: list[int] = []
    depth, selecting = 0, False
    last = None
    for token in tokens.tokenize(sql):
        if token.key in ("(", "["):
            depth += 1
        elif token.key in (")", "]"):
            depth -= 1
        elif depth == 0 and not selecting:
            selecting = token.key == "SELECT"
        elif depth == 0 and last is not None and token.key == ",":
            ends.append(last.end)
        elif depth == 0 and last is not None and token.key == "FROM" and last.key != "DISTINCT":
            return [*ends, last.end]  # and not that of IS DISTINCT FROM
        last = token
    return []
