"""Names and addresses that Kafka accepts, checked before anything is asked of a cluster."""

from __future__ import annotations

import re

from headrace.admin import topic_names
from headrace.spans import short

_PORT = re.compile(r"[0-9]{1,5}")


def topic_fault(name: str) -> str | None:
    fault = topic_names.fault(name)
    return fault and f"`{short(name)}` cannot be the name of a Kafka topic: {fault}"


def topics_fault(names: tuple[str, ...]) -> str | None:
    return next((fault for name in names if (fault := topic_fault(name))), None)


def servers_fault(servers: str) -> str | None:
    for server in servers.split(","):
        host, colon, port = server.strip().rpartition(":")
        if not colon or not host or not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
            return f"`{short(server)}` is not host:port"
    return None
