"""Broker settings of the user's own for a development cluster: which ones may be given.

An allow-list of Kafka's names, because a broker takes no notice of a name that it does not know,
and a typing error would become a default. Not on it is what Headrace decides itself (who a node is,
where it listens and keeps its data), and what names a class, a file, a provider or a login.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from headrace.errors import DefinitionError

_DECIDED = """
    advertised.listeners broker.id controller.listener.names controller.quorum.auto.join.enable
    controller.quorum.bootstrap.servers controller.quorum.voters early.start.listeners
    inter.broker.listener.name listener.security.protocol.map listeners log.dir log.dirs
    metadata.log.dir node.id process.roles security.inter.broker.protocol
"""
_ALLOWED = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
    alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds auto.create.topics.enable
    auto.leader.rebalance.enable background.threads broker.heartbeat.interval.ms broker.rack
    broker.session.timeout.ms compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level connections.max.idle.ms controlled.shutdown.enable
    controller.quorum.append.linger.ms controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
    controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
    controller.quota.window.num controller.quota.window.size.seconds
    controller.socket.timeout.ms default.replication.factor
    delete.records.purgatory.purge.interval.requests delete.topic.enable fetch.max.bytes
    fetch.purgatory.purge.interval.requests group.consumer.assignment.interval.ms
    group.consumer.heartbeat.interval.ms group.consumer.max.assignment.interval.ms
    group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms
    group.consumer.max.size group.consumer.migration.policy
    group.consumer.min.assignment.interval.ms group.consumer.min.heartbeat.interval.ms
    group.consumer.min.session.timeout.ms group.consumer.session.timeout.ms
    group.coordinator.append.linger.ms group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes group.coordinator.rebalance.protocols
    group.coordinator.threads group.initial.rebalance.delay.ms group.max.session.timeout.ms
    group.max.size group.min.session.timeout.ms group.share.assignment.interval.ms
    group.share.delivery.count.limit group.share.heartbeat.interval.ms
    group.share.max.assignment.interval.ms group.share.max.delivery.count.limit
    group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks
    group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
    group.share.max.share.sessions group.share.max.size group.share.min.assignment.interval.ms
    group.share.min.delivery.count.limit group.share.min.heartbeat.interval.ms
    group.share.min.partition.max.record.locks group.share.min.record.lock.duration.ms
    group.share.min.session.timeout.ms group.share.partition.max.record.locks
    group.share.record.lock.duration.ms group.share.session.timeout.ms
    group.streams.assignment.interval.ms group.streams.heartbeat.interval.ms
    group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
    group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms
    group.streams.max.size group.streams.max.standby.replicas
    group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
    group.streams.min.session.timeout.ms group.streams.num.standby.replicas
    group.streams.session.timeout.ms initial.broker.registration.timeout.ms
    leader.imbalance.check.interval.seconds log.cleaner.backoff.ms
    log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms log.cleaner.enable
    log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
    log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms
    log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.threads
    log.cleanup.policy log.dir.failure.timeout.ms log.flush.interval.messages
    log.flush.interval.ms log.flush.offset.checkpoint.interval.ms
    log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms
    log.index.interval.bytes log.index.size.max.bytes log.initial.task.delay.ms
    log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
    log.message.timestamp.type log.preallocate log.retention.bytes
    log.retention.check.interval.ms log.retention.hours log.retention.minutes log.retention.ms
    log.roll.hours log.roll.jitter.hours log.roll.jitter.ms log.roll.ms log.segment.bytes
    log.segment.delete.delay.ms max.connection.creation.rate max.connections
    max.connections.per.ip max.connections.per.ip.overrides
    max.incremental.fetch.session.cache.slots max.request.partition.size.limit message.max.bytes
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
    metadata.max.retention.bytes metadata.max.retention.ms metrics.num.samples
    metrics.recording.level metrics.sample.window.ms min.insync.replicas num.io.threads
    num.network.threads num.partitions num.recovery.threads.per.data.dir
    num.replica.alter.log.dirs.threads num.replica.fetchers offset.metadata.max.bytes
    offsets.commit.timeout.ms offsets.load.buffer.size offsets.retention.check.interval.ms
    offsets.retention.minutes offsets.topic.compression.codec offsets.topic.num.partitions
    offsets.topic.replication.factor offsets.topic.segment.bytes producer.id.expiration.ms
    producer.purgatory.purge.interval.requests queued.max.request.bytes queued.max.requests
    quota.window.num quota.window.size.seconds replica.fetch.backoff.ms replica.fetch.max.bytes
    replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
    replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms
    replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
    replication.quota.window.size.seconds request.timeout.ms share.coordinator.append.linger.ms
    share.coordinator.cached.buffer.max.bytes share.coordinator.load.buffer.size
    share.coordinator.snapshot.update.records.per.snapshot
    share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
    share.coordinator.state.topic.num.partitions
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
    share.coordinator.threads share.coordinator.write.timeout.ms
    share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms socket.listen.backlog.size socket.receive.buffer.bytes
    socket.request.max.bytes socket.send.buffer.bytes telemetry.max.bytes
    transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
    transaction.partition.verification.enable
    transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.state.log.load.buffer.size transaction.state.log.min.isr
    transaction.state.log.num.partitions transaction.state.log.replication.factor
    transaction.state.log.segment.bytes transaction.two.phase.commit.enable
    transactional.id.expiration.ms unclean.leader.election.enable
"""
DECIDED = frozenset(_DECIDED.split())
ALLOWED = frozenset(_ALLOWED.split())


def merged(kept: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The settings to have from now on: an empty value takes one back to its default.

    A name or value that cannot be is a `DefinitionError`. Values are Kafka's to judge.
    """
    for name, value in given.items():
        _check(name, value)
    together = {**kept, **{name: value.strip() for name, value in given.items()}}
    return {name: value for name, value in sorted(together.items()) if value}


def _check(name: str, value: str) -> None:
    if name in DECIDED:
        raise DefinitionError(
            f"broker setting `{name}` is decided by Headrace for each node",
            hint="--brokers and --port are yours to choose",
        )
    if name not in ALLOWED:
        near = get_close_matches(name, ALLOWED, n=1)
        raise DefinitionError(
            f"broker setting `{name}` is unknown, or not permitted in a development cluster",
            hint=f"did you mean `{near[0]}`?" if near else None,
        )
    if not value.isprintable():
        # Each line of the nodes' files is a setting, so that a second line would be another one.
        raise DefinitionError(f"broker setting `{name}` has a line break or control character")
