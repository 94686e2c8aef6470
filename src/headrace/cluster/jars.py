"""The jars that Spark and Kafka run with, fetched once into a cache and checked against the lock.

Comes in: the name of a set in `jars.lock` (`spark`: what PySpark lacks; `kafka`: the broker, never
on Spark's class path; `registry`: the schema registry, one archive). Goes out: the paths of its
jars, complete and verified. Called by whatever starts a JVM. Nothing is printed; a caller that
wants to show progress passes `on_progress`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.cluster import ivy
from headrace.cluster.lock import Jar, jar_set
from headrace.errors import ChecksumMismatch, JarsUnavailable

CACHE_VARIABLE = "HEADRACE_CACHE"
_FETCHED = re.compile(r"\[SUCCESSFUL ] (?P<group>[^#]+)#(?P<artifact>[^;]+);")
# What explains a failure best comes first; "module not found" may hide a network that is down.
_COMPLAINTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (r"server access error", r"host .* not found", r"exception", r"not found")
)


@dataclass(frozen=True)
class Progress:
    """How far a fetch is: `jar` has just come, as number `count` of `total`."""

    jar: Jar
    count: int
    total: int
    bytes_done: int
    bytes_total: int


OnProgress = Callable[[Progress], None]


def ensure(set_name: str, on_progress: OnProgress | None = None) -> list[Path]:
    """The jars of a set, fetched as far as they are missing; each is verified at every call."""
    return ensure_jars(jar_set(set_name), jar_folder(), on_progress)


def ensure_jars(
    jars: Sequence[Jar], folder: Path, on_progress: OnProgress | None = None
) -> list[Path]:
    """The same for any jars, kept in `folder`.

    A jar is put in its place only whole and verified, so that an interrupted call leaves nothing
    wrong behind and the next one fetches only the rest. Several processes may call this at once.
    """
    if _missing(jars, folder):
        with _only_one_process(folder):
            _fetch(_missing(jars, folder), folder, on_progress)
    paths = [folder / jar.file_name for jar in jars]
    for jar, path in zip(jars, paths, strict=True):
        _verify(jar, path)
    return paths


def cached(set_name: str) -> dict[Jar, Path | None]:
    """Each jar of a set and where it is, or None while it was not fetched. Nothing is verified."""
    folder = jar_folder()
    places = {jar: folder / jar.file_name for jar in jar_set(set_name)}
    return {jar: path if path.is_file() else None for jar, path in places.items()}


def cache_folder() -> Path:
    """Where Headrace keeps what can be fetched again; `HEADRACE_CACHE` names another place."""
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return Path(own).expanduser().absolute()
    if platform.system() == "Darwin":
        return Path.home() / "Library" / "Caches" / "headrace"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headrace"


def jar_folder() -> Path:
    return cache_folder() / "jars"


def _missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not (folder / jar.file_name).is_file()]


@contextmanager
def _only_one_process(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(jars: Sequence[Jar], folder: Path, on_progress: OnProgress | None) -> None:
    if not jars:
        return
    arrived, downloads = folder / ".arrived", folder / ".ivy"
    shutil.rmtree(arrived, ignore_errors=True)
    watch = _Watch(jars, on_progress)
    ivy.retrieve(map(_module, jars), arrived, downloads, watch)
    lost = [jar for jar in jars if not (arrived / jar.file_name).is_file()]
    for jar in jars:
        if jar not in lost:
            _put_in_place(jar, arrived, downloads, folder)
            watch.came(jar.group, jar.artifact)
    shutil.rmtree(arrived, ignore_errors=True)
    if lost:
        raise JarsUnavailable([jar.coordinate for jar in lost], watch.trouble)
    shutil.rmtree(downloads, ignore_errors=True)


def _module(jar: Jar) -> ivy.Module:
    return ivy.Module(
        jar.group,
        jar.artifact,
        jar.version,
        classifier=jar.classifier,
        extension=jar.extension,
    )


def _put_in_place(jar: Jar, arrived: Path, downloads: Path, folder: Path) -> None:
    file = arrived / jar.file_name
    try:
        _verify(jar, file)
    except ChecksumMismatch:
        # Ivy keeps a copy of the same wrong bytes, and would hand it out again.
        shutil.rmtree(downloads, ignore_errors=True)
        raise
    file.replace(folder / jar.file_name)


def _verify(jar: Jar, path: Path) -> None:
    """Delete a file that is not what the lock says, and raise."""
    with path.open("rb") as handle:
        actual = hashlib.file_digest(handle, "sha256").hexdigest()
    if actual != jar.sha256:
        path.unlink()
        raise ChecksumMismatch(jar.coordinate, jar.sha256, actual)


class _Watch:
    """Reads what Ivy prints: counts the jars that came, remembers the first complaint."""

    def __init__(self, jars: Sequence[Jar], on_progress: OnProgress | None) -> None:
        self._waiting = {(jar.group, jar.artifact): jar for jar in jars}
        self._on_progress = on_progress
        self._total = len(jars)
        self._bytes_total = sum(jar.size for jar in jars)
        self._bytes_done = 0
        self._complaints: dict[re.Pattern[str], str] = {}

    def __call__(self, line: str) -> None:
        fetched = _FETCHED.search(line)
        if fetched:
            self.came(fetched["group"].strip(), fetched["artifact"])
        for pattern in _COMPLAINTS:
            if pattern.search(line):
                self._complaints.setdefault(pattern, line.strip(" \t:"))

    @property
    def trouble(self) -> str:
        known = (self._complaints.get(pattern) for pattern in _COMPLAINTS)
        return next(filter(None, known), "Ivy gave no reason")

    def came(self, group: str, artifact: str) -> None:
        """Count a jar, once; Ivy says nothing of those that an interrupted fetch had brought."""
        jar = self._waiting.pop((group, artifact), None)
        if jar is None:
            return
        self._bytes_done += jar.size
        if self._on_progress:
            count = self._total - len(self._waiting)
            self._on_progress(
                Progress(jar, count, self._total, self._bytes_done, self._bytes_total)
            )
