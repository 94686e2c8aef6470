"""Python modules beside a pipeline file: importable here and, shipped as text, in Spark's workers.

A worker may be on another machine, and it lives longer than one pipeline. So a worker gets the
text of the modules and never looks for files, and modules of another folder, or of the same one
before it was edited, are forgotten when new ones come.

Pickled by value: a worker needs no Headrace. Nothing here may use other parts of it.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True)
class Text:
    """One module: the file that it was read from, which its tracebacks name, and its bytes."""

    path: str
    source: bytes

    @property
    def is_package(self) -> bool:
        return Path(self.path).name == "__init__.py"


class Modules:
    """The modules and packages of one folder, as a finder and loader of Python's import."""

    def __init__(self, texts: dict[str, Text]) -> None:
        self.texts = texts
        parts = (f"{name}\0{text.path}\0".encode() + text.source for name, text in texts.items())
        self.digest = hashlib.sha256(b"\0".join(parts)).hexdigest()

    @classmethod
    def beside(cls, file: str) -> Modules:
        """Those in the folder of `file`."""
        return cls(dict(sorted(_found(Path(file).resolve().parent))))

    def load(self, path: str) -> object:
        """What `module.name` stands for; a module that is not among these is imported as usual."""
        self._install()
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)

    @property
    def loaded(self) -> list[ModuleType]:
        """Those that were imported from here."""
        return [
            module
            for name, module in list(sys.modules.items())
            if name in self.texts and _digest(_loader(module)) == self.digest
        ]

    def _install(self) -> None:
        if any(_digest(finder) == self.digest for finder in sys.meta_path):
            return
        sys.meta_path[:] = [finder for finder in sys.meta_path if _digest(finder) is None]
        for name, module in list(sys.modules.items()):
            if _digest(_loader(module)) is not None:
                del sys.modules[name]
        # Before Python's own finders, as a folder at the head of `sys.path` would be.
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]

    # What Python's import asks of a finder and of a loader.

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> object:
        text = self.texts.get(name)
        if text is None:
            return None
        spec = spec_from_loader(
            name,
            self,  # type: ignore[arg-type]
            origin=text.path,
            is_package=text.is_package,
        )
        assert spec is not None
        spec.has_location = True
        if text.is_package:
            spec.submodule_search_locations = [str(Path(text.path).parent)]
        return spec

    def create_module(self, _spec: ModuleSpec) -> None:
        """Python's own way will do."""

    def exec_module(self, module: ModuleType) -> None:
        text = self.texts[module.__name__]
        exec(compile(text.source, text.path, "exec", dont_inherit=True), module.__dict__)


def _found(folder: Path, package: str = "") -> Iterator[tuple[str, Text]]:
    for path in folder.iterdir():
        if path.suffix == ".py" and path.stem.isidentifier() and path.is_file():
            name = package.rstrip(".") if path.stem == "__init__" else package + path.stem
            if name:
                yield name, Text(str(path), path.read_bytes())
        elif path.name.isidentifier() and (path / "__init__.py").is_file():
            yield from _found(path, f"{package}{path.name}.")


def _loader(module: ModuleType) -> object:
    return getattr(getattr(module, "__spec__", None), "loader", None)


def _digest(finder: object) -> str | None:
    """Of a finder of this kind, whichever pickle its class came from."""
    found = getattr(finder, "digest", None)
    return found if type(finder).__name__ == Modules.__name__ and isinstance(found, str) else None
