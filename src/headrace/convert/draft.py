"""A definition as plain values, between two notations.

`of_tree` makes a `Draft` of the tree that a front-end has read, before any `${…}` is replaced, so
that references stay what they are. Readers of other tools' files make one directly. `to_yaml.write`
and `to_sql.write` turn it into text. Options have the names of their specs, in the author's order,
and values of plain types; comments travel beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.frontend.options import PIPELINE, SINK, SOURCE, STEP
from headrace.sinks import SINKS
from headrace.sources import SOURCES
from headrace.spans import Field, Node, Span
from headrace.spec import Option, Type, folded

# A scalar, a list of text or of mappings, or a mapping.
Plain = Any
Values = Mapping[str, Plain]

CONNECTOR = Option("connector_type", Type.TEXT, "The kind of a source or sink.")


@dataclass(frozen=True)
class Remark:
    """Comments of an author: lines above something, and a word beside it."""

    above: tuple[str, ...] = ()
    beside: str = ""


@dataclass(frozen=True)
class Part:
    """A source, a step or a sink. `values` of a source or sink begin with its `connector_type`."""

    name: str
    values: Values
    remarks: Mapping[str, Remark] = field(default_factory=dict, compare=False)
    above: tuple[str, ...] = field(default=(), compare=False)

    @property
    def connector(self) -> str:
        return str(self.values["connector_type"])


@dataclass(frozen=True)
class Draft:
    """`values` are the pipeline's own options; its name is one of them."""

    values: Values
    sources: tuple[Part, ...]
    steps: tuple[Part, ...] = ()
    sinks: tuple[Part, ...] = ()
    heading: tuple[str, ...] = field(default=(), compare=False)
    remarks: Mapping[str, Remark] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        return str(self.values["pipeline"])


def source_options(connector: str) -> tuple[Option, ...]:
    """Everything that may stand under a source of this kind."""
    own = SOURCES[connector].SPEC.options if connector in SOURCES else ()
    return (CONNECTOR, *own, *SOURCE.options)


def sink_options(connector: str) -> tuple[Option, ...]:
    own = SINKS[connector].SPEC.options if connector in SINKS else ()
    return (CONNECTOR, *own, *SINK.options)


class Remarks(Protocol):
    """Where the comments of a text are found, by the places of its tree."""

    heading: tuple[str, ...]

    def above(self, span: Span) -> tuple[str, ...]: ...
    def remarks(self, fields: Mapping[str, Field]) -> dict[str, Remark]: ...


def of_tree(root: Node, name: str, remarks: Remarks) -> Draft:
    """The draft of a definition without faults; `name` is the pipeline's where it gives none."""
    fields = _fields(root)
    if "connector_type" in fields and not _PARTS & fields.keys():
        fields = {"source": Field(root.span, root)}  # a file that holds only a source
    own = {key: each for key, each in fields.items() if key not in _PARTS}
    values = plain_values(PIPELINE.options, own)
    return Draft(
        values={"pipeline": values.pop("pipeline", name), **values},
        sources=_components(_named(fields, "source", "sources"), source_options, remarks),
        steps=_steps(fields, remarks),
        sinks=_components(_named(fields, "sink", "sinks"), sink_options, remarks),
        heading=remarks.heading,
        remarks=remarks.remarks(own),
    )


_PARTS = {"source", "sources", "transform", "transforms", "sink", "sinks"}


def _fields(node: Node) -> dict[str, Field]:
    return node.value if isinstance(node.value, dict) else {}


def _named(fields: Mapping[str, Field], one: str, many: str) -> dict[str, Field]:
    if one in fields:
        return {one: fields[one]}
    return _fields(fields[many].node) if many in fields else {}


def _components(
    named: Mapping[str, Field],
    options_of: Callable[[str], tuple[Option, ...]],
    remarks: Remarks,
) -> tuple[Part, ...]:
    parts: list[Part] = []
    for name, each in named.items():
        body = _fields(each.node)
        options = options_of(body["connector_type"].node.text)
        body = folded(options, body)
        values = plain_values(options, body)
        ordered = {"connector_type": values.pop("connector_type"), **values}
        parts.append(Part(name, ordered, remarks.remarks(body), remarks.above(each.key)))
    return tuple(parts)


