"""The names of a catalog by what they are names of, and the columns behind them: for completion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.frontend.sql.statements import CreateTable, CreateView, Kind
from headrace.model.query import Query
from headrace.shell.known import Known
from headrace.shell.system import SCHEMA
from headrace.shell.system_tables import TABLES


@dataclass(frozen=True)
class Names:
    """The names of a catalog, by what they are names of."""

    known: Known
    secrets: Sequence[str] = ()

    def of(self, kind: Kind) -> list[str]:
        return {
            Kind.CONNECTION: list(self.known.connections),
            Kind.TABLE: list(self.known.tables),
            Kind.VIEW: [view.name.text for view in self.known.views],
            Kind.PIPELINE: list(self.known.pipelines),
            Kind.SECRET: list(self.secrets),
        }[kind]

    @property
    def all(self) -> dict[str, str]:
        """Each with its kind."""
        kinds = (kind for kind in Kind if kind is not Kind.SECRET)
        return {each: str(kind) for kind in kinds for each in self.of(kind)}

    @property
    def readable(self) -> dict[str, str]:
        found = {each: str(kind) for kind in (Kind.TABLE, Kind.VIEW) for each in self.of(kind)}
        return found | {f"{SCHEMA}.{each}": table.summary for each, table in TABLES.items()}

    def columns(self, table: str, seen: frozenset[str] = frozenset()) -> dict[str, str]:
        """The columns of a table or view, each with its type or nothing; empty if not known."""
        own = table.lower()
        system = TABLES.get(own.removeprefix(f"{SCHEMA}."))
        if own.startswith(f"{SCHEMA}.") and system:
            return {column.name: column.help for column in system.columns}
        made = self.known.definitions.find(table)
        if isinstance(made, CreateTable):
            return {column.name.text: column.type or "" for column in made.columns or ()}
        if not isinstance(made, CreateView) or made.query is None or own in seen:
            return {}
        query, _ = Query.parse(made.query.sql, made.query.span)
        if query is None:
            return {}
        below = {each: tuple(self.columns(each, seen | {own})) for each in query.tables}
        known = {each: columns for each, columns in below.items() if columns}
        return dict.fromkeys(query.output_columns(known) or (), "")

    def connector(self, named: str) -> str:
        """The kind that `connector = '…'` stands for."""
        found = {each.lower(): c for each, c in self.known.connections.items()}.get(named.lower())
        return found.connector if found else named.lower()
