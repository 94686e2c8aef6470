"""`${env:NAME}` and `${env:NAME:-default}` in the values of a definition.

Replaced when a definition is loaded, in values only, never in keys. A variable that is not set and
has no default is a fault at the place where it stands, and so is a reference of another form.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from headrace.spans import Diagnostic, Field, Node

_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_OTHER = re.compile(r"\$\{(?:env|file|secret):[^}]*\}?")


def substitute(
    node: Node, environ: Mapping[str, str] | None = None
) -> tuple[Node, list[Diagnostic]]:
    """The tree with its references replaced; a value with a fault stays as it was written."""
    faults: list[Diagnostic] = []
    return _replace(node, os.environ if environ is None else environ, faults), faults


def _replace(node: Node, environ: Mapping[str, str], faults: list[Diagnostic]) -> Node:
    value = node.value
    if isinstance(value, list):
        return Node([_replace(item, environ, faults) for item in value], node.span)
    if isinstance(value, dict):
        fields = {
            key: Field(field.key, _replace(field.node, environ, faults))
            for key, field in value.items()
        }
        return Node(fields, node.span)
    if isinstance(value, str) and "${" in value:
        return Node(_text(value, node, environ, faults), node.span)
    return node


def _text(text: str, node: Node, environ: Mapping[str, str], faults: list[Diagnostic]) -> str:
    def one(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        value = environ.get(name, default)
        if value is None:
            hint = f"set {name}, or give a default: ${{env:{name}:-…}}"
            message = f"the environment variable {name} is not set"
            where = node.span.within(text, match.start())
            faults.append(Diagnostic("UNDEFINED_VARIABLE", message, where, hint))
        return value if value is not None else match.group()

    for match in _OTHER.finditer(text):
        if not _REFERENCE.fullmatch(match.group()):
            message = f"`{match.group()}` is not a reference to a variable"
            where = node.span.within(text, match.start())
            hint = "write ${env:NAME} or ${env:NAME:-default}"
            faults.append(Diagnostic("BAD_VARIABLE", message, where, hint))
    return _REFERENCE.sub(one, text)
