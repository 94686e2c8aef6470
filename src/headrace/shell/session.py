"""A shell without its screen: statements in, results out.

`Session.run` reads a whole text and checks all of it, each statement on top of those before it;
where there is a fault, nothing of the text is done. Then the statements are done one by one. The
interactive shell gives it a statement at a time, `headrace sql -f` a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.catalog import Catalog
from headrace.frontend.sql.parser import parse
from headrace.frontend.sql.statements import (
    Control,
    Create,
    CreatePipeline,
    CreateSecret,
    Describe,
    Drop,
    Explain,
    Insert,
    Select,
    Set,
    Show,
    Statement,
    Verb,
)
from headrace.project import Project
from headrace.shell import sampling
from headrace.shell.changes import Changes
from headrace.shell.checking import Checker, refuse
from headrace.shell.checking import warnings as told
from headrace.shell.controls import START, Controls
from headrace.shell.kept import Kept, Texts
from headrace.shell.looking import Looking
from headrace.shell.result import Result
from headrace.shell.settings import Settings
from headrace.shell.showing import Showing
from headrace.shell.spark import WarmSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Session:
    """One shell on one project folder. Not for several threads at once; `close` ends its Spark.

    `tell` gets what a person who waits should know. What it starts outlives it.
    """

    def __init__(
        self,
        project: Project,
        master: str | None = None,
        debug: bool = False,
        tell: Callable[[str], None] = lambda _text: None,
        spark: SparkSession | None = None,
    ) -> None:
        self.project = project
        self.catalog = Catalog.of(project)
        self.settings = Settings()
        self._tell = tell
        self._texts = Texts()
        self._spark = WarmSpark(project, master, debug, tell, spark)
        self._checker = Checker(project, self.settings)
        controls = Controls(project, self.catalog, master, debug, tell)
        self._changes = Changes(project, self.catalog, self._texts, self._checker, controls)
        self._looking = Looking(project, self._checker, self._spark, self.settings, master)
        self._showing = Showing(project, self.catalog, self._checker)
        self._controls = controls

    def run(self, text: str, file: str = "sql") -> Iterator[Result]:
        """What each statement gives, as it is done. DefinitionError with all faults before that.

        Places in the text have the name `file`. Ctrl-C ends the statement in hand; the session can
        be used on.
        """
        statements, faults = parse(text, file)
        if not faults:
            statements = list(sampling.complete(statements, self._kept(), self._tell))
        faults += self._checker.rehearse(statements, self._kept())
        refuse(sorted(faults, key=lambda fault: fault.span))
        for statement in statements:
            yield self._do(statement)

    def close(self) -> None:
        self._spark.close()

    def _kept(self) -> Kept:
        return Kept.of(self.catalog, self._texts)

    def _do(self, statement: Statement) -> Result:
        match statement:
            case CreateSecret():
                return self._changes.create_secret(statement)
            case Create():
                return self._changes.create(statement)
            case Drop():
                return self._changes.drop(statement)
            case Insert():
                return self._changes.insert(statement)
            case Set():
                return self.settings.apply(statement)
        kept = self._kept()
        # Once more: another shell may have dropped what it names.
        refuse(self._checker.faults(statement, kept))
        match statement:
            case Control():
                return self._control(statement, kept)
            case Select():
                return self._looking.select(statement, kept)
            case Explain():
                return self._looking.explain(statement, kept)
            case Show():
                return self._showing.show(statement, kept)
            case Describe():
                return self._showing.describe(statement, kept)
        raise TypeError(statement)

    def _control(self, statement: Control, kept: Kept) -> Result:
        made = kept.find(statement.name.text)
        assert isinstance(made, CreatePipeline)  # which was checked
        name = made.name.text
        if statement.verb is Verb.STOP:
            return self._controls.stop(name)
        if statement.verb is Verb.PAUSE:
            return self._controls.pause(name)
        definition = self._checker.definition(made, kept)
        if not definition.pipeline.sinks:
            shown = self._looking.preview(made, kept)
            why = f"{name} has no sink, so nothing was started: these are the rows it would write"
            return replace(shown, note=f"{why} ({shown.note})")
        options, _ = START.read(statement.options, statement.span)
        begin = self._controls.start if statement.verb is Verb.START else self._controls.resume
        warnings = told(definition.check())
        result = begin(name, options)
        return replace(result, warnings=warnings)
