"""One pipeline of SQL as the tree of a definition, while it is made.

Its tables become sources, the views that it needs become steps, its SELECT the last one; a table
with columns gets a step before it that makes the rows fit. Made by `compile.Compiler.tree`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.frontend.options import PIPELINE, name_fault
from headrace.frontend.sql import tables
from headrace.frontend.sql.components import Component
from headrace.frontend.sql.definitions import SINK, Named, kind_of, sink_names
from headrace.frontend.sql.inserting import Insertion
from headrace.frontend.sql.options import NAME, Role
from headrace.frontend.sql.queries import Selected, step_inputs
from headrace.frontend.sql.statements import (
    Broken,
    CreateConnection,
    CreatePipeline,
    CreateTable,
    CreateView,
    Fragment,
    Insert,
    Kind,
    Name,
)
from headrace.model import sharing
from headrace.model.pipeline import (
    DeduplicateTransform,
    Guarantee,
    Mode,
    Pipeline,
    SqlTransform,
    Transform,
)
from headrace.model.query import Query
from headrace.sinks import SINKS
from headrace.sources import SOURCES
from headrace.spans import Diagnostic, Field, Node, Severity, Span
from headrace.spec import Options, unknown

if TYPE_CHECKING:
    from headrace.frontend.sql.compile import Compiler

SYSTEM = "system."
_SPARK = "spark."


class Tree:
    """One pipeline; `faults` grows as it goes."""

    def __init__(self, compiler: Compiler, pipeline: CreatePipeline) -> None:
        self.compiler = compiler
        self.components = compiler.components
        self.queries = compiler.queries
        self.definitions = compiler.definitions
        self.pipeline = pipeline
        self.sources: dict[str, Component] = {}
        self.steps: dict[str, Node] = {}
        self.transforms: dict[str, Transform] = {}
        self.sinks: dict[str, Node] = {}
        self.faults: list[Diagnostic] = []
        # Views that are being read, and whether something was met that has been reported.
        self.path: list[str] = []
        self.broken = False

    def made(self) -> tuple[Node | None, list[Diagnostic]]:
        own = self._own_options()
        self._views_in_order()
        if self.pipeline.query is not None:
            self._into_named_sinks(self.pipeline.query)
        for number, insert in enumerate(self.pipeline.inserts, start=1):
            self._into_table(insert, number)
        if not self.sources and not self.faults and not self.broken:
            message = f"`{self.pipeline.name}` reads no table"
            self._fault("MISSING_SOURCE", message, self.pipeline.name.span, "name one in FROM")
        if not self.sources or any(fault.code == "NOT_YET" for fault in self.faults):
            return None, self.faults
        self._share()
        span = self.pipeline.name.span
        sources = {each.name.text: each.node for each in self._sources_in_order()}
        parts: dict[str, Node] = {"sources": _mapping(sources, span)}
        if self.steps:
            parts["transforms"] = Node(list(self.steps.values()), span)
        if self.sinks:
            parts["sinks"] = _mapping(self.sinks, span)
        root = own | {key: Field(span, node) for key, node in parts.items()}
        return Node(root, span), self.faults

    def _views_in_order(self) -> None:
        """Views become steps in the order of their creation, after those that they read."""
        needed = [self.definitions.find(name) for name in self.compiler.needed(self.pipeline)]
        views = [made for made in needed if isinstance(made, CreateView)]
        for view in sorted(views, key=self.compiler.created):
            self._view(view)

    def _sources_in_order(self) -> list[Component]:
        return sorted(self.sources.values(), key=self.compiler.created)

    # The pipeline's own options

    def _own_options(self) -> dict[str, Field]:
        name = self.pipeline.name
        found: dict[str, Field] = {}
        spark: dict[str, Field] = {}
        wrong = name_fault(name.text)
        if self.pipeline is not self.definitions.loose and wrong:
            self._fault("BAD_NAME", f"the pipeline's name {wrong}", name.span, None)
        elif self.pipeline is not self.definitions.loose:
            found["pipeline"] = Field(name.span, Node(name.text, name.span))
        for key, field in self.pipeline.options.items():
            if key.startswith(_SPARK):
                spark[key] = field
            elif key == NAME:
                found["pipeline"] = field
            elif key in _ELSEWHERE:
                hint = "write it in the WITH of a table, or in a connection"
                message = f"`{key}` belongs to a source or a sink"
                self._fault("UNKNOWN_OPTION", message, field.key, hint)
            elif key == "pipeline":
                message = f"the pipeline's name is `{name}`"
                self._fault("OPTION_TWICE", message, field.key, "remove it")
            elif key != SINK:
                found[key] = field
        if spark:
            first = next(iter(spark.values())).key
            more = found["spark"].node.value if "spark" in found else None
            spark = (more if isinstance(more, dict) else {}) | spark
            found["spark"] = Field(first, Node(spark, first))
        return found

    # Sinks

    def _into_named_sinks(self, query: Fragment) -> None:
        rows = self._rows(query, self.pipeline.name.text)
        for sink in sink_names(self.pipeline.options):
            if sink.text:
                self._sink(Insertion(sink, query, (), None), rows)
            else:
                self._fault("BAD_VALUE", "`sink` has an empty entry", sink.span, "remove a comma")

    def _into_table(self, insert: Insert, number: int) -> None:
        if SINK in self.pipeline.options:
            message = "a pipeline names its sinks in INSERT INTO, or as `sink` in WITH"
            place = self.pipeline.options[SINK].key
            self._fault("CONFLICT", message, place, "keep one of them")
        several = len(self.pipeline.inserts) > 1
        name = f"{self.pipeline.name}_{number}" if several else self.pipeline.name.text
        rows = self._rows(insert.query, name)
        self._sink(Insertion(insert.table, insert.query, insert.columns, None), rows)

    def _rows(self, query: Fragment, name: str) -> str:
        """The rows of the pipeline's own SELECT: a step, or the table that it is all of."""
        selected = self._select(query)
        whole = self.definitions.find(selected.whole) if selected.whole else None
        if isinstance(whole, CreateTable | CreateView):
            return whole.name.text
        return self._step(self._free(name), selected)

    def _sink(self, insertion: Insertion, rows: str) -> None:
        name = insertion.table
        made = self.definitions.find(name.text)
        if not isinstance(made, CreateTable | CreateConnection):
            self._not_a_sink(name, made)
            return
        component, faults = self.components.get(made, Role.SINK)
        self.faults += faults
        if component is None:
            return
        columns = component.columns
        if columns is not None or insertion.named:
            rows = self._fitted(replace(insertion, declared=columns), rows)
        fields = component.fields | {"from": Field(name.span, Node(rows, name.span))}
        if "key" in {column.name.text.lower() for column in columns or ()}:
            fields |= tables.key_of_raw(component.fields, name.span)
        there = {each.lower() for each in self.sinks}
        key = _numbered(component.name.text, lambda each: each.lower() in there)
        self.sinks[key] = replace(component, name=name, fields=fields).node

    def _not_a_sink(self, name: Name, made: Named | None) -> None:
        if isinstance(made, Broken):
            self.broken = True  # which has been said where it stands
        elif made is not None:
            message = f"`{name}` is a {kind_of(made)}, which nothing can be written to"
            hint = "write to a table, or to a connection with `type = 'sink'`"
            self._fault("UNKNOWN_SINK", message, name.span, hint)
        else:
            kinds = (Kind.TABLE, Kind.CONNECTION)
            known = [each for each in self.definitions.named.values() if kind_of(each) in kinds]
            names = [each.name.text for each in known]
            self.faults.append(unknown("sink", name.text, names, name.span, "that there is"))

    def _fitted(self, insertion: Insertion, rows: str) -> str:
        """A step that gives the rows the names and types of the table."""
        selected = self.queries.select(insertion.query)
        if selected.query is None:
            return rows  # which is reported when it is resolved
        named = selected.naming(insertion.given)
        found = self.queries.output(named)
        faults = list(insertion.faults(found))
        self.faults += faults
        if found is None or any(fault.severity is Severity.ERROR for fault in faults):
            return rows
        if named is not selected:
            rows = self._step(rows, named)
        sql, span = insertion.step(found, rows), insertion.table.span
        query, _ = Query.parse(sql, span)
        return self._step(
            self._free(f"into_{insertion.table}"), Selected(Fragment(sql, span), query)
        )

    # Sources and steps

    def _select(self, query: Fragment) -> Selected:
        """A query, with all that it reads among the sources and steps."""
        selected = self.queries.select(query)
        self.faults += selected.faults
        for table, where in selected.tables.items():
            self._reads(table, where)
        return selected

    def _step(self, name: str, selected: Selected) -> str:
        sql, span = selected.fragment.sql, selected.fragment.span
        fields = {"name": Field(span, Node(name, span)), "sql": Field(span, Node(sql, span))}
        self.steps[name] = Node(fields, span)
        self.transforms[name] = SqlTransform(name, sql, tuple(selected.tables), None, span)
        return name

    def _free(self, name: str) -> str:
        """A name for a step that is not the author's, which nothing else has."""
        steps = {step.lower() for step in self.steps}

        def taken(name: str) -> bool:
            made = self.definitions.find(name)
            return name.lower() in steps or (
                made is not None and kind_of(made) is not Kind.PIPELINE
            )

        plain = "".join(each if each.isascii() and each.isalnum() else "_" for each in name)
        return _numbered(plain, taken)

    def _reads(self, table: str, where: Span) -> None:
        made = self.definitions.find(table)
        if isinstance(made, CreateTable):
            self._source(made)
        elif isinstance(made, CreateView):
            self._view(made)
        elif isinstance(made, Broken):
            self.broken = True  # which has been said where it stands
        elif made is not None:
            message = f"`{table}` is a {kind_of(made)}, which cannot be read"
            self._fault("UNKNOWN_TABLE", message, where, _INSTEAD[kind_of(made)])
        elif table.lower().startswith(SYSTEM):
            message = f"`{table}` is read in the shell only, not in a pipeline"
            self._fault("UNKNOWN_TABLE", message, where, "see `headrace sql`")
        else:
            known = self.definitions.readable
            self.faults.append(unknown("table", table, known, where, "or a view that there is"))

    def _source(self, table: CreateTable) -> None:
        if table.name.text in self.sources:
            return
        component, faults = self.components.get(table, Role.SOURCE)
        self.faults += faults
        if component is not None:
            self.sources[table.name.text] = component

    def _view(self, view: CreateView) -> None:
        name = view.name.text
        if name in self.path:
            self._circle(self.path[self.path.index(name) :])
            return
        if name in self.steps:
            return
        self.path.append(name)
        if view.query is not None:
            self._step(name, self._select(view.query))
        else:
            self._function(view)
        self.path.pop()

    def _circle(self, names: list[str]) -> None:
        """Views that read each other; told once, wherever one came into it."""
        views = [self.definitions.named[name.lower()] for name in names]
        first = views.index(min(views, key=self.compiler.created))
        names = names[first:] + names[:first]
        circle = " → ".join([*names, names[0]])
        span = views[first].name.span
        self._fault("CYCLE", f"views read each other in a circle: {circle}", span, _CIRCLE)

    def _function(self, view: CreateView) -> None:
        """A step that is no SELECT: its options are those of a step."""
        name = view.name
        inputs = list(step_inputs(view))
        if not inputs:
            message = f"the view `{name}` needs `from`, the table that it gets"
            self._fault("MISSING_OPTION", message, name.span, "add `from = 'a_table'`")
        for each in inputs:
            self._reads(each.text, each.span)
        if "name" in view.options:
            message = f"the view's name is `{name}`"
            self._fault("OPTION_TWICE", message, view.options["name"].key, "remove it")
        fields = {**view.options, "name": Field(name.span, Node(name.text, name.span))}
        self.steps[name.text] = Node(fields, name.span)
        if "deduplicate" in view.options:
            read = tuple(each.text for each in inputs)
            self.transforms[name.text] = DeduplicateTransform(
                name.text, ("row",), read, span=name.span
            )

    # Groups

    def _share(self) -> None:
        """A source whose `group_id` is named shares its partitions, where the pipeline can."""
        for name, component in self.sources.items() if self.sinks else ():
            if component.shares is None:
                continue
            reasons = sharing.obstacles(self._sketch, component.sketch)
            if reasons:
                why = reasons[0].message.partition(": ")[2]
                message = f"no partition of `{name}` is shared with others of its `group_id`: {why}"
                hint = "write `consumer_group`, which says the same without sharing"
                self.faults.append(
                    Diagnostic("NOT_SHARED", message, component.shares, hint, Severity.WARNING)
                )
                continue
            share = Field(component.shares, Node(True, component.shares))
            fields = component.fields | {"share_partitions": share}
            self.sources[name] = replace(component, fields=fields)

    @cached_property
    def _sketch(self) -> Pipeline:
        """As much of the pipeline as is needed to know whether it can share."""
        given = self.pipeline.options
        own = {key: given[key].node.text for key in ("mode", "guarantee") if key in given}
        once = own.get("guarantee") == Guarantee.EXACTLY_ONCE
        return Pipeline(
            name=self.pipeline.name.text,
            mode=Mode.BATCH if own.get("mode") == Mode.BATCH else Mode.STREAM,
            guarantee=Guarantee.EXACTLY_ONCE if once else Guarantee.AT_LEAST_ONCE,
            sources=tuple(each.sketch for each in self.sources.values()),
            transforms=tuple(self.transforms.values()),
            sinks=(),
            options=Options(PIPELINE, own, span=self.pipeline.name.span),
        )

    def _fault(self, code: str, message: str, span: Span, hint: str | None) -> None:
        self.faults.append(Diagnostic(code, message, span, hint))


def _mapping(nodes: dict[str, Node], span: Span) -> Node:
    return Node({name: Field(node.span, node) for name, node in nodes.items()}, span)


def _numbered(name: str, taken: Callable[[str], bool]) -> str:
    """The name itself, or with a number after it that nobody has."""
    found, number = name, 1
    while taken(found):
        number += 1
        found = f"{name}_{number}"
    return found


_CIRCLE = "one of them must read a table instead"
# What to do where something stands in FROM that is not read.
_INSTEAD = {
    Kind.CONNECTION: "make a table of it: CREATE TABLE … WITH ( connector = '…' )",
    Kind.PIPELINE: "write its rows to a table, and read that",
}
_ELSEWHERE = {
    name
    for specs in (SOURCES.values(), SINKS.values())
    for kind in specs
    for name in kind.SPEC.names
} - PIPELINE.names
