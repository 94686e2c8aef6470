"""Read a pipeline file: the entry of the front-end, used by the API and so by every command."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import DefinitionError
from headrace.frontend import variables, yaml
from headrace.frontend.resolve import resolve
from headrace.model.lint import lint
from headrace.model.pipeline import Pipeline
from headrace.spans import Diagnostic, Severity, Span

SUFFIXES = (".yaml", ".yml")


def examine(path: Path) -> tuple[Pipeline | None, list[Diagnostic]]:
    """The pipeline in the file, or None, with every fault and warning in order of place.

    Raises DefinitionError only when there is no text to examine.
    """
    try:
        text = _read(path)
    except UnicodeDecodeError as error:
        return None, [_not_utf8(path, error)]
    pipeline, faults = _examine_text(text, path)
    return pipeline, sorted(faults, key=lambda fault: fault.span)


def _examine_text(text: str, path: Path) -> tuple[Pipeline | None, list[Diagnostic]]:
    try:
        tree, faults = yaml.read(text, str(path))
    except yaml.YamlFault as fault:
        return None, [fault.diagnostic]
    tree, undefined = variables.substitute(tree)
    pipeline, wrong = resolve(tree, path)
    # What is wrong with a value that could not be completed is that it could not.
    wrong = [fault for fault in wrong if "${" not in fault.span.raw or not undefined]
    faults = [*faults, *undefined, *wrong]
    if pipeline is not None:
        faults.extend(lint(pipeline))
    broken = any(fault.severity is Severity.ERROR for fault in faults)
    return (None if broken else pipeline), faults


def _read(path: Path) -> str:
    if path.suffix not in SUFFIXES:
        hint = f"pipelines are written in {' or '.join(SUFFIXES)} files"
        raise DefinitionError(f"{path} is not a pipeline file", hint=hint)
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        hint = "check the path, or begin one with `headrace new NAME`"
        raise DefinitionError(f"{path} does not exist", hint=hint) from None
    except IsADirectoryError:
        raise DefinitionError(f"{path} is a folder", hint="name a file in it") from None
    except OSError as error:
        raise DefinitionError(f"reading {path}: {error.strerror}") from error


def _not_utf8(path: Path, error: UnicodeDecodeError) -> Diagnostic:
    before = error.object[: error.start]
    span = Span(str(path), before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
    hint = "save the file as UTF-8"
    return Diagnostic("NOT_UTF8", f"byte {error.start} is not UTF-8 text", span, hint)
