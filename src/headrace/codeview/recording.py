"""Stand-ins for Spark's objects that write down what is asked of them.

The functions that run a plan are called with these in place of a session and of DataFrames; the
calls come back as code. So what the code view prints is what a run does, by the same functions. A
stand-in has the real object behind it, which knows columns and types; what would read or write is
only written down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.codeview.sql_text import pretty
from headrace.codeview.values import value_code
from headrace.errors import DefinitionError

WIDTH = 100
_INDENT = "    "

# Code inside text that is passed through functions which know only text.
_OPEN, _CLOSE = "⟦", "⟧"
_CODE = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")


@dataclass(frozen=True)
class Code:
    """An expression that only the script can evaluate; as text it is recognised again.

    `real` is its value now, where one is needed to go on.
    """

    text: str
    real: Any = None

    def __str__(self) -> str:
        return f"{_OPEN}{self.text}{_CLOSE}"


# Calls that do something at once. They are statements of the script, and not done now.
_ACTS = frozenset({"save", "saveAsTable", "insertInto", "show", "persist", "unpersist"})
# Statements that are done now, too: what comes later reads the view, or the data source.
_SHARED = frozenset({"createOrReplaceTempView", "register"})
# Calls whose first argument runs in Spark's workers.
_SHIPS = frozenset({"mapInArrow", "register"})
# What is known without reading anything.
_KNOWN = frozenset({"columns", "schema", "dtypes", "isStreaming", "conf"})
# What would answer with rows, which a script in the making has not. After a function that writes
# in Spark's workers it is what sets them to work.
_ANSWERS = frozenset({"collect", "count", "first", "head", "take", "toPandas", "isEmpty"})


class NotRecordable(DefinitionError):
    """A function of the runtime wants to look at rows."""

    def __init__(self, what: str) -> None:
        hint = "run it with `headrace run`; `headrace explain` says what it does"
        super().__init__(f"there is no script for this pipeline: {what}", hint=hint)


class Notes(Protocol):
    """Who writes down what is recorded."""

    def act(self, statement: Recorded) -> None:
        """A statement is finished."""
        ...

    def embed(self, function: Callable[..., Any]) -> str:
        """Code for a function that Spark's workers call, or for a class that they make."""
        ...

    def hide(self, value: Any) -> Any:
        """The value, or code for it where it must not be seen."""
        ...


