"""The jar lock: which jars Headrace runs, each with its size and SHA-256, in named sets.

`jars.lock` beside this module has one line a jar: set, `group:artifact:version`, bytes, SHA-256.
It is written by `tools/lock_jars.py` and holds no address: where jars come from is Ivy's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headrace.errors import InternalError

LOCK_FILE = Path(__file__).with_name("jars.lock")
_HEADING = "# set, group:artifact:version, bytes, SHA-256; written by tools/lock_jars.py\n"


@dataclass(frozen=True, order=True)
class Jar:
    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def coordinate(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.group}_{self.artifact}-{self.version}.jar"


@cache
def read_lock() -> dict[str, tuple[Jar, ...]]:
    """All sets of the lock that this package ships."""
    return parse_lock(LOCK_FILE.read_text())


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
            group, artifact, version = coordinate.split(":")
            sets.setdefault(name, []).append(Jar(group, artifact, version, int(size), sha256))
    return {name: tuple(jars) for name, jars in sets.items()}


def render_lock(sets: Mapping[str, Iterable[Jar]]) -> str:
    """The text of a lock; the same sets always make the same text."""
    lines = [
        f"{name} {jar.coordinate} {jar.size} {jar.sha256}\n"
        for name, jars in sorted(sets.items())
        for jar in sorted(jars)
    ]
    return _HEADING + "".join(lines)
