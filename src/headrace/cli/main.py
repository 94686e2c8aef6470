"""`headrace`: the command table, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
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
        result: Any = app(arguments, standalone_mode=False)
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
        # The reader of our output went away (`| head`): nobody is left to tell.
        sys.stdout = None
        return 0
    except Exception as error:
        traceback.print_exc() if debugging() else None
        output.show_error(InternalError(f"{type(error).__name__}: {error}"))
        return EXIT_INTERNAL
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
