"""Which values of a pipeline a script must not show, and the variables that it reads instead."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headrace.model.pipeline import Pipeline
from headrace.spec import Options

_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")


def secrets(pipeline: Pipeline) -> dict[str, str]:
    """The name of a variable of the environment for each secret value."""
    found: dict[str, str] = {}
    parts = [(part.name, part.options) for part in pipeline.sources]
    parts += [(part.name, part.options) for part in pipeline.sinks]
    for part, options in parts:
        for option, value in _secret_values(options):
            written = _VARIABLE.fullmatch(options.at(option).raw.strip("\"' "))
            name = written.group(1) if written else f"{part}_{option}".upper()
            found.setdefault(value, name)
    return found


def _secret_values(options: Options) -> Iterator[tuple[str, str]]:
    for option in options.spec.options:
        value = options[option.name]
        if option.secret and isinstance(value, str) and value:
            yield option.name, value
