"""A draft as YAML, as a person would write it.

Quotes stand only where they are needed, SQL of several lines in blocks, small mappings in one
line. What a text needs is found out by reading it back, so that nothing can change on the way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import indent

from headrace.convert.draft import Draft, Part, Plain, Remark, Values
from headrace.frontend import yaml

_WIDTH = 88
_NONE: Mapping[str, Remark] = {}


def write(draft: Draft) -> str:
    """The text of a file, whose pipeline is the same whatever the file is called."""
    blocks = [
        [*_comments(draft.heading), *_mapping(draft.values, draft.remarks)],
        list(_components("source", draft.sources)),
        list(_transform(draft)),
        list(_components("sink", draft.sinks)),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _components(kind: str, parts: Sequence[Part]) -> Iterator[str]:
    if [part.name for part in parts] == [kind]:
        yield from _comments(parts[0].above)
        yield f"{kind}:"
        yield from _indented(_mapping(parts[0].values, parts[0].remarks))
        return
    if parts:
        yield f"{kind}s:"
    for part in parts:
        yield from _indented(_comments(part.above))
        yield f"  {part.name}:"
        yield from _indented(_mapping(part.values, part.remarks), 4)


def _transform(draft: Draft) -> Iterator[str]:
    if draft.steps:
        yield "transform:"
    for number, step in enumerate(draft.steps, start=1):
        named = {} if step.name == f"step_{number}" else {"name": step.name}
        yield from _indented(_comments(step.above))
        yield from _item(list(_mapping({**named, **step.values}, step.remarks)))


def _mapping(values: Values, remarks: Mapping[str, Remark] = _NONE) -> Iterator[str]:
    for name, value in values.items():
        remark = remarks.get(name, Remark())
        lines = _entry(name, value)
        beside = remark.beside if len(lines) == 1 else ""
        yield from _comments((*remark.above, *([remark.beside] if remark.beside != beside else [])))
        yield f"{lines[0]}  # {beside}" if beside else lines[0]
        yield from lines[1:]


def _entry(name: str, value: Plain) -> list[str]:
    key = _scalar(name)
    line = f"{key}: {_inline(value)}"
    if not isinstance(value, dict | list) or not value or len(line) <= _WIDTH:
        return line.split("\n")
    if isinstance(value, dict):
        return [f"{key}:", *_indented(_mapping(value))]
    return [f"{key}:", *(line for each in value for line in _item(_item_lines(each)))]


def _item(lines: list[str]) -> Iterator[str]:
    """An item of a list, below a key."""
    for number, line in enumerate(lines):
        yield (("  - " if number == 0 else "    ") + line).rstrip()


def _item_lines(value: Plain) -> list[str]:
    return list(_mapping(value)) if isinstance(value, dict) else [_scalar(value)]


def _inline(value: Plain) -> str:
    """A value as it begins in the line of its key; text of several lines is a block."""
    if isinstance(value, dict | list):
        return _flow(value)
    block = _block(value) if isinstance(value, str) and "\n" in value else None
    return block or _scalar(value)


def _flow(value: Plain) -> str:
    if isinstance(value, dict):
        inside = (f"{_scalar(name, True)}: {_flow(each)}" for name, each in value.items())
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(each) for each in value) + "]"
    return _scalar(value, flow=True)


def _scalar(value: Plain, flow: bool = False) -> str:
    """The simplest way to write it that is read as it is meant."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    double = json.dumps(text, ensure_ascii=False)
    single = "'" + text.replace("'", "''") + "'"
    quoted = (double, single) if double[1:-1] == text else (single, double)
    for candidate in (text, *quoted) if not flow or _PLAIN.fullmatch(text) else quoted:
        if _is_read_as(text, f"[{candidate}]" if flow else candidate):
            return candidate
    return json.dumps(text)


def _block(text: str) -> str | None:
    """Lines below a `|`, where they can stand so."""
    ending = "" if text.endswith("\n") else "-"
    block = f"|{ending}\n{indent(text.removesuffix(chr(10)), '  ')}"
    return block if _is_read_as(text, block + "\n") else None


# Numbers that stay the same when they are read as such: options take them as text, too.
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_WORD = re.compile(r"[A-Za-z_]+")
# What is the same as an item, as a key and as a value between brackets.
_PLAIN = re.compile(r"[\w./$%(<>=][\w ./$%()+*<>='-]*")
# Words that some readers of YAML take for something else.
_DOUBTFUL = {"true", "false", "yes", "no", "on", "off", "null", "y"}


def _is_read_as(text: str, written: str) -> bool:
    if text == written.strip("[]") and _WORD.fullmatch(text):
        return text.lower() not in _DOUBTFUL
    try:
        tree, faults = yaml.read(f"key: {written}", "")
    except yaml.YamlFault:
        return False
    fields = tree.value if isinstance(tree.value, dict) else {}
    node = fields["key"].node if list(fields) == ["key"] and not faults else tree
    if isinstance(node.value, list):
        node = node.value[0] if len(node.value) == 1 else node
    if _NUMBER.fullmatch(text):
        return node.text == text
    return node.value == text


def _comments(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"# {line}".rstrip()


def _indented(lines: Iterator[str], by: int = 2) -> Iterator[str]:
    return (indent(line, " " * by) for line in lines)
