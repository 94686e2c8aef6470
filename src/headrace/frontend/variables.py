"""References in the values of a definition: `${env:NAME}`, `${env:NAME:-default}`,
`${secret:NAME}`.

Replaced when a definition is loaded, in values only, never in keys. What is not set and has no
default is a fault at the place where it stands, and so is a reference of another form. A value with
a secret in it is marked (`Node.secret`), so that it is hidden wherever values are shown; it is not
looked through for further references.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from headrace.catalog import Catalog
from headrace.spans import Diagnostic, Field, Node

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_REFERENCE = re.compile(rf"\$\{{(?:env:({_NAME})(?::-([^}}]*))?|secret:({_NAME}))\}}")
_ANY = re.compile(r"\$\{(?:env|file|secret):[^}]*\}?")


class Stated(Protocol):
    """A secret as a statement gives it: its value, or the variable that holds it."""

    @property
    def name(self) -> object: ...
    @property
    def value(self) -> str | None: ...
    @property
    def variable(self) -> str | None: ...


@dataclass(frozen=True)
class Secrets:
    """Where the values of secrets come from: statements of the same text, then the catalog."""

    catalog: Catalog | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    stated: Mapping[str, Stated] = field(default_factory=dict)
    # The values that were asked for, which must not be shown.
    given: set[str] = field(default_factory=set, compare=False, repr=False)

    def with_stated(self, secrets: Iterable[Stated]) -> Secrets:
        return replace(self, stated={str(secret.name).lower(): secret for secret in secrets})

    def value(self, name: str) -> str | None:
        value = self._find(name)
        self.given.update([value] if value else ())
        return value

    def _find(self, name: str) -> str | None:
        stated = self.stated.get(name.lower())
        if stated is not None:
            return self.environ.get(stated.variable) if stated.variable else stated.value
        return self.catalog.secret(name) if self.catalog is not None else None

    def missing(self, name: str) -> tuple[str, str]:
        """Why there is no value, and what to do."""
        variable = self._variable(name)
        if variable is not None:
            why = f"the secret `{name}` is in the environment variable {variable}, which is not set"
            return why, f"set {variable}"
        how = f"CREATE SECRET {name} FROM ENV '{name.upper()}'"
        return f"there is no secret `{name}`", f'make it: `headrace sql -c "{how}"`'

    def _variable(self, name: str) -> str | None:
        stated = self.stated.get(name.lower())
        if stated is not None:
            return stated.variable
        kept = self.catalog.secrets() if self.catalog is not None else []
        return next((each.variable for each in kept if each.name.lower() == name.lower()), None)


def substitute(
    node: Node, environ: Mapping[str, str] | None = None, secrets: Secrets | None = None
) -> tuple[Node, list[Diagnostic]]:
    """The tree with its references replaced; a value with a fault stays as it was written."""
    known = os.environ if environ is None else environ
    replacing = _Replacing(known, secrets or Secrets(environ=known))
    return replacing.node(node), replacing.faults


def substitute_fields(
    fields: Mapping[str, Field], secrets: Secrets
) -> tuple[dict[str, Field], list[Diagnostic]]:
    """The same for the options of a statement."""
    replacing = _Replacing(secrets.environ, secrets)
    return replacing.fields(fields), replacing.faults


class _Replacing:
    """One pass over values; `faults` grows as it goes."""

    def __init__(self, environ: Mapping[str, str], secrets: Secrets) -> None:
        self.environ = environ
        self.secrets = secrets
        self.faults: list[Diagnostic] = []

    def node(self, node: Node) -> Node:
        value = node.value
        if isinstance(value, list):
            return Node([self.node(item) for item in value], node.span)
        if isinstance(value, dict):
            return Node(self.fields(value), node.span)
        if isinstance(value, str) and "${" in value and not node.secret:
            return self._text(value, node)
        return node

    def fields(self, fields: Mapping[str, Field]) -> dict[str, Field]:
        return {key: Field(field.key, self.node(field.node)) for key, field in fields.items()}

    def _text(self, text: str, node: Node) -> Node:
        for match in _ANY.finditer(text):
            if not _REFERENCE.fullmatch(match.group()):
                message = f"`{match.group()}` is not a reference to a variable or a secret"
                hint = "write ${env:NAME}, ${env:NAME:-default} or ${secret:NAME}"
                self._fault("BAD_VARIABLE", message, hint, node, match.start())
        references = list(_REFERENCE.finditer(text))
        if not references:
            return node
        replaced = _REFERENCE.sub(lambda match: self._value(match, node), text)
        return Node(replaced, node.span, secret=any(match[3] for match in references))

    def _value(self, match: re.Match[str], node: Node) -> str:
        variable, default, secret = match.groups()
        if secret:
            value = self.secrets.value(secret)
            code, (message, hint) = "UNDEFINED_SECRET", self.secrets.missing(secret)
        else:
            value = self.environ.get(variable, default)
            code, message = "UNDEFINED_VARIABLE", f"the environment variable {variable} is not set"
            hint = f"set {variable}, or give a default: ${{env:{variable}:-…}}"
        if value is None:
            self._fault(code, message, hint, node, match.start())
            return match.group()
        return value

    def _fault(self, code: str, message: str, hint: str, node: Node, at: int) -> None:
        where = node.span.within(str(node.value), at)
        self.faults.append(Diagnostic(code, message, where, hint))
