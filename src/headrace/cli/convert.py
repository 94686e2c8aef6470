"""`headrace convert`: a definition in the other notation, or from another tool's file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import output
from headrace.convert.notations import Notation, Origin
from headrace.errors import EXIT_DEFINITION, DefinitionError

if TYPE_CHECKING:
    from headrace.convert.conversion import Converted

# Converted, and something was lost on the way: neither success nor failure.
EXIT_LOST = 1


def register(app: typer.Typer) -> None:
    app.command("convert", rich_help_panel="Pipelines", no_args_is_help=True)(convert)


def convert(
    files: Annotated[
        list[Path],
        typer.Argument(help="A pipeline, or another tool's file; of Mage, loader and exporter."),
    ],
    origin: Annotated[
        Origin, typer.Option("--from", help="Whose file it is. Default: as it looks.")
    ] = Origin.AUTO,
    to: Annotated[
        Notation, typer.Option("--to", help="Default: SQL for our own YAML, else YAML.")
    ] = Notation.AUTO,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write. Default: stdout.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="COLUMNS",
            help="The columns of records that another tool's file does not name: "
            '"id BIGINT, name STRING".',
        ),
    ] = None,
    pipeline: Annotated[
        str | None, typer.Option("--pipeline", help="One of several in a SQL file.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Write nothing where something would be lost.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
) -> None:
    """Turn YAML into SQL or back, or read a definition of Mage, Arroyo or Kafka Connect.

    Exit code 0 says that nothing was lost, 1 that something was: each is listed with the reason.
    """
    from headrace.convert.conversion import convert as convert_files

    if out is not None and out.exists() and not force:
        raise DefinitionError(f"{out} exists already", hint="choose another name, or add --force")
    converted = convert_files(files, origin, to, schema, pipeline)
    output.show_diagnostics(converted.findings)
    if strict and converted.gaps:
        output.note(f"nothing is written: {output.counted(len(converted.gaps), 'gap')}")
        raise typer.Exit(EXIT_DEFINITION)
    _write(converted, out)
    if converted.gaps:
        raise typer.Exit(EXIT_LOST)


def _write(converted: Converted, out: Path | None) -> None:
    if out is None:
        print(converted.text, end="")
        return
    out.write_text(converted.text, encoding="utf-8")
    output.note(f"{out} is written; look at it with `headrace check {out}`")
