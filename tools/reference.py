"""Write docs/reference anew from the code: options, promises, JSON Schema, errors, commands and
system tables.

`make docs` calls it; `--check` only says which files are not what they would be.
"""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer.main

from headrace import errors, load
from headrace.cli.main import command_table
from headrace.errors import HeadraceError
from headrace.frontend.json_schema import pipeline_schema
from headrace.frontend.options import PIPELINE, SINK, SOURCE, STEP
from headrace.shell.system_tables import TABLES
from headrace.sinks import SINKS
from headrace.sources import SOURCES
from headrace.spec import Option, Spec

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
NOTE = "<!-- Made by `make docs` from the code; do not edit. -->"


def main() -> int:
    stale = [path for path, text in pages().items() if not _holds(path, text)]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale; run `make docs`")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages()[path], encoding="utf-8")
        print(f"{path.relative_to(ROOT)} written")
    return 0


def pages() -> dict[Path, str]:
    return {
        REFERENCE / "options.md": _page("Options of pipeline files", _options()),
        REFERENCE / "promises.md": _page("What is promised", _promises()),
        REFERENCE / "errors.md": _page("Errors and exit codes", _errors()),
        REFERENCE / "commands.md": _page("Commands", _commands()),
        REFERENCE / "system-tables.md": _page("System tables", _system_tables()),
        REFERENCE / "pipeline.schema.json": json.dumps(pipeline_schema(), indent=2) + "\n",
    }


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def _page(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"# {title}", "", NOTE, *lines]) + "\n"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield ""
    for row in (heads, ("---",) * len(heads), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


# System tables


def _system_tables() -> Iterator[str]:
    yield ""
    yield "What each is for, and how they are computed, is in [system tables](../system-tables.md)."
    for table in TABLES.values():
        yield ""
        yield f"## `system.{table.name}`"
        yield ""
        yield table.summary
        rows = ((f"`{each.name}`", each.type, each.help) for each in table.columns)
        yield from _table(("column", "type", "meaning"), rows)


# Options


def _options() -> Iterator[str]:
    yield ""
    yield "A pipeline file is checked against these; a name that is not here is an error. A value"
    yield "may hold `${env:NAME}` or `${env:NAME:-default}`. Options of a source or sink stand"
    yield "beside its `connector_type`."
    yield from _spec("The pipeline", PIPELINE)
    yield ""
    yield "Beside these: `source` or `sources`, `transform`, and `sink` or `sinks`. `sources` and"
    yield "`sinks` hold several by name; the only one of its kind is called `source` or `sink`."
    yield from _spec("A step of `transform`", STEP)
    yield from _spec("Every source", SOURCE)
    for name, source in SOURCES.items():
        yield from _spec(f"Source `{name}`", source.SPEC)
    yield from _spec("Every sink", SINK)
    for name, sink in SINKS.items():
        yield from _spec(f"Sink `{name}`", sink.SPEC)


def _spec(title: str, spec: Spec) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield spec.summary
    heads = ("option", "type", "default", "what it does", "example")
    yield from _table(heads, (row for option in spec.options for row in _rows(option)))


def _rows(option: Option, outside: str = "") -> Iterator[tuple[str, ...]]:
    """An option, and under it those inside it, as `offset.type`."""
    yield _option(option, outside)
    for each in option.fields:
        yield from _rows(each, f"{outside}{option.name}.")


def _option(option: Option, outside: str = "") -> tuple[str, ...]:
    names = " or ".join(f"`{outside}{name}`" for name in option.names)
    kind = ", ".join(f"`{choice}`" for choice in option.choices) or str(option.type)
    if option.minimum is not None:
        kind += f", at least {option.minimum}"
    default = "**required**" if option.required else _value(option.default)
    secret = " Secret: it is never shown." if option.secret else ""
    example = f"`{option.example}`" if option.example else ""
    return names, kind, default, option.help + secret, example


def _value(value: Any) -> str:
    if value in (None, (), {}):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


# Promises

# The least that a definition needs beside its required options, which have examples.
_SHARED = "kafka, shared"
_KAFKA = {"topic": "orders", "schema": "id BIGINT"}
_NEEDED: dict[str, dict[str, Any]] = {
    "kafka": _KAFKA,
    _SHARED: {**_KAFKA, "consumer_group": "orders", "share_partitions": True},
    "files": {"format": "json", "schema": "id BIGINT"},
    "log": {"format": "json", "schema": "id BIGINT"},
    "jdbc": {"table": "orders"},
    "impulse": {"count": 1000},
}


def _promises() -> Iterator[str]:
    yield ""
    yield "What a pipeline of one source, one row-wise step and one sink is promised with"
    yield "`guarantee: exactly_once`, as the planner answers it; `headrace explain` tells it of any"
    yield "pipeline. Where it says *refused*, the pipeline runs with `at_least_once` and loses"
    yield "nothing. [guarantees](../guarantees.md) explains the words."
    for mode in ("stream", "batch"):
        yield ""
        yield f"## As a {mode}"
        heads = ("source", *(f"into {sink}" for sink in SINKS))
        sources = (*SOURCES, _SHARED)
        rows = ((source, *(_promise(mode, source, sink) for sink in SINKS)) for source in sources)
        yield from _table(heads, rows)


def _promise(mode: str, source: str, sink: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(json.dumps(_definition(mode, source, sink)))
        definition = load(file)
        if any(fault.code in ("CANNOT_KEEP", "CANNOT_SHARE") for fault in definition.check()):
            return "refused"
        because = definition.plan.promises[0].because
    way = because.split(":")[0]
    return f"exactly once, {way}" if way.startswith("by ") else "exactly once"


def _definition(mode: str, source: str, sink: str) -> dict[str, Any]:
    """YAML holds JSON."""
    kind = "kafka" if source == _SHARED else source
    read: dict[str, Any] = {"connector_type": kind, **_examples(SOURCES[kind].SPEC)}
    read.update(_NEEDED.get(source, {}))
    written: dict[str, Any] = {"connector_type": sink, **_examples(SINKS[sink].SPEC)}
    if sink == "kafka":
        written["bootstrap_server"] = read.get("bootstrap_server", "localhost:9092")
    return {"mode": mode, "guarantee": "exactly_once", "source": read, "sink": written}


def _examples(spec: Spec) -> dict[str, Any]:
    return {option.name: option.example for option in spec.options if option.required}


# Errors


def _errors() -> Iterator[str]:
    yield ""
    yield "With exit code 3 the same command may work later; with 4 it will not. 2 is a fault of"
    yield "the definition or the command line, and 70 one of Headrace."
    heads = ("code", "exit", "what is said", "what to do next")
    yield from _table(heads, (_error(error) for error in _leaves(HeadraceError)))
    yield ""
    yield "## Faults of a definition"
    yield ""
    yield "All of them are reported at once, each with its place, and end a command with 2. One"
    yield "example of each:"
    yield from _table(("code", "example"), sorted(_faults().items()))


def _faults() -> dict[str, str]:
    """An example of each code, from the cases that the tests hold against."""
    found: dict[str, str] = {}
    for case in sorted((ROOT / "tests" / "cases" / "refused").glob("*/expected.txt")):
        for line in case.read_text(encoding="utf-8").splitlines():
            place, code, message = line.split(" ", 2)
            found.setdefault(f"`{code}`", f"{place} {message}")
    return found


def _leaves(kind: type[HeadraceError]) -> Iterator[type[HeadraceError]]:
    children = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    for child in children:
        yield from _leaves(child)
    if not children:
        yield kind


def _error(error: type[HeadraceError]) -> tuple[str, ...]:
    values: dict[str, Any] = {}
    for name, parameter in inspect.signature(error).parameters.items():
        if parameter.default is inspect.Parameter.empty:
            shown = f"‹{name.replace('_', ' ')}›"
            values[name] = [shown] if "Sequence" in str(parameter.annotation) else shown
    example = error(**values)
    code = f"`{error.code}`"
    if error.code != example.code:
        code = "Kafka's own name of it"
    return code, str(example.exit_code), str(example), example.hint or ""


# Commands


def _commands() -> Iterator[str]:
    yield ""
    yield "`headrace COMMAND --help` prints the same. `--debug`, before the command, shows stack"
    yield "traces and Spark's own messages; `--version` prints the version."
    table = typer.main.get_command(command_table([]))
    for name, command in _verbs(table, "headrace"):
        yield from _command(name, command)


def _verbs(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    inside = getattr(command, "commands", None)
    if inside is None:
        yield name, command
        return
    for verb, each in inside.items():
        yield from _verbs(each, f"{name} {verb}")


def _command(name: str, command: Any) -> Iterator[str]:
    shown = [p for p in command.params if not p.hidden]
    arguments = [p for p in shown if p.param_type_name == "argument"]
    options = [p for p in shown if p.param_type_name == "option"]
    usage = " ".join(
        [name, *(_argument(p) for p in arguments), *(["[OPTIONS]"] if options else [])]
    )
    yield ""
    yield f"## `{usage}`"
    yield ""
    yield inspect.cleandoc(command.help or "").replace("\n\f", "")
    rows = [(f"`{_argument(p)}`", p.help or "", "") for p in arguments]
    rows += [(_flags(p), p.help or "", _default(p)) for p in options]
    if rows:
        yield from _table(("", "what it does", "default"), rows)


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper()).strip("[]")
    return name if parameter.required else f"[{name}]"


def _flags(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    return ", ".join(f"`{name}`" for name in names)


def _default(parameter: Any) -> str:
    value = parameter.default
    if value is None or isinstance(value, bool) or callable(value) or value in ((), []):
        return ""
    return f"`{value}`"


if __name__ == "__main__":
    sys.exit(main())
