"""`headrace`: the command table, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
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

# One line for each module of verbs; each has `register(app)`. A command loads only its own module,
# so that `check` need not wait for a Kafka client; help and completion load all of them.
COMMANDS = {
    "headrace.cli.pipelines": ("check", "explain", "preview", "run", "status", "new", "schema"),
    "headrace.cli.convert": ("convert",),
    "headrace.cli.sql": ("sql",),
    "headrace.cli.tune": ("tune",),
    "headrace.cli.infer": ("infer",),
    "headrace.cli.offsets": ("offsets",),
    "headrace.cli.dev": ("dev",),
    "headrace.cli.jars": ("jars",),
    "headrace.cli.topics": ("topics",),
    "headrace.cli.groups": ("groups",),
    "headrace.cli.kafka": ("kafka",),
    "headrace.cli.txn": ("txn",),
    "headrace.cli.schemas": ("schemas",),
    "headrace.cli.records": ("produce", "consume"),
    "headrace.cli.dlq": ("dlq",),
    "headrace.cli.demo": ("demo",),
}


class _State:
    debug = False


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


def command_table(arguments: Sequence[str]) -> typer.Typer:
    """The application, with the verbs that `arguments` can be about."""
    app = typer.Typer(
        name="headrace",
        help="Kafka pipelines on Spark: check, explain, run and operate them.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(root)
    verb = next((each for each in arguments if not each.startswith("-")), None)
    asked = [module for module, verbs in COMMANDS.items() if verb in verbs]
    for module in asked or COMMANDS:
        import_module(module).register(app)
    return app


def main(arguments: list[str] | None = None) -> None:
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    try:
        result: Any = command_table(given)(given, prog_name="headrace", standalone_mode=False)
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
    # By its own name, so that verbs which import this module find the same state in it.
    import_module("headrace.cli.main").main()
