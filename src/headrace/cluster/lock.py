"""The jar lock: which jars Headrace runs, each with its size and SHA-256, in named sets.

`jars.lock` beside this module has one line a jar: set, `group:artifact:version`, bytes, SHA-256.
What is no jar, as the archive of the schema registry, adds `:classifier@extension` to that.
It is written by `tools/lock_jars.py` and holds no address: where jars come from is Ivy's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headrace.errors import InternalError

LOCK_FILE = Path(__file__).with_name("jars.lock")
# Sets that nothing but one command needs, and that are fetched when it is used first.
ON_REQUEST = frozenset({"registry"})
_HEADING = "# set, group:artifact:version, bytes, SHA-256; written by tools/lock_jars.py\n"


@dataclass(frozen=True, order=True)
class Jar:
    group: str
    artifact: str
    version: str
    size: int
    sha256: str
    classifier: str = ""
    extension: str = "jar"

    @property
    def coordinate(self) -> str:
        name = f"{self.group}:{self.artifact}:{self.version}"
        return f"{name}:{self.classifier}@{self.extension}" if self.classifier else name

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.group}_{self.artifact}-{self.version}{classifier}.{self.extension}"


@cache
def read_lock() -> dict[str, tuple[Jar, ...]]:
    """All sets of the lock that this package ships."""
    return parse_lock(LOCK_FILE.read_text())


def usual_sets() -> list[str]:
    """The sets that Headrace cannot do without."""
    return [name for name in read_lock() if name not in ON_REQUEST]


def jar_set(name: str) -> tuple[Jar, ...]:
    sets = read_lock()
    if name not in sets:
        raise InternalError(f"the jar lock has no set {name}, only {', '.join(sets)}")
    return sets[name]


def parse_lock(text: str) -> dict[str, tuple[Jar, ...]]:
    sets: dict[str, list[Jar]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, coordinate, size, sha256 = line.split()
            sets.setdefault(name, []).append(_jar(coordinate, int(size), sha256))
    return {name: tuple(jars) for name, jars in sets.items()}


def _jar(coordinate: str, size: int, sha256: str) -> Jar:
    group, artifact, version, *rest = coordinate.split(":")
    classifier, extension = rest[0].split("@") if rest else ("", "jar")
    return Jar(group, artifact, version, size, sha256, classifier, extension)


def render_lock(sets: Mapping[str, Iterable[Jar]]) -> str:
    """The text of a lock; the same sets always make the same text."""
    lines = [
        f"{name} {jar.coordinate} {jar.size} {jar.sha256}\n"
        for name, jars in sorted(sets.items())
        for jar in sorted(jars)
    ]
    return _HEADING + "".join(lines)
