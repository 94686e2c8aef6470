"""From definitions in SQL to the tree of a pipeline, as a YAML file has it.

`Compiler.tree` gives one pipeline: its tables become sources, the views that it needs become steps,
its SELECT the last one. `Compiler.faults` is what can be said without any pipeline: every
connection, table and view is looked at, used or not. Everything is read once, however many
pipelines use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from headrace.frontend.options import PIPELINE
from headrace.frontend.sql import dialect, tables, tokens
from headrace.frontend.sql.definitions import Definitions, Named, kind_of, preview
from headrace.frontend.sql.options import (
    CONNECTOR,
    Reading,
    Role,
    demoted,
    merged,
    role_of,
    roles,
    text_of,
    unknown_connector,
)
from headrace.frontend.sql.statements import (
    Broken,
    Column,
    CreateConnection,
    CreatePipeline,
    CreateTable,
    CreateView,
    Fields,
    Fragment,
    Insert,
    Name,
    Select,
)
from headrace.model import sharing
from headrace.model.pipeline import (
    DeduplicateTransform,
    Guarantee,
    Mode,
    Pipeline,
    Source,
    SqlTransform,
    Transform,
)
from headrace.model.query import Query
from headrace.model.schema import Schema, quote, schema_fault
from headrace.sinks import SINKS
from headrace.sources import SOURCES
from headrace.spans import Diagnostic, Edit, Field, Node, Severity, Span
from headrace.spec import Options, unknown

SYSTEM = "system."
_SINK = "sink"
_SPARK = "spark."
_NAMES = (tokens.Sort.WORD, tokens.Sort.QUOTED)


def tree(
    definitions: Definitions, pipeline: str | CreatePipeline
) -> tuple[Node | None, list[Diagnostic]]:
    """One pipeline by its name, or one that is not among the definitions."""
    made = definitions.pipelines[pipeline] if isinstance(pipeline, str) else pipeline
    return Compiler(definitions).tree(made)


@dataclass(frozen=True)
class Component:
    """A source or a sink, as it stands in the tree; `options` are its own."""

    name: Name
    connector: str
    fields: dict[str, Field]
    options: Options
    shares: Span | None = None

    @property
    def sketch(self) -> Source:
        fields = self.fields
        table = fields["metadata_table"].node.text if "metadata_table" in fields else None
        stored = text_of(fields, "store_offsets", "true").lower() == "true"
        return Source(
            self.name.text, self.connector, self.options, table, stored, span=self.name.span
        )

    @property
    def node(self) -> Node:
        kind = Field(self.name.span, Node(self.connector, self.name.span))
        return Node({"connector_type": kind, **self.fields}, self.name.span)


@dataclass(frozen=True)
class Selected:
    """A query in Spark's words; `query` is None where it cannot be read."""

    fragment: Fragment
    query: Query | None
    faults: tuple[Diagnostic, ...]

    @property
    def tables(self) -> Iterable[str]:
        return self.query.tables if self.query is not None else ()

    @property
    def whole(self) -> str | None:
        """The table of a plain `SELECT * FROM table`, which needs no step."""
        words = [token for token in tokens.tokenize(self.fragment.sql)[:-1] if token.key != ";"]
        keys = [word.key for word in words[:3]]
        if len(words) == 4 and keys == ["SELECT", "*", "FROM"]:
            return (
                tokens.name(words[3])
                if words[3].sort in (tokens.Sort.WORD, tokens.Sort.QUOTED)
                else None
            )
        return None


@dataclass(frozen=True)
class _Target:
    """A column that is written; `given` by the SELECT, or NULL."""

    name: str
    type: str | None
    given: bool

    def sql(self, column: str | None) -> str:
        value = quote(column) if column is not None else "NULL"
        return f"{f'CAST({value} AS {self.type})' if self.type else value} AS {quote(self.name)}"


