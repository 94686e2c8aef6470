"""Nodes to a `Pipeline`: which keys mean what, and which names refer to which.

Every fault is collected; a pipeline comes back only when there is no error among them. Called by
`frontend.load`, whatever the text was written in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.formats.carried import COLUMN
from headrace.formats.messages import returned_columns
from headrace.frontend.options import PIPELINE, SINK, SOURCE, STEP, STEP_KINDS, name_fault
from headrace.model import expressions
from headrace.model.pipeline import (
    DeduplicateTransform,
    Guarantee,
    Mode,
    Pipeline,
    PythonRowsTransform,
    PythonTransform,
    Remember,
    Sink,
    Source,
    SqlTransform,
    Transform,
    Watermark,
)
from headrace.model.query import Query
from headrace.model.schema import Schema, quote
from headrace.sinks import SINKS
from headrace.sources import SOURCES
from headrace.spans import Diagnostic, Field, Node, Severity, Span
from headrace.spec import Expression, Options, Spec, unknown

Fields = Mapping[str, Field]

INPUT = "input"  # in SQL: the rows of the step before
_INPUT = "of this step's input"
_ONE_ROW = "the source's own columns, for one row"
_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = {INPUT, "values", "table", "select", "from", "where"} | {
    # Words that cannot follow FROM as a name.
    *("anti", "cross", "except", "full", "inner", "intersect", "join", "lateral", "left"),
    *("minus", "natural", "on", "right", "semi", "union", "using"),
}
_COMPONENT = "write `connector_type: kafka` and its other options below it"
_PARTS = {"source", "sources", "transform", "transforms", "sink", "sinks"}


def resolve(root: Node, file: Path) -> tuple[Pipeline | None, list[Diagnostic]]:
    """The pipeline that the document describes, or None, and all that is to be said about it."""
    return _Resolver(file, root.span).pipeline(root)


class _Resolver:
    """One pass over one document; `faults` grows as it goes."""

    def __init__(self, file: Path, span: Span) -> None:
        self.file = file
        self.span = span
        self.faults: list[Diagnostic] = []
        # The columns of each table that SQL may read; None where only Spark can tell.
        self.columns: dict[str, tuple[str, ...] | None] = {}
        # The table that a step or a sink gets when it names none.
        self.last: str | None = None

    def pipeline(self, root: Node) -> tuple[Pipeline | None, list[Diagnostic]]:
        fields = self._mapping(root, "a pipeline file", "begin with `source:`")
        if fields is None:
            return None, self.faults
        if "connector_type" in fields and not _PARTS & fields.keys():
            # A file that holds only a source, as other tools keep them.
            fields = {"source": Field(root.span, root)}
        options = self._own_options(fields, root.span)
        sources = tuple(self._sources(fields))
        transforms = tuple(self._transforms(fields))
        sinks = tuple(self._sinks(fields))
        if any(fault.severity is Severity.ERROR for fault in self.faults):
            return None, self.faults
        pipeline = Pipeline(
            name=options["pipeline"] or self.file.stem,
            mode=Mode(options["mode"]),
            guarantee=Guarantee(options["guarantee"]),
            sources=sources,
            transforms=transforms,
            sinks=sinks,
            options=options,
            file=self.file,
        )
        return pipeline, self.faults

    def _own_options(self, fields: Fields, span: Span) -> Options:
        own = {key: field for key, field in fields.items() if key not in _PARTS}
        specs = [kind.SPEC for kind in SOURCES.values()] + [kind.SPEC for kind in SINKS.values()]
        elsewhere = {"connector_type", *(name for spec in specs for name in spec.names)}
        for key in (elsewhere & own.keys()) - PIPELINE.names:
            hint = "indent it, so that it stands under `source:` or `sink:`"
            message = f"`{key}` belongs to a source or a sink"
            self._fault("UNKNOWN_OPTION", message, own.pop(key).key, hint)
        options = self._options(PIPELINE, own, span, others=_PARTS)
        wrong = name_fault(self.file.stem)
        if "pipeline" not in options and wrong:
            message = f"the file's name is the pipeline's, and {wrong}"
            self._fault("BAD_NAME", message, span, "add `pipeline: name`, or rename the file")
        return options

    # Sources

    def _sources(self, fields: Fields) -> Iterator[Source]:
        before = len(self.faults)
        found = list(self._named(fields, "source", "sources"))
        if not found and len(self.faults) == before and "connector_type" not in fields:
            self._fault("MISSING_SOURCE", "there is no `source:`", self.span)
        for name, node in found:
            self._check_name(name, node.span)
            self.columns[name] = None
            body = self._mapping(node, f"`{name}`", _COMPONENT)
            connector = self._connector(body, node.span, SOURCES, "source")
            if body is None or connector is None:
                continue
            spec = SOURCES[connector].SPEC
            common, rest = self._split(body, SOURCE, node.span)
            before = len(self.faults)
            options = self._options(spec, rest, node.span, others=SOURCE.names)
            self.faults.extend(SOURCES[connector].check(options))
            said = self.faults[before:]
            broken = any(fault.severity is Severity.ERROR for fault in said)
            own = SOURCES[connector].columns(options, doubtful=broken)
            columns = self._columns(common["columns"] or (), own)
            self.columns[name] = tuple(each.name for each in columns) or own
            table, stored = common["metadata_table"], common["store_offsets"]
            if table is not None and not stored:
                message = "`metadata_table` has no effect with `store_offsets: false`"
                self._fault("CONFLICT", message, common.at("metadata_table"), "remove one of them")
            watermark = self._watermark(name, common, options)
            yield Source(name, connector, options, table, stored, watermark, columns, node.span)

    def _columns(
        self, columns: tuple[Expression, ...], own: tuple[str, ...] | None
    ) -> tuple[Expression, ...]:
        """What `columns` asks for, checked against the source's own columns."""
        for each in columns:
            if each.name.lower() == COLUMN:
                message = f"`{COLUMN}` is a column that Headrace needs for itself"
                self._fault("CONFLICT", message, each.span, "choose another name")
            label = "columns" if each.sql is None else f"columns.{each.name}"
            sql = each.sql or quote(each.name)
            self.faults.extend(expressions.faults(label, sql, each.span, own, _ONE_ROW))
        return tuple(expressions.simplified(each) for each in columns)

    def _watermark(self, name: str, common: Options, options: Options) -> Watermark | None:
        asked = common["watermark"]
        if asked is None:
            return None
        column, span = asked["column"], asked.at("column")
        known = self.columns[name]
        if known is not None and column.lower() not in {each.lower() for each in known}:
            self.faults.append(unknown("column", column, known, span, f"of `{name}`"))
        kind = _type_of(column, common, options)
        if kind is not None and kind not in _TIMES:
            message = f"a watermark needs a TIMESTAMP, and `{column}` is {kind}"
            hint = f"declare `{column} TIMESTAMP` in `schema`"
            if common["columns"]:
                hint = f"make one of it in `columns`: `{column}: CAST(… AS TIMESTAMP)`"
            self._fault("BAD_VALUE", message, span, hint)
        return Watermark(column, asked["delay"], span)

    # Transforms

    def _transforms(self, fields: Fields) -> Iterator[Transform]:
        node = self._either(fields, "transform", "transforms")
        if len(self.columns) == 1:
            self.last = next(iter(self.columns))
        if node is None or node.value is None:
            return
        items = node.value if isinstance(node.value, list) else [node]
        for number, item in enumerate(items, start=1):
            before = len(self.columns)
            transform = self._transform(item, number, self.last)
            if transform is not None:
                yield transform
            # A step with a fault is still the one before the next.
            self.last = list(self.columns)[-1] if len(self.columns) > before else self.last

    def _transform(self, node: Node, number: int, previous: str | None) -> Transform | None:
        body = self._mapping(node, "a step", "write `- sql: SELECT … FROM …`")
        if body is None:
            self.columns.setdefault(f"step_{number}", None)
            return None
        options = self._options(STEP, body, node.span)
        name = options["name"] or f"step_{number}"
        self._check_name(name, options.at("name"))
        kinds = [kind for kind in STEP_KINDS if kind in options]
        if len(kinds) != 1:
            message = "a step is one of `sql:`, `python:`, `python_rows:` and `deduplicate:`"
            self._fault("BAD_STEP", message, node.span)
            self.columns.setdefault(name, None)
            return None
        if options[kinds[0]] is None:  # which has been reported
            self.columns[name] = None
            return None
        self._check_goes_with(kinds[0], options)
        make = {
            "sql": self._sql,
            "python": self._python,
            "python_rows": self._python_rows,
            "deduplicate": self._deduplicate,
        }
        return make[kinds[0]](name, options, previous)

    def _check_goes_with(self, kind: str, options: Options) -> None:
        """Options of one kind of step on a step of another."""
        if kind == "sql" and "from" in options:
            hint = "write the name in the SQL: SELECT … FROM name"
            message = "`from:` goes with steps that are no SQL"
            self._fault("BAD_STEP", message, options.at("from"), hint)
        for key in ("schema", "batch_size"):
            if kind != "python_rows" and key in options:
                message = f"`{key}:` goes with `python_rows:`"
                self._fault("BAD_STEP", message, options.at(key), "remove it")

    def _sql(self, name: str, options: Options, previous: str | None) -> Transform | None:
        sql, span = options["sql"], options.at("sql")
        if "sql" in options.hidden:
            message = "a secret cannot stand in SQL, which Spark shows in plans and logs"
            self._fault("SECRET_IN_SQL", message, span, "use it in an option of a source or sink")
        query, faults = Query.parse(sql, span)
        self.faults.extend(faults)
        if query is None:
            self.columns[name] = None
            return None
        known = dict(self.columns)
        if previous is not None:
            known[INPUT] = self.columns[previous]
        inputs = [self._table(table, where, previous) for table, where in query.tables.items()]
        told = {table: columns for table, columns in known.items() if columns is not None}
        self.faults.extend(query.unknown_columns(told))
        self.faults.extend(query.texts_like_columns(told))
        self.columns[name] = query.output_columns(told)
        self._check_columns(name, span)
        used = previous if INPUT in {table.lower() for table in query.tables} else None
        return SqlTransform(name, sql, tuple(dict.fromkeys(inputs)), used, span)

    def _check_columns(self, name: str, span: Span) -> None:
        if COLUMN in {column.lower() for column in self.columns[name] or ()}:
            message = f"`{COLUMN}` is a column that Headrace needs for itself"
            self._fault("CONFLICT", message, span, "choose another name")

    def _table(self, name: str, where: Span, previous: str | None) -> str:
        """What a table of SQL is called here; upper and lower case are the same to Spark."""
        if name.lower() == INPUT:
            if previous is None:
                message = "`input` is the step before, and this is the first one of several sources"
                self._fault("UNKNOWN_TABLE", message, where, "name one: " + ", ".join(self.columns))
            return previous or name
        found = self._find(name)
        if found is None:
            known = {*self.columns, INPUT} if previous else self.columns
            self.faults.append(unknown("table", name, known, where, "of this pipeline"))
        return found or name

    def _find(self, name: str) -> str | None:
        return next((known for known in self.columns if known.lower() == name.lower()), None)

    def _python(self, name: str, options: Options, previous: str | None) -> Transform | None:
        self.columns[name] = None
        source = self._input(options, previous, "from", "a step")
        if source is None:
            return None
        return PythonTransform(name, options["python"], (source,), options.at("python"))

    def _python_rows(self, name: str, options: Options, previous: str | None) -> Transform | None:
        source = self._input(options, previous, "from", "a step")
        known = self.columns[source] if source is not None else None
        if "schema" in options:
            # One that is wrong has been reported; what it was to say is not known.
            known = Schema.parse(options["schema"]).names if options["schema"] else None
        elif known is not None:
            known = returned_columns(known)
        self.columns[name] = known
        self._check_columns(name, options.at("schema"))
        if source is None:
            return None
        return PythonRowsTransform(
            name=name,
            function=options["python_rows"],
            inputs=(source,),
            schema=options["schema"],
            batch_size=options["batch_size"],
            span=options.at("python_rows"),
        )

    def _deduplicate(self, name: str, options: Options, previous: str | None) -> Transform | None:
        source = self._input(options, previous, "from", "a step")
        known = self.columns[source] if source is not None else None
        self.columns[name] = known
        asked = options["deduplicate"]
        here = {column.lower() for column in known or ()}
        for column in asked["by"]:
            if known is not None and column.lower() not in here:
                self.faults.append(unknown("column", column, known, asked.at("by"), _INPUT))
        if source is None:
            return None
        remember = Remember(asked["remember"]) if asked["remember"] else None
        return DeduplicateTransform(
            name, asked["by"], (source,), remember, options.at("deduplicate")
        )

    # Sinks

    def _sinks(self, fields: Fields) -> Iterator[Sink]:
        for name, node in self._named(fields, "sink", "sinks"):
            self._check_sink_name(name, node.span)
            body = self._mapping(node, f"`{name}`", _COMPONENT)
            connector = self._connector(body, node.span, SINKS, "sink")
            if body is None or connector is None:
                continue
            common, rest = self._split(body, SINK, node.span)
            options = self._options(SINKS[connector].SPEC, rest, node.span, others=SINK.names)
            source = self._input(common, self.last, "from", f"sink `{name}`")
            if source is None:
                continue
            self.faults.extend(SINKS[connector].check(options, self.columns.get(source)))
            yield Sink(name, connector, source, options, node.span)

    # Shared

    def _split(self, body: Fields, common: Spec, span: Span) -> tuple[Options, Fields]:
        """What every component of the kind takes, and what is its connector's own."""
        shared = {key: field for key, field in body.items() if key in common.names}
        others = {"connector_type", *shared}
        own = {key: field for key, field in body.items() if key not in others}
        return self._options(common, shared, span), own

    def _input(self, options: Options, default: str | None, key: str, what: str) -> str | None:
        name: str | None = options[key] or default
        if name is None and not self.columns:
            return None  # that there is no source has been said
        if name is None:
            hint = "known: " + ", ".join(self.columns) if self.columns else None
            self._fault("MISSING_OPTION", f"{what} needs `{key}:`", options.span, hint)
            return None
        found = self._find(name)
        if found is None:
            self.faults.append(unknown("table", name, self.columns, options.at(key)))
        return found

    def _named(self, fields: Fields, one: str, many: str) -> Iterator[tuple[str, Node]]:
        """The components under `source:` (named so) or under `sources:` by their names."""
        node = self._either(fields, one, many)
        if node is None:
            return
        if one in fields:
            yield one, node
            return
        hint = f"write `a_name:` below it and the options below that, or use `{one}:`"
        named = self._mapping(node, f"`{many}`", hint)
        for name, field in (named or {}).items():
            yield name, Node(field.node.value, field.key)

    def _either(self, fields: Fields, one: str, many: str) -> Node | None:
        if one in fields and many in fields:
            message = f"`{one}` and `{many}` cannot stand together"
            self._fault("OPTION_TWICE", message, fields[many].key, "keep one of them")
        field = fields.get(one) or fields.get(many)
        return field.node if field else None

    def _connector(
        self, body: Fields | None, span: Span, known: Mapping[str, Any], kind: str
    ) -> str | None:
        if body is None:
            return None
        field = body.get("connector_type")
        if field is None:
            hint = "add `connector_type: kafka`"
            self._fault("MISSING_OPTION", f"a {kind} needs `connector_type`", span, hint)
            return None
        name = field.node.value
        if not isinstance(name, str):
            message = f"`connector_type` must be text, and is {field.node.shape}"
            hint = "known: " + ", ".join(known)
            self._fault("BAD_VALUE", message, field.node.span, hint)
            return None
        if name not in known:
            self.faults.append(unknown("connector", name, known, field.node.span, f"for a {kind}"))
            return None
        return name

    def _options(
        self, spec: Spec, fields: Fields, span: Span, others: set[str] | None = None
    ) -> Options:
        options, faults = spec.read(fields, span, others or set())
        self.faults.extend(faults)
        return options

    def _mapping(self, node: Node, what: str, hint: str) -> Fields | None:
        if isinstance(node.value, dict):
            return node.value
        message = f"{what} must be a mapping, and is {node.shape}"
        self._fault("NOT_A_MAPPING", message, node.span, hint)
        return None

    def _check_name(self, name: str, span: Span) -> None:
        if not _NAME.fullmatch(name) or name.lower() in _RESERVED:
            message = f"`{name}` cannot be a name in SQL"
            self._fault("BAD_NAME", message, span, "use letters, digits and _, and no SQL word")
        elif self._find(name) is not None:
            self._fault("NAME_TWICE", f"`{name}` is the name of two things", span)

    def _check_sink_name(self, name: str, span: Span) -> None:
        """SQL never reads a sink, so any word will do."""
        if not _NAME.fullmatch(name):
            message = f"`{name}` cannot be the name of a sink"
            self._fault("BAD_NAME", message, span, "use letters, digits and _")

    def _fault(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.faults.append(Diagnostic(code, message, span, hint))


def _type_of(column: str, common: Options, options: Options) -> str | None:
    """The type that a source's `schema` or `columns` gives to a column, where it can be told."""
    schema = None
    if "schema" in options.spec.names and options["schema"] is not None:
        schema = Schema.parse(options["schema"])
    made = common["columns"] or ()
    same = (each for each in made if each.name.lower() == column.lower())
    itself = None if made else Expression(column, None, options.span)
    found = next(same, itself)
    return None if found is None else expressions.type_of(found, schema)
