"""Addresses of databases: which JDBC URLs and which table names a definition may hold.

A JDBC driver takes more from its URL than an address. Some of PostgreSQL's parameters name a class
that it loads (`socketFactory`, `sslfactory`) or a file that it reads or writes (`loggerFile`,
`sslkey`, `service`), so parameters come from a list, and whatever is not on it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from headrace.spec import Option, Type

POSTGRES_DRIVER = "org.postgresql.Driver"

_PORT = 5432
_HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_POSTGRES = re.compile(
    rf"jdbc:postgresql://(?P<hosts>{_HOST}(?:,{_HOST})*)/(?P<database>[^?/&#\s\\]+)"
    r"(?:\?(?P<parameters>[^\s]*))?"
)
POSTGRES_PARAMETERS = frozenset(
    {
        "ApplicationName",
        "cancelSignalTimeout",
        "channelBinding",
        "connectTimeout",
        "currentSchema",
        "defaultRowFetchSize",
        "hostRecheckSeconds",
        "loadBalanceHosts",
        "loginTimeout",
        "prepareThreshold",
        "readOnly",
        "reWriteBatchedInserts",
        "socketTimeout",
        "ssl",
        "sslmode",
        "targetServerType",
        "tcpKeepAlive",
    }
)
_LONGEST_NAME = 63  # bytes; PostgreSQL cuts off the rest, and two names may become one


def url_fault(url: str) -> str | None:
    """What is wrong with a JDBC URL, without a word of what may be a password in it."""
    match = _POSTGRES.fullmatch(url)
    if match is None:
        return "is not jdbc:postgresql://host:port/database, the only kind that is supported"
    for parameter in filter(None, (match["parameters"] or "").split("&")):
        name = parameter.partition("=")[0]
        if name in ("user", "password"):
            return f"must not hold the {name}, which is an option of its own"
        if name not in POSTGRES_PARAMETERS:
            return f"has the parameter `{name}`, which is not one of those that are allowed"
    return None


def address(url: str) -> str:
    """`host:port/database` of a URL that has no fault."""
    match = _POSTGRES.fullmatch(url)
    return f"{match['hosts']}/{match['database']}" if match else url


@dataclass(frozen=True)
class Place:
    """What a URL that has no fault names: the hosts with their ports, the database, parameters."""

    hosts: tuple[tuple[str, int], ...]
    database: str
    parameters: Mapping[str, str]


def place(url: str) -> Place:
    match = _POSTGRES.fullmatch(url)
    if match is None:
        raise ValueError(f"{url} is not the URL of a PostgreSQL database")
    hosts = (re.fullmatch(r"(.+?)(?::([0-9]+))?", each) for each in match["hosts"].split(","))
    parameters = (each.partition("=") for each in (match["parameters"] or "").split("&") if each)
    return Place(
        tuple((each[1].strip("[]"), int(each[2] or _PORT)) for each in hosts if each),
        unquote(match["database"]),
        {name: unquote(value) for name, _, value in parameters},
    )


def table_fault(table: str) -> str | None:
    """For `table` or `schema.table`, each part as the database has it, without quotes."""
    parts = table.split(".")
    if len(parts) > 2 or not all(part.strip() for part in parts):
        return "must be a table, or a schema and a table with a dot between them"
    if any('"' in part or "\0" in part for part in parts):
        return "must be written without quotes; capital letters count"
    if any(len(part.encode()) > _LONGEST_NAME for part in parts):
        return f"has a name of more than {_LONGEST_NAME} bytes"
    return None


def quoted(name: str) -> str:
    """A name as SQL of the standard, and so of PostgreSQL, has it."""
    return '"' + name.replace('"', '""') + '"'


def quoted_table(table: str) -> str:
    return ".".join(quoted(part) for part in table.split("."))


# What a source and a sink of a database both take.
CONNECTION = (
    Option(
        "url",
        Type.TEXT,
        "The database. Parameters that name a class or a file are not allowed.",
        required=True,
        example="jdbc:postgresql://localhost:5432/shop",
        validate=url_fault,
    ),
    Option("user", Type.TEXT, "Who logs in.", required=True, example="headrace"),
    Option(
        "password",
        Type.TEXT,
        "The user's password.",
        secret=True,
        example="${env:PGPASSWORD}",
    ),
)
