"""Kafka client properties that a pipeline may set under `properties:`, by an allow-list.

Nothing on the list names a class, a module, a file or an address. Names are those of the Java
client, which is what Spark runs. What Headrace or Spark decides itself is refused with the option
to use.
"""

from __future__ import annotations

import difflib

_CONNECTION = frozenset(
    {
        "client.id",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    }
)
CONSUMER = _CONNECTION | {
    "check.crcs",
    "client.rack",
    "default.api.timeout.ms",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "session.timeout.ms",
}
PRODUCER = _CONNECTION | {
    "acks",
    "batch.size",
    "buffer.memory",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "retries",
}

_INSTEAD = {
    "auto.offset.reset": "use the option `auto_offset_reset`",
    "bootstrap.servers": "use the option `bootstrap_server`",
    "enable.auto.commit": "positions are stored after each finished batch; there is nothing to set",
    "group.id": "use the option `consumer_group`",
    "key.deserializer": "Spark reads bytes; use the option `format`",
    "value.deserializer": "Spark reads bytes; use the option `format`",
    "key.serializer": "Spark writes bytes; use the option `key`",
    "value.serializer": "Spark writes bytes",
}


def consumer_fault(properties: dict[str, str]) -> str | None:
    return _fault(properties, CONSUMER)


def producer_fault(properties: dict[str, str]) -> str | None:
    return _fault(properties, PRODUCER)


def _fault(properties: dict[str, str], allowed: frozenset[str]) -> str | None:
    for name in properties:
        if name in allowed:
            continue
        if name in _INSTEAD:
            return f"`{name}` cannot be set here: {_INSTEAD[name]}"
        close = difflib.get_close_matches(name, allowed, n=1)
        guess = f"; did you mean `{close[0]}`?" if close else ""
        return f"`{name}` is not a Kafka property that may be set here{guess}"
    return None
