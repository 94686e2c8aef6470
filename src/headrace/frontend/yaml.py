"""YAML text to nodes with places.

Only the plain YAML types are read; no tag constructs anything. Size, depth and the number of nodes
are limited, so that an alias bomb ends as a diagnostic. `read` is called by `frontend.load`.
"""

from __future__ import annotations

import re

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode

from headrace.spans import Diagnostic, Field, Node, Scalar, Span

MAX_BYTES = 1_000_000
MAX_NODES = 20_000
MAX_DEPTH = 40


class YamlFault(Exception):
    """The text cannot be read as a definition."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def read(text: str, file: str) -> tuple[Node, list[Diagnostic]]:
    """The document's tree and its repeated keys; raises YamlFault when there is no tree."""
    start = Span(file, 1, 1)
    if len(text.encode()) > MAX_BYTES:
        raise YamlFault(Diagnostic("YAML_TOO_LARGE", f"larger than {MAX_BYTES:,} bytes", start))
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        raise YamlFault(_syntax(error, file)) from error
    except (YAMLError, RecursionError) as error:
        raise YamlFault(Diagnostic("YAML_SYNTAX", str(error).splitlines()[0], start)) from error
    if root is None:
        raise YamlFault(Diagnostic("EMPTY_FILE", "there is nothing in this file", start))
    reader = _Reader(file, text.splitlines())
    return reader.node(root, 0), reader.faults


def _syntax(error: MarkedYAMLError, file: str) -> Diagnostic:
    mark = error.problem_mark or error.context_mark
    span = Span(file, mark.line + 1, mark.column + 1) if mark else Span(file, 1, 1)
    hint = None
    if "mapping values are not allowed" in (error.problem or ""):
        hint = "a `:` inside text needs quotes, and a key must be indented like its neighbours"
    elif "cannot start any token" in (error.problem or ""):
        hint = "indent with spaces, not tabs, and put quotes around special characters"
    return Diagnostic("YAML_SYNTAX", error.problem or str(error), span, hint)


class _Reader:
    def __init__(self, file: str, lines: list[str]) -> None:
        self.file = file
        self.lines = lines
        self.count = 0
        self.faults: list[Diagnostic] = []

    def node(self, raw: YamlNode, depth: int) -> Node:
        self.count += 1
        span = self._span(raw)
        if depth > MAX_DEPTH or self.count > MAX_NODES:
            raise YamlFault(Diagnostic("YAML_TOO_DEEP", "too deep, or too many aliases", span))
        if isinstance(raw, MappingNode):
            return Node(self._fields(raw, depth), span)
        if isinstance(raw, SequenceNode):
            return Node([self.node(item, depth + 1) for item in raw.value], span)
        return Node(_scalar(raw), span)

    def _fields(self, raw: MappingNode, depth: int) -> dict[str, Field]:
        fields: dict[str, Field] = {}
        for key, value in raw.value:
            span = self._span(key)
            if not isinstance(key, ScalarNode):
                self.faults.append(Diagnostic("BAD_KEY", "a key must be plain text", span))
                continue
            if key.value in fields:
                self.faults.append(
                    Diagnostic("KEY_TWICE", f"`{key.value}` stands here twice", span)
                )
            fields[key.value] = Field(span, self.node(value, depth + 1))
        return fields

    def _span(self, raw: YamlNode) -> Span:
        """Where the text itself begins: inside the quotes, or on the line below a `|` or `>`."""
        line, column = raw.start_mark.line, raw.start_mark.column
        style = raw.style if isinstance(raw, ScalarNode) else None
        if style in ("|", ">") and line + 1 < len(self.lines):
            below = self.lines[line + 1]
            return Span(self.file, line + 2, len(below) - len(below.lstrip()) + 1)
        return Span(self.file, line + 1, column + (2 if style in ("'", '"') else 1))


_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?[0-9][0-9_]*")


def _scalar(raw: YamlNode) -> Scalar:
    text = str(raw.value)
    tag = str(raw.tag)
    if tag == _TAG + "null":
        return None
    if tag == _TAG + "bool":
        return text.lower() in ("true", "yes", "on")
    if tag == _TAG + "int" and _INTEGER.fullmatch(text):
        return int(text.replace("_", ""))
    if tag == _TAG + "float":
        try:
            return float(text)
        except ValueError:
            return text
    return text
