"""The schema registry of the development cluster: Apicurio, with the API of Confluent's registry.

Its folder has `data/` (an H2 database, so that schemas outlive a stop and a crash) beside what a
`Daemon` has. It needs no broker. The program is one archive of the jar lock, which is unpacked into
the cache at the first start. Called by `cluster.dev` only.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from headrace.cluster import jars
from headrace.cluster.daemon import Daemon
from headrace.cluster.lock import jar_set
from headrace.cluster.ports import HOST
from headrace.errors import NodeFailed, OutsideError

SET = "registry"
API = "/apis/ccompat/v7"
# What Confluent's registry begins with. Apicurio's own beginning would accept any change.
FIRST_LEVEL = "BACKWARD"

_JVM = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
)
_SETTINGS = {
    "quarkus.http.host": HOST,
    "quarkus.http.access-log.enabled": "false",
    "quarkus.banner.enabled": "false",
    "quarkus.log.console.enable": "false",
    "quarkus.log.file.enable": "true",
    "quarkus.log.file.json": "false",
    "quarkus.log.file.path": "logs/server.log",
    "quarkus.log.file.format": "%d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %s (%c{1})%n%e",
    "quarkus.log.file.rotation.rotate-on-boot": "false",
    "quarkus.log.file.rotation.max-file-size": "10M",
    "quarkus.log.file.rotation.max-backup-index": "3",
    "apicurio.storage.kind": "sql",
    "apicurio.storage.sql.kind": "h2",
    # Below the process's own folder, whose path may hold what is syntax to H2. What was answered
    # is on disk: by default H2 would write it within half a second.
    "apicurio.datasource.url": "jdbc:h2:file:./data/registry;WRITE_DELAY=0",
    "apicurio.datasource.jdbc.initial-size": "1",
    "apicurio.datasource.jdbc.min-size": "1",
    "apicurio.datasource.jdbc.max-size": "10",
    "apicurio.ccompat.max-subjects": "100000",
}
# Variables of the user's that would be settings of this process.
_FOREIGN = ("QUARKUS_", "APICURIO_")


class Registry(Daemon):
    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        super().__init__(folder, "the registry", f"-Dheadrace.registry={folder}")

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}{API}"

    def start(self, java: Path) -> None:
        """Start the process and return; it answers later."""
        settings = {**_SETTINGS, "quarkus.http.port": str(self.port)}
        properties = [f"-D{name}={value}" for name, value in settings.items()]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.launch(
            [java, *_JVM, self._mark, *properties, "-jar", _program()],
            {name: text for name, text in os.environ.items() if not name.startswith(_FOREIGN)},
        )

    def answers(self, seconds: float = 1.0) -> bool:
        """Whether it serves clients."""
        try:
            return self._ask("GET", seconds) == 200
        except (OSError, HTTPException):
            return False

    def settle(self) -> None:
        """Give a new one, that answers, its first compatibility level; any other keeps its own."""
        made = self.folder / "made"
        if made.exists():
            return
        status = self._ask("PUT", 10, {"compatibility": FIRST_LEVEL})
        if status != 200:
            raise NodeFailed(self.name, f"its first setting was answered {status}", str(self.log))
        # Only now: one that is killed before this gets its level the next time.
        made.touch()

    def _ask(self, method: str, seconds: float, body: dict[str, str] | None = None) -> int:
        """The status of a request about the level of all subjects, which its storage answers."""
        connection = HTTPConnection(HOST, self.port, timeout=seconds)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, f"{API}/config", json.dumps(body) if body else None, headers)
            return connection.getresponse().status
        finally:
            connection.close()


def _program() -> Path:
    """The jar to run, beside all that it needs; unpacked once for each archive."""
    (archive,) = jars.ensure(SET)
    (locked,) = jar_set(SET)
    folder = jars.cache_folder() / SET / f"{locked.version}-{locked.sha256[:16]}"
    if not folder.is_dir():
        _unpack(archive, folder)
    return folder / f"{locked.artifact}-{locked.version}-runner.jar"


def _unpack(archive: Path, folder: Path) -> None:
    """Into another folder first, so that no half of it is ever seen under its name."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder.parent))
    try:
        with tarfile.open(archive) as content:
            content.extractall(scratch, filter="data")
        # Another process may have been faster, with the same.
        with suppress(OSError):
            scratch.rename(folder)
    except tarfile.TarError as failure:
        raise OutsideError(f"unpacking {archive}: {failure}", "delete that file") from failure
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
