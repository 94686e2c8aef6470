"""Names and addresses that Kafka accepts, checked before anything is asked of a cluster."""

from __future__ import annotations

import re

from headrace.admin import topic_names
from headrace.spans import short

_PORT = re.compile(r"[0-9]{1,5}")
_VERSION = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){1,3}")


def topic_fault(name: str) -> str | None:
    fault = topic_names.fault(name)
    return fault and f"`{short(name)}` cannot be the name of a Kafka topic: {fault}"


def topic_or_topics_fault(text: str) -> str | None:
    """For an option that names a topic, or several with commas between them."""
    return topics_fault(tuple(part.strip() for part in text.split(",")))


def topics_fault(names: tuple[str, ...]) -> str | None:
    return next((fault for name in names if (fault := topic_fault(name))), None)


def servers_fault(servers: str) -> str | None:
    for server in servers.split(","):
        host, colon, port = server.strip().rpartition(":")
        if not colon or not host or not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
            return f"`{short(server)}` is not host:port"
    return None


def version_fault(parts: tuple[str, ...]) -> str | None:
    """A version of Kafka's protocol: `0.10.2`, or its numbers as a list or in brackets."""
    if _VERSION.fullmatch(version_text(parts)):
        return None
    return f"must be a version such as 2.6.0, and is `{short(', '.join(parts))}`"


def version_text(parts: tuple[str, ...]) -> str:
    """`2.6.0`, however it is written."""
    return ".".join(part.strip("() ") for part in parts)
