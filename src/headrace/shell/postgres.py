"""The few messages of PostgreSQL's protocol by which one logs in and asks a question.

For `test_connection`, which starts no JVM and so has no JDBC driver. Pipelines never come here.
Version 3 of the protocol: TLS when the server offers it, login by SCRAM-SHA-256, MD5 or in clear.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from dataclasses import dataclass

_VERSION = 196608  # 3.0
_SSL_REQUEST = 80877103
_LONGEST = 1 << 24  # of an answer; what is not PostgreSQL may say anything
_MECHANISM = "SCRAM-SHA-256"

Row = tuple[str | None, ...]


class Refused(Exception):
    """An error of the server, with its SQLSTATE."""

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state


class NotPostgres(Exception):
    """The other side speaks something else."""


@dataclass
class Postgres:
    """One connection; every read is bounded by the socket's timeout."""

    socket: socket.socket

    def start_tls(self, context: ssl.SSLContext, host: str) -> str | None:
        """Go on encrypted; the version of TLS, or None where the server offers none."""
        self.socket.sendall(struct.pack("!ii", 8, _SSL_REQUEST))
        answer = self.socket.recv(1)
        if answer == b"N":
            return None
        if answer != b"S":
            raise NotPostgres
        wrapped = context.wrap_socket(self.socket, server_hostname=host)
        self.socket = wrapped
        return wrapped.version()

    def login(self, user: str, password: str, database: str) -> None:
        names = {"user": user, "database": database, "application_name": "headrace"}
        words = b"".join(
            name.encode() + b"\0" + each.encode() + b"\0" for name, each in names.items()
        )
        start = struct.pack("!i", _VERSION) + words + b"\0"
        self.socket.sendall(struct.pack("!i", len(start) + 4) + start)
        scram = _Scram(password)
        while True:
            kind, body = self._receive()
            if kind == b"Z":
                return
            if kind == b"R":
                self._answer(body, scram, user, password)

    def ask(self, sql: str) -> list[Row]:
        """The rows of one question of ours; values are text."""
        self._send(b"Q", sql.encode() + b"\0")
        return self._rows()

    def prepare(self, sql: str) -> None:
        """Let the server understand one statement of the user's, without doing it."""
        self._send(b"P", b"\0" + sql.encode() + b"\0" + struct.pack("!h", 0))
        self._send(b"S", b"")
        self._rows()

    def _rows(self) -> list[Row]:
        rows: list[Row] = []
        failure: Refused | None = None
        while True:
            try:
                kind, body = self._receive()
            except Refused as refused:
                failure = refused  # the server says when it is ready again
                continue
            if kind == b"D":
                rows.append(_row(body))
            elif kind == b"Z":
                if failure is not None:
                    raise failure
                return rows

    def _answer(self, body: bytes, scram: _Scram, user: str, password: str) -> None:
        """To what the server wants to know before it lets us in."""
        (code,) = struct.unpack_from("!i", body)
        rest = body[4:]
        if code == 3:
            self._send(b"p", password.encode() + b"\0")
        elif code == 5:
            inner = hashlib.md5((password + user).encode()).hexdigest().encode()
            self._send(b"p", b"md5" + hashlib.md5(inner + rest).hexdigest().encode() + b"\0")
        elif code == 10:
            if _MECHANISM.encode() not in rest.split(b"\0"):
                raise Refused("28000", f"the server does not take a login by {_MECHANISM}")
            first = scram.first().encode()
            length = struct.pack("!i", len(first))
            self._send(b"p", _MECHANISM.encode() + b"\0" + length + first)
        elif code == 11:
            self._send(b"p", scram.final(rest.decode()).encode())
        elif code == 12:
            scram.verify(rest.decode())
        elif code != 0:
            raise Refused("28000", "the server wants a login that is neither SCRAM nor MD5")

    def _send(self, kind: bytes, body: bytes) -> None:
        self.socket.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def _receive(self) -> tuple[bytes, bytes]:
        head = self._read(5)
        (length,) = struct.unpack("!i", head[1:])
        if not head[:1].isalnum() or not 4 <= length <= _LONGEST:
            raise NotPostgres
        body = self._read(length - 4)
        if head[:1] == b"E":
            raise _refused(body)
        return head[:1], body

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise NotPostgres
            data += more
        return data


class _Scram:
    """The client's side of SCRAM-SHA-256 (RFC 7677); the password never travels."""

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        self._bare = f"n=,r={secrets.token_urlsafe(18)}"
        self._signature = b""

    def first(self) -> str:
        return "n,," + self._bare

    def final(self, challenge: str) -> str:
        said = dict(part.split("=", 1) for part in challenge.split(","))
        if not said["r"].startswith(self._bare.split("r=", 1)[1]):
            raise NotPostgres
        salt, rounds = base64.b64decode(said["s"]), int(said["i"])
        salted = hashlib.pbkdf2_hmac("sha256", self._password, salt, rounds)
        without_proof = f"c=biws,r={said['r']}"
        talk = f"{self._bare},{challenge},{without_proof}".encode()
        key = _hmac(salted, b"Client Key")
        proof = bytes(
            a ^ b for a, b in zip(key, _hmac(hashlib.sha256(key).digest(), talk), strict=True)
        )
        self._signature = _hmac(_hmac(salted, b"Server Key"), talk)
        return f"{without_proof},p={base64.b64encode(proof).decode()}"

    def verify(self, final: str) -> None:
        """That the server knows the password, too."""
        given = base64.b64decode(final.removeprefix("v="))
        if not hmac.compare_digest(given, self._signature):
            raise Refused("28000", "the server does not know the password that it asks for")


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _refused(body: bytes) -> Refused:
    fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
    return Refused(fields.get(b"C", ""), fields.get(b"M", "no reason was given"))


def _row(body: bytes) -> Row:
    (count,) = struct.unpack_from("!h", body)
    at, values = 2, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", body, at)
        at += 4
        values.append(None if length < 0 else body[at : at + length].decode(errors="replace"))
        at += max(length, 0)
    return tuple(values)
