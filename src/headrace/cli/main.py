"""`headrace`: the command table, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException
from typer.rich_utils import rich_format_error

from headrace import __version__
from headrace.cli import output
from headrace.errors import EXIT_INTERNAL, HeadraceError, InternalError

app = typer.Typer(
    name="headrace",
    help="Kafka pipelines on Spark: check, explain, run and operate them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# One line for each module of verbs; each has `register(app)`.
COMMANDS = (
    "headrace.cli.pipelines",
    "headrace.cli.dev",
    "headrace.cli.jars",
    "headrace.cli.topics",
    "headrace.cli.groups",
    "headrace.cli.records",
)


class _State:
    debug = False


@app.callback(invoke_without_command=True)
def root(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show stack traces and Spark's own messages.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    _State.debug = debug
    if version:
        print(f"headrace {__version__}")
        raise typer.Exit


def debugging() -> bool:
    """Whether `--debug` was given."""
    return _State.debug


for _module in COMMANDS:
    import_module(_module).register(app)


def main(arguments: list[str] | None = None) -> None:
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    try:
        result: Any = app(arguments, prog_name="headrace", standalone_mode=False)
        # Here and not by the interpreter at its end, which would complain of a closed pipe.
        if sys.stdout:  # None where the caller closed it
            sys.stdout.flush()
    except HeadraceError as error:
        if debugging():
            traceback.print_exc()
        output.show_error(error)
        return error.exit_code
    except TyperException as error:
        rich_format_error(error)  # type: ignore[arg-type]  # typed for the click inside typer
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        return _unheard()
    except SystemExit as end:
        # What typer makes of a closed pipe, as if it were a failure.
        if isinstance(end.__context__, BrokenPipeError):
            return _unheard()
        raise
    except Exception as error:
        traceback.print_exc() if debugging() else None
        output.show_error(InternalError(f"{type(error).__name__}: {error}"))
        return EXIT_INTERNAL
    return result if isinstance(result, int) else 0


def _unheard() -> int:
    """The reader of our output has enough (`| head`), which is no failure; nobody is left to tell.

    What is still in the buffer goes nowhere, so that nothing tries to write it once more.
    """
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    main()