@dataclass(frozen=True)
class _Written:
    """`INSERT INTO table (columns) query`; `declared` are the columns that the table has."""

    table: Name
    query: Fragment
    columns: tuple[Name, ...]
    declared: tuple[Column, ...] | None

    def targets(self, faults: list[Diagnostic]) -> Iterator[_Target]:
        """The columns in the order in which they are selected, and then those that are NULL."""
        if self.declared is None:
            yield from (_Target(column.text, None, True) for column in self.columns)
            return
        known = {column.name.text.lower(): column for column in self.declared}
        for name in self.columns:
            if name.text.lower() not in known:
                names = [column.name.text for column in self.declared]
                faults.append(unknown("column", name.text, names, name.span, f"of `{self.table}`"))
        chosen = [known[n.text.lower()] for n in self.columns if n.text.lower() in known]
        given = chosen if self.columns else list(self.declared)
        yield from (_Target(column.name.text, column.type, True) for column in given)
        for column in self.declared:
            if column not in given:
                yield _Target(column.name.text, column.type, False)


class Compiler:
    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self._components: dict[tuple[str, Role], tuple[Component | None, list[Diagnostic]]] = {}
        self._selected: dict[tuple[Span, str], Selected] = {}
        self._columns: dict[str, tuple[str, ...] | None] = {}

    def tree(self, pipeline: CreatePipeline) -> tuple[Node | None, list[Diagnostic]]:
        """The tree, or None where there is nothing to resolve; and what is wrong with it."""
        return _Tree(self, pipeline).made()

    def faults(self) -> Iterator[Diagnostic]:
        """What is wrong with connections, tables and views, whoever uses them."""
        for connection in self.definitions.each(CreateConnection):
            yield from demoted(self._connection_faults(connection))
        for table in self.definitions.each(CreateTable):
            yield from self._table_faults(table)
        yield from self._unused()

    @property
    def checks(self) -> Iterator[CreatePipeline]:
        """Pipelines that are only checked: SELECTs, and one for each view."""
        for made in self.definitions.previews:
            selected = self.select(made.query) if made.query else None
            names = selected.tables if selected is not None else ()
            if not any(table.lower().startswith(SYSTEM) for table in names) and names:
                yield made
        for view in self.definitions.each(CreateView):
            yield preview(_all_of(view), view.name.text)

    def needed(self, pipeline: CreatePipeline) -> set[str]:
        """The names of all that a pipeline is made of, its own included."""
        found = {pipeline.name.text}
        open_ = [each.text for each in sink_names(pipeline.options)]
        open_ += [insert.table.text for insert in pipeline.inserts]
        queries = [pipeline.query] if pipeline.query else []
        for query in (*queries, *(insert.query for insert in pipeline.inserts)):
            open_ += self.select(query).tables
        while open_:
            made = self.definitions.find(open_.pop())
            if made is None or made.name.text in found:
                continue
            found.add(made.name.text)
            open_ += self._uses(made)
        return found

    def _uses(self, made: Named) -> Iterator[str]:
        if isinstance(made, CreateTable) and CONNECTOR in made.options:
            yield made.options[CONNECTOR].node.text
        elif isinstance(made, CreateView):
            yield from (each.text for each in step_inputs(made))
            yield from self.select(made.query).tables if made.query is not None else ()

    # Tables and connections

    def component(self, made: Name, role: Role) -> tuple[Component | None, list[Diagnostic]]:
        """A table or a connection in one role; both are read once."""
        key = made.text.lower(), role
        if key not in self._components:
            self._components[key] = self._component(made, role)
        return self._components[key]

    def _component(self, wanted: Name, role: Role) -> tuple[Component | None, list[Diagnostic]]:
        made = self.definitions.find(wanted.text)
        assert isinstance(made, CreateTable | CreateConnection)
        given, connector, faults = self._given(made)
        said, wrong = role_of(given)
        faults += wrong
        if connector is None:
            return None, faults
        if role not in roles(connector):
            message = f"`{connector}` is no {role}, and `{made.name}` is used as one"
            known = ", ".join(role.connectors)
            fault = Diagnostic("WRONG_ROLE", message, made.name.span, f"a {role} can be {known}")
            return None, [*faults, fault]
        if said is not None and said is not role:
            message = f"`{made.name}` is a {said}, and is used as a {role}"
            place = given["type"].node.span
            hint = f"leave `type` out, or make a {made.name} with `type = '{role}'`"
            return None, [*faults, Diagnostic("WRONG_ROLE", message, place, hint)]
        reading = Reading(connector, role, said is not None, made.name.span)
        group = given.get("group_id") or given.get("group.id")
        fields, wrong = reading.fields(given)
        faults += wrong
        if isinstance(made, CreateTable) and role is Role.SOURCE:
            declared = tables.of_source(made, connector, fields)
            fields |= declared.fields
            faults += declared.faults
        options, _ = reading.read(fields)
        shares = group.key if group and "share_partitions" not in fields else None
        component = Component(made.name, connector, fields, options, shares)
        return component, faults

    def _given(
        self, made: CreateTable | CreateConnection
    ) -> tuple[Fields, str | None, list[Diagnostic]]:
        """All options of a table, those of its connection included; and the connector's kind."""
        if isinstance(made, CreateConnection):
            kind = made.connector.text.lower()
            known = bool(roles(kind))
            wrong = [] if known else [unknown_connector(made.connector.text, made.connector.span)]
            return made.options, kind if known else None, wrong
        field = made.options.get(CONNECTOR)
        if field is None:
            message = f"the table `{made.name}` needs a `connector`"
            hint = "add `WITH ( connector = 'kafka', … )`, or the name of a connection"
            return made.options, None, [Diagnostic("MISSING_OPTION", message, made.name.span, hint)]
        connection = self.definitions.connection(field.node.text)
        if connection is None:
            if roles(field.node.text.lower()):
                return made.options, field.node.text.lower(), []
            connections = [each.name.text for each in self.definitions.each(CreateConnection)]
            return made.options, None, [_no_connection(field, connections)]
        _, connector, _ = self._given(connection)
        return merged(connection.options, made.options), connector, []

    def _connection_faults(self, connection: CreateConnection) -> Iterator[Diagnostic]:
        given, connector, faults = self._given(connection)
        said, wrong = role_of(given)
        yield from (*faults, *wrong)
        if connector is None:
            return
        if said is not None and said not in roles(connector):
            message = f"`{connector}` is no {said}"
            yield Diagnostic("WRONG_ROLE", message, given["type"].node.span)
            return
        seen: set[tuple[str, Span]] = set()
        for role in [said] if said else roles(connector):
            reading = Reading(connector, role, said is not None, connection.name.span)
            fields, wrong = reading.fields(given)
            options, more = reading.read(fields)
            for fault in (*wrong, *more, *_conflicts(connector, role, options)):
                if (fault.code, fault.span) not in seen:
                    seen.add((fault.code, fault.span))
                    yield fault

    def _table_faults(self, table: CreateTable) -> Iterator[Diagnostic]:
        """As a source or a sink by itself; what a pipeline adds to it is said there."""
        given, connector, faults = self._given(table)
        if connector is None:
            yield from faults
            return
        said, _ = role_of(given)
        role = said or self._used_as.get(table.name.text.lower()) or roles(connector)[0]
        component, faults = self.component(table.name, role)
        yield from _later(faults)
        if component is None:
            return
        reading = Reading(connector, role, said is not None, table.name.span)
        options, more = reading.read(component.fields)
        yield from _later(more)
        if role is Role.SOURCE:
            if not any(fault.code == "NOT_YET" for fault in faults):
                yield from _conflicts(connector, role, options)
        else:
            columns = tables.of_sink(table, connector)
            yield from tables.sink_faults(columns or ())

    @cached_property
    def _used_as(self) -> dict[str, Role]:
        """The role that each table has in pipelines; one that is read counts as a source."""
        found = {name.text.lower(): Role.SINK for name in self._written}
        return found | dict.fromkeys(self._read, Role.SOURCE)

    @cached_property
    def _written(self) -> list[Name]:
        inserts = [each for made in self._pipelines for each in made.inserts]
        named = [each for made in self._pipelines for each in sink_names(made.options)]
        return [insert.table for insert in inserts] + named

    @cached_property
    def _read(self) -> set[str]:
        """What stands in FROM of anything that there is."""
        views = self.definitions.each(CreateView)
        queries = [view.query for view in views if view.query is not None]
        for made in (*self._pipelines, *self.definitions.previews):
            queries += [made.query] if made.query else []
            queries += [insert.query for insert in made.inserts]
        selected = [self.select(query) for query in queries]
        inputs = {each.text.lower() for view in views for each in step_inputs(view)}
        return inputs | {name.lower() for each in selected for name in each.tables}

    @property
    def _pipelines(self) -> Iterable[CreatePipeline]:
        return self.definitions.pipelines.values()

    def _unused(self) -> Iterator[Diagnostic]:
        """Where there are pipelines, whatever none of them uses."""
        if not self._pipelines:
            return
        used = {*self._read, *(name.text.lower() for name in self._written)}
        for table in self.definitions.each(CreateTable):
            field = table.options.get(CONNECTOR)
            used |= {field.node.text.lower()} if field else set()
        for key, made in self.definitions.named.items():
            if key not in used and not isinstance(made, CreatePipeline):
                message = f"nothing uses the {kind_of(made)} `{made.name}`"
                span = made.name.span
                yield Diagnostic("UNUSED", message, span, severity=Severity.WARNING)

    # Queries

    def select(self, fragment: Fragment) -> Selected:
        """A query translated and parsed, once for each place."""
        key = fragment.span, fragment.sql
        if key not in self._selected:
            made, faults = dialect.translate(fragment, self._times)
            query, _ = Query.parse(made.sql, made.span)
            self._selected[key] = Selected(made, query, tuple(faults))
        return self._selected[key]

    @cached_property
    def _times(self) -> dict[str, str]:
        """The column of time of each table, and of views over only one that has any."""
        found = {
            table.name.text.lower(): table.watermark.column.text
            for table in self.definitions.each(CreateTable)
            if table.watermark is not None
        }
        views = self.definitions.each(CreateView)
        words = {view.name.text.lower(): _mentioned(view) for view in views}
        for _ in views:
            added = {
                view: times.pop()
                for view, names in words.items()
                if view not in found and len(times := {found[n] for n in names & found.keys()}) == 1
            }
            if not added:
                break
            found |= added
        return found

    def columns(self, table: str) -> tuple[str, ...] | None:
        """The columns of a table or view, where they can be told without Spark."""
        key = table.lower()
        if key not in self._columns:
            self._columns[key] = None  # a view that reads itself has none
            self._columns[key] = self._find_columns(key)
        return self._columns[key]

    def _find_columns(self, key: str) -> tuple[str, ...] | None:
        made = self.definitions.find(key)
        if isinstance(made, CreateView):
            return self._columns_of_view(made)
        if not isinstance(made, CreateTable):
            return None
        component, _ = self.component(made.name, Role.SOURCE)
        if component is None:
            return None
        shown = component.fields.get("columns")
        if shown is not None:
            value = shown.node.value
            names = value if isinstance(value, dict) else [each.text for each in value]  # type: ignore[union-attr]
            return tuple(names)
        return SOURCES[component.connector].columns(component.options)

    def _columns_of_view(self, view: CreateView) -> tuple[str, ...] | None:
        if view.query is not None:
            return self.output(self.select(view.query))
        if "schema" in view.options:
            text = view.options["schema"].node.text
            return None if schema_fault(text) else Schema.parse(text).names
        inputs = list(step_inputs(view))
        return self.columns(inputs[0].text) if inputs and "deduplicate" in view.options else None

    def naming(self, selected: Selected, names: list[str]) -> Selected:
        """With a name for each column that has none, where that can be written after it."""
        query = selected.query
        items = _items(selected.fragment.sql)
        if query is None or len(items) != len(query.tree.selects) or len(items) != len(names):
            return selected
        seen: set[str] = set()
        added: list[Edit] = []
        for end, projection, alias in zip(items, query.tree.selects, names, strict=True):
            known = isinstance(projection, exp.Alias | exp.Column) and not projection.is_star
            own = projection.alias_or_name.lower()
            if (
                not projection.is_star
                and not (known and own not in seen)
                and not isinstance(projection, exp.Alias)
            ):
                added.append(Edit(end, end, f" AS {quote(alias)}"))
            seen.add(own)
        if not added:
            return selected
        sql, span = selected.fragment.span.inserting(selected.fragment.sql, tuple(added))
        query, _ = Query.parse(sql, span)
        return Selected(Fragment(sql, span), query, selected.faults)

    def output(self, selected: Selected) -> tuple[str, ...] | None:
        if selected.query is None:
            return None
        told = {name: self.columns(name) for name in selected.query.tables}
        known = {name: columns for name, columns in told.items() if columns is not None}
        return selected.query.output_columns(known)


