"""Which values of a pipeline a script must not show, and the variables that it reads instead."""

from __future__ import annotations

import re

from headrace.model.pipeline import Pipeline

_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_REFERENCE = re.compile(rf"\$\{{(?:env:({_NAME})(?::-[^}}]*)?|secret:({_NAME}))\}}")


def secrets(pipeline: Pipeline) -> dict[str, str]:
    """The name of a variable of the environment for each secret value."""
    found: dict[str, str] = {}
    parts = [(part.name, part.options) for part in pipeline.sources]
    parts += [(part.name, part.options) for part in pipeline.sinks]
    for part, options in parts:
        for option, value in options.secrets:
            if value not in found:
                name = _variable(options.at(option).raw) or f"{part}_{option}".upper()
                same = sum(each.startswith(name) for each in found.values())
                found[value] = f"{name}_{same + 1}" if same else name
    return found


def _variable(written: str) -> str | None:
    """What the author's own reference names, where the value is nothing else."""
    match = _REFERENCE.fullmatch(written.strip("\"' "))
    return match and (match[1] or match[2].upper())
