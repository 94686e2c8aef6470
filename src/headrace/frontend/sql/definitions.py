"""What a text of SQL defines: connections, tables, views and pipelines by their names.

`Definitions.of` takes the statements of a file, `of_catalog` those that were kept. Names are told
apart without regard to case, and one name is one thing, whatever its kind. What a pipeline means is
found by `compile`, which reads this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from headrace.catalog import Catalog
from headrace.frontend import variables
from headrace.frontend.sql.parser import parse
from headrace.frontend.sql.statements import (
    Broken,
    Create,
    CreateConnection,
    CreatePipeline,
    CreateSecret,
    CreateTable,
    CreateView,
    Drop,
    Explain,
    Fields,
    Fragment,
    Insert,
    Kind,
    Name,
    Select,
    Statement,
)
from headrace.spans import Diagnostic

Named = CreateConnection | CreateTable | CreateView | CreatePipeline | Broken
_Kind = TypeVar("_Kind", CreateConnection, CreateTable, CreateView, CreatePipeline)

# The option that names the sinks of a pipeline.
SINK = "sink"

_KINDS: Mapping[type[Create], Kind] = MappingProxyType(
    {
        CreateSecret: Kind.SECRET,
        CreateConnection: Kind.CONNECTION,
        CreateTable: Kind.TABLE,
        CreateView: Kind.VIEW,
        CreatePipeline: Kind.PIPELINE,
    }
)


def kind_of(made: Create) -> Kind:
    return made.kind if isinstance(made, Broken) else _KINDS[type(made)]


@dataclass(frozen=True)
class Definitions:
    """`named` and `secrets` are by names in lower case, in the order of their creation.

    `loose` is the pipeline that the bare INSERTs of a file are together; it has the file's name.
    `previews` are SELECTs, which are checked and define nothing.
    """

    named: Mapping[str, Named] = field(default_factory=dict)
    secrets: Mapping[str, CreateSecret] = field(default_factory=dict)
    loose: CreatePipeline | None = None
    previews: tuple[CreatePipeline, ...] = ()

    @classmethod
    def of(
        cls, statements: Iterable[Statement], file: str = "sql", base: Definitions | None = None
    ) -> tuple[Definitions, list[Diagnostic]]:
        """What the statements define, on top of `base`; and names that are there twice.

        `file` names the pipeline of bare INSERTs.
        """
        gathered = _Gathered(base or cls())
        for statement in statements:
            gathered.take(statement)
        return gathered.definitions(file), gathered.faults

    @classmethod
    def of_catalog(cls, catalog: Catalog) -> tuple[Definitions, list[Diagnostic]]:
        """All that is kept; the texts are places of their own, `catalog:NAME`."""
        found: list[Statement] = []
        faults: list[Diagnostic] = []
        for entry in catalog.entries():
            statements, wrong = parse(entry.text, catalog_file(entry.name))
            found += statements
            faults += wrong
        definitions, twice = cls.of(found)
        return definitions, [*faults, *twice]

    def find(self, name: str) -> Named | None:
        return self.named.get(name.lower())

    def each(self, kind: type[_Kind]) -> list[_Kind]:
        return [made for made in self.named.values() if isinstance(made, kind)]

    def connection(self, name: str) -> CreateConnection | None:
        found = self.find(name)
        return found if isinstance(found, CreateConnection) else None

    @property
    def pipelines(self) -> dict[str, CreatePipeline]:
        """By their names as written; that of bare INSERTs comes last."""
        found = {made.name.text: made for made in self.each(CreatePipeline)}
        return found | ({self.loose.name.text: self.loose} if self.loose else {})

    @property
    def readable(self) -> list[str]:
        """The names that may stand in FROM."""
        kinds = (Kind.TABLE, Kind.VIEW)
        return [made.name.text for made in self.named.values() if kind_of(made) in kinds]

    def replaced(self, secrets: variables.Secrets) -> tuple[Definitions, list[Diagnostic]]:
        """With the references in the values of options replaced; those in queries stay.

        Secrets of these statements count before those of the catalog.
        """
        secrets = secrets.with_stated(self.secrets.values())
        faults: list[Diagnostic] = []

        def options(fields: Fields) -> Fields:
            found, wrong = variables.substitute_fields(fields, secrets)
            faults.extend(wrong)
            return found

        def completed(made: Named) -> Named:
            if isinstance(made, Broken):
                return made
            return replace(made, options=options(made.options))

        named = {key: completed(made) for key, made in self.named.items()}
        return replace(self, named=named), faults


def catalog_file(name: str) -> str:
    """What a place in a statement of the catalog has as its file."""
    return f"catalog:{name}"


def preview(select: Select, name: str = "preview") -> CreatePipeline:
    """A SELECT as a pipeline without a sink."""
    return _pipeline(select, Name(name, select.span), query=select)


class _Gathered:
    """One pass over statements; `faults` grows as it goes."""

    def __init__(self, base: Definitions) -> None:
        self.named = dict(base.named)
        self.secrets = dict(base.secrets)
        self.inserts: list[Insert] = []
        self.previews: list[CreatePipeline] = []
        self.faults: list[Diagnostic] = []

    def definitions(self, file: str) -> Definitions:
        loose = None
        if self.inserts:
            first = self.inserts[0]
            loose = replace(
                _pipeline(first, Name(file, first.span)), query=None, inserts=tuple(self.inserts)
            )
        return Definitions(self.named, self.secrets, loose, tuple(self.previews))

    def take(self, statement: Statement) -> None:
        if isinstance(statement, CreateSecret):
            self.secrets[statement.name.text.lower()] = statement
        elif isinstance(statement, Broken) and statement.kind is Kind.SECRET:
            return  # that it cannot be read has been said
        elif isinstance(statement, Named):
            self._create(statement)
        elif isinstance(statement, Drop):
            self._drop(statement)
        elif isinstance(statement, Insert):
            self.inserts.append(statement)
        else:
            self.previews.extend(_looks(statement))

    def _create(self, made: Named) -> None:
        key = made.name.text.lower()
        there = self.named.get(key)
        same = there is not None and kind_of(there) is kind_of(made)
        if there is None or (made.or_replace and same):
            self.named[key] = made
        elif not made.if_not_exists or not same:
            self.faults.append(_twice(made, there))

    def _drop(self, drop: Drop) -> None:
        """Of what is not here, only the catalog can tell whether it is there to be dropped."""
        key = drop.name.text.lower()
        if drop.kind is Kind.SECRET:
            self.secrets.pop(key, None)
        elif key in self.named and kind_of(self.named[key]) is drop.kind:
            del self.named[key]


def _twice(made: Named, there: Named) -> Diagnostic:
    name, kind, other = made.name, kind_of(made), kind_of(there)
    if kind is other:
        message = f"there is a {kind} `{name}` already, at {there.name.span}"
        hint = f"write CREATE OR REPLACE {kind.upper()}, or choose another name"
    else:
        message = f"`{name}` is the name of a {other} already, at {there.name.span}"
        hint = "choose another name: connections, tables, views and pipelines share them"
    return Diagnostic("NAME_TWICE", message, name.span, hint)


def _looks(statement: Statement) -> Iterator[CreatePipeline]:
    """The SELECT or pipeline of a statement that only shows something."""
    if isinstance(statement, Explain):
        inner = statement.statement
        if isinstance(inner, CreatePipeline):
            yield inner
        elif isinstance(inner, Insert):
            yield replace(_pipeline(inner, inner.table), query=None, inserts=(inner,))
        elif inner is not None:
            yield from _looks(inner)
    elif isinstance(statement, Select):
        yield preview(statement)


def _pipeline(statement: Statement, name: Name, query: Select | None = None) -> CreatePipeline:
    return CreatePipeline(
        text=statement.text,
        span=statement.span,
        name=name,
        or_replace=False,
        if_not_exists=False,
        options={},
        query=query.query if query else None,
    )


def sink_names(options: Fields) -> Iterator[Name]:
    """What `sink = 'a, b'` names, each with its place."""
    field = options.get(SINK)
    if field is None:
        return
    if isinstance(field.node.value, list):
        yield from (Name(each.text, each.span) for each in field.node.value)
        return
    text, at = field.node.text, 0
    for part in text.split(","):
        lead = at + len(part) - len(part.lstrip())
        yield Name(part.strip(), field.node.span.within(text, lead))
        at += len(part) + 1


def sinks_of(pipeline: CreatePipeline) -> list[Name]:
    """All that a pipeline writes to."""
    return [*sink_names(pipeline.options), *(insert.table for insert in pipeline.inserts)]


def queries_of(pipeline: CreatePipeline) -> list[Fragment]:
    """Its own SELECT, or those of its INSERTs."""
    own = [pipeline.query] if pipeline.query is not None else []
    return [*own, *(insert.query for insert in pipeline.inserts)]
