"""`headrace convert`: what a file is, what it becomes, and whether the result says the same.

`convert` is called by the command. It reads files of ours before any `${…}` is replaced, and those
of other tools by their readers; it writes the other notation, and reads that again: a result that
would not mean the same is not given out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.convert import connect, laminar, mage, ours, to_sql, to_yaml, wiring
from headrace.convert.draft import Draft, source_options
from headrace.convert.meaning import meaning
from headrace.convert.notations import Notation, Origin
from headrace.convert.report import Reading, Report, is_gap
from headrace.errors import DefinitionError, InternalError
from headrace.frontend import yaml
from headrace.frontend.load import examine
from headrace.spans import Diagnostic, Node, Severity, Span
from headrace.spec import folded


@dataclass(frozen=True)
class Converted:
    """The text of the result, and all that is to be said about it."""

    text: str
    notation: Notation
    findings: tuple[Diagnostic, ...] = ()

    @property
    def gaps(self) -> tuple[Diagnostic, ...]:
        """What the result does less than the file asks for, or not by itself."""
        return tuple(finding for finding in self.findings if is_gap(finding))


def convert(
    paths: Sequence[Path],
    origin: Origin = Origin.AUTO,
    to: Notation = Notation.AUTO,
    schema: str | None = None,
    pipeline: str | None = None,
) -> Converted:
    """The definition in another notation.

    `schema` are the columns of records where another tool's file does not name them; `pipeline` is
    one of several in a file. Raises DefinitionError where there is nothing to convert.
    """
    texts = {path: _text(path) for path in paths}
    origin = _origin(texts) if origin is Origin.AUTO else origin
    if origin is not Origin.MAGE and len(paths) > 1:
        raise DefinitionError("several files are one pipeline only for Mage", hint="name one file")
    reading = _read(origin, texts, schema, pipeline)
    notation = _notation(to, origin, paths[0])
    draft = replace(reading.draft, heading=_heading(reading))
    if notation is Notation.SQL:
        text = to_sql.write(draft)
    else:
        text = to_yaml.write(wiring.implicit(draft))
    findings = [*reading.findings, *_unread(draft, notation, paths[0])]
    if origin is Origin.HEADRACE:
        _prove(draft, text, notation)
    else:
        findings += _faults(text, notation)
    return Converted(text, notation, tuple(findings))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DefinitionError(f"{path} does not exist", hint="check the path") from None
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{path} is not UTF-8 text", hint="save it as UTF-8") from error
    except OSError as error:
        raise DefinitionError(f"reading {path}: {error.strerror}") from error


def _origin(texts: dict[Path, str]) -> Origin:
    """Whose files these are, by their names and contents."""
    (path, text), *others = texts.items()
    if path.suffix == ".json":
        return Origin.CONNECT
    if path.suffix == ".sql":
        return Origin.LAMINAR if laminar.is_arroyo(text) else Origin.HEADRACE
    parts = [_is_part(_yaml(each, file)) for file, each in texts.items()]
    if all(parts) and (others or _is_mages(_yaml(text, path))):
        return Origin.MAGE
    return Origin.HEADRACE


def _is_part(root: Node) -> bool:
    """Whether it is a source or a sink alone."""
    fields = root.value if isinstance(root.value, dict) else {}
    return "connector_type" in fields and not fields.keys() & {"source", "sources"}


def _is_mages(root: Node) -> bool:
    """Whether a part has words that only Mage has, or lacks the columns that JSON needs here."""
    fields = root.value if isinstance(root.value, dict) else {}
    options = source_options(fields["connector_type"].node.text)
    known = {name for option in options for name in option.names}
    named = folded(options, fields)
    is_json = "format" not in named or named["format"].node.text == "json"
    return not named.keys() <= known or (is_json and "schema" not in named)


def _yaml(text: str, path: Path) -> Node:
    try:
        return yaml.read(text, str(path))[0]
    except yaml.YamlFault as fault:
        raise DefinitionError(f"{path} is not YAML", [fault.diagnostic]) from fault


def _read(
    origin: Origin, texts: dict[Path, str], schema: str | None, pipeline: str | None
) -> Reading:
    (path, text), *_ = texts.items()
    if origin is Origin.CONNECT:
        return connect.read(text, path.name, schema)
    if origin is Origin.MAGE:
        documents = [mage.Document(str(each), _yaml(texts[each], each)) for each in texts]
        return mage.read(documents, schema)
    if origin is Origin.LAMINAR:
        return laminar.read(path, text, pipeline)
    return ours.read(path, text, pipeline)


def _notation(to: Notation, origin: Origin, path: Path) -> Notation:
    if to is not Notation.AUTO:
        return to
    ours_in_yaml = origin is Origin.HEADRACE and path.suffix != ".sql"
    return Notation.SQL if ours_in_yaml else Notation.YAML


def _heading(reading: Reading) -> tuple[str, ...]:
    """What stands at the top of the result: where it came from, and what it lacks."""
    lines = list(reading.draft.heading)
    for finding in reading.findings:
        if is_gap(finding):
            lines.append(f"{finding.code}: {' '.join(finding.message.split())}")
    return tuple(lines)


def _unread(draft: Draft, notation: Notation, path: Path) -> tuple[Diagnostic, ...]:
    """In SQL a pipeline has only what it reads."""
    report = Report()
    for name in wiring.unread(draft) if notation is Notation.SQL else ():
        why = "is read by nothing, and in SQL a pipeline has only what it reads"
        report.lost(name, Span(str(path), 1, 1), why, "remove it, or write it to a sink")
    return report.ordered


def _prove(draft: Draft, text: str, notation: Notation) -> None:
    """Reads the result again; a difference is a fault of ours, and never of the author's."""
    read = ours.of_yaml if notation is Notation.YAML else ours.of_sql
    if meaning(read(text, f"{draft.name}.{notation}")) != meaning(draft):
        raise InternalError(f"the {notation} of `{draft.name}` would mean something else")


def _faults(text: str, notation: Notation) -> list[Diagnostic]:
    """What `headrace check` says of the result: what is left to do."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"result.{notation}"
        path.write_text(text, encoding="utf-8")
        found = examine(path)[1]
    return [
        replace(fault, span=replace(fault.span, file=f"result.{notation}"))
        for fault in found
        if fault.severity is Severity.ERROR and not _is_told(fault)
    ]


def _is_told(fault: Diagnostic) -> bool:
    """That columns or a schema are to be added has been said; that variables are not set is no
    fault; files and classes are those of another folder.
    """
    no_schema = fault.code == "MISSING_OPTION" and "schema" in fault.message
    return no_schema or fault.code == "BAD_SCHEMA" or fault.code.startswith("UNDEFINED_")