class _Tree:
    """One pipeline; `faults` grows as it goes."""

    def __init__(self, compiler: Compiler, pipeline: CreatePipeline) -> None:
        self.compiler = compiler
        self.definitions = compiler.definitions
        self.pipeline = pipeline
        self.sources: dict[str, Component] = {}
        self.steps: dict[str, Node] = {}
        self.transforms: dict[str, Transform] = {}
        self.broken = False
        self.sinks: dict[str, Node] = {}
        self.path: list[str] = []
        self.faults: list[Diagnostic] = []

    def made(self) -> tuple[Node | None, list[Diagnostic]]:
        own = self._own_options()
        if self.pipeline.query is not None:
            self._into_named_sinks(self.pipeline.query)
        for insert in self.pipeline.inserts:
            self._into_table(insert)
        if not self.sources:
            if not self.faults and not self.broken:
                message = f"`{self.pipeline.name}` reads no table"
                self._fault("MISSING_SOURCE", message, self.pipeline.span, "name one in FROM")
            return None, self.faults
        self._share()
        span = self.pipeline.span
        parts: dict[str, Node] = {
            "sources": _mapping({each.name: each.node for each in self.sources.values()}, span),
            "transforms": Node(list(self.steps.values()), span),
        }
        if self.sinks:
            sinks = {key: Field(node.span, node) for key, node in self.sinks.items()}
            parts["sinks"] = Node(sinks, span)
        root = own | {key: Field(span, node) for key, node in parts.items()}
        return Node(root, span), self.faults

    # The pipeline's own options

    def _own_options(self) -> dict[str, Field]:
        name = self.pipeline.name
        found: dict[str, Field] = {}
        if self.pipeline is not self.definitions.loose:
            found["pipeline"] = Field(name.span, Node(name.text, name.span))
        spark: dict[str, Field] = {}
        for key, field in self.pipeline.options.items():
            if key.startswith(_SPARK):
                spark[key] = field
            elif key in _ELSEWHERE:
                hint = "write it in the WITH of a table, or in a connection"
                message = f"`{key}` belongs to a source or a sink"
                self._fault("UNKNOWN_OPTION", message, field.key, hint)
            elif key == "pipeline":
                message = f"the pipeline's name is `{name}`"
                self._fault("OPTION_TWICE", message, field.key, "remove it")
            elif key != _SINK:
                found[key] = field
        if spark:
            first = next(iter(spark.values())).key
            found["spark"] = Field(first, Node(spark, first))
        return found

    # Sinks

    def _into_named_sinks(self, query: Fragment) -> None:
        rows = self._last(query, self.pipeline.name.text)
        for name in sink_names(self.pipeline.options):
            self._sink(name, query, rows, ())

    def _into_table(self, insert: Insert) -> None:
        if _SINK in self.pipeline.options:
            message = "a pipeline names its sinks in INSERT INTO, or as `sink` in WITH"
            place = self.pipeline.options[_SINK].key
            self._fault("CONFLICT", message, place, "keep one of them")
        several = len(self.pipeline.inserts) > 1
        number = f"_{self.pipeline.inserts.index(insert) + 1}" if several else ""
        rows = self._last(insert.query, f"{self.pipeline.name}{number}")
        self._sink(insert.table, insert.query, rows, insert.columns)

    def _last(self, query: Fragment, name: str) -> str:
        """The rows of the pipeline's own SELECT: a step, or the table that it is all of."""
        selected = self._select(query)
        if selected.whole is not None and self._is_readable(selected.whole):
            found = self.definitions.find(selected.whole)
            assert found is not None
            return found.name.text
        return self._step(_free(_as_name(name), self._taken), selected)

    def _sink(self, name: Name, query: Fragment, rows: str, columns: tuple[Name, ...]) -> None:
        made = self.definitions.find(name.text)
        if not isinstance(made, CreateTable | CreateConnection):
            self._not_a_sink(name)
            return
        component, faults = self.compiler.component(made.name, Role.SINK)
        self.faults += faults
        if component is None:
            return
        declared = (
            tables.of_sink(made, component.connector) if isinstance(made, CreateTable) else None
        )
        if declared is not None or columns:
            rows = self._fitted(_Written(name, query, columns, declared), rows)
        fields = {"from": Field(name.span, Node(rows, name.span))}
        if "key" in {each.name.text.lower() for each in declared or ()}:
            fields |= tables.key_of_raw(component.fields, name.span)
        node = component.node
        assert isinstance(node.value, dict)
        key = _free(made.name.text, set(self.sinks))
        self.sinks[key] = Node(node.value | fields, name.span)

    def _not_a_sink(self, name: Name) -> None:
        made = self.definitions.find(name.text)
        if made is not None:
            message = f"`{name}` is a {kind_of(made)}, which nothing can be written to"
            hint = "write to a table, or to a connection with `type = 'sink'`"
            self._fault("UNKNOWN_SINK", message, name.span, hint)
            return
        known = [each.name.text for each in self.definitions.each(CreateTable)]
        known += [each.name.text for each in self.definitions.each(CreateConnection)]
        fault = unknown("sink", name.text, known, name.span, "that there is")
        self.faults.append(fault)

    def _fitted(self, insert: _Written, rows: str) -> str:
        """A step that gives the rows the names and types of the table, by position."""
        targets = list(insert.targets(self.faults))
        wanted = sum(target.given for target in targets)
        selected = self._named(insert.query, rows, [t.name for t in targets if t.given])
        if selected is None:
            return rows
        found = self.compiler.output(selected)
        if found is None:
            message = f"which columns this SELECT has cannot be told, and `{insert.table}` has some"
            hint = "name each column in the SELECT, without `*`"
            self._fault("UNKNOWN_COLUMNS", message, insert.query.span, hint)
            return rows
        if len(found) != wanted:
            columns = "column" if wanted == 1 else "columns"
            message = f"`{insert.table}` takes {wanted} {columns}, and the SELECT has {len(found)}"
            names = ", ".join(target.name for target in targets if target.given)
            self._fault("COLUMN_COUNT", message, insert.query.span, f"it takes {names}")
            return rows
        self.faults += _order(insert, found, [t.name for t in targets if t.given])
        return self._casting(insert.table, rows, targets, found)

    def _named(self, query: Fragment, rows: str, names: list[str]) -> Selected | None:
        """The query with a name for each of its columns; its step is changed to be the same."""
        selected = self.compiler.select(query)
        if selected.query is None:
            return None
        named = self.compiler.naming(selected, names)
        if named is not selected:
            self._step(rows, named)
        return named

    def _casting(
        self, sink: Name, rows: str, targets: list[_Target], found: tuple[str, ...]
    ) -> str:
        left = iter(found)
        columns = [target.sql(next(left) if target.given else None) for target in targets]
        sql = f"SELECT {', '.join(columns)} FROM {tables.bare(rows)}"
        query, _ = Query.parse(sql, sink.span)
        name = _free(_as_name(f"into_{sink}"), self._taken)
        return self._step(name, Selected(Fragment(sql, sink.span), query, ()))

    # Sources and steps

    def _select(self, query: Fragment) -> Selected:
        """A query, with all that it reads among the sources and steps."""
        selected = self.compiler.select(query)
        self.faults += selected.faults
        if selected.query is not None:
            for table, where in selected.query.tables.items():
                self._reads(table, where)
        return selected

    def _step(self, name: str, selected: Selected) -> str:
        fragment = selected.fragment
        fields = {
            "name": Field(fragment.span, Node(name, fragment.span)),
            "sql": Field(fragment.span, Node(fragment.sql, fragment.span)),
        }
        self.steps[name] = Node(fields, fragment.span)
        tables = tuple(selected.tables)
        self.transforms[name] = SqlTransform(name, fragment.sql, tables, None, fragment.span)
        return name

    def _is_readable(self, name: str) -> bool:
        return isinstance(self.definitions.find(name), CreateTable | CreateView)

    @property
    def _taken(self) -> set[str]:
        names = {made.name.text.lower() for made in self.definitions.named.values()}
        return (names - {self.pipeline.name.text.lower()}) | {step.lower() for step in self.steps}

    def _reads(self, table: str, where: Span) -> None:
        made = self.definitions.find(table)
        if isinstance(made, CreateTable):
            self._source(made)
        elif isinstance(made, CreateView):
            self._view(made, where)
        elif isinstance(made, Broken):
            self.broken = True  # which has been said where it stands
        elif table.lower().startswith(SYSTEM):
            message = f"`{table}` is read in the shell only, not in a pipeline"
            self._fault("UNKNOWN_TABLE", message, where, "see `headrace sql`")
        elif made is not None:
            kind = kind_of(made)
            message = f"`{table}` is a {kind}, which cannot be read"
            hint = f"CREATE TABLE … WITH ( connector = '{made.name}' )"
            if kind == "pipeline":
                hint = "write its rows to a table, and read that"
            self._fault("UNKNOWN_TABLE", message, where, hint)
        else:
            known = self.definitions.readable
            self.faults.append(unknown("table", table, known, where, "or a view that there is"))

    def _source(self, table: CreateTable) -> None:
        if table.name.text in self.sources:
            return
        component, faults = self.compiler.component(table.name, Role.SOURCE)
        self.faults += faults
        if component is not None:
            self.sources[table.name.text] = component

    def _view(self, view: CreateView, where: Span) -> None:
        name = view.name.text
        if name in self.path:
            circle = " → ".join([*self.path[self.path.index(name) :], name])
            self._fault("CYCLE", f"views read each other in a circle: {circle}", where, None)
            return
        if name in self.steps:
            return
        self.path.append(name)
        if view.query is not None:
            self._step(name, self._select(view.query))
        else:
            self._function(view)
        self.path.pop()

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
        named = {"name": Field(name.span, Node(name.text, name.span))}
        self.steps[name.text] = Node({**view.options, **named}, name.span)
        if "deduplicate" in view.options:
            self.transforms[name.text] = DeduplicateTransform(
                name.text, ("row",), tuple(each.text for each in inputs), span=name.span
            )

    # Groups

    def _share(self) -> None:
        """A source whose `group_id` is named shares its partitions, where the pipeline can."""
        for name, component in self.sources.items() if self.sinks else ():
            if component.shares is None:
                continue
            reasons = sharing.obstacles(self._sketch, self._sketch.source(name))
            if reasons:
                message = f"`group_id` shows a position and shares nothing: {reasons[0].message}"
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
        spans = {key: given[key].node.span for key in own}
        return Pipeline(
            name=self.pipeline.name.text,
            mode=Mode.BATCH if own.get("mode") == Mode.BATCH else Mode.STREAM,
            guarantee=_guarantee(own.get("guarantee")),
            sources=tuple(each.sketch for each in self.sources.values()),
            transforms=tuple(self.transforms.values()),
            sinks=(),
            options=Options(PIPELINE, own, spans, self.pipeline.span),
        )

    def _fault(self, code: str, message: str, span: Span, hint: str | None) -> None:
        self.faults.append(Diagnostic(code, message, span, hint))


