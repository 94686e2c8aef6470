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
from headrace.frontend.sql.definitions import Definitions, catalog_file
from headrace.frontend.sql.parser import parse
from headrace.frontend.sql.statements import CreatePipeline
from headrace.frontend.variables import Secrets
from headrace.model.lint import lint
from headrace.model.pipeline import Pipeline
from headrace.project import Project
from headrace.spans import Diagnostic, Node, Severity, Span
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
    """Faults that are found later, in the words of the text."""
    return speech.in_sql(faults) if examined.sql else iter(faults)


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
    if pipeline is not None and found is not None and found.name != pipeline:
        raise _no_pipeline(str(path), pipeline, names)
    pipelines = (found,) if found else ()
    return Examined(str(path), names, pipelines, ordered, pipeline, sql=False)


def from_catalog(project: Project, name: str) -> Examined:
    """A pipeline of the catalog by its name, with the faults of what it needs."""
    catalog = Catalog.of(project)
    definitions, faults = Definitions.of_catalog(catalog)
    known = {made.lower(): made for made in definitions.pipelines}
    if name.lower() not in known:
        raise _no_pipeline("the catalog", name, tuple(definitions.pipelines))
    chosen = known[name.lower()]
    found = of_definitions(definitions, chosen, project, faults)
    compiler = Compiler(definitions)
    needed = {catalog_file(each) for each in compiler.needed(definitions.pipelines[chosen])}
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
    secrets = Secrets(Catalog.of(project))
    replaced, undefined = definitions.replaced(secrets)
    if isinstance(pipeline, str):
        made = replaced.pipelines[pipeline]
    file = project.root / catalog_file(made.name.text)
    found, wrong = _build(Compiler(replaced), made, file, secrets)
    everything = _ordered([*faults, *undefined, *wrong], secrets)
    title = made.name.text
    return Examined(title, (title,), (found,) if found else (), everything, title)


def check_definitions(definitions: Definitions, project: Project) -> list[Diagnostic]:
    """What is wrong with connections, tables and views, whoever uses them."""
    secrets = Secrets(Catalog.of(project))
    replaced, undefined = definitions.replaced(secrets)
    compiler = Compiler(replaced)
    faults = [*undefined, *speech.in_sql(compiler.faults())]
    for made in compiler.checks:
        faults += _build(compiler, made, project.root / made.name.text, secrets)[1]
    return list(_ordered(faults, secrets))


def _survey_sql(text: str, path: Path, pipeline: str | None, secrets: Secrets) -> Examined:
    statements, faults = parse(text, str(path))
    written, twice = Definitions.of(statements, path.stem)
    definitions, undefined = written.replaced(secrets)
    faults += [*twice, *undefined]
    compiler = Compiler(definitions)
    faults += speech.in_sql(compiler.faults())
    known = definitions.pipelines
    if pipeline is not None and pipeline not in known:
        raise _no_pipeline(str(path), pipeline, tuple(known))
    wanted = [known[pipeline]] if pipeline is not None else [*known.values()]
    found: list[Pipeline] = []
    for made in wanted:
        one, wrong = _build(compiler, made, path, secrets)
        found += [one] if one is not None else []
        faults += wrong
    for made in compiler.checks:
        faults += _build(compiler, made, path, secrets)[1]
    names = tuple(made.name.text for made in wanted)
    return Examined(str(path), names, tuple(found), _ordered(faults, secrets), pipeline)


# What the compiler has said already, with more to compare with.
_SAID = ("UNKNOWN_TABLE", "MISSING_SOURCE")


def _build(
    compiler: Compiler, made: CreatePipeline, file: Path, secrets: Secrets
) -> tuple[Pipeline | None, list[Diagnostic]]:
    """The pipeline of an SQL statement, or None, and what is wrong with it."""
    tree, faults = compiler.tree(made)
    pipeline = None
    if tree is not None:
        pipeline, wrong = _resolved(tree, file, secrets)
        faults += [fault for fault in wrong if fault.code not in _SAID]
    faults = list(speech.in_sql(faults))
    return (None if _broken(faults) else pipeline), faults


def _examine_yaml(
    text: str, path: Path, secrets: Secrets
) -> tuple[Pipeline | None, list[Diagnostic]]:
    try:
        tree, faults = yaml.read(text, str(path))
    except yaml.YamlFault as fault:
        return None, [fault.diagnostic]
    pipeline, wrong = _resolved(tree, path, secrets)
    faults = [*faults, *wrong]
    return (None if _broken(faults) else pipeline), faults


def _resolved(tree: Node, path: Path, secrets: Secrets) -> tuple[Pipeline | None, list[Diagnostic]]:
    tree, undefined = variables.substitute(tree, secrets=secrets)
    pipeline, wrong = resolve(tree, path)
    # What is wrong with a value that could not be completed is that it could not.
    wrong = [fault for fault in wrong if "${" not in fault.span.raw or not undefined]
    return pipeline, [*undefined, *wrong, *(lint(pipeline) if pipeline is not None else ())]


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


def _no_pipeline(where: str, name: str, known: tuple[str, ...]) -> DefinitionError:
    close = nearest(name, known)
    hint = f"did you mean `{close[0]}`?" if close else None
    if known and not close:
        hint = "there are: " + ", ".join(known)
    return DefinitionError(f"there is no pipeline `{name}` in {where}", hint=hint)


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
