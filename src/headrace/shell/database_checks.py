"""What `test_connection` tries with a database: PostgreSQL, the one that pipelines can use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, LiteralString

from headrace.model import jdbc
from headrace.shell import sockets
from headrace.shell.connections import Check, Failed
from headrace.shell.known import Connection

if TYPE_CHECKING:
    from psycopg import Connection as Session
    from psycopg import Error

_CURES = {
    "28P01": "correct `user` and `password`",
    "28000": "correct `user` and `password`, or let an operator allow this login in pg_hba.conf",
    "3D000": "correct the database at the end of `url`, or make it: CREATE DATABASE",
    "42P01": "correct the table, or make it",
    "42501": "let an operator GRANT it to this user",
    "53300": "the server has as many clients as it takes; try again",
    "57P03": "the server starts or stops; try again",
}
# While one logs in, the server's words are all that the client passes on.
_LOGIN_CURES = (
    ("password authentication failed", _CURES["28P01"]),
    ("no password supplied", "set `password`"),
    ("no pg_hba.conf entry", _CURES["28000"]),
    ("does not exist", _CURES["3D000"]),
    ("too many clients", _CURES["53300"]),
    ("starting up", _CURES["57P03"]),
    ("shutting down", _CURES["57P03"]),
    ("does not support SSL", "turn TLS on at the server, or set sslmode=disable"),
    ("certificate", "let the system trust who signed it, or set sslmode=require"),
    ("root.crt", "let the system trust who signed it, or set sslmode=require"),
    ("timeout", "look into the log of the server, and whether this is a PostgreSQL"),
    ("invalid response", "this is not PostgreSQL: check the port in `url`"),
    ("closed the connection", "this may be no PostgreSQL: check the port in `url`"),
)
_LOGIN_SECONDS = 4

_PRIVILEGES = {"source": "SELECT", "sink": "INSERT"}


def checks(connection: Connection) -> Iterator[Check]:
    test = _Database(connection)
    try:
        yield Check("address", test.address)
        yield Check("port", test.port)
        yield Check("login", test.login)
        if connection.options.get("table"):
            yield Check("table", test.table)
            yield Check("permission", test.permission, vital=False)
        elif connection.options.get("query"):
            yield Check("query", test.query)
    finally:
        test.leave()


@dataclass
class _Database:
    connection: Connection
    _session: Session[Any] | None = field(default=None, init=False)

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

    def login(self) -> str:
        """As the driver of pipelines does by `sslmode`: encrypted where the server offers it."""
        import psycopg

        user = self.connection.options.get("user", "")
        place = self.place
        try:
            self._session = psycopg.connect(
                host=",".join(host for host, _ in place.hosts),
                port=",".join(str(port) for _, port in place.hosts),
                dbname=place.database,
                user=user,
                password=self.connection.options.get("password", ""),
                sslmode=place.parameters.get("sslmode", "prefer"),
                connect_timeout=_LOGIN_SECONDS,
                application_name="headrace",
                autocommit=True,
            )
        except psycopg.Error as failure:
            raise _login_failure(failure) from failure
        ((version,),) = self._ask("SHOW server_version")
        tls = "encrypted" if self._session.pgconn.ssl_in_use else "not encrypted"
        return f"logged in as {user}, PostgreSQL {version}, {tls}"

    def table(self) -> str:
        name = self.connection.options["table"]
        ((found,),) = self._ask("SELECT to_regclass(%s)::text", jdbc.quoted_table(name))
        if found is None and self._is_made():
            return f"{name} is made by the first run"
        if found is None:
            raise Failed(f"there is no table {name}", _CURES["42P01"])
        count = (
            "SELECT count(*) FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped "
            "AND attrelid = to_regclass(%s)"
        )
        ((columns,),) = self._ask(count, jdbc.quoted_table(name))
        return f"{name} has {columns} columns"

    def permission(self) -> str:
        name = self.connection.options["table"]
        allowed = []
        for privilege in ("SELECT", "INSERT"):
            asked = "SELECT has_table_privilege(to_regclass(%s), %s)"
            ((answer,),) = self._ask(asked, jdbc.quoted_table(name), privilege)
            if answer is None:
                return "the table is not there yet"
            allowed += [privilege] if answer else []
        needed = _PRIVILEGES.get(self.connection.role or "")
        if not allowed or (needed and needed not in allowed):
            user = self.connection.options.get("user")
            grant = f"GRANT {needed or 'SELECT'} ON {name} TO {user}"
            raise Failed(f"{user} may not {needed or 'SELECT'}", f"let an operator run: {grant}")
        return f"may {' and '.join(allowed)}"

    def query(self) -> str:
        """Understood by the server, not run."""
        from psycopg.pq import DiagnosticField, ExecStatus

        assert self._session is not None
        result = self._session.pgconn.prepare(b"", self.connection.options["query"].encode())
        if result.status == ExecStatus.COMMAND_OK:
            return "the server understands the query"
        said = (result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
        raise _failed(said, (result.error_field(DiagnosticField.SQLSTATE) or b"").decode())

    def leave(self) -> None:
        if self._session is not None:
            self._session.close()

    def _is_made(self) -> bool:
        options = self.connection.options
        return self.connection.role == "sink" and options.get("create_table", "true") != "false"

    def _ask(self, sql: LiteralString, *values: str) -> Sequence[tuple[Any, ...]]:
        """The rows of one question of ours; what goes wrong, with what to do about it."""
        import psycopg

        assert self._session is not None
        try:
            return self._session.execute(sql, values).fetchall()
        except psycopg.Error as failure:
            raise _failed(
                failure.diag.message_primary or str(failure), failure.sqlstate
            ) from failure


def _failed(said: str, state: str | None) -> Failed:
    told = f"{said} (SQLSTATE {state})" if state else said
    return Failed(told, _CURES.get(state or "", "look into the log of the server"))


def _login_failure(failure: Error) -> Failed:
    said = str(failure).strip().splitlines()[-1]
    cures = [cure for words, cure in _LOGIN_CURES if words in str(failure)]
    return Failed(said, cures[0] if cures else "look into the log of the server")
