"""`headrace check`, `explain`, `preview`, `run`, `status`, `new`, `schema`: pipelines from file to
lag.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import output
from headrace.cli.definitions import FileArgument, PipelineOption, find_definition
from headrace.cli.story import story_lines
from headrace.errors import EXIT_DEFINITION, DefinitionError, HeadraceError
from headrace.spans import Diagnostic, Severity, Span

if TYPE_CHECKING:
    from headrace.api import Definition, Run

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Spark master: local[4], spark://host:port, yarn, k8s://… "
        "Default: this machine, with as many tasks at once as `executor_count` or its cores.",
    ),
]


class CheckFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def register(app: typer.Typer) -> None:
    app.command("check", rich_help_panel="Pipelines", no_args_is_help=True)(check)
    app.command("explain", rich_help_panel="Pipelines", no_args_is_help=True)(explain)
    app.command("preview", rich_help_panel="Pipelines", no_args_is_help=True)(preview)
    app.command("run", rich_help_panel="Pipelines", no_args_is_help=True)(run)
    app.command("status", rich_help_panel="Pipelines")(status)
    app.command("new", rich_help_panel="Pipelines", no_args_is_help=True)(new)
    app.command("schema", rich_help_panel="Pipelines")(schema)


def check(
    files: Annotated[list[Path], typer.Argument(help="Pipeline files, or folders of them.")],
    form: Annotated[
        CheckFormat, typer.Option("--format", help="How to print what is found.")
    ] = CheckFormat.TEXT,
    online: Annotated[
        bool,
        typer.Option(
            "--online",
            help="Ask the brokers and registries too: topics that are missing, what `headrace "
            "tune` finds, and whether a registry would accept the schemas of sinks.",
        ),
    ] = False,
) -> None:
    """Report every fault of pipeline files, without starting anything."""
    checked = [_check(path, online) for path in _expand(files)]
    for each in checked:
        for sentence in each.told:
            output.note(f"{each.path}: {sentence}")
        if not each.faults and each.unanswered is None:
            output.note(f"{each.path}: ok")
    found = [fault for each in checked for fault in each.faults]
    _print_diagnostics(found, form)
    if _has_errors(found):
        raise typer.Exit(EXIT_DEFINITION)
    for each in checked:
        if each.unanswered is not None:
            raise each.unanswered


@dataclass(frozen=True)
class _Checked:
    """What was found in a file, what registries have `told`, and what was refused or not answered
    by them or by the brokers.
    """

    path: Path
    faults: list[Diagnostic]
    unanswered: HeadraceError | None = None
    told: list[str] = field(default_factory=list)


def _check(path: Path, online: bool) -> _Checked:
    faults = _faults(path)
    if not online or _has_errors(faults):
        return _Checked(path, faults)
    checked = _Checked(path, faults)
    try:
        for definition in _each_pipeline(path):
            checked.faults.extend(definition.tune().diagnostics)
            if not _has_errors(checked.faults):
                _ask_registries(definition, checked.told)
    except HeadraceError as error:
        return replace(checked, unanswered=error)
    return checked


def _each_pipeline(path: Path) -> Iterator[Definition]:
    names = find_definition(path).pipelines
    if len(names) <= 1:
        yield from [find_definition(path)] if names else []
    else:
        yield from (find_definition(path, name) for name in names)


def _ask_registries(definition: Definition, told: list[str]) -> None:
    """Adds what they say to `told`; raises the first refusal after all have been asked."""
    from headrace.cli.main import debugging

    told += map(str, definition.source_schemas())
    if not definition.writes_by_registries:
        return
    output.note("starting Spark, which knows the types of rows …")
    verdicts = definition.sink_schemas(debug=debugging())
    for verdict in verdicts:
        told.append(f"sink `{verdict.sink}`: {verdict}")
        told += [f"  {each}" for each in verdict.differences]
    for verdict in verdicts:
        if verdict.refusal is not None:
            raise verdict.refusal


def _has_errors(faults: list[Diagnostic]) -> bool:
    return any(fault.severity is Severity.ERROR for fault in faults)


def _faults(path: Path) -> list[Diagnostic]:
    """All that is wrong with a file; that it cannot be read is one, so that others are checked."""
    try:
        return find_definition(path).check()
    except DefinitionError as error:
        return [Diagnostic("NOT_READ", str(error), Span(str(path), 1, 1), error.hint)]


def _expand(paths: list[Path]) -> list[Path]:
    from headrace.frontend.load import SUFFIXES

    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES)
        if not inside:
            hint = f"name a file that ends with {', '.join(SUFFIXES)}"
            raise DefinitionError(f"there is no pipeline file in {path}", hint=hint)
        files += inside
    return files


def _print_diagnostics(found: list[Diagnostic], form: CheckFormat) -> None:
    if form is CheckFormat.JSON:
        rows = [
            {
                "file": fault.span.file,
                "line": fault.span.line,
                "column": fault.span.column,
                "code": fault.code,
                "severity": str(fault.severity),
                "message": fault.message,
                "hint": fault.hint,
            }
            for fault in found
        ]
        output.emit_value(rows, output.Format.JSON)
        return
    for fault in found:
        if form is CheckFormat.GITHUB:
            print(_annotation(fault))
        else:
            print(fault)


def _annotation(fault: Diagnostic) -> str:
    """A workflow command of GitHub Actions, in which these characters have a meaning."""

    def escaped(text: str, special: str) -> str:
        return "".join(f"%{ord(c):02X}" if c in special else c for c in text)

    file = escaped(fault.span.file, "%\r\n:,")
    text = escaped(fault.message + (f" ({fault.hint})" if fault.hint else ""), "%\r\n")
    place = f"file={file},line={fault.span.line},col={fault.span.column},title={fault.code}"
    return f"::{fault.severity} {place}::{text}"


def explain(
    file: FileArgument,
    pipeline: PipelineOption = None,
    master: MasterOption = None,
    form: output.FormatOption = output.Format.TABLE,
    online: Annotated[
        bool, typer.Option("--online", help="Ask the brokers how many partitions there are.")
    ] = False,
    code: Annotated[
        bool,
        typer.Option("--code", help="Print a PySpark script that does the same without Headrace."),
    ] = False,
) -> None:
    """Print what a pipeline will do, each setting with its origin, and what it promises."""
    from headrace.cli.main import debugging

    found = find_definition(file, pipeline)
    if code:
        _ = found.plan  # what is wrong is told before Spark is started
        output.note("starting Spark, which knows columns and types …")
        print(found.code(master=master, debug=debugging()), end="")
        return
    story = found.explain(master, online)
    if form is output.Format.TABLE:
        print("\n".join(story_lines(story)))
    else:
        output.emit_value(story, form)


def preview(
    file: FileArgument,
    pipeline: PipelineOption = None,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many rows.")] = 20,
    scan: Annotated[
        int, typer.Option("--scan", min=1, help="How many of the newest records to look at.")
    ] = 1000,
    master: MasterOption = None,
    form: output.FormatOption = output.Format.TABLE,
) -> None:
    """Show rows made of the newest records; nothing is written and no position moves."""
    from headrace.cli.main import debugging

    definition = find_definition(file, pipeline)
    _show_warnings(definition.check())
    output.note("starting Spark …")
    found = definition.preview(rows, scan, master=master, debug=debugging())
    output.emit_rows(found.rows, found.columns, form)
    for bad in found.bad:
        place = f"{bad.topic}[{bad.partition}]@{bad.offset}"
        output.warn(f"{place} {bad.error}: {bad.message}")
    scanned = f"{found.scanned:,} records" if found.scanned is not None else "records"
    output.note(
        f"{len(found.rows)} rows of the newest {scanned}"
        + (f", {len(found.bad)} bad" if found.bad else "")
    )


def run(
    file: FileArgument,
    pipeline: PipelineOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="A stream: read all that is there now, and end.")
    ] = False,
    reset_offsets: Annotated[
        bool,
        typer.Option("--reset-offsets", help="Follow `offset:` of the sources once more."),
    ] = False,
    no_commit: Annotated[
        bool,
        typer.Option(
            "--no-commit",
            help="A batch: write the sinks and move no position, so that the next run reads the "
            "same again.",
        ),
    ] = False,
    accept_schema: Annotated[
        bool,
        typer.Option(
            "--accept-schema",
            help="Take the columns of sources that go by a registry from its newest schema, "
            "though `schema_evolution` does not allow it.",
        ),
    ] = False,
    master: MasterOption = None,
    style: Annotated[
        str, typer.Option("--progress", help="auto, live, plain, json, log or none.")
    ] = "auto",
) -> None:
    """Run a pipeline; Ctrl-C or SIGTERM finishes the batch in hand and stops."""
    from headrace.cli.main import debugging
    from headrace.cli.progress import Style, showing

    try:
        chosen = Style(style)
    except ValueError:
        raise typer.BadParameter(f"--progress is one of {', '.join(Style)}") from None
    definition = find_definition(file, pipeline)
    _show_warnings(definition.check())
    with showing(chosen) as listener:
        running = definition.prepare(
            master=master,
            once=once,
            on_event=listener,
            debug=debugging(),
            reset_offsets=reset_offsets,
            commit=not no_commit,
            accept_schema=accept_schema,
        )
        with _signals(running):
            running.wait()


def _show_warnings(found: list[Diagnostic]) -> None:
    output.show_diagnostics([fault for fault in found if fault.severity is Severity.WARNING])


@contextmanager
def _signals(running: Run) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM stops in order; a second Ctrl-C ends the process at once."""
    pressed: list[int] = []

    def stop(number: int, _frame: object) -> None:
        if pressed and number == signal.SIGINT:
            raise KeyboardInterrupt
        pressed.append(number)
        running.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def status(form: output.FormatOption = output.Format.TABLE) -> None:
    """List the pipelines of this folder: running or not, lag, rate, when unread data is lost."""
    from headrace.project import Project
    from headrace.runtime.status import reports

    found = reports(Project.find())
    columns = ("pipeline", "state", "mode", "records", "written", "dead_letters", "lag", "rate")
    rows = [asdict(report) for report in found]
    output.emit_rows(rows, (*columns, "loses_in", "last_batch"), form)
    for report in found if form is output.Format.TABLE else ():
        if report.error:
            output.note(f"{report.pipeline}: {report.error}")
        if report.shares:
            own = [f"{each['topic']}[{each['partition']}]" for each in report.positions]
            named = ", ".join(own) or "nothing now"
            output.note(f"{report.pipeline}: shares group {report.shares}, reads {named}")
        for schema in report.schemas:
            output.note(f"{report.pipeline}: {schema}")
        for loss in report.forecast:
            if loss.soon:
                output.warn(f"{report.pipeline}: {loss}")
    if not found:
        output.note("no pipeline has been run in this folder yet")


def new(
    name: Annotated[str, typer.Argument(help="The pipeline's name; NAME.yaml is written.")],
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
) -> None:
    """Begin a pipeline: a commented file to fill in."""
    from importlib import resources

    from headrace.frontend.options import name_fault

    fault = name_fault(name)
    if fault:
        raise DefinitionError(f"the name {fault}")
    path = Path(f"{name}.yaml")
    if path.exists() and not force:
        raise DefinitionError(f"{path} exists already", hint="choose another name, or add --force")
    text = (resources.files("headrace.cli") / "template.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("NAME", name), encoding="utf-8")
    output.note(f"{path} is written; edit it, then:")
    for verb in ("check", "explain", "preview", "run"):
        output.note(f"  headrace {verb} {path}")


def schema() -> None:
    """Print the JSON Schema of pipeline files, for editors that complete and check them."""
    from headrace.frontend.json_schema import pipeline_schema

    output.emit_value(pipeline_schema(), output.Format.JSON)
