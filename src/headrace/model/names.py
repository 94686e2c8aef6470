"""Names and addresses that Kafka accepts, checked before anything is asked of a cluster."""

from __future__ import annotations

import re

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def topic_fault(name: str) -> str | None:
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        return f"`{name}` cannot be the name of a Kafka topic: letters, digits, `.`, `_`, `-`"
    return None


def topics_fault(names: tuple[str, ...]) -> str | None:
    return next((fault for name in names if (fault := topic_fault(name))), None)


def servers_fault(servers: str) -> str | None:
    for server in servers.split(","):
        host, colon, port = server.strip().rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            return f"`{server.strip()}` is not host:port"
    return None