def step_inputs(view: CreateView) -> Iterator[Name]:
    """What a view without a SELECT is made of."""
    if view.query is None and "from" in view.options:
        node = view.options["from"].node
        yield Name(node.text, node.span)


def sink_names(options: Fields) -> Iterator[Name]:
    """What `sink = 'a, b'` names, each with its place."""
    field = options.get(_SINK)
    if field is None:
        return
    value = field.node.value
    if isinstance(value, list):
        yield from (Name(each.text, each.span) for each in value)
        return
    text, at = field.node.text, 0
    for part in text.split(","):
        lead = at + len(part) - len(part.lstrip())
        yield Name(part.strip(), field.node.span.within(text, lead))
        at += len(part) + 1


def _order(insert: _Written, found: tuple[str, ...], wanted: list[str]) -> Iterator[Diagnostic]:
    """The same names in another order: most likely meant by name, and written by position."""
    have, want = [name.lower() for name in found], [name.lower() for name in wanted]
    if have == want or sorted(have) != sorted(want):
        return
    here = next(at for at, name in enumerate(have) if name != want[at])
    message = f"columns are written by position: `{found[here]}` goes into `{wanted[here]}`"
    hint = f"select them in the order {', '.join(wanted)}"
    yield Diagnostic("COLUMN_ORDER", message, insert.query.span, hint, Severity.WARNING)


