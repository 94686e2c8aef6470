"""Run Ivy, the jar fetcher that PySpark ships, in a JVM of its own.

Comes in: which modules are wanted and a folder. Goes out: their files in that folder, as
`group_artifact-version.jar` or `group_artifact-version-classifier.extension`. Repository addresses
stand in Ivy itself, or in the settings file that `HEADRACE_IVY_SETTINGS` names; never here. Called
by `cluster.jars` and by the maintainers' lock tool.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from headrace.cluster.java import find_java
from headrace.errors import InternalError

SETTINGS_VARIABLE = "HEADRACE_IVY_SETTINGS"
FILE_PATTERN = "[organisation]_[artifact]-[revision](-[classifier]).[ext]"

_SETTINGS = """<ivysettings>
  <settings defaultResolver="public"/>
  <property name="ivy.checksums" value=""/>
  <resolvers><ibiblio name="public" m2compatible="true" usepoms="{poms}"/></resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="headrace" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True)
class Module:
    """A module to fetch: alone, or `transitive`, with all that its POM needs at run time."""

    group: str
    artifact: str
    version: str
    transitive: bool = False
    without: str | None = None
    """Artifacts of the same group to leave out of that, as a regular expression."""
    classifier: str = ""
    """Of its files, the one that has this in its name; else its jar."""
    extension: str = "jar"


def retrieve(
    modules: Iterable[Module], into: Path, cache: Path, on_line: Callable[[str], None]
) -> int:
    """Fetch what is wanted and not yet in `cache`, and put it all `into` a folder; Ivy's exit code.

    What could be fetched stays in `cache` even when the code is not 0, so that a second call goes
    on where the first one stopped. Each line that Ivy prints goes to `on_line`.
    """
    modules = tuple(modules)
    with tempfile.TemporaryDirectory(prefix="headrace-ivy-") as scratch:
        request = Path(scratch) / "ivy.xml"
        request.write_text(_request(modules))
        settings = _settings(Path(scratch), any(module.transitive for module in modules))
        arguments: list[str | Path] = ["-settings", settings, "-ivy", request, "-cache", cache]
        arguments += ["-retrieve", into / FILE_PATTERN]
        return _run_ivy(arguments, on_line)


def _run_ivy(arguments: list[str | Path], on_line: Callable[[str], None]) -> int:
    command: list[str | Path] = [find_java(), *proxy_options(os.environ)]
    command += ["-cp", _ivy_jar(), "org.apache.ivy.Main", *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    with process:
        try:
            for line in process.stdout or ():
                on_line(line.rstrip())
        except BaseException:
            process.terminate()
            raise
    return process.returncode


def _request(modules: Iterable[Module]) -> str:
    return _MODULE.format(dependencies="\n".join(_dependency(module) for module in modules))


def _dependency(module: Module) -> str:
    opening = (
        f"    <dependency org={quoteattr(module.group)} name={quoteattr(module.artifact)}"
        f" rev={quoteattr(module.version)}"
    )
    if not module.transitive:
        opening += ' transitive="false" conf="default->master(default)"'
        return (
            f"{opening}>{_artifact(module)}</dependency>" if module.classifier else f"{opening}/>"
        )
    opening += ' conf="default->default"'
    if module.without is None:
        return f"{opening}/>"
    return (
        f"{opening}><exclude org={quoteattr(module.group)} module={quoteattr(module.without)}"
        ' matcher="regexp"/></dependency>'
    )


def _artifact(module: Module) -> str:
    extension = quoteattr(module.extension)
    return (
        f"<artifact name={quoteattr(module.artifact)} type={extension} ext={extension}"
        f" m:classifier={quoteattr(module.classifier)}/>"
    )


def _settings(scratch: Path, poms: bool) -> Path:
    """The company's own settings file, or one that knows nothing but Ivy's default repository.

    Ivy's checksums are off: they would double the requests, and the lock's SHA-256 is stronger.
    """
    own = os.environ.get(SETTINGS_VARIABLE)
    if own:
        return Path(own).expanduser().resolve()
    settings = scratch / "settings.xml"
    settings.write_text(_SETTINGS.format(poms=str(poms).lower()))
    return settings


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    found = [jar for folder in folders or () for jar in Path(folder).glob("jars/ivy-*.jar")]
    if not found:
        raise InternalError("PySpark is not installed, or without its jars")
    return found[0]


def proxy_options(environ: Mapping[str, str]) -> list[str]:
    """Java's options for the proxy that `HTTPS_PROXY` and its kin name, which Java ignores."""
    options = []
    for scheme in ("http", "https"):
        name = f"{scheme}_proxy"
        proxy = urlsplit(environ.get(name) or environ.get(name.upper()) or "")
        if proxy.hostname:
            options.append(f"-D{scheme}.proxyHost={proxy.hostname}")
            options.append(f"-D{scheme}.proxyPort={proxy.port or 80}")
    return options
