"""Find the Java that runs Kafka, Spark and Ivy: by `JAVA_HOME`, then by `PATH`; 17 or newer.

Used before anything else is installed (`tools/setup.py`), so it needs the standard library only.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from headrace.errors import JavaMissing

OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_OS_RELEASE = Path("/etc/os-release")
# By package manager, the first that is there: what it calls a Java that is new enough.
_INSTALLERS = (
    ("apt-get", "sudo apt-get install {apt}"),
    ("dnf", "sudo dnf install java-21-openjdk-headless"),
    ("zypper", "sudo zypper install java-21-openjdk-headless"),
    ("pacman", "sudo pacman -S jre21-openjdk-headless"),
    ("apk", "sudo apk add openjdk21-jre-headless"),
)


def find_java() -> Path:
    """The `java` to run, known to be new enough; `JavaMissing` says what was found instead.

    A `JAVA_HOME` that is set decides: Spark obeys it too, and the two must not differ.
    """
    return _find(os.environ.get("JAVA_HOME") or None, os.environ.get("PATH"))


@cache
def _find(home: str | None, path: str | None) -> Path:
    java, place = _candidate(home, path)
    version = _version(java)
    if version is None:
        raise JavaMissing(f"{place} does not run", install_command())
    if version < OLDEST:
        raise JavaMissing(f"{place} is Java {version}", install_command())
    return java


def _candidate(home: str | None, path: str | None) -> tuple[Path, str]:
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise JavaMissing(f"JAVA_HOME={home} has no bin/java", install_command())
        return java, f"the one of JAVA_HOME={home}"
    found = shutil.which("java", path=path)
    if found is None:
        raise JavaMissing("none was found by JAVA_HOME or on the PATH", install_command())
    return Path(found), found


def _version(java: Path) -> int | None:
    """The feature version (8, 11, 17, …); None if it does not run, as macOS' stand-in."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match and answer.returncode == 0 else None


def install_command() -> str:
    """The command that installs a fitting Java on this system."""
    if platform.system() == "Darwin":
        return 'brew install openjdk@21 && export JAVA_HOME="$(brew --prefix openjdk@21)"'
    for program, command in _INSTALLERS:
        if shutil.which(program):
            return command.format(apt=_apt_package())
    return "with your system's package manager, a JDK or JRE of version 17 or newer"


def _apt_package() -> str:
    """Debian dropped version 17 with its release 13; Ubuntu and older Debians have it."""
    text = _OS_RELEASE.read_text() if _OS_RELEASE.is_file() else ""
    release = re.search(r'^VERSION_ID="?(\d+)', text, re.MULTILINE)
    debian = re.search(r'^ID="?debian"?$', text, re.MULTILINE)
    newer = debian is not None and release is not None and int(release[1]) >= 13
    return "openjdk-21-jre-headless" if newer else "openjdk-17-jre-headless"
