"""What `test_connection` tries with a database: PostgreSQL, the one that pipelines can use."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from headrace.model import jdbc
from headrace.shell import sockets
from headrace.shell.connections import Check, Failed
from headrace.shell.known import Connection
from headrace.shell.postgres import NotPostgres, Postgres, Refused

_CURES = {
    "28P01": "correct `user` and `password`",
    "28000": "correct `user` and `password`, or let an operator allow this login in pg_hba.conf",
    "3D000": "correct the database at the end of `url`, or make it: CREATE DATABASE",
    "42P01": "correct the table, or make it",
    "42501": "let an operator GRANT it to this user",
    "53300": "the server has as many clients as it takes; try again",
    "57P03": "the server starts or stops; try again",
}
T = TypeVar("T")

_PRIVILEGES = {"source": "SELECT", "sink": "INSERT"}


def checks(connection: Connection) -> Iterator[Check]:
    test = _Database(connection)
    yield Check("address", test.address)
    yield Check("port", test.port)
    yield Check("tls", test.tls)
    yield Check("login", test.login)
    if connection.options.get("table"):
        yield Check("table", test.table)
        yield Check("permission", test.permission, vital=False)
    elif connection.options.get("query"):
        yield Check("query", test.query)


@dataclass
class _Database:
    connection: Connection
    _session: Postgres | None = field(default=None, init=False)

    @property
    def place(self) -> jdbc.Place:
        url = self.connection.options.get("url", "")
        fault = jdbc.url_fault(url) if url else "is missing"
        if fault:
            raise Failed(f"`url` {fault}", "write 'jdbc:postgresql://host:5432/database'")
        return jdbc.place(url)

    def address(self) -> str:
        return sockets.resolve(self.place.hosts)

    def port(self) -> str:
        return sockets.reach(self.place.hosts)

    def tls(self) -> str:
        """As the driver does by `sslmode`: encrypted if the server offers it, unless told."""
        mode = self.place.parameters.get("sslmode", "prefer")
        closed = dict(sockets.refusals(self.place.hosts))
        hosts = self.place.hosts
        server = next((each for each in hosts if each not in closed), hosts[0])
        self._session = Postgres(sockets.connect(server))
        if mode == "disable":
            return "not wanted (sslmode=disable)"
        context = ssl.create_default_context()
        context.check_hostname = mode == "verify-full"
        if not mode.startswith("verify-"):
            context.verify_mode = ssl.CERT_NONE
        version = self._told(lambda talk: talk.start_tls(context, server[0]))
        if version is None and mode not in ("allow", "prefer"):
            raise Failed(
                f"the server offers no TLS, and sslmode is {mode}",
                "turn TLS on at the server, or set sslmode=disable",
            )
        return version or "the server offers none; the connection is not encrypted"

    def login(self) -> str:
        user = self.connection.options.get("user", "")
        password = self.connection.options.get("password", "")
        database = self.place.database
        self._told(lambda talk: talk.login(user, password, database))
        ((version,),) = self._told(lambda talk: talk.ask("SHOW server_version"))
        return f"logged in as {user}, PostgreSQL {version}"

    def table(self) -> str:
        name = self.connection.options["table"]
        ((found,),) = self._told(lambda talk: talk.ask(f"SELECT to_regclass({_text(name)})"))
        if found is None and self._is_made():
            return f"{name} is made by the first run"
        if found is None:
            raise Failed(f"there is no table {name}", _CURES["42P01"])
        count = (
            "SELECT count(*) FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped "
            f"AND attrelid = to_regclass({_text(name)})"
        )
        ((columns,),) = self._told(lambda talk: talk.ask(count))
        return f"{name} has {columns} columns"

    def permission(self) -> str:
        name = self.connection.options["table"]
        allowed = []
        for privilege in ("SELECT", "INSERT"):
            asked = f"SELECT has_table_privilege(to_regclass({_text(name)}), '{privilege}')"
            ((answer,),) = self._told(lambda talk, sql=asked: talk.ask(sql))  # type: ignore[misc]
            if answer is None:
                return "the table is not there yet"
            allowed += [privilege] if answer == "t" else []
        needed = _PRIVILEGES.get(self.connection.role or "")
        if not allowed or (needed and needed not in allowed):
            user = self.connection.options.get("user")
            grant = f"GRANT {needed or 'SELECT'} ON {name} TO {user}"
            raise Failed(f"{user} may not {needed or 'SELECT'}", f"let an operator run: {grant}")
        return f"may {' and '.join(allowed)}"

    def query(self) -> str:
        """Understood by the server, not run."""
        sql = self.connection.options["query"]
        self._told(lambda talk: talk.prepare(sql))
        return "the server understands the query"

    def _is_made(self) -> bool:
        options = self.connection.options
        return self.connection.role == "sink" and options.get("create_table", "true") != "false"

    def _told(self, question: Callable[[Postgres], T]) -> T:
        """The answer; what goes wrong, with what to do about it."""
        assert self._session is not None
        try:
            return question(self._session)
        except Refused as refused:
            told = f"{refused} (SQLSTATE {refused.state})"
            raise Failed(told, _CURES.get(refused.state)) from refused
        except ssl.SSLCertVerificationError as failure:
            cure = "let the system trust who signed it, or set sslmode=require"
            raise Failed(f"the certificate: {failure.verify_message}", cure) from failure
        except NotPostgres as failure:
            raise Failed("this is not PostgreSQL", "check the port in `url`") from failure
        except (OSError, ValueError) as failure:
            raise Failed(str(failure), "look into the log of the server") from failure


def _text(table: str) -> str:
    """A table's quoted name as text of the database's SQL."""
    return "'" + jdbc.quoted_table(table).replace("'", "''") + "'"
