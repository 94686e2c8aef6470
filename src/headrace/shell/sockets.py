"""Addresses by name, and whether something listens there: the first checks of every connection."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Iterator, Sequence

from headrace.shell.connections import Failed
from headrace.shell.threads import side_by_side

TCP_SECONDS = 4.0

Address = tuple[str, int]


def written(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse(servers: str) -> list[Address]:
    """`host:port,host:port`, as options of Kafka have it."""
    pairs = (server.strip().rpartition(":") for server in servers.split(","))
    return [(host.strip("[]"), int(port)) for host, _, port in pairs]


def resolve(addresses: Sequence[Address]) -> str:
    """What the names mean; one that nobody knows is told, and all of them are a failure."""
    found = {address: _numbers(address) for address in addresses}
    told = ", ".join(f"{written(a)} is {n}" for a, n in found.items() if n)
    unknown = ", ".join(dict.fromkeys(host for (host, _), numbers in found.items() if not numbers))
    if not told:
        raise Failed(
            f"no address is known for {unknown}",
            "correct the name; inside containers, use one that the other side can be found by",
        )
    return f"{told}; no address for {unknown}" if unknown else told


def _numbers(address: Address) -> str:
    try:
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ""
    return " or ".join(dict.fromkeys(str(each[4][0]) for each in found))


def reach(addresses: Sequence[Address]) -> str:
    """Who takes a connection; nobody at all is a failure."""
    refused = dict(refusals(addresses))
    open_ = ", ".join(written(each) for each in addresses if each not in refused)
    closed = ", ".join(f"{written(each)}: {why}" for each, why in refused.items())
    if not open_:
        raise Failed(closed, "check the port, whether the server runs, and firewalls between")
    return f"{open_} open; {closed}" if closed else f"{open_} open"


def refusals(addresses: Iterable[Address]) -> Iterator[tuple[Address, str]]:
    """Those that take no connection, and why; all are tried at once."""
    wanted = list(dict.fromkeys(addresses))
    for address, why in zip(wanted, side_by_side(_refusal, wanted, len(wanted)), strict=True):
        if why is not None:
            yield address, why


def _refusal(address: Address) -> str | None:
    try:
        with contextlib.closing(connect(address)):
            return None
    except TimeoutError:
        return f"no answer in {TCP_SECONDS:.0f} s"
    except OSError as failure:
        return (failure.strerror or str(failure)).lower()


def connect(address: Address) -> socket.socket:
    """A TCP connection; reading from it has the same patience."""
    return socket.create_connection(address, timeout=TCP_SECONDS)
