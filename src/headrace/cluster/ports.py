"""TCP ports on the loopback address: free or taken."""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"
# Below what Linux and macOS hand out for outgoing connections, which could take a port chosen here
# before the broker listens on it.
_RANGE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a broker could listen on `port` now.

    Both questions are needed: macOS lets one bind an address below another program's wildcard.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        if probe.connect_ex((HOST, port)) == 0:
            return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Different ports that are free now."""
    found: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        if len(found) == count:
            break
        if is_free(port):
            found.append(port)
    return found
