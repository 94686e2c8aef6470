"""What a draft means, without what may be written in more than one way.

Two definitions say the same when their meanings are equal: a schema whatever its line breaks, a
duration in any unit, a list with or without brackets, SQL with or without its semicolon, `input` or
the name of the step before. Sources and steps that nothing reads do not count.
"""

from __future__ import annotations

import re
from dataclasses import replace

from headrace.convert import wiring
from headrace.convert.draft import Draft, Part, Plain, Values, sink_options, source_options
from headrace.frontend.options import PIPELINE, STEP
from headrace.frontend.sql.tokens import Sort, tokenize
from headrace.model.schema import Column, Schema
from headrace.spans import Field, Node, Span
from headrace.spec import Option, Spec, Type


def meaning(draft: Draft) -> Draft:
    """The draft in one form for all that mean the same."""
    whole = wiring.explicit(draft)
    unread = {name.lower() for name in wiring.unread(draft)}
    return Draft(
        values=_values(PIPELINE.options, whole.values),
        sources=tuple(
            _part(each, source_options(each.connector)) for each in _read(whole.sources, unread)
        ),
        steps=tuple(_part(each, STEP.options) for each in _read(whole.steps, unread)),
        sinks=tuple(_part(each, sink_options(each.connector)) for each in whole.sinks),
    )


def core(sql: str) -> str:
    """A SELECT without comments and semicolons around it."""
    words = [token for token in tokenize(sql) if token.sort is not Sort.END and token.key != ";"]
    return sql[words[0].start : words[-1].end] if words else ""


def columns(schema: str) -> tuple[Column, ...]:
    """The columns of a schema; names inside of types without quotes that they do not need."""
    found = Schema.parse(schema).columns
    return tuple(replace(each, type=re.sub(r"`(\w+)`", r"\1", each.type)) for each in found)


def _read(parts: tuple[Part, ...], unread: set[str]) -> list[Part]:
    return [part for part in parts if part.name.lower() not in unread]


def _part(part: Part, options: tuple[Option, ...]) -> Part:
    values = _values(options, part.values)
    if "sql" in values:
        values["sql"] = core(str(values["sql"]))
    if "from" in values:
        values["from"] = str(values["from"]).lower()
    return replace(part, values=values, remarks={}, above=())


def _values(options: tuple[Option, ...], values: Values) -> dict[str, Plain]:
    by_name = {option.name: option for option in options}
    return {name: _value(by_name[name], each) for name, each in values.items() if each != {}}


def _value(option: Option, each: Plain) -> Plain:
    if isinstance(each, str) and "${" in each:
        return each
    if option.type is Type.LIST and isinstance(each, str):
        return [item.strip() for item in each.split(",")]
    if option.type is Type.DURATION:
        return _milliseconds(option, each)
    if option.type is Type.MAPPING and isinstance(each, dict):
        return _values(option.fields, each)
    if option.type is Type.MAPPINGS and isinstance(each, list):
        return [_values(option.fields, item) for item in each]
    if option.name == "schema":
        return columns(each)
    return each


def _milliseconds(option: Option, text: str) -> Plain:
    """As the option itself reads it."""
    here = Span("", 1, 1)
    spec = Spec("option", option.name, option.help, (option,))
    read, _ = spec.read({option.name: Field(here, Node(text, here))}, here)
    return read[option.name]
