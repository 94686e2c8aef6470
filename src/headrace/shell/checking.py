"""What speaks against a statement, found before anything is done.

A definition is judged where it would stand: with what it uses, and with what uses it already. What
is wrong elsewhere in the catalog does not count, and what was wrong before is not held against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.api import Definition, from_definitions
from headrace.errors import DefinitionError
from headrace.frontend.load import check_definitions
from headrace.frontend.sql.definitions import Definitions, Named, preview
from headrace.frontend.sql.statements import (
    Control,
    Create,
    CreatePipeline,
    CreateSecret,
    CreateView,
    Describe,
    Drop,
    Explain,
    Fragment,
    Insert,
    Kind,
    Name,
    Select,
    Set,
    Show,
    Statement,
    Verb,
)
from headrace.model.schema import quote
from headrace.project import Project
from headrace.shell import routes
from headrace.shell.controls import START
from headrace.shell.kept import Kept
from headrace.shell.settings import Settings
from headrace.shell.system_tables import TABLES
from headrace.spans import Diagnostic, Severity
from headrace.spec import unknown

# In a shell a connection is made before the table that uses it.
_LATER = ("UNUSED",)


def errors(faults: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [fault for fault in faults if fault.severity is Severity.ERROR]


def refuse(faults: Sequence[Diagnostic]) -> None:
    """Raises all of them if one is an error."""
    found = errors(faults)
    if found:
        raise DefinitionError(f"{len(found)} fault(s); nothing was done", faults)


def warnings(faults: Iterable[Diagnostic]) -> tuple[str, ...]:
    """Those that are none, as sentences."""
    return tuple(
        f"{fault.span} {fault.code} {fault.message}" + (f" ({fault.hint})" if fault.hint else "")
        for fault in faults
        if fault.severity is Severity.WARNING
    )


@dataclass(frozen=True)
class Checker:
    project: Project
    settings: Settings

    def rehearse(self, statements: Iterable[Statement], kept: Kept) -> list[Diagnostic]:
        """The errors of statements that are to be done one after the other, each once."""
        found: dict[Diagnostic, None] = {}
        for statement in statements:
            found |= dict.fromkeys(errors(self.faults(statement, kept)))
            kept, _ = kept.after(statement)
        return list(found)

    def faults(self, statement: Statement, kept: Kept) -> list[Diagnostic]:
        """Errors and warnings of one statement, given what is kept before it."""
        after, faults = kept.after(statement)
        return faults or list(self._faults(statement, kept, after))

    def _faults(self, statement: Statement, kept: Kept, after: Kept) -> Iterable[Diagnostic]:
        match statement:
            case CreateSecret() | Drop():
                return []
            case Create():
                return self._of_new(statement, kept, after)
            case Insert():
                return self.faults(kept.inserted(statement), kept)
            case Select():
                return self._of_select(statement, kept)
            case Explain():
                return self._of_explain(statement, kept)
            case Control():
                return _of_control(statement, kept)
            case Show() | Describe():
                return _of_name(statement, kept)
            case Set():
                return self.settings.faults(statement)
        raise TypeError(statement)

    def _of_new(self, made: Create, before: Kept, after: Kept) -> Iterator[Diagnostic]:
        there = after.find(made.name.text)
        if there is None or there is not made:
            return  # IF NOT EXISTS, and it does
        yield from self._of_definition(there, after)
        for user in after.users(made.name.text):
            old = before.find(user.name.text)
            known = errors(self._of_definition(old, before)) if old is not None else []
            yield from (e for e in errors(self._of_definition(user, after)) if e not in known)

    def _of_definition(self, made: Named, kept: Kept) -> list[Diagnostic]:
        """What is wrong with something that is kept, as it stands among the rest."""
        if isinstance(made, CreatePipeline):
            return self._of_pipeline(made, kept)
        if isinstance(made, CreateView):
            return self._of_pipeline(everything_of(made.name), kept)
        # Its users say whether it is a source or a sink.
        around = _around([made, *kept.users(made.name.text)], kept)
        return _about(check_definitions(around, self.project), {made.span.file})

    def _of_pipeline(self, made: CreatePipeline, kept: Kept) -> list[Diagnostic]:
        """Its own faults, and those of what it is made of."""
        parts, _ = kept.needed(made)
        files = {made.span.file, *(part.span.file for part in parts.values())}
        return _about(self.definition(made, kept).check(), files)

    def definition(self, made: CreatePipeline, kept: Kept) -> Definition:
        return from_definitions(self.project, _around([made], kept), made)

    def _of_select(self, statement: Select, kept: Kept) -> Iterable[Diagnostic]:
        route = routes.route(statement, kept)
        if route.faults or route.pipeline is None:
            return route.faults
        return self._of_pipeline(route.pipeline, kept)

    def _of_explain(self, statement: Explain, kept: Kept) -> Iterable[Diagnostic]:
        if statement.statement is not None:
            return self.faults(statement.statement, kept)
        assert statement.name is not None
        missing = kept.missing(statement.name)
        return [missing] if missing else []


def everything_of(name: Name) -> CreatePipeline:
    """All rows of a table or a view, to look at them."""
    text = f"SELECT * FROM {quote(name.text)}"
    return preview(Select(text, name.span, Fragment(text, name.span)))


def _around(several: Iterable[Named], kept: Kept) -> Definitions:
    """What definitions need, and no more; where one names what is not there, everything, as what it
    means may be among the rest.
    """
    wanted: set[str] = set()
    for made in several:
        needed, complete = kept.needed(made)
        if not complete:
            return kept.definitions
        wanted |= {made.name.text.lower(), *needed}
    named = {key: each for key, each in kept.definitions.named.items() if key in wanted}
    return replace(kept.definitions, named=named)


def _about(faults: Iterable[Diagnostic], files: set[str]) -> list[Diagnostic]:
    """Those that stand in these texts, and not in others of the catalog."""
    return [each for each in faults if each.span.file in files and each.code not in _LATER]


def _of_control(statement: Control, kept: Kept) -> Iterator[Diagnostic]:
    missing = kept.missing(statement.name, Kind.PIPELINE)
    if missing is not None:
        yield missing
    if statement.verb in (Verb.START, Verb.RESUME):
        yield from START.read(statement.options, statement.name.span)[1]
        return
    for name, field in statement.options.items():
        message = f"{statement.verb.upper()} takes no options, and `{name}` is one"
        yield Diagnostic("UNKNOWN_OPTION", message, field.key, "leave WITH out")


def _of_name(statement: Show | Describe, kept: Kept) -> Iterator[Diagnostic]:
    name = statement.name
    if name is None:
        return
    missing = _system_table(name) if "." in name.text else kept.missing(name, statement.kind)
    if missing is not None:
        yield missing


def _system_table(name: Name) -> Diagnostic | None:
    known = [f"system.{table}" for table in TABLES]
    return None if name.text.lower() in known else unknown("table", name.text, known, name.span)