def _guarantee(text: str | None) -> Guarantee:
    return Guarantee(text) if text in tuple(Guarantee) else Guarantee.AT_LEAST_ONCE


def _conflicts(connector: str, role: Role, options: Options) -> Iterable[Diagnostic]:
    if role is Role.SOURCE:
        return SOURCES[connector].check(options)
    return SINKS[connector].check(options, None)


def _later(faults: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """What only a pipeline must not have is a warning for a table by itself."""
    for fault in faults:
        later = fault.code == "NOT_YET"
        yield replace(fault, severity=Severity.WARNING) if later else fault


def _no_connection(field: Field, connections: list[str]) -> Diagnostic:
    return unknown_connector(field.node.text, field.node.span, connections)


def _items(sql: str) -> list[int]:
    """Where each column of the first SELECT that stands in no brackets ends."""
    ends: list[int] = []
    depth, started, last = 0, False, None
    for token in tokens.tokenize(sql):
        if token.key in ("(", "["):
            depth += 1
        elif token.key in (")", "]"):
            depth -= 1
        elif depth == 0 and not started:
            started = token.key == "SELECT"
        elif depth == 0 and token.key == "," and last is not None:
            ends.append(last.end)
        elif depth == 0 and token.key == "FROM" and last is not None and last.key != "DISTINCT":
            return [*ends, last.end]
        last = token
    return []


def _mapping(nodes: dict[Name, Node], span: Span) -> Node:
    return Node({name.text: Field(name.span, node) for name, node in nodes.items()}, span)


def _mentioned(view: CreateView) -> set[str]:
    """All names in a view, those of the tables that it reads among them."""
    if view.query is None:
        return {each.text.lower() for each in step_inputs(view)}
    words = (token for token in tokens.tokenize(view.query.sql))
    return {
        tokens.name(word).lower()
        for word in words
        if word.sort in (tokens.Sort.WORD, tokens.Sort.QUOTED)
    }


def _all_of(view: CreateView) -> Select:
    span = view.name.span
    return Select(view.text, span, Fragment(f"SELECT * FROM {quote(view.name.text)}", span))


def _as_name(text: str) -> str:
    return "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in text)


def _free(name: str, taken: set[str]) -> str:
    """The name itself, or with a number after it that nobody has."""
    found, number = name, 1
    while found.lower() in {each.lower() for each in taken}:
        number += 1
        found = f"{name}_{number}"
    return found


_ELSEWHERE = {
    name for kinds in (SOURCES, SINKS) for kind in kinds.values() for name in kind.SPEC.names
} - PIPELINE.names
