"""Kafka properties that a pipeline may set: of clients under `properties:`, and of new topics.

Allow-lists: nothing on them names a class, a module, a file or an address. Names are those of the
Java client, which is what Spark runs; `for_librdkafka` gives the same settings to the other client.
What Headrace or Spark decides itself is refused with the option to use.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from headrace.admin.properties import JAVA_NAMES

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

# Options of the Kafka sink that are properties of its producer.
PRODUCER_OPTIONS = {
    "acks": "acks",
    "idempotence": "enable.idempotence",
    "compression": "compression.type",
    "linger_ms": "linger.ms",
    "batch_bytes": "batch.size",
    "retries": "retries",
    "delivery_timeout_ms": "delivery.timeout.ms",
    "max_request_bytes": "max.request.size",
}
DEFAULT_MAX_REQUEST = 1_048_576
DEFAULT_REQUEST_TIMEOUT_MS = 30_000

TOPIC = frozenset(
    {
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.ms",
    }
)

# What librdkafka has not: it does not block, and its buffer is not one of memory.
_ONLY_JAVA = {"buffer.memory", "max.block.ms", "socket.connection.setup.timeout.max.ms"}

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


def topic_config_fault(config: dict[str, str]) -> str | None:
    return _fault(config, TOPIC)


def for_librdkafka(name: str) -> str | None:
    """A property of the Java producer as librdkafka calls it; None for one that it has not."""
    return None if name in _ONLY_JAVA else JAVA_NAMES.get(name, name)


def idempotence_fault(producer: Mapping[str, str]) -> str | None:
    """Why a producer with these properties cannot be idempotent."""
    if producer.get("acks", "all") not in ("all", "-1"):
        return f"`acks: {producer['acks']}` cannot be idempotent, as no retry would be recognised"
    if producer.get("retries") == "0":
        return "`retries: 0` cannot be idempotent, as there is nothing to recognise"
    flying = producer.get("max.in.flight.requests.per.connection", "5")
    if flying.isdigit() and int(flying) > 5:
        return f"{flying} requests in flight cannot be idempotent; 5 are the most"
    return None


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
