"""Which definition a command is about: a file, one pipeline of it, or a name of the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.errors import DefinitionError

if TYPE_CHECKING:
    from headrace.api import Definition

FileArgument = Annotated[
    Path, typer.Argument(help="A pipeline file, or the name of a pipeline of the catalog.")
]
PipelineOption = Annotated[
    str | None,
    typer.Option("--pipeline", "-p", help="Which pipeline of an SQL file that has several."),
]


def find_definition(file: Path, pipeline: str | None = None) -> Definition:
    """What the argument names; a word that is no file is the name of a pipeline."""
    from headrace.api import from_catalog, load
    from headrace.project import Project

    if _is_file(file):
        return load(file, pipeline)
    if pipeline is not None:
        raise DefinitionError(
            f"{file} is no file, and `--pipeline` names a pipeline of one",
            hint=f"leave one of them out: the catalog has the pipeline by its name, {pipeline}",
        )
    return from_catalog(Project.find(), str(file))


def all_definitions(word: str) -> list[Definition]:
    """Every pipeline of a file, or the one of the catalog by this name; none if it is neither."""
    from headrace.api import from_catalog, load
    from headrace.catalog import Catalog
    from headrace.frontend.sql.statements import Kind
    from headrace.project import Project

    if _is_file(Path(word)):
        found = load(word)
        several = len(found.pipelines) > 1
        return [load(word, name) for name in found.pipelines] if several else [found]
    project = Project.find()
    kept = Catalog.of(project).entry(word)
    return [from_catalog(project, word)] if kept and kept.kind == Kind.PIPELINE else []


def _is_file(word: Path) -> bool:
    from headrace.frontend.load import SUFFIXES

    return word.suffix in SUFFIXES or len(word.parts) != 1 or word.exists()
