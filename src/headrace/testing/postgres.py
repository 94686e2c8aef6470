"""A real PostgreSQL for tests: on a free port of the loopback address, and gone afterwards.

>>> from headrace.testing.postgres import postgres
>>> with postgres() as server:                   # doctest: +SKIP
...     database = server.database("orders")
...     database.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY)")

The programs are those of the system, else those of `postgres.lock`, fetched once as every jar is.
PostgreSQL does not run as root; started by root it runs as `nobody`. `execute` needs psycopg.

The server is the child of `python -m headrace.testing.postgres`, which ends it and deletes its
folder as soon as its own standard input is closed: at the end of the block, and also when the test
process is killed.
"""

from __future__ import annotations

import io
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from platform import machine, system
from typing import Any

from headrace.cluster.jars import ensure_jars, jar_folder
from headrace.cluster.lock import Jar, parse_lock
from headrace.cluster.ports import HOST, free_ports
from headrace.errors import OutsideError

LOCK_FILE = Path(__file__).with_name("postgres.lock")
USER = "headrace"
_START_SECONDS = 60
_OWNER_FOR_ROOT = "nobody"


@dataclass(frozen=True)
class Database:
    """One database of a server, empty at first, and how to log in."""

    name: str
    port: int
    password: str
    host: str = HOST
    user: str = USER

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://{self.host}:{self.port}/{self.name}"

    def execute(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run and commit SQL, with `%s` for each of `values`; its rows, if it gives any."""
        import psycopg

        with psycopg.connect(
            host=self.host,
            port=self.port,
            dbname=self.name,
            user=self.user,
            password=self.password,
            autocommit=True,
        ) as connection:
            cursor = connection.execute(sql.encode(), values or None)
            return cursor.fetchall() if cursor.description else []


@dataclass(frozen=True)
class PostgresServer:
    port: int
    password: str

    def database(self, name: str) -> Database:
        """A new database."""
        main = Database("postgres", self.port, self.password)
        quoted = name.replace('"', '""')
        main.execute(f'CREATE DATABASE "{quoted}"')
        return Database(name, self.port, self.password)


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    """A server that answers, for the length of the block."""
    server = PostgresServer(free_ports(1)[0], secrets.token_hex(16))
    folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
    guard: subprocess.Popen[bytes] | None = None
    try:
        programs = _installed() or _unpack(folder)
        _make_cluster(programs, folder, server)
        guard = subprocess.Popen(
            [sys.executable, "-m", __name__, programs, folder, str(server.port)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        _await(server, guard, folder)
        yield server
    finally:
        if guard is not None and guard.stdin is not None:
            guard.stdin.close()
            guard.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _make_cluster(programs: Path, folder: Path, server: PostgresServer) -> None:
    password = folder / "password"
    password.write_text(server.password)
    owner = _as_owner()
    for path in (folder, password) if owner else ():
        os.chown(path, owner["user"], owner["group"])
    command: list[str | Path] = [programs / "initdb", "--pgdata", folder / "data"]
    command += ["--username", USER, "--pwfile", password, "--auth", "scram-sha-256"]
    command += ["--encoding", "UTF8", "--locale", "C", "--no-sync"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **owner)
    if made.returncode != 0:
        raise OutsideError(f"initdb of PostgreSQL: {made.stderr.strip()}")


def _await(server: PostgresServer, guard: subprocess.Popen[bytes], folder: Path) -> None:
    import psycopg

    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            Database("postgres", server.port, server.password).execute("SELECT 1")
        except psycopg.OperationalError as error:
            if guard.poll() is not None or time.monotonic() > end:
                log = (folder / "log").read_text(errors="replace")
                raise OutsideError(f"PostgreSQL did not start: {error}; its log:\n{log}") from error
            time.sleep(0.05)
        else:
            return


def _as_owner() -> dict[str, Any]:
    """How `subprocess` starts a program of the server: as ourselves, unless that is root."""
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam(_OWNER_FOR_ROOT)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _installed() -> Path | None:
    """The newest server of the system, where its packages put it or on the PATH."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def _unpack(folder: Path) -> Path:
    """Into the server's own folder: the cache may stand where its user must not look."""
    (archive,) = ensure_jars([_locked()], jar_folder())
    with zipfile.ZipFile(archive) as jar:
        name = next(name for name in jar.namelist() if name.endswith(".txz"))
        with tarfile.open(fileobj=io.BytesIO(jar.read(name)), mode="r:xz") as tar:
            tar.extractall(folder, filter="data")
    return folder / "bin"


def _locked() -> Jar:
    chip = "arm64v8" if machine() in ("arm64", "aarch64") else "amd64"
    jars = parse_lock(LOCK_FILE.read_text())["postgres"]
    return next(jar for jar in jars if jar.artifact.endswith(f"{system().lower()}-{chip}"))


def main(programs: Path, folder: Path, port: int) -> None:
    """Run the server until standard input is closed, then leave nothing of it."""
    command: list[str | Path] = [programs / "postgres", "-D", folder / "data"]
    settings = {
        "listen_addresses": HOST,
        "port": str(port),
        "unix_socket_directories": "",
        "fsync": "off",  # what a power failure leaves of it interests no test
    }
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            **_as_owner(),
        )
    sys.stdin.buffer.read()
    server.send_signal(signal.SIGINT)  # PostgreSQL's word for: end all sessions and stop
    server.wait()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