@dataclass(frozen=True)
class Recorded:
    """A Spark object in the making: a name and the calls on it."""

    chain: tuple[str | _Call, ...]
    notes: Notes = field(compare=False, repr=False)
    real: Any = field(default=None, compare=False, repr=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.real, name, None)
        if name in _KNOWN:
            return found
        if name in _ANSWERS and not self._in_workers:
            raise NotRecordable(f"the run looks at rows: {name} of {render(self)[:200]}")
        return self._with((*self.chain, name), found)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        *before, name = self.chain
        assert isinstance(name, str)
        args = tuple(self.notes.hide(value) for value in args)
        kwargs = {key: self.notes.hide(value) for key, value in kwargs.items()}
        if name in _SHIPS:
            args = (Code(self.notes.embed(args[0]), args[0]), *args[1:])
        calls = _calls(name, args, kwargs)
        statement = self._with((*before, *calls), self._result(args, kwargs))
        if name in _ANSWERS:
            self.notes.act(statement)
            return []
        if name in _ACTS | _SHARED:
            self.notes.act(statement)
        return self._with(tuple(before), statement.real) if name == "persist" else statement

    def with_options(self, **values: Code) -> Recorded:
        """The same with other values of these options."""
        chain = (
            _Call("option", (part.args[0], values[part.args[0]]), {})
            if isinstance(part, _Call) and part.name == "option" and part.args[0] in values
            else part
            for part in self.chain
        )
        return self._with(tuple(chain), self.real)

    def _with(self, chain: tuple[str | _Call, ...], real: Any) -> Recorded:
        return Recorded(chain, self.notes, real)

    @property
    def _in_workers(self) -> bool:
        return any(isinstance(part, _Call) and part.name == "mapInArrow" for part in self.chain)

    def _result(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = self.chain[-1]
        if name == "persist":
            return getattr(self.real, "__self__", None)
        if self.real is None or name in _ACTS | _ANSWERS:
            return None
        return self.real(*(_real(each) for each in args), **{k: _real(kwargs[k]) for k in kwargs})


def _calls(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Call, ...]:
    if name == "options":
        return tuple(_Call("option", pair, {}) for pair in kwargs.items())
    return (_Call(name, args, kwargs),)


def _real(value: Any) -> Any:
    if isinstance(value, Code):
        return value.real
    return value.real if isinstance(value, Recorded) else value


def secret_code(text: str, secrets: Mapping[str, str]) -> str | Code:
    """A text with code in place of each secret in it; `secrets` are names by value."""
    for value, name in secrets.items():
        code = f"os.environ[{name!r}]"
        if text == value:
            return Code(code, text)
        text = text.replace(value, str(Code(code)))
    return text


@dataclass(frozen=True)
class _Call:
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def render(value: Any, indent: str = "", lead: int = 0, tail: int = 0) -> str:
    """A value as code that stands at `indent` after `lead` characters, before `tail` others."""
    flat = _flat(value)
    if flat is not None and len(indent) + lead + len(flat) + tail <= WIDTH:
        return flat
    return _broken(value, indent, lead)


def _flat(value: Any) -> str | None:
    """On one line, or None where it has several."""
    if isinstance(value, Recorded):
        parts = [_flat_call(part) for part in value.chain]
        return None if None in parts else ".".join(part for part in parts if part)
    if isinstance(value, Code):
        return value.text
    if isinstance(value, str):
        return None if "\n" in value else _text(value)
    if isinstance(value, tuple | list):
        items = [_flat(item) for item in value]
        return None if None in items else f"[{', '.join(str(item) for item in items)}]"
    if isinstance(value, dict):
        pairs = [(_flat(key), _flat(item)) for key, item in value.items()]
        if any(None in pair for pair in pairs):
            return None
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    return value_code(value, render)


def _flat_call(part: str | _Call) -> str | None:
    if isinstance(part, str):
        return part
    items = [_flat(value) for value in part.args]
    items += [_flat_keyword(name, value) for name, value in part.kwargs.items()]
    return None if None in items else f"{part.name}({', '.join(str(item) for item in items)})"


def _flat_keyword(name: str, value: Any) -> str | None:
    flat = _flat(value)
    return None if flat is None else f"{name}={flat}"


def _broken(value: Any, indent: str, lead: int) -> str:
    """Over several lines."""
    if isinstance(value, Recorded):
        return _broken_chain(value, indent, lead)
    if isinstance(value, Code):
        return value.text
    if isinstance(value, str):
        return _long_text(value, indent)
    inner = indent + _INDENT
    if isinstance(value, dict):
        lines = [
            f"{inner}{_flat(key)}: {render(item, inner, len(str(_flat(key))) + 2, 1)},"
            for key, item in value.items()
        ]
        return "\n".join(["{", *lines, indent + "}"])
    if isinstance(value, tuple | list):
        lines = [f"{inner}{render(item, inner, 0, 1)}," for item in value]
        return "\n".join(["[", *lines, f"{indent}]"])
    return value_code(value, render)


def _broken_chain(value: Recorded, indent: str, lead: int) -> str:
    """A call after the other, each on a line of its own from the second on."""
    start, links = _links(value.chain)
    inner = indent + _INDENT
    head, first = links[0]
    if len(links) == 1:
        name = ".".join([start, *head, ""])
        return name + _broken_call(first, indent, lead + len(name))
    lines = []
    for number, (names, call) in enumerate(links):
        # As formatters have it: the first call stays beside the name.
        name = ".".join([start if number == 0 else "", *names, ""])
        lines.append(inner + name + _broken_call(call, inner, len(name)))
    return "\n".join(["(", *lines, f"{indent})"])


def _links(chain: tuple[str | _Call, ...]) -> tuple[str, list[tuple[list[str], _Call]]]:
    """The name that a chain begins with, and each call with the names before it."""
    start, *rest = chain
    assert isinstance(start, str)
    links: list[tuple[list[str], _Call]] = []
    names: list[str] = []
    for part in rest:
        if isinstance(part, str):
            names.append(part)
        else:
            links.append((names, part))
            names = []
    return start, links


def _broken_call(call: _Call, indent: str, lead: int) -> str:
    flat = _flat_call(call)
    if flat is not None and len(indent) + lead + len(flat) <= WIDTH:
        return flat
    inner = indent + _INDENT
    packed = flat[len(call.name) + 1 : -1] if flat is not None else None
    if packed is not None and len(inner) + len(packed) <= WIDTH:
        return f"{call.name}(\n{inner}{packed}\n{indent})"
    lines = [f"{inner}{render(value, inner, 0, 1)}," for value in call.args]
    lines += [
        f"{inner}{name}={render(value, inner, len(name) + 1, 1)},"
        for name, value in call.kwargs.items()
    ]
    if len(lines) == 1 and isinstance(next(iter(call.args), None), str) and "\n" in call.args[0]:
        return f"{call.name}({render(call.args[0], indent)})"
    return "\n".join([f"{call.name}(", *lines, f"{indent})"])


def _text(value: str) -> str:
    """A text, with the code in it where there is any."""
    whole = _CODE.fullmatch(value)
    if whole:
        return f"str({whole.group(1)})"
    if not _CODE.search(value):
        return _quoted(value)
    plain = _CODE.sub("\0", value.replace("{", "{{").replace("}", "}}"))
    codes = iter(_CODE.findall(value))
    return "f" + re.sub(
        "\0", lambda _: "{" + next(codes) + "}", _quoted(plain).replace("\\x00", "\0")
    )


def _quoted(value: str) -> str:
    """In double quotes, unless it holds some and no single ones."""
    if '"' in value and "'" not in value:
        return repr(value)
    return '"' + repr(value + '"')[1:-2].replace("\\'", "'").replace('"', '\\"') + '"'


def _long_text(value: str, indent: str) -> str:
    if "\n" in value or _CODE.search(value):
        return _paragraph(value.strip("\n").splitlines(), "") if "\n" in value else _text(value)
    inner = indent + _INDENT
    lines = pretty(value, WIDTH - len(inner))
    return _paragraph([inner + line for line in lines], inner) if len(lines) > 1 else _text(value)


def _paragraph(lines: list[str], margin: str) -> str:
    body = "\n".join(lines).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""\n{body}\n{margin}"""'
