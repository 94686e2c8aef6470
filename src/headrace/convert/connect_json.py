"""Kafka Connect's configurations with places: a connector's JSON, as its REST API takes it.

`{"name": …, "config": {…}}` and the bare configuration are both read. References of config
providers, `${provider:path:key}`, become environment variables, which is what a definition here
can take a value from.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from headrace.convert.report import Report
from headrace.errors import DefinitionError
from headrace.frontend import yaml
from headrace.spans import Field, Node, Span

_REFERENCE = re.compile(r"\$\{(\w+):(?:([^:}]*):)?([^:}]+)\}")


@dataclass(frozen=True)
class Configuration:
    name: str
    fields: dict[str, Field]
    span: Span


def read(text: str, file: str, report: Report) -> Configuration:
    """The connector's name and properties, each with its place."""
    try:
        json.loads(text)
        # JSON is YAML; read as such, every value has a place. A tab may stand only between tokens.
        root, _ = yaml.read(text.replace("\t", " "), file)
    except json.JSONDecodeError as error:
        place = f"{file}:{error.lineno}:{error.colno}"
        raise DefinitionError(f"{place}: this is not JSON: {error.msg}") from error
    except yaml.YamlFault as fault:
        raise DefinitionError(f"{file}: {fault.diagnostic.message}") from fault
    outer = root.value if isinstance(root.value, dict) else {}
    inner = outer["config"].node if "config" in outer else root
    fields = dict(inner.value) if isinstance(inner.value, dict) else {}
    if "connector.class" not in fields:
        hint = "a connector's configuration has `connector.class`"
        raise DefinitionError(f"{file} is no configuration of a connector", hint=hint)
    named = outer.get("name") or fields.get("name")
    name = named.node.text if named else fields["connector.class"].node.text.rpartition(".")[2]
    fields.pop("name", None)
    return Configuration(
        re.sub(r"[^A-Za-z0-9._-]", "_", name),
        {key: _with_variables(key, each, report) for key, each in fields.items()},
        inner.span,
    )


def _with_variables(key: str, each: Field, report: Report) -> Field:
    node = each.node
    if not isinstance(node.value, str) or not _REFERENCE.search(node.value):
        return each

    def variable(match: re.Match[str]) -> str:
        provider, _, last = match.groups()
        name = last if provider == "env" else re.sub(r"\W", "_", last).upper()
        if provider != "env":
            what = f"`{key}` comes from a config provider, and here from a variable"
            report.to_add(what, each.key, f"set the environment variable {name}")
        return f"${{env:{name}}}"

    return Field(each.key, Node(_REFERENCE.sub(variable, node.value), node.span))
