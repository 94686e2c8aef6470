"""Definitions of our own, in YAML or SQL, as drafts: before any `${…}` is replaced.

A definition with a fault is not converted, as nobody could say what it means. A variable or secret
that is not set here is none: the reference stays.
"""

from __future__ import annotations

from pathlib import Path

from headrace.convert.comments import DASHES, HASH, Comments
from headrace.convert.draft import Draft, of_tree
from headrace.convert.report import Reading, Report
from headrace.errors import DefinitionError
from headrace.frontend import yaml
from headrace.frontend.load import examine
from headrace.frontend.sql import compile, parser
from headrace.frontend.sql.definitions import Definitions
from headrace.frontend.sql.statements import Create, CreatePipeline, CreateSecret, Insert, Statement
from headrace.spans import Diagnostic, Severity

_UNSET = ("UNDEFINED_VARIABLE", "UNDEFINED_SECRET")


def read(path: Path, text: str, pipeline: str | None = None) -> Reading:
    """The draft of a file without faults; `pipeline` is one of several in a SQL file."""
    if path.suffix == ".sql":
        return read_sql(path, text, pipeline)
    refuse_faults(path, examine(path)[1])
    return Reading(of_yaml(text, str(path)), ())


def of_yaml(text: str, file: str) -> Draft:
    tree, _ = yaml.read(text, file)
    return of_tree(tree, Path(file).stem, Comments(text, HASH))


def read_sql(path: Path, text: str, pipeline: str | None = None) -> Reading:
    report = Report()
    statements, faults = parser.parse(text, str(path))
    refuse_faults(path, faults)
    definitions, _ = Definitions.of(statements, path.stem)
    name = chosen(definitions, pipeline, path)
    refuse_faults(path, examine(path, name)[1])
    for statement in statements:
        tell(statement, name, report)
    return Reading(of_sql(text, str(path), name), report.ordered)


def of_sql(text: str, file: str, pipeline: str | None = None) -> Draft:
    statements, _ = parser.parse(text, file)
    definitions, _ = Definitions.of(statements, Path(file).stem)
    name = chosen(definitions, pipeline, Path(file))
    tree, faults = compile.tree(definitions, name)
    if tree is None:
        raise DefinitionError(f"{file}: `{name}` cannot be read", faults)
    return of_tree(tree, name, Comments(text, DASHES))


def refuse_faults(path: Path, found: list[Diagnostic]) -> None:
    """Raises all errors but those of variables that are not set here."""
    errors = [fault for fault in found if fault.severity is Severity.ERROR]
    faults = [fault for fault in errors if fault.code not in _UNSET]
    if faults:
        raise DefinitionError(f"{path} has faults", faults)


def chosen(definitions: Definitions, wanted: str | None, path: Path) -> str:
    """The pipeline that is asked for, or the only one."""
    known = list(definitions.pipelines)
    if wanted is not None and wanted in known:
        return wanted
    if wanted is None and len(known) == 1:
        return known[0]
    if not known:
        hint = "CREATE PIPELINE, or INSERT INTO, makes one"
        raise DefinitionError(f"{path} has no pipeline to convert", hint=hint)
    found = f"{len(known)} pipelines" if wanted is None else f"no pipeline `{wanted}`"
    raise DefinitionError(
        f"{path} has {found}", hint="choose one with --pipeline: " + ", ".join(known)
    )


def tell(statement: Statement, pipeline: str, report: Report) -> None:
    """Statements that have no place in the file of one pipeline."""
    word = " ".join(statement.text.split()[:2])
    if isinstance(statement, CreateSecret):
        what = f"the secret `{statement.name}` is not part of a pipeline; the reference stays"
        report.to_add(what, statement.span, "create it with `headrace sql`")
    elif isinstance(statement, CreatePipeline) and statement.name.text != pipeline:
        how = "is another pipeline, and stays out"
        report.needless(str(statement.name), statement.span, how)
    elif not isinstance(statement, Create | Insert):
        report.lost(word, statement.span, "is done in a shell, and is no part of a pipeline")
