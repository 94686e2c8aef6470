"""What a catalog holds at one moment, understood; and what a statement would make of it.

`Kept.after` answers both when statements are checked before any of them is done and when one is
done: a bad one is refused with its place, and changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

from headrace.catalog import Catalog
from headrace.frontend.sql.compile import Compiler
from headrace.frontend.sql.definitions import Definitions, Named, catalog_file, kind_of
from headrace.frontend.sql.options import roles
from headrace.frontend.sql.parser import parse
from headrace.frontend.sql.statements import (
    Create,
    CreatePipeline,
    CreateSecret,
    Drop,
    Insert,
    Kind,
    Name,
    Statement,
)
from headrace.frontend.variables import Secrets
from headrace.spans import Diagnostic
from headrace.spec import unknown

_SECRET = re.compile(r"\$\{secret:(\w+)\}")


Key = tuple[str, str]  # the name of a definition, and its text


class Texts:
    """Statements of a catalog, each read once as long as its text stays the same.

    `uses` are the names that definitions refer to, so far as they have been asked for.
    """

    def __init__(self) -> None:
        self.uses: dict[Key, frozenset[str]] = {}
        self._read: dict[Key, list[Statement]] = {}

    def read(self, catalog: Catalog) -> list[Statement]:
        """What this version does not understand is passed over: its name is unknown, then."""
        entries = [(entry.name, entry.text) for entry in catalog.entries()]
        for name, text in entries:
            if (name, text) not in self._read:
                self._read[name, text] = parse(text, catalog_file(name))[0]
        return [statement for entry in entries for statement in self._read[entry]]


@dataclass(frozen=True)
class Kept:
    """`secrets` are the names of all secrets, in lower case; `values` knows what is behind them."""

    definitions: Definitions
    secrets: frozenset[str]
    values: Secrets
    texts: Texts

    @classmethod
    def of(cls, catalog: Catalog, texts: Texts) -> Kept:
        definitions, _ = Definitions.of(texts.read(catalog))
        names = frozenset(secret.name.lower() for secret in catalog.secrets())
        return cls(definitions, names, Secrets(catalog), texts)

    def find(self, name: str) -> Named | None:
        return self.definitions.find(name)

    # What uses what

    @cached_property
    def compiler(self) -> Compiler:
        """Over the definitions with their references replaced."""
        return Compiler(self.definitions.replaced(self.values)[0])

    def uses(self, made: Named) -> frozenset[str]:
        """The names that a definition itself refers to, in lower case."""
        key, known = (made.name.text, made.text), self.texts.uses
        if key not in known:
            known[key] = frozenset(name.lower() for name in Compiler(Definitions()).uses(made))
        return known[key]

    def needed(self, made: Named) -> tuple[dict[str, Named], bool]:
        """What a definition is made of, by names in lower case, and whether all of it is there."""
        found: dict[str, Named] = {}
        complete = True
        waiting = [*self.uses(made)]
        while waiting:
            key = waiting.pop()
            part = self.find(key)
            complete = complete and (part is not None or bool(roles(key)))
            if part is not None and key not in found:
                found[key] = part
                waiting += self.uses(part)
        return found, complete

    def users(self, name: str) -> list[Named]:
        """All that would not be there without it, in the order of creation."""
        reached, found = {name.lower()}, {name.lower()}
        while found:
            found = {key for key, used in self._uses.items() if used & found} - reached
            reached |= found
        others = reached - {name.lower()}
        return [made for key, made in self.definitions.named.items() if key in others]

    @cached_property
    def _uses(self) -> dict[str, frozenset[str]]:
        return {key: self.uses(made) for key, made in self.definitions.named.items()}

    def users_of_secret(self, name: str) -> list[Named]:
        """The definitions that refer to a secret, and all that would not be there without them."""
        direct = [
            made
            for made in self.definitions.named.values()
            if name.lower() in {match.lower() for match in _SECRET.findall(made.text)}
        ]
        indirect = [user for made in direct for user in self.users(made.name.text)]
        return list({made.name.text: made for made in (*direct, *indirect)}.values())

    # What a statement makes of it

    def after(self, statement: Statement) -> tuple[Kept, list[Diagnostic]]:
        """What is kept when the statement is done, and what speaks against doing it.

        Only names are looked at here; what a definition means is judged in what comes back.
        """
        if isinstance(statement, CreateSecret):
            return self._with_secret(statement)
        if isinstance(statement, Create):
            definitions, faults = Definitions.of([statement], base=self.definitions)
            return replace(self, definitions=definitions), faults
        if isinstance(statement, Insert):
            return self.after(self.inserted(statement))
        if isinstance(statement, Drop):
            return self._without(statement)
        return self, []

    def inserted(self, insert: Insert) -> CreatePipeline:
        """An INSERT as a pipeline: `into_TABLE`, or the next such name that is free or has the same
        statement already.
        """
        base = "into_" + re.sub(r"\W", "_", insert.table.text, flags=re.ASCII)
        name, number = base, 1
        while (there := self.find(name)) is not None and there.text != _as_create(name, insert):
            number += 1
            name = f"{base}_{number}"
        return CreatePipeline(
            text=_as_create(name, insert),
            span=insert.span,
            name=Name(name, insert.table.span),
            or_replace=True,
            if_not_exists=False,
            options={},
            query=None,
            inserts=(insert,),
        )

    def _with_secret(self, made: CreateSecret) -> tuple[Kept, list[Diagnostic]]:
        key = made.name.text.lower()
        if key in self.secrets and not (made.or_replace or made.if_not_exists):
            message = f"there is a secret `{made.name}` already"
            hint = "write CREATE OR REPLACE SECRET, or choose another name"
            return self, [Diagnostic("NAME_TWICE", message, made.name.span, hint)]
        stated = {**self.definitions.secrets, key: made}
        definitions = replace(self.definitions, secrets=stated)
        return replace(self, definitions=definitions, secrets=self.secrets | {key}), []

    def _without(self, drop: Drop) -> tuple[Kept, list[Diagnostic]]:
        missing = self.missing(drop.name, drop.kind)
        if missing is not None:
            return self, [] if drop.if_exists else [missing]
        users = self.dropped_with(drop)
        if users and not drop.cascade:
            return self, [_in_use(drop, users)]
        gone = {user.name.text.lower() for user in users}
        secrets = self.secrets
        if drop.kind is Kind.SECRET:
            secrets -= {drop.name.text.lower()}
        else:
            gone.add(drop.name.text.lower())
        named = {key: made for key, made in self.definitions.named.items() if key not in gone}
        return replace(
            self, definitions=replace(self.definitions, named=named), secrets=secrets
        ), []

    def dropped_with(self, drop: Drop) -> list[Named]:
        """What CASCADE drops, too."""
        users = self.users_of_secret if drop.kind is Kind.SECRET else self.users
        return users(drop.name.text)

    def missing(self, name: Name, kind: Kind | None = None) -> Diagnostic | None:
        """That there is nothing of this name, or that it is of another kind."""
        if kind is Kind.SECRET:
            known = name.text.lower() in self.secrets
            return None if known else unknown("secret", name.text, self.secrets, name.span)
        found = self.find(name.text)
        if found is None:
            names = [made.name.text for made in self._of_kind(kind)]
            return unknown(str(kind or "name"), name.text, names, name.span, _HERE)
        there = kind_of(found)
        if kind is not None and there is not kind:
            message = f"`{name}` is a {there}, not a {kind}"
            return Diagnostic("WRONG_KIND", message, name.span, f"write {there.upper()} {name}")
        return None

    def _of_kind(self, kind: Kind | None) -> list[Named]:
        everything = self.definitions.named.values()
        return [made for made in everything if kind is None or kind_of(made) is kind]


_HERE = "of the catalog"


def _as_create(name: str, insert: Insert) -> str:
    return f"CREATE PIPELINE {name} AS {insert.text}"


def _in_use(drop: Drop, users: list[Named]) -> Diagnostic:
    by = ", ".join(f"{kind_of(user)} `{user.name}`" for user in users)
    message = f"the {drop.kind} `{drop.name}` is used by {by}"
    hint = f"DROP {drop.kind.upper()} {drop.name} CASCADE drops these, too"
    return Diagnostic("IN_USE", message, drop.name.span, hint)
