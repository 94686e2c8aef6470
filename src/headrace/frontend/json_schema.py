"""The JSON Schema of pipeline files, made of the same options that check them.

For editors, which complete and check while one types; `headrace check` sees more. Printed by
`headrace schema` and kept in docs/reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.frontend.options import PIPELINE, SINK, SOURCE, STEP, STEP_KINDS
from headrace.sinks import SINKS
from headrace.sources import SOURCES
from headrace.spec import Option, Spec, Type

Schema = dict[str, Any]

_SCALAR = ["string", "number", "boolean"]
# Any value may be completed by a variable, so text with one fits every option.
_VARIABLE: Schema = {"type": "string", "pattern": r"\$\{env:"}


def pipeline_schema() -> Schema:
    """Of a whole file: a pipeline, or a source alone."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Headrace pipeline",
        "type": "object",
        "if": {"required": ["connector_type"]},
        "then": {"$ref": "#/$defs/source"},
        "else": {"$ref": "#/$defs/pipeline"},
        "$defs": {
            "pipeline": _pipeline(),
            "step": _step(),
            "source": _component(
                {name: kind.SPEC for name, kind in SOURCES.items()}, SOURCE.options
            ),
            "sink": _component({name: kind.SPEC for name, kind in SINKS.items()}, SINK.options),
        },
    }


def _pipeline() -> Schema:
    step, source, sink = ({"$ref": f"#/$defs/{name}"} for name in ("step", "source", "sink"))
    steps = {"anyOf": [step, {"type": "array", "items": step}, {"type": "null"}]}
    parts = {
        "source": source,
        "sources": {"type": "object", "additionalProperties": source},
        "transform": steps,
        "transforms": steps,
        "sink": sink,
        "sinks": {"type": "object", "additionalProperties": sink},
    }
    return {
        **_object(PIPELINE.options, parts),
        "anyOf": [{"required": ["source"]}, {"required": ["sources"]}],
    }


def _step() -> Schema:
    return {
        **_object(STEP.options, {}),
        "oneOf": [{"required": [kind]} for kind in STEP_KINDS],
    }


def _component(specs: Mapping[str, Spec], common: Iterable[Option] = ()) -> Schema:
    """A mapping whose other keys depend on its `connector_type`."""
    choose = {"connector_type": {"enum": list(specs)}}
    cases = [
        {
            "if": {"properties": {"connector_type": {"const": name}}},
            "then": {"description": spec.summary, **_object((*spec.options, *common), choose)},
        }
        for name, spec in specs.items()
    ]
    return {"type": "object", "required": ["connector_type"], "properties": choose, "allOf": cases}


def _object(options: Iterable[Option], others: Schema) -> Schema:
    properties = {}
    needed = []
    options = tuple(options)
    for option in options:
        for name in option.names:
            properties[name] = _option(option, name)
        if option.required:
            needed.append({"anyOf": [{"required": [name]} for name in option.names]})
    schema = {"type": "object", "properties": {**others, **properties}, **_dotted(options)}
    return {**schema, "additionalProperties": False, **({"allOf": needed} if needed else {})}


def _dotted(options: Iterable[Option]) -> Schema:
    """`a.b` for what stands under `b` in the mapping `a`."""
    patterns: dict[str, Schema] = {}
    for option in options:
        if option.type is Type.MAPPING:
            inside = [name for each in option.fields for name in each.names]
            patterns[f"^({'|'.join(option.names)})\\.({'|'.join(inside)})$"] = {}
    return {"patternProperties": patterns} if patterns else {}


def _option(option: Option, name: str) -> Schema:
    also = "" if name == option.name else f"Another name of `{option.name}`. "
    shape = _TYPES[option.type](option)
    if option.nullable:
        shape = {"anyOf": [shape, {"type": "null"}]}
    schema: Schema = {"description": also + option.help, **shape}
    if option.default not in (None, (), {}):
        schema["default"] = option.default
    if option.secret:
        schema["writeOnly"] = True
    return schema


def _integer(option: Option) -> Schema:
    number: Schema = {"type": "integer"}
    if option.minimum is not None:
        number["minimum"] = option.minimum
    return {"anyOf": [number, {"type": "string", "pattern": r"^[0-9]+$|\$\{env:"}]}


def _choices(option: Option) -> Iterable[str | int]:
    """The words, and those that YAML reads as numbers as such, too."""
    for word in (*option.choices, *option.renamed):
        yield word
        if word.lstrip("-").isdigit():
            yield int(word)


def _mapping(option: Option) -> Schema:
    mapping = _object(option.fields, {})
    return {"anyOf": [{"type": "boolean"}, mapping]} if option.flag else mapping


_TYPES: dict[Type, Callable[[Option], Schema]] = {
    Type.TEXT: lambda _: {"type": ["string", "number"]},
    Type.INTEGER: _integer,
    Type.FLAG: lambda _: {"anyOf": [{"type": "boolean"}, {"enum": ["true", "false"]}, _VARIABLE]},
    Type.CHOICE: lambda option: {"anyOf": [{"enum": [*_choices(option)]}, _VARIABLE]},
    Type.LIST: lambda _: {
        "anyOf": [
            {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1},
            {"type": ["string", "number"]},
        ]
    },
    Type.PROPERTIES: lambda _: {
        "type": "object",
        "additionalProperties": {"type": _SCALAR},
    },
    Type.EXPRESSIONS: lambda _: {
        "anyOf": [
            {"type": "object", "additionalProperties": {"type": _SCALAR}, "minProperties": 1},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
        ]
    },
    Type.DURATION: lambda _: {"type": "string", "pattern": r"^[0-9]+ *[A-Za-z]+$|\$\{env:"},
    Type.MAPPING: _mapping,
    Type.MAPPINGS: lambda option: {
        "anyOf": [_mapping(option), {"type": "array", "items": _mapping(option)}]
    },
}
