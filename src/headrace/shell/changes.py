"""CREATE, DROP and INSERT: changes of the catalog, each checked together with what is there.

A check and what follows from it are one transaction, so that another shell cannot drop what a new
definition was just found to use.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.catalog import Catalog
from headrace.errors import DefinitionError
from headrace.frontend.sql.definitions import Named, kind_of
from headrace.frontend.sql.statements import (
    Create,
    CreatePipeline,
    CreateSecret,
    Drop,
    Insert,
    Kind,
)
from headrace.project import Project
from headrace.shell.checking import Checker, refuse, warnings
from headrace.shell.controls import START, Controls
from headrace.shell.kept import Kept, Texts
from headrace.shell.result import Result
from headrace.spans import Diagnostic


@dataclass(frozen=True)
class Changes:
    project: Project
    catalog: Catalog
    texts: Texts
    checker: Checker
    controls: Controls

    def create(self, made: Create) -> Result:
        """Keep a definition, if it is good where it will stand."""
        kind, name = kind_of(made), made.name.text
        with self.catalog.changing() as catalog:
            before = Kept.of(catalog, self.texts)
            there = before.find(name)
            faults = self.checker.faults(made, before)
            refuse(faults)
            if there is not None and made.if_not_exists:
                return Result(note=f"there is a {kind} {name} already; nothing was changed")
            catalog.put(kind, name, made.text)
            after = Kept.of(catalog, self.texts)
        if there is None:
            advice = [f"START PIPELINE {name} runs it"] if kind is Kind.PIPELINE else []
            notes = [f"{kind} {name} is created", *advice]
        else:
            notes = [f"{kind} {name} is replaced", *self._run_on([there, *after.users(name)])]
        return Result(note="; ".join(notes), warnings=warnings(faults))

    def _run_on(self, changed: Iterable[Named]) -> Iterator[str]:
        """Pipelines that a change does not reach: a process reads its definition when it starts."""
        for made in changed:
            name = made.name.text
            if isinstance(made, CreatePipeline) and self.controls.state(name).running():
                restart = f"STOP PIPELINE {name}; START PIPELINE {name}"
                yield f"{name} runs on as it was until it is restarted: {restart}"

    def create_secret(self, made: CreateSecret) -> Result:
        """Keep a value, or where it is; never the statement."""
        name = made.name.text
        with self.catalog.changing() as catalog:
            kept = Kept.of(catalog, self.texts)
            refuse(kept.after(made)[1])
            there = name.lower() in kept.secrets
            if there and made.if_not_exists:
                return Result(note=f"there is a secret {name} already; nothing was changed")
            catalog.put_secret(name, made.value, made.variable)
        notes = [f"secret {name} is created"]
        if there:
            notes = [f"secret {name} is replaced", *self._run_on(kept.users_of_secret(name))]
        variable = made.variable
        unset = variable is not None and variable not in os.environ
        doubts = (f"the environment variable {variable} is not set here",) if unset else ()
        return Result(note="; ".join(notes), warnings=doubts)

    def drop(self, drop: Drop) -> Result:
        """Forget a definition, and with CASCADE what depends on it; the state of a pipeline stays
        for one of the same name, unless PURGE says otherwise.
        """
        with self.catalog.changing() as catalog:
            kept = Kept.of(catalog, self.texts)
            refuse(kept.after(drop)[1])
            if kept.missing(drop.name, drop.kind) is not None:
                return Result(note=f"there is no {drop.kind} {drop.name}; nothing was changed")
            users = kept.dropped_with(drop)
            made = kept.find(drop.name.text) if drop.kind is not Kind.SECRET else None
            gone = [*users, *([made] if made is not None else [])]
            self._refuse_running(drop, gone)
            if drop.kind is Kind.SECRET:
                catalog.remove_secret(drop.name.text)
            for each in gone:
                catalog.remove(each.name.text)
        dropped = [*(f"{kind_of(user)} {user.name}" for user in users), f"{drop.kind} {drop.name}"]
        return Result(note=f"dropped: {', '.join(dropped)}{self._states(drop, gone)}")

    def _refuse_running(self, drop: Drop, gone: Iterable[Named]) -> None:
        for made in gone:
            name = made.name.text
            if isinstance(made, CreatePipeline) and self.controls.state(name).running():
                message = f"pipeline `{name}` runs (process {self.controls.state(name).holder()})"
                fault = Diagnostic("IN_USE", message, drop.name.span, f"STOP PIPELINE {name} first")
                raise DefinitionError(message, [fault])

    def _states(self, drop: Drop, gone: Iterable[Named]) -> str:
        names = [made.name.text for made in gone if isinstance(made, CreatePipeline)]
        folders = [self.project.state(name) for name in names if self.project.state(name).exists()]
        if drop.purge:
            for folder in folders:
                shutil.rmtree(folder)
        if not folders:
            return ""
        where = ", ".join(str(folder) for folder in folders)
        verb = "is gone, too" if drop.purge else "stays (PURGE removes it)"
        return f"; the state in {where} {verb}"

    def insert(self, insert: Insert) -> Result:
        """Keep an INSERT as a pipeline that is named after its table, and start that."""
        with self.catalog.changing() as catalog:
            kept = Kept.of(catalog, self.texts)
            made = kept.inserted(insert)
            faults = self.checker.faults(made, kept)
            refuse(faults)
            catalog.put(Kind.PIPELINE, made.name.text, made.text)
        name = made.name.text
        started = self.controls.start(name, START.read({}, insert.span)[0])
        note = f"kept as pipeline {name}; {started.note}"
        return Result(note=note, warnings=warnings(faults))
