"""Read definitions: the entry of the front-end, used by the API and so by every command.

A file is YAML and holds one pipeline, or SQL and holds any number; statements of the catalog are
SQL, too. Whatever it was written in, a pipeline is a tree that `resolve` makes a model of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.catalog import Catalog
from headrace.errors import DefinitionError
from headrace.frontend import variables, yaml
from headrace.frontend.resolve import resolve
from headrace.frontend.sql import speech
from headrace.frontend.sql.compile import Compiler
from headrace.frontend.sql.components import by_itself
from headrace.frontend.sql.definitions import Definitions, catalog_file
from headrace.frontend.sql.parser import parse
from headrace.frontend.sql.statements import CreatePipeline
from headrace.frontend.variables import Secrets
from headrace.model.lint import lint
from headrace.model.pipeline import Pipeline
from headrace.project import Project
from headrace.spans import Diagnostic, Severity, Span
from headrace.spec import hide, nearest

SQL = ".sql"
SUFFIXES = (".yaml", ".yml", SQL)


@dataclass(frozen=True)
class Examined:
    """What was found in a text; `title` is what to call it.

    `names` are those of all its pipelines, `pipelines` those that have no fault. With `chosen` it
    was about one of them.
    """

    title: str
    names: tuple[str, ...]
    pipelines: tuple[Pipeline, ...]
    faults: tuple[Diagnostic, ...]
    chosen: str | None = None
    sql: bool = True


def spoken(faults: Iterable[Diagnostic], examined: Examined) -> Iterator[Diagnostic]:
    """Faults that are found later, in the words of the text.

    In SQL a watermark is a table's, and it is no fault of one pipeline that only others need it.
    """
    if not examined.sql:
        return iter(faults)
    sources = (source for pipeline in examined.pipelines for source in pipeline.sources)
    marks = {source.watermark.span for source in sources if source.watermark is not None}
    return speech.in_sql(
        fault for fault in faults if fault.code != "NO_EFFECT" or fault.span not in marks
    )


def examine(path: Path, pipeline: str | None = None) -> tuple[Pipeline | None, list[Diagnostic]]:
    """The one pipeline of a file, or None, with every fault and warning in order of place.

    Raises DefinitionError only when there is no text to examine, or no pipeline of this name.
    """
    found = survey(path, pipeline)
    one = len(found.names) == 1 and len(found.pipelines) == 1
    return found.pipelines[0] if one else None, list(found.faults)


def survey(path: Path, pipeline: str | None = None, project: Project | None = None) -> Examined:
    """All pipelines of a file, or one of them; raises as `examine` does."""
    secrets = Secrets(Catalog.of(project or Project.find(path.parent)))
    try:
        text = _read(path)
    except UnicodeDecodeError as error:
        return Examined(str(path), (), (), (_not_utf8(path, error),))
    if path.suffix == SQL:
        return _survey_sql(text, path, pipeline, secrets)
    found, faults = _examine_yaml(text, path, secrets)
    names = (found.name,) if found else ()
    ordered = _ordered(faults, secrets)
    if pipeline is not None and found is not None:
        _chosen(pipeline, names, str(path))
    pipelines = (found,) if found else ()
    return Examined(str(path), names, pipelines, ordered, pipeline, sql=False)


def from_catalog(project: Project, name: str) -> Examined:
    """A pipeline of the catalog by its name, with the faults of what it needs."""
    catalog = Catalog.of(project)
    definitions, faults = Definitions.of_catalog(catalog)
    chosen = _chosen(name, tuple(definitions.pipelines), "the catalog")
    found = of_definitions(definitions, chosen, project, faults)
    pipeline = definitions.pipelines[chosen]
    needed = {catalog_file(each) for each in Compiler(definitions).needed(pipeline)}
    about = tuple(fault for fault in found.faults if fault.span.file in needed)
    return replace(found, faults=about)


def of_definitions(
    definitions: Definitions,
    pipeline: str | CreatePipeline,
    project: Project,
    faults: Iterable[Diagnostic] = (),
) -> Examined:
    """One pipeline of definitions that are in no file, or one that is not among them.

    Relative paths begin at the project's folder.
    """
    made = definitions.pipelines[pipeline] if isinstance(pipeline, str) else pipeline
    reading = _Reading(definitions, Secrets(Catalog.of(project)))
    if isinstance(pipeline, str):
        made = reading.definitions.pipelines[pipeline]
    file = project.root / catalog_file(made.name.text)
    found = reading.pipeline(made, file)
    everything = reading.told(faults)
    title = made.name.text
    return Examined(title, (title,), (found,) if found else (), everything, title)


def check_definitions(definitions: Definitions, project: Project) -> list[Diagnostic]:
    """What is wrong with connections, tables and views, whoever uses them."""
    reading = _Reading(definitions, Secrets(Catalog.of(project)))
    reading.check(project.root / "catalog")
    return list(reading.told())


def _survey_sql(text: str, path: Path, pipeline: str | None, secrets: Secrets) -> Examined:
    statements, faults = parse(text, str(path))
    if not statements and not faults:
        hint = "begin with CREATE CONNECTION, or from a file in YAML: `headrace convert`"
        fault = Diagnostic("EMPTY_FILE", "there is no statement in it", Span(str(path), 1, 1), hint)
        faults.append(fault)
    definitions, twice = Definitions.of(statements, path.stem)
    reading = _Reading(definitions, secrets)
    known = reading.definitions.pipelines
    wanted = [*known.values()]
    if pipeline is not None:
        wanted = [known[_chosen(pipeline, tuple(known), str(path))]]
    found = [reading.pipeline(made, path) for made in wanted]
    reading.check(path)
    names = tuple(made.name.text for made in wanted)
    pipelines = tuple(each for each in found if each is not None)
    return Examined(str(path), names, pipelines, reading.told([*faults, *twice]), pipeline)


# What the compiler has said already, with more to compare with.
_SAID = ("UNKNOWN_TABLE", "MISSING_SOURCE")


class _Reading:
    """Definitions in SQL while they are examined; `faults` grows as it goes."""

    def __init__(self, definitions: Definitions, secrets: Secrets) -> None:
        self.secrets = secrets.with_stated(definitions.secrets.values())
        self.definitions, self.undefined = definitions.replaced(self.secrets)
        self.compiler = Compiler(self.definitions)
        self.faults: list[Diagnostic] = []
        # Tables and views that were looked at with a pipeline that needs them.
        self.seen: set[str] = set()

    def pipeline(self, made: CreatePipeline, file: Path) -> Pipeline | None:
        """What a statement means, or None where something is wrong with it."""
        pipeline, faults = self._resolved(made, file)
        if pipeline is not None:
            faults += lint(pipeline)
        self.faults += faults
        return None if _broken(faults) else pipeline

    def check(self, file: Path) -> None:
        """All that is no pipeline."""
        self.faults += self.compiler.faults()
        for made in self.compiler.selects:
            self.pipeline(made, file)
        for made in self.compiler.readings():
            if made.name.text not in self.seen:
                self.faults += by_itself(self._resolved(made, file)[1])

    def told(self, more: Iterable[Diagnostic] = ()) -> tuple[Diagnostic, ...]:
        """All that was found, in the words of SQL."""
        found = _completed(self.faults, self.undefined)
        return _ordered([*more, *self.undefined, *speech.in_sql(found)], self.secrets)

    def _resolved(
        self, made: CreatePipeline, file: Path
    ) -> tuple[Pipeline | None, list[Diagnostic]]:
        tree, faults = self.compiler.tree(made)
        if tree is None:
            return None, faults
        tree, undefined = variables.substitute(tree, secrets=self.secrets)
        self.undefined += undefined
        self.seen |= self.compiler.needed(made)
        pipeline, wrong = resolve(tree, file)
        return pipeline, [*faults, *(fault for fault in wrong if fault.code not in _SAID)]


def _examine_yaml(
    text: str, path: Path, secrets: Secrets
) -> tuple[Pipeline | None, list[Diagnostic]]:
    try:
        tree, faults = yaml.read(text, str(path))
    except yaml.YamlFault as fault:
        return None, [fault.diagnostic]
    tree, undefined = variables.substitute(tree, secrets=secrets)
    pipeline, wrong = resolve(tree, path)
    faults = [*faults, *undefined, *_completed(wrong, undefined)]
    if pipeline is not None:
        faults += lint(pipeline)
    return (None if _broken(faults) else pipeline), faults


def _completed(faults: Iterable[Diagnostic], undefined: list[Diagnostic]) -> list[Diagnostic]:
    """What is wrong with a value that could not be completed is that it could not."""
    return [fault for fault in faults if "${" not in fault.span.raw or not undefined]


def _broken(faults: Iterable[Diagnostic]) -> bool:
    return any(fault.severity is Severity.ERROR for fault in faults)


def _ordered(faults: Iterable[Diagnostic], secrets: Secrets) -> tuple[Diagnostic, ...]:
    """Each once, in order of place; of the same as a fault and as a warning, the fault."""
    found: dict[tuple[str, str, Span], Diagnostic] = {}
    for each in faults:
        message, hint = hide(each.message, secrets.given), hide(each.hint, secrets.given)
        fault = replace(each, message=message, hint=hint)
        key = fault.code, fault.message, fault.span
        if key not in found or fault.severity is Severity.ERROR:
            found[key] = fault
    return tuple(sorted(found.values(), key=lambda fault: fault.span))


def _chosen(name: str, known: tuple[str, ...], where: str) -> str:
    """The one of this name, as it is written; raises DefinitionError where there is none."""
    for each in known:
        if each.lower() == name.lower():
            return each
    close = nearest(name, known)
    hint = f"did you mean `{close[0]}`?" if close else "there are: " + ", ".join(known)
    if not known:
        hint = f"CREATE PIPELINE makes one; a file ends with {', '.join(SUFFIXES)}"
    raise DefinitionError(f"there is no pipeline `{name}` in {where}", hint=hint)


def _read(path: Path) -> str:
    if path.suffix not in SUFFIXES:
        hint = f"pipelines are written in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} files"
        raise DefinitionError(f"{path} is not a pipeline file", hint=hint)
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        hint = "check the path, or begin one with `headrace new NAME`"
        raise DefinitionError(f"{path} does not exist", hint=hint) from None
    except IsADirectoryError:
        raise DefinitionError(f"{path} is a folder", hint="name a file in it") from None
    except OSError as error:
        raise DefinitionError(f"reading {path}: {error.strerror}") from error


def _not_utf8(path: Path, error: UnicodeDecodeError) -> Diagnostic:
    before = error.object[: error.start]
    span = Span(str(path), before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
    hint = "save the file as UTF-8"
    return Diagnostic("NOT_UTF8", f"byte {error.start} is not UTF-8 text", span, hint)
