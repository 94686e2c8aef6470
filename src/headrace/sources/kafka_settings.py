"""What Spark's Kafka reader gets because of a source's options, each setting with its origin."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.model.pipeline import Mode
from headrace.model.subscription import Subscription
from headrace.spec import Options, Setting

# A first start against a full topic must not become one batch of everything.
DEFAULT_BATCH_SIZE = 1_000_000
# Kafka's own defaults, where another setting has to agree with them.
FETCH_MAX_BYTES = 50 * 1024 * 1024
HEARTBEAT_MS = 3000
SESSION_MS = 45_000
# How often a member of a group looks for partitions that were added.
LOOK_MS = 10_000


def of_reader(options: Options, mode: Mode, first: Setting) -> Iterator[Setting]:
    """All of them; `first` is where a run without a position begins."""
    yield options.setting("kafka.bootstrap.servers", "bootstrap_server")
    yield subscribing(options)
    fails = str(options["on_data_loss"] == "fail").lower()
    yield options.setting("failOnDataLoss", "on_data_loss", fails)
    yield Setting("includeHeaders", "true", "dead letters and metadata keep headers")
    if mode is Mode.STREAM:
        # Spark has no `none`: where it would count, the run has been refused.
        value = "earliest" if first.value == "none" else first.value
        yield Setting(first.name, value, first.origin)
        yield from _limits(options)
    yield from _client(options)
    own = options["properties"]
    where = f"properties ({options.at('properties')})"
    yield from (Setting(f"kafka.{name}", own[name], where) for name in own)


def of_member(options: Options) -> Iterator[Setting]:
    """All of the client that is a member of the group, if partitions are shared; in its words."""
    own = options["properties"]
    where = f"properties ({options.at('properties')})"
    if "session.timeout.ms" in own:
        yield Setting("session.timeout.ms", own["session.timeout.ms"], where)
    else:
        session = options["session_timeout_ms"] or SESSION_MS
        yield options.setting("session.timeout.ms", "session_timeout_ms", session)
        if session <= HEARTBEAT_MS and "heartbeat.interval.ms" not in own:
            beat = str(max(session // 3, 1))
            yield Setting("heartbeat.interval.ms", beat, "less than session_timeout_ms")
    for name in ("heartbeat.interval.ms", "max.poll.interval.ms"):
        if name in own:
            yield Setting(name, own[name], where)
    age = own.get("metadata.max.age.ms")
    why = "new partitions are looked for" if age is None else where
    yield Setting("topic.metadata.refresh.interval.ms", age or str(LOOK_MS), why)


def subscribing(options: Options) -> Setting:
    read = Subscription.of(options)
    if read.pattern is not None:
        return options.setting("subscribePattern", "topic_pattern", read.java_pattern)
    option = "topics" if "topics" in options else "topic"
    return options.setting("subscribe", option, ",".join(read.topics))


def _limits(options: Options) -> Iterator[Setting]:
    size = options["batch_size"] or DEFAULT_BATCH_SIZE
    yield options.setting("maxOffsetsPerTrigger", "batch_size", size)
    if options["timeout_ms"]:
        yield options.setting("minOffsetsPerTrigger", "batch_size", size)
        yield options.setting("maxTriggerDelay", "timeout_ms", f"{options['timeout_ms']}ms")


def _client(options: Options) -> Iterator[Setting]:
    """Properties of Kafka's consumer that follow from options, or must agree with them."""
    own = options["properties"]
    if "isolation.level" not in own:
        why = "records of open or aborted transactions are not read"
        yield Setting("kafka.isolation.level", "read_committed", why)
    fetch = options["max_partition_fetch_bytes"]
    if fetch is not None:
        yield options.setting("kafka.max.partition.fetch.bytes", "max_partition_fetch_bytes")
        if fetch > FETCH_MAX_BYTES and "fetch.max.bytes" not in own:
            why = "not less than max_partition_fetch_bytes"
            yield Setting("kafka.fetch.max.bytes", str(fetch), why)
    session = options["session_timeout_ms"]
    if session is not None:
        yield options.setting("kafka.session.timeout.ms", "session_timeout_ms")
        if session <= HEARTBEAT_MS and "heartbeat.interval.ms" not in own:
            beat = str(max(session // 3, 1))
            yield Setting("kafka.heartbeat.interval.ms", beat, "less than session_timeout_ms")
