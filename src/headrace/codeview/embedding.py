"""Functions that Spark's Python workers call, as text that stands by itself.

A script must not import Headrace, so what a function needs of its modules is copied into it: the
definitions that it uses, those that they use, and so on. What comes from other packages is
imported; constants that come from other modules of Headrace are written out.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

# What tells the linters of this project something.
_FOR_TOOLS = re.compile(r"  # (?:noqa|type: ignore)[^\n]*")
_OURS = __name__.partition(".")[0]


@dataclass
class Embedding:
    """What has been copied so far: imports, and definitions in the order of their use."""

    imports: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    _done: set[tuple[str, str]] = field(default_factory=set)

    def closure(self, function: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
        """The text of a function that is defined in another, and the values that it closes over."""
        text = textwrap.dedent(inspect.getsource(function))
        values = inspect.getclosurevars(function)
        module = sys.modules[function.__module__]
        for name in _names(ast.parse(text)):
            if name in values.globals:
                self.add(module, name)
        return text.rstrip(), dict(values.nonlocals)

    def add(self, module: ModuleType, name: str) -> None:
        """A definition of a module of ours, with all that it needs."""
        if (module.__name__, name) in self._done:
            return
        self._done.add((module.__name__, name))
        for node, text in _definitions(module):
            if name in _defined(node):
                self._take(module, node, name, text)
                return

    def _take(self, module: ModuleType, node: ast.stmt, name: str, text: str) -> None:
        if isinstance(node, ast.Import):
            self.imports.update(f"import {_alias(each)}" for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            self._import_from(module, node, name)
        else:
            for used in _names(node):
                if used != name:
                    self.add(module, used)
            self._write(text, _is_block(node))

    def _write(self, text: str, block: bool) -> None:
        """Two lines between blocks, and none between constants."""
        after_block = bool(self.lines) and self.lines[-1].startswith((" ", ")"))
        self.lines += [*(["", ""] if block or after_block else []), *text.splitlines()]

    def _import_from(self, module: ModuleType, node: ast.ImportFrom, name: str) -> None:
        origin = node.module or ""
        found = next(each for each in node.names if (each.asname or each.name) == name)
        if origin.partition(".")[0] != _OURS:
            self.imports.add(f"from {origin} import {_alias(found)}")
            return
        value = getattr(module, name)
        if isinstance(value, str | int | float | tuple):
            self._write(f"{name} = {value!r}", block=False)
        else:
            self.add(sys.modules[origin], found.name)


def _definitions(module: ModuleType) -> Iterator[tuple[ast.stmt, str]]:
    """The statements of a module with the comments above them."""
    lines = inspect.getsource(module).splitlines()
    for node in _statements(ast.parse("\n".join(lines))):
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        while first > 1 and lines[first - 2].startswith("#"):
            first -= 1
        yield node, _FOR_TOOLS.sub("", "\n".join(lines[first - 1 : node.end_lineno]))


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Those of the module, and the imports that are for type checkers only."""
    for node in tree.body:
        yield from node.body if isinstance(node, ast.If) else [node]


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {each.asname or each.name for each in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _names(tree: ast.AST) -> list[str]:
    """The names that are read in it, those in annotations too, in the order of the text."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    names = (node.id for node in sorted(found, key=lambda node: (node.lineno, node.col_offset)))
    return [name for name in dict.fromkeys(names) if not hasattr(builtins, name)]


def _is_block(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef)


def _alias(name: ast.alias) -> str:
    return f"{name.name} as {name.asname}" if name.asname else name.name
