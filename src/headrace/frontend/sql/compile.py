"""From definitions in SQL to the tree of a pipeline, as a YAML file has it.

`Compiler.tree` gives one pipeline, by `tree.Tree`. `Compiler.faults` and `readings` are what can be
said without any: every connection, table and view is looked at, used or not. Everything is read
once, however many pipelines use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from headrace.frontend.sql import tables
from headrace.frontend.sql.components import Component, Components
from headrace.frontend.sql.definitions import (
    Definitions,
    Named,
    kind_of,
    preview,
    queries_of,
    sinks_of,
)
from headrace.frontend.sql.options import CONNECTOR, Role
from headrace.frontend.sql.queries import Queries, step_inputs
from headrace.frontend.sql.statements import (
    CreateConnection,
    CreatePipeline,
    CreateTable,
    CreateView,
    Fragment,
    Kind,
    Name,
    Select,
)
from headrace.frontend.sql.tree import SYSTEM, Tree
from headrace.spans import Diagnostic, Node, Severity


def tree(
    definitions: Definitions, pipeline: str | CreatePipeline
) -> tuple[Node | None, list[Diagnostic]]:
    """One pipeline by its name, or one that is not among the definitions."""
    made = definitions.pipelines[pipeline] if isinstance(pipeline, str) else pipeline
    return Compiler(definitions).tree(made)


class Compiler:
    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.components = Components(definitions)
        self.queries = Queries(definitions, self.components)
        # The tables and views that have been in a tree, and so need no look by themselves.
        self.seen: set[str] = set()

    def tree(self, pipeline: CreatePipeline) -> tuple[Node | None, list[Diagnostic]]:
        """The tree, or None where there is nothing to resolve; and what is wrong with it."""
        made = Tree(self, pipeline)
        try:
            tree, faults = made.made()
        except RecursionError:
            message = f"`{pipeline.name}` reads views over too many views"
            hint = "write the rows of one of them to a table, and read that"
            return None, [Diagnostic("VIEWS_TOO_DEEP", message, pipeline.name.span, hint)]
        if tree is not None:
            self.seen |= {*made.sources, *made.steps}
        return tree, faults

    def faults(self) -> Iterator[Diagnostic]:
        """What is wrong with connections and with tables that are written, whoever uses them."""
        for connection in self.definitions.each(CreateConnection):
            yield from self.components.faults_of_connection(connection)
        for table, role in self._tables_by_role:
            if role is not Role.SOURCE:
                yield from self.components.faults_of_sink(table)
        yield from self._unused()

    @property
    def selects(self) -> Iterator[CreatePipeline]:
        """SELECTs, as pipelines that are only there to be checked."""
        for made in self.definitions.previews:
            read = [each.lower() for query in queries_of(made) for each in self._tables(query)]
            # What reads no table, or one of the system's, is the shell's own.
            if read and not any(each.startswith(SYSTEM) for each in read):
                yield made

    def readings(self) -> Iterator[CreatePipeline]:
        """All rows of each view and of each table that is read, where no tree has had them yet."""
        for view in self.definitions.each(CreateView):
            if view.name.text not in self.seen:
                yield preview(_all_of(view.name), view.name.text)
        for table, role in self._tables_by_role:
            if role is Role.SOURCE and table.name.text not in self.seen:
                yield preview(_all_of(table.name), table.name.text)

    @property
    def _tables_by_role(self) -> Iterator[tuple[CreateTable, Role | None]]:
        for table in self.definitions.each(CreateTable):
            used_as = self._used_as.get(table.name.text.lower())
            yield table, self.components.role(table, used_as)

    def needed(self, pipeline: CreatePipeline) -> set[str]:
        """The names of all that a pipeline is made of, its own included."""
        found = {pipeline.name.text}
        waiting = list(self.uses(pipeline))
        while waiting:
            made = self.definitions.find(waiting.pop())
            if made is not None and made.name.text not in found:
                found.add(made.name.text)
                waiting += self.uses(made)
        return found

    def uses(self, made: Named) -> Iterator[str]:
        """The names that a definition itself refers to, as it writes them."""
        if isinstance(made, CreateTable) and CONNECTOR in made.options:
            yield made.options[CONNECTOR].node.text
        elif isinstance(made, CreateView):
            yield from (each.text for each in step_inputs(made))
            yield from self._tables(made.query) if made.query is not None else ()
        elif isinstance(made, CreatePipeline):
            yield from (each.text for each in sinks_of(made))
            for query in queries_of(made):
                yield from self._tables(query)

    def created(self, made: Named | Component) -> int:
        """What comes before what."""
        return self._order[made.name.text.lower()]

    @cached_property
    def _order(self) -> dict[str, int]:
        return {key: number for number, key in enumerate(self.definitions.named)}

    def _tables(self, query: Fragment) -> Iterable[str]:
        return self.queries.select(query).tables

    @cached_property
    def _used_as(self) -> dict[str, Role]:
        """The role that each table has in pipelines; one that is read counts as a source."""
        return dict.fromkeys(self._written, Role.SINK) | dict.fromkeys(self._read, Role.SOURCE)

    @cached_property
    def _written(self) -> set[str]:
        return {name.text.lower() for made in self._pipelines for name in sinks_of(made)}

    @cached_property
    def _read(self) -> set[str]:
        """What stands in FROM of anything that there is."""
        views = self.definitions.each(CreateView)
        queries = [view.query for view in views if view.query is not None]
        for made in (*self._pipelines, *self.definitions.previews):
            queries += queries_of(made)
        inputs = {each.text.lower() for view in views for each in step_inputs(view)}
        return inputs | {name.lower() for query in queries for name in self._tables(query)}

    @property
    def _pipelines(self) -> Iterable[CreatePipeline]:
        return self.definitions.pipelines.values()

    def _unused(self) -> Iterator[Diagnostic]:
        """Where there are pipelines, whatever none of them uses."""
        if not self._pipelines:
            return
        used = self._read | self._written
        for table in self.definitions.each(CreateTable):
            used |= {each.lower() for each in self.uses(table)}
        for key, made in self.definitions.named.items():
            if key not in used and kind_of(made) is not Kind.PIPELINE:
                message = f"nothing uses the {kind_of(made)} `{made.name}`"
                span = made.name.span
                yield Diagnostic("UNUSED", message, span, severity=Severity.WARNING)


def _all_of(name: Name) -> Select:
    sql = f"SELECT * FROM {tables.bare(name.text)}"
    return Select(sql, name.span, Fragment(sql, name.span))
