"""`headrace sql`: statements from a file, the command line or standard input, or a shell.

What statements give goes to stdout, what is to be said about it to stderr. The first error ends it
with the exit code of that error; of a text with a fault nothing is done.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.arguments import at_most_one
from headrace.cli.pipelines import MasterOption
from headrace.cli.sql_screen import cell
from headrace.cli.story import story_lines
from headrace.errors import DefinitionError
from headrace.shell.result import Result

if TYPE_CHECKING:
    from headrace.shell.session import Session


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def register(app: typer.Typer) -> None:
    app.command("sql", rich_help_panel="Pipelines")(sql)


def sql(
    files: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", metavar="FILE", help="Do what is in a file; - is stdin."),
    ] = None,
    commands: Annotated[
        list[str] | None,
        typer.Option("--command", "-c", metavar="SQL", help="Do these statements."),
    ] = None,
    form: Annotated[Form, typer.Option("--output", "-o", help="How to print rows.")] = Form.TABLE,
    master: MasterOption = None,
) -> None:
    """Do statements of SQL: keep definitions, look at data, start pipelines. Alone: a shell."""
    from headrace.cli.main import debugging
    from headrace.project import Project
    from headrace.shell.session import Session

    at_most_one(file=files, command=commands)
    texts = list(_texts(files or [], commands or []))
    with closing(Session(Project.find(), master, debugging(), output.note)) as session:
        if not texts and sys.stdin.isatty():
            from headrace.cli.sql_terminal import interact

            interact(session, form)
            return
        for text, name in texts or [(sys.stdin.read(), "stdin")]:
            _do(session, text, name, form)


def _texts(files: Sequence[str], commands: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each text with the name that places in it have; several commands are several texts."""
    for file in files:
        yield (sys.stdin.read(), "stdin") if file == "-" else (_read(Path(file)), file)
    for command in commands:
        yield command, "sql"


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{file} is not UTF-8 text at byte {error.start}"
        raise DefinitionError(message, hint="save the file as UTF-8") from error
    except OSError as error:
        raise DefinitionError(f"reading {file}: {error.strerror}", hint="check the path") from error


def _do(session: Session, text: str, name: str, form: Form) -> None:
    for result in session.run(text, name):
        show(result, form)


def show(result: Result, form: Form = Form.TABLE) -> None:
    """Print what one statement gave: rows and texts to stdout, notes and warnings to stderr."""
    for warning in result.warnings:
        output.warn(warning)
    if result.text is not None:
        output.line(result.text)
    elif result.story is not None:
        _show_story(result.story, form)
    elif result.columns:
        _SHOWS[form](result)
    if result.note:
        output.note(result.note)


def _show_story(story: Any, form: Form) -> None:
    if form is Form.JSON:
        output.emit_value(story, output.Format.JSON)
    else:
        output.line("\n".join(story_lines(story)))


def _show_table(result: Result) -> None:
    cells = [[output.printable(cell(value)) for value in row] for row in result.rows]
    right = [
        output.is_numeric(row[number] for row in result.rows)
        for number in range(len(result.columns))
    ]
    output.emit_cells([output.printable(name) for name in result.columns], cells, right)


def _show_json(result: Result) -> None:
    output.emit_value(result.records, output.Format.JSON)


def _show_csv(result: Result) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows(["" if value is None else cell(value) for value in row] for row in result.rows)


_SHOWS = {Form.TABLE: _show_table, Form.JSON: _show_json, Form.CSV: _show_csv}
