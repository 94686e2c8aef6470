"""`${env:NAME}` and `${env:NAME:-default}` in the values of a definition.

Replaced when a definition is loaded, in values only, never in keys. A variable that is not set and
has no default is a fault at the place where it stands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from headrace.spans import Diagnostic, Field, Node

_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def substitute(
    node: Node, environ: Mapping[str, str] | None = None
) -> tuple[Node, list[Diagnostic]]:
    """The tree with its references replaced."""
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
    if isinstance(value, str) and "${env:" in value:
        return Node(_text(value, node, environ, faults), node.span)
    return node


def _text(text: str, node: Node, environ: Mapping[str, str], faults: list[Diagnostic]) -> str:
    def one(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        value = environ.get(name, default)
        if value is None:
            hint = f"set {name}, or give a default: ${{env:{name}:-…}}"
            message = f"the environment variable {name} is not set"
            faults.append(Diagnostic("UNDEFINED_VARIABLE", message, node.span, hint))
        return value or ""

    return _REFERENCE.sub(one, text)
