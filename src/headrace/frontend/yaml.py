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

from headrace.spans import Diagnostic, Field, Node, Scalar, Span, short

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
        raise YamlFault(_syntax(error, text, file)) from error
    except (YAMLError, RecursionError) as error:
        raise YamlFault(Diagnostic("YAML_SYNTAX", str(error).splitlines()[0], start)) from error
    if root is None:
        raise YamlFault(Diagnostic("EMPTY_FILE", "there is nothing in this file", start))
    reader = _Reader(file, text)
    return reader.node(root, 0), reader.faults


def _place(text: str, index: int) -> tuple[int, int]:
    """Line and column as editors count them; to the parser, other characters end lines too."""
    before = text[:index]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _syntax(error: MarkedYAMLError, text: str, file: str) -> Diagnostic:
    mark = error.problem_mark or error.context_mark
    span = Span(file, *_place(text, mark.index if mark else 0))
    hint = None
    if "mapping values are not allowed" in (error.problem or ""):
        hint = "a `:` inside text needs quotes, and a key must be indented like its neighbours"
    elif "cannot start any token" in (error.problem or ""):
        hint = "indent with spaces, not tabs, and put quotes around special characters"
    elif "expected <block end>" in (error.problem or ""):
        hint = "a key or `-` must be indented like its neighbours"
    elif "another document" in (error.problem or ""):
        return Diagnostic("YAML_SYNTAX", "a second document begins here", span, "remove the `---`")
    return Diagnostic("YAML_SYNTAX", error.problem or str(error), span, hint)


class _Reader:
    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.count = 0
        self.faults: list[Diagnostic] = []

    def node(self, raw: YamlNode, depth: int) -> Node:
        self.count += 1
        span = self._span(raw)
        if depth > MAX_DEPTH or self.count > MAX_NODES:
            raise YamlFault(Diagnostic("YAML_TOO_DEEP", "too deep, or too many aliases", span))
        if str(raw.tag) not in _PLAIN:
            message = f"`{short(str(raw.tag))}` is a tag, and only plain YAML is read"
            self.faults.append(Diagnostic("BAD_TAG", message, span, "remove the tag"))
        if isinstance(raw, MappingNode):
            return Node(self._fields(raw, depth), span)
        if isinstance(raw, SequenceNode):
            return Node([self.node(item, depth + 1) for item in raw.value], span)
        return Node(_scalar(raw), span, str(raw.value))

    def _fields(self, raw: MappingNode, depth: int) -> dict[str, Field]:
        fields: dict[str, Field] = {}
        merged: dict[str, Field] = {}
        for key, value in raw.value:
            span = self._span(key)
            if not isinstance(key, ScalarNode):
                self.faults.append(Diagnostic("BAD_KEY", "a key must be plain text", span))
            elif key.tag == _MERGE:
                merged |= self._merged(value, depth) | merged
            elif key.value in fields:
                self.faults.append(
                    Diagnostic("KEY_TWICE", f"`{key.value}` stands here twice", span)
                )
            else:
                fields[key.value] = Field(span, self.node(value, depth + 1))
        return merged | fields

    def _merged(self, raw: YamlNode, depth: int) -> dict[str, Field]:
        """What `<<: *name` adds: keys of other mappings, of which the first counts."""
        fields: dict[str, Field] = {}
        for each in raw.value if isinstance(raw, SequenceNode) else [raw]:
            node = self.node(each, depth + 1)
            if isinstance(node.value, dict):
                fields = node.value | fields
            else:
                message = f"`<<` takes a mapping, and this is {node.shape}"
                self.faults.append(Diagnostic("BAD_KEY", message, node.span))
        return fields

    def _span(self, raw: YamlNode) -> Span:
        """Where the text itself begins: inside the quotes, or on the line below a `|` or `>`."""
        start, end = raw.start_mark.index, raw.end_mark.index
        style = raw.style if isinstance(raw, ScalarNode) else None
        if style in ("|", ">"):
            below = self.text.find("\n", start, end) + 1
            letters = self.text[below:end].lstrip() if below else ""
            start = end - len(letters) if letters else start
        elif style in ("'", '"'):
            start, end = start + 1, end - 1
        line, column = _place(self.text, start)
        scalar = isinstance(raw, ScalarNode)
        return Span(self.file, line, column, self.text[start:end] if scalar else "")


_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_PLAIN = {
    _TAG + name
    for name in ("bool", "float", "int", "map", "merge", "null", "seq", "str", "timestamp", "value")
}
# No number that an option takes has more digits; Python refuses to read thousands of them.
_INTEGER = re.compile(r"[-+]?[0-9][0-9_]{0,30}")


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