def _steps(fields: Mapping[str, Field], remarks: Remarks) -> tuple[Part, ...]:
    each = fields.get("transform") or fields.get("transforms")
    if each is None or each.node.value is None:
        return ()
    nodes = each.node.value if isinstance(each.node.value, list) else [each.node]
    parts: list[Part] = []
    for number, node in enumerate(nodes, start=1):
        body = _fields(node)
        values = plain_values(STEP.options, body)
        name = str(values.pop("name", f"step_{number}"))
        said = remarks.remarks(dict(list(body.items())[1:]))
        parts.append(Part(name, values, said, remarks.above(node.span)))
    return tuple(parts)


def unknown(root: Node) -> Iterator[tuple[str, Field]]:
    """Options of sources and sinks that their specs do not have."""
    fields = _fields(root)
    for many, options_of in (("sources", source_options), ("sinks", sink_options)):
        for each in _named(fields, many.removesuffix("s"), many).values():
            body = _fields(each.node)
            options = options_of(body["connector_type"].node.text)
            known = {name for option in options for name in option.names}
            given = folded(options, body)
            yield from ((key, field) for key, field in given.items() if key not in known)


def plain_values(options: tuple[Option, ...], fields: Mapping[str, Field]) -> dict[str, Plain]:
    """The values by the names of their options; what says nothing (`null`) is left out."""
    by_name = {name: option for option in options for name in option.names}
    return {
        by_name[key].name: plain(by_name[key], each.node)
        for key, each in fields.items()
        if key in by_name and each.node.value is not None
    }


def plain(option: Option, node: Node) -> Plain:
    """A value as its option understands it; one with a reference in it stays text."""
    if isinstance(node.value, str) and "${" in node.value:
        return node.value
    return _PLAIN[option.type](option, node)


def _whole(_option: Option, node: Node) -> Plain:
    """A number; what is none stays as it is, for the checks to say so."""
    digits = node.text.strip().replace("_", "")
    return int(digits) if re.fullmatch(r"[-+]?[0-9]{1,30}", digits) else node.text


def _flag(_option: Option, node: Node) -> Plain:
    return str(node.value).lower() == "true"


def _choice(option: Option, node: Node) -> Plain:
    return option.renamed.get(node.text, node.text)


def _list(_option: Option, node: Node) -> Plain:
    """A list; one word that stands without brackets stays so."""
    if isinstance(node.value, list):
        return [item.text.strip() for item in node.value]
    items = [item.strip() for item in node.text.split(",")]
    return items if len(items) > 1 else items[0]


def _properties(_option: Option, node: Node) -> Plain:
    return {key: _property(each.node) for key, each in _fields(node).items()}


def _property(node: Node) -> Plain:
    """Text, but true and false as such, which read better and mean the same."""
    text = str(node.value).lower() if isinstance(node.value, bool) else node.text
    return {"true": True, "false": False}.get(text, text)


def duration(text: str) -> str:
    """Milliseconds in the unit that a person would choose; other spellings stay."""
    number = text.removesuffix("ms").rstrip()
    if number == text or not number.isdecimal() or not int(number):
        return text
    return spelled(int(number))


def spelled(milliseconds: int) -> str:
    """`90 seconds`, `10 minutes`, `1 day`."""
    sizes = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000}
    for unit, size in sizes.items():
        count, rest = divmod(milliseconds, size)
        if count and not rest:
            return f"{count} {unit}" + ("" if count == 1 else "s")
    return f"{milliseconds}ms"


def _mapping(option: Option, node: Node) -> Plain:
    if option.flag and not isinstance(node.value, dict):
        return _flag(option, node)
    return plain_values(option.fields, _fields(node))


def _mappings(option: Option, node: Node) -> Plain:
    items = node.value if isinstance(node.value, list) else [node]
    return [plain_values(option.fields, _fields(item)) for item in items]


def _expressions(_option: Option, node: Node) -> Plain:
    if isinstance(node.value, list):
        return [item.text.strip() for item in node.value]
    return {name.strip(): each.node.text for name, each in _fields(node).items()}


_PLAIN = {
    Type.TEXT: lambda _option, node: node.text,
    Type.INTEGER: _whole,
    Type.FLAG: _flag,
    Type.CHOICE: _choice,
    Type.LIST: _list,
    Type.PROPERTIES: _properties,
    Type.DURATION: lambda _option, node: duration(node.text.strip()),
    Type.MAPPING: _mapping,
    Type.MAPPINGS: _mappings,
    Type.EXPRESSIONS: _expressions,
}
