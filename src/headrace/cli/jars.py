"""`headrace jars`: fetch the jars that Spark, Kafka and the registry run with, and list them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, TextColumn
from rich.progress import Progress as Bars

from headrace.cli import output
from headrace.cli.output import Format, FormatOption
from headrace.cluster import jars
from headrace.cluster.lock import ON_REQUEST, Jar, read_lock, usual_sets
from headrace.errors import DefinitionError

app = typer.Typer(
    name="jars",
    help="The jars that Spark and Kafka run with: fetched once, checked always.",
    no_args_is_help=True,
)

_EVERY = 10


def register(root: typer.Typer) -> None:
    root.add_typer(app, rich_help_panel="Development")


@app.command()
def fetch(
    sets: Annotated[
        list[str] | None,
        typer.Argument(
            help="Such as registry, which is fetched only when it is named or started. "
            "Default: all but that."
        ),
    ] = None,
) -> None:
    """Fetch what is missing and verify everything; afterwards no network is needed."""
    for name in sets or usual_sets():
        _known(name)
        provide(name)
        count = output.counted(len(read_lock()[name]), _noun(name))
        output.note(f"{name}: {count}, verified, in {jars.jar_folder()}")
    if not sets:
        _archive()


def _archive() -> None:
    """Make what lets Spark start faster; without it everything works, only later."""
    from headrace.runtime import class_archive

    if class_archive.place().exists():
        return
    output.note("preparing Spark's start, which is done once …")
    file = class_archive.make()
    output.note(f"classes: {file}" if file else "this Java keeps no archive of classes")


@app.command("list")
def list_jars(form: FormatOption = Format.TABLE) -> None:
    """List the jars by set, with their checksums and where they are."""
    rows = [
        {
            "set": name,
            "jar": jar.coordinate,
            "bytes": jar.size,
            "sha256": jar.sha256,
            "file": str(path) if path else None,
        }
        for name in read_lock()
        for jar, path in jars.cached(name).items()
    ]
    output.emit_rows(rows, ["set", "jar", "bytes", "file"], form)


@app.command()
def path(
    set_name: Annotated[
        str, typer.Argument(metavar="SET", help="Spark's, Kafka's or the registry's.")
    ] = "spark",
) -> None:
    """Print the files of a set with commas between them, as `spark.jars` takes them."""
    _known(set_name)
    provide(set_name)
    print(",".join(str(file) for file in jars.ensure(set_name)))


def _known(name: str) -> None:
    if name not in read_lock():
        raise DefinitionError(f"no jar set {name}", hint=f"there are {', '.join(read_lock())}")


def provide(set_name: str) -> None:
    """Have the jars of a set, and show the progress where some must be fetched first."""
    missing = [jar for jar, path in jars.cached(set_name).items() if path is None]
    if not missing:
        jars.ensure(set_name)
    elif output.stderr.is_terminal:
        _with_bars(set_name, missing)
    else:
        count = output.counted(len(missing), _noun(set_name))
        output.note(f"fetching {count} for {set_name}, {_megabytes(missing):.0f} MB")
        jars.ensure(set_name, _note_some)


def _with_bars(set_name: str, missing: list[Jar]) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[jar]}"),
    )
    with Bars(*columns, console=output.stderr, transient=True) as bars:
        size = sum(jar.size for jar in missing)
        task = bars.add_task(f"jars for {set_name}", total=size, jar="asking for them")

        def show(progress: jars.Progress) -> None:
            label = f"{progress.count} of {progress.total}: {progress.jar.artifact}"
            bars.update(task, completed=progress.bytes_done, jar=label)

        jars.ensure(set_name, show)


def _note_some(progress: jars.Progress) -> None:
    if progress.count % _EVERY == 0 or progress.count == progress.total:
        output.note(
            f"  {progress.count} of {progress.total}, {progress.bytes_done / 1e6:.1f} of "
            f"{progress.bytes_total / 1e6:.1f} MB"
        )


def _noun(set_name: str) -> str:
    return "archive" if set_name in ON_REQUEST else "jar"


def _megabytes(missing: list[Jar]) -> float:
    return sum(jar.size for jar in missing) / 1e6
