"""Make `.venv` with every pinned package, and fetch the jars; called by `setup.py`.

Needs nothing but the standard library. Safe to interrupt and to repeat: pip and the jar cache keep
what they have, and a stamp in `.venv` makes a run with nothing to do instant, without network.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

INTERRUPTED = 130
FAILED = 3


class SetupError(Exception):
    """A sentence for the person at the screen."""


class Clone(NamedTuple):
    root: Path

    @property
    def venv(self) -> Path:
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def stamp(self) -> Path:
        return self.venv / "headrace-setup.stamp"

    @property
    def pinned(self) -> list[Path]:
        """The files that decide what is installed."""
        locks = sorted((self.root / "requirements").glob("*.lock"))
        return [*locks, self.root / "pyproject.toml"]


def main(root: str) -> int:
    clone = Clone(Path(root))
    # Parts of Headrace that need no packages: the search for Java, and the jar cache.
    sys.path.insert(0, str(clone.root / "src"))
    try:
        _set_up(clone)
    except SetupError as failure:
        print(failure, file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("interrupted; run it again to go on", file=sys.stderr)
        return INTERRUPTED
    return 0


def _set_up(clone: Clone) -> None:
    if _is_done(clone):
        return
    _check_java()
    _make_venv(clone)
    for title, arguments in _pip_steps():
        _step(title, [clone.python, "-m", "pip", *arguments], clone)
    _step("jars", [clone.python, "-m", "headrace.cli.main", "jars", "fetch"], clone)
    clone.stamp.write_text(_fingerprint(clone))
    _say("ready: try `.venv/bin/headrace --help`, or `make demo`")


def _is_done(clone: Clone) -> bool:
    stamped = clone.stamp.is_file() and clone.stamp.read_text() == _fingerprint(clone)
    return stamped and (clone.venv / "bin" / "headrace").is_file() and _have_jars()


def _fingerprint(clone: Clone) -> str:
    """What was installed, where: a moved clone has scripts that point to its old place."""
    digest = hashlib.sha256(str(clone.root).encode())
    for file in clone.pinned:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _have_jars() -> bool:
    from headrace.cluster.jars import cached
    from headrace.cluster.lock import usual_sets

    return all(path for name in usual_sets() for path in cached(name).values())


def _check_java() -> None:
    from headrace.cluster.java import find_java
    from headrace.errors import JavaMissing

    try:
        find_java()
    except JavaMissing as missing:
        raise SetupError(f"{missing}; {missing.hint}") from missing


def _make_venv(clone: Clone) -> None:
    if _usable(clone.python):
        return
    try:
        import ensurepip  # noqa: F401
        import venv
    except ImportError as missing:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        raise SetupError(
            f"{sys.executable} cannot make virtual environments ({missing.name} is missing); on "
            f"Debian and Ubuntu install that part of it: sudo apt-get install {version}-venv"
        ) from missing
    _say(f"making {clone.venv}")
    venv.create(clone.venv, clear=True, symlinks=True, with_pip=True)


def _usable(python: Path) -> bool:
    """Whether there is an environment with pip, and a Python that runs and is new enough."""
    test = "import pip, sys; sys.exit(sys.version_info < (3, 11))"
    try:
        return (
            subprocess.run([python, "-c", test], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


def _pip_steps() -> list[tuple[str, list[str]]]:
    install = ["install", "--disable-pip-version-check", "--no-input"]
    checked = [*install, "--require-hashes"]
    # Building what comes as source with the pinned tools, not with whatever is newest that day.
    pinned_tools = "--no-build-isolation"
    return [
        ("build tools", [*checked, "-r", "requirements/build.lock"]),
        ("packages", [*checked, pinned_tools, "-r", "requirements/all.lock"]),
        ("Headrace itself", [*install, "--no-deps", pinned_tools, "-e", "."]),
    ]


def _step(title: str, command: list[str | Path], clone: Clone) -> None:
    _say(title)
    code = subprocess.run(command, cwd=clone.root, check=False).returncode
    if code != 0:
        raise SetupError(f"{title}: not finished (see above); run `make setup` again to go on")


def _say(text: str) -> None:
    print(f"── {text}", flush=True)
