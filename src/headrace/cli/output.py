"""How values become text: the one place that prints tables, JSON, YAML, notes and errors.

What a command was asked for goes to stdout; everything else (progress, notes, warnings, errors)
goes to stderr, so that stdout can always be piped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape

from headrace.errors import DefinitionError, HeadraceError
from headrace.spans import Diagnostic, Severity

stderr = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


FormatOption = Annotated[Format, typer.Option("--output", "-o", help="How to print the answer.")]

Row = Mapping[str, Any]


def emit_rows(rows: Sequence[Row], columns: Sequence[str], form: Format) -> None:
    """Print a list of alike things; in a table only `columns` are shown, and headings always."""
    if form is not Format.TABLE:
        emit_value([dict(row) for row in rows], form)
        return
    _print_table(rows, columns)


def emit_value(value: Any, form: Format) -> None:
    """Print one value whole, as JSON or YAML."""
    if form is Format.YAML:
        from ruamel.yaml import YAML

        yaml = YAML(typ="safe", pure=True)
        yaml.default_flow_style = False
        yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
        yaml.dump(json.loads(json.dumps(value, default=str)), sys.stdout)
    else:
        print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _print_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    right = [is_numeric(row.get(column) for row in rows) for column in columns]
    emit_cells([column.upper() for column in columns], cells, right)


def emit_cells(
    headings: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]
) -> None:
    """Columns as wide as what is in them. A screen that is narrower wraps; nothing is ever cut.

    What is `right` is set against the right edge of its column.
    """
    widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    console.print(_line(headings, widths, right), style="bold")
    for row in cells:
        console.print(_line(row, widths, right))


def is_numeric(values: Iterable[Any]) -> bool:
    """Whether a column holds numbers and nothing else, save for what is not known."""
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in known
    )


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        " " * (width - cell_len(cell)) + cell if numeric else cell + " " * (width - cell_len(cell))
        for cell, width, numeric in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return printable(str(value))


def printable(text: str) -> str:
    """Text in one line; a line break or an escape sequence must not reach the screen as such."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def line(text: str) -> None:
    """One line of an answer, as it is."""
    print(text)


def counted(count: int, noun: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def note(text: str) -> None:
    """A line for the person at the screen."""
    stderr.print(escape(text))


def warn(text: str) -> None:
    stderr.print(f"[yellow]warning:[/] {escape(text)}")


def show_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    for diagnostic in diagnostics:
        colour = "red" if diagnostic.severity is Severity.ERROR else "yellow"
        label = "" if diagnostic.severity is Severity.ERROR else " warning:"
        line = f"{escape(str(diagnostic.span))} [{colour}]{diagnostic.code}[/]{label} "
        line += escape(diagnostic.message)
        if diagnostic.hint:
            line += f" [dim]({escape(diagnostic.hint)})[/]"
        stderr.print(line)


def show_error(error: HeadraceError) -> None:
    """The only rendering of an error: its faults with places, or code, sentence and next step."""
    if isinstance(error, DefinitionError) and error.diagnostics:
        show_diagnostics(error.diagnostics)
        return
    stderr.print(f"[bold red]{escape(error.code)}[/] {escape(str(error))}")
    if error.hint:
        stderr.print(f"  [dim]→[/] {escape(error.hint)}")


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed; `--yes` answers, and without a terminal it is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise DefinitionError(f"{question} There is no terminal to ask at.", hint="add --yes")
    if not typer.confirm(question, err=True):
        note("nothing was changed")
        raise typer.Exit(1)
