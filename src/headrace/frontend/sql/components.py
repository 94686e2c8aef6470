"""Tables and connections as the sources and sinks that they are.

A table's options are those of its connection overlaid by its own, and its columns say the rest.
Each is read once for each role, however many pipelines use it. Called by `compile`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from headrace.frontend.sql import tables
from headrace.frontend.sql.definitions import Definitions
from headrace.frontend.sql.options import (
    CONNECTOR,
    NAME,
    ROLE,
    Reading,
    Role,
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
    CreateTable,
    Fields,
    Name,
)
from headrace.model.pipeline import Source
from headrace.sinks import SINKS
from headrace.sources import SOURCES
from headrace.spans import Diagnostic, Field, Node, Severity, Span
from headrace.spec import Options

Made = CreateTable | CreateConnection
# What a connection lacks, or is not enough for a schema, its tables may have.
_LATER = ("MISSING_OPTION", "BAD_SCHEMA")


@dataclass(frozen=True)
class Component:
    """A source or a sink. `fields` are what stands under it in the tree, `options` its own values.

    `shares` is where a `group_id` stands, whose members share partitions. `columns` are those that
    a sink's rows are written into, if it has any of its own.
    """

    name: Name
    connector: str
    fields: dict[str, Field]
    options: Options
    shares: Span | None = None
    columns: tuple[Column, ...] | None = None

    @property
    def node(self) -> Node:
        kind = Field(self.name.span, Node(self.connector, self.name.span))
        return Node({"connector_type": kind, **self.fields}, self.name.span)

    @property
    def sketch(self) -> Source:
        """As much of the source as others ask for before it is resolved."""
        table = text_of(self.fields, "metadata_table", "") or None
        stored = text_of(self.fields, "store_offsets", "true").lower() == "true"
        span = self.name.span
        return Source(self.name.text, self.connector, self.options, table, stored, span=span)


Read = tuple[Component | None, tuple[Diagnostic, ...]]


class Components:
    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self._read: dict[tuple[str, Role], Read] = {}

    def get(self, made: Made, role: Role) -> Read:
        """The component in a role, or None; and what is wrong with it before it is resolved."""
        key = made.name.text.lower(), role
        if key not in self._read:
            faults: list[Diagnostic] = []
            self._read[key] = self._component(made, role, faults), tuple(faults)
        return self._read[key]

    def columns(self, table: CreateTable) -> tuple[str, ...] | None:
        """What SQL sees of a table, where it can be told without Spark."""
        component, _ = self.get(table, Role.SOURCE)
        if component is None:
            return None
        shown = component.fields.get("columns")
        if shown is None:
            return SOURCES[component.connector].columns(component.options)
        value = shown.node.value
        names = [each.text for each in value] if isinstance(value, list) else value
        return tuple(names) if isinstance(names, list | dict) else None

    def faults_of_connection(self, connection: CreateConnection) -> Iterator[Diagnostic]:
        """Of what it says; what it does not say may be in its tables."""
        given, connector, faults = self._given(connection)
        said, wrong = role_of(given)
        yield from (*faults, *wrong)
        if connector is None:
            return
        if said is not None and said not in roles(connector):
            yield _wrong_role(connector, said, given[ROLE].node.span)
            return
        seen: set[tuple[str, Span]] = set()
        for role in [said] if said else roles(connector):
            reading = Reading(connector, role, said is not None, connection.name.span)
            fields, of_names = reading.fields(given)
            options, of_values = reading.read(fields)
            found = (*of_names, *of_values, *_conflicts(connector, role, options))
            for fault in by_itself(found):
                # An option of both roles is wrong once.
                if fault.code not in _LATER and (fault.code, fault.span) not in seen:
                    seen.add((fault.code, fault.span))
                    yield fault

    def role(self, table: CreateTable, used_as: Role | None) -> Role | None:
        """What a table is by itself: what it says, what it is used as, or what it can be.

        One that nobody uses is taken for a source, unless it lacks what a source needs and has all
        that a sink does.
        """
        given, connector, _ = self._given(table)
        if connector is None:
            return None
        said, _ = role_of(given)
        possible = roles(connector)
        if said or used_as or len(possible) == 1:
            return said or used_as or possible[0]
        lacks = any(fault.code == "MISSING_OPTION" for fault in self._against(table, Role.SOURCE))
        return Role.SINK if lacks and not self._against(table, Role.SINK) else Role.SOURCE

    def _against(self, table: CreateTable, role: Role) -> list[Diagnostic]:
        """What speaks against a role that nobody has given to a table."""
        component, faults = self.get(table, role)
        if component is None:
            return list(faults)
        reading = Reading(component.connector, role, False, table.name.span)
        _, more = reading.read(component.fields)
        return [*faults, *more, *_conflicts(component.connector, role, component.options)]

    def faults_of_sink(self, table: CreateTable) -> Iterator[Diagnostic]:
        """Of a table that is written, by itself; what a pipeline adds to it is said there."""
        component, faults = self.get(table, Role.SINK)
        yield from by_itself(faults)
        if component is None:
            return
        options, more = Reading(component.connector, Role.SINK, True, table.name.span).read(
            component.fields
        )
        yield from by_itself((*more, *_conflicts(component.connector, Role.SINK, options)))
        yield from tables.faults_of_sink(component.columns or ())

    def _component(self, made: Made, role: Role, faults: list[Diagnostic]) -> Component | None:
        given, connector, wrong = self._given(made)
        said, bad_role = role_of(given)
        faults += [*wrong, *bad_role]
        if connector is None:
            return None
        if role not in roles(connector):
            faults.append(_wrong_role(connector, role, made.name.span))
            return None
        if said is not None and said is not role:
            message = f"`{made.name}` is a {said}, and is used as a {role}"
            hint = f"leave `type` out, or make another one with `type = '{role}'`"
            faults.append(Diagnostic("WRONG_ROLE", message, given[ROLE].node.span, hint))
            return None
        reading = Reading(connector, role, said is not None, made.name.span)
        fields, of_names = reading.fields(given)
        faults += of_names
        columns = None
        if isinstance(made, CreateTable) and role is Role.SOURCE:
            declared = tables.of_source(made, connector, fields)
            fields |= declared.fields
            faults += declared.faults
        elif isinstance(made, CreateTable):
            columns = tables.of_sink(made, connector)
        options, _ = reading.read(fields)  # what is wrong with values is said when it is resolved
        name = _called(given, made.name) if role is Role.SINK else made.name
        return Component(name, connector, fields, options, _group(given, fields), columns)

    def _given(self, made: Made) -> tuple[Fields, str | None, list[Diagnostic]]:
        """All options of a table, those of its connection included; and the connector's kind."""
        if isinstance(made, CreateConnection):
            named = made.connector
            if roles(named.text.lower()):
                return made.options, named.text.lower(), []
            return made.options, None, [unknown_connector(named.text, named.span)]
        field = made.options.get(CONNECTOR)
        if field is None:
            message = f"the table `{made.name}` needs a `connector`"
            hint = "add `WITH ( connector = 'kafka', … )`, or the name of a connection"
            return made.options, None, [Diagnostic("MISSING_OPTION", message, made.name.span, hint)]
        found = self.definitions.find(field.node.text)
        if isinstance(found, Broken):
            return made.options, None, []  # which has been said where it stands
        if isinstance(found, CreateConnection):
            _, connector, _ = self._given(found)
            return merged(found.options, made.options), connector, []
        if roles(field.node.text.lower()):
            return made.options, field.node.text.lower(), []
        connections = [each.name.text for each in self.definitions.each(CreateConnection)]
        return (
            made.options,
            None,
            [unknown_connector(field.node.text, field.node.span, connections)],
        )


def _called(given: Fields, name: Name) -> Name:
    """What a sink is called in the pipeline: `name`, or as the table is."""
    field = given.get(NAME)
    return name if field is None else Name(field.node.text, field.node.span)


def _group(given: Fields, fields: Fields) -> Span | None:
    """Where `group_id` stands, unless something else is said about sharing."""
    named = given.get("group_id") or given.get("group.id")
    return named.key if named is not None and "share_partitions" not in fields else None


def _wrong_role(connector: str, role: Role, span: Span) -> Diagnostic:
    message = f"`{connector}` cannot be a {role}"
    hint = f"a {role} is one of {', '.join(role.connectors)}"
    return Diagnostic("WRONG_ROLE", message, span, hint)


def _conflicts(connector: str, role: Role, options: Options) -> Iterable[Diagnostic]:
    if role is Role.SOURCE:
        return SOURCES[connector].check(options)
    return SINKS[connector].check(options, None)


def by_itself(faults: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """What only a pipeline must not have is a warning where there is none."""
    for fault in faults:
        later = fault.code == "NOT_YET"
        yield replace(fault, severity=Severity.WARNING) if later else fault
