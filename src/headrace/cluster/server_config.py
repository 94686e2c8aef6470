"""What one Kafka node runs with: `server.properties`, `log4j2.properties` and its JVM's options.

Pure text from a layout. Values differ from Kafka's defaults only where a laptop differs from a data
centre: small heap, few internal partitions, quick failover, loopback only.
"""

from __future__ import annotations

from pathlib import Path

from headrace.cluster.layout import Layout, NodeAddress
from headrace.cluster.ports import HOST

MAIN_CLASS = "kafka.Kafka"
FORMAT_CLASS = "kafka.tools.StorageTool"

# Kafka's own switches: no configuration may name a login module beyond these, or have values read
# from files, the environment or a directory.
_LOGIN_MODULES = (
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
)
_SECURITY = (
    f"-Dorg.apache.kafka.allowed.login.modules={','.join(_LOGIN_MODULES)}",
    "-Dorg.apache.kafka.automatic.config.providers=none",
    "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=",
    "-Dorg.apache.kafka.sasl.oauthbearer.allowed.files=",
)
# The first compiler only: measured, it halves the CPU time of a start and loses nothing under load.
_JVM = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
)

_LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss,SSS}} %-5p %m (%c{{1}})%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
# Every value of every configuration, at each start: more than all else together.
logger.config.name = org.apache.kafka.common.config.AbstractConfig
logger.config.level = WARN
"""


def jvm_options(log4j: Path) -> list[str]:
    return [*_JVM, *_SECURITY, f"-Dlog4j2.configurationFile={log4j}"]


def log4j_properties(log: Path) -> str:
    return _LOG4J.format(log=log)


def server_properties(layout: Layout, node: NodeAddress, data: Path) -> str:
    """The user's own settings win over ours, except for who the node is and where it is."""
    ours = {**_replication(len(layout.nodes)), **_SMALL}
    settings = {**ours, **layout.config, **_place(layout, node, data)}
    return "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(value: object) -> str:
    """As a Java properties file wants it, where a backslash begins an escape."""
    return str(value).replace("\\", "\\\\")


def _place(layout: Layout, node: NodeAddress, data: Path) -> dict[str, object]:
    """Who the node is and where it listens: on the loopback address and nowhere else."""
    broker = f"BROKER://{node.address}"
    controls = node.controller_port is not None
    controller = f",CONTROLLER://{HOST}:{node.controller_port}" if controls else ""
    return {
        "node.id": node.id,
        "process.roles": "broker,controller" if controls else "broker",
        "listeners": broker + controller,
        "advertised.listeners": broker,
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": layout.voters,
        "log.dirs": data,
    }


def _replication(brokers: int) -> dict[str, object]:
    """A copy on each broker, three at most; writes go on while one of three is down."""
    copies = min(3, brokers)
    in_sync = 2 if copies == 3 else 1
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


_SMALL: dict[str, object] = {
    "auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "share.coordinator.state.topic.num.partitions": 5,
    "group.initial.rebalance.delay.ms": 0,
    "log.initial.task.delay.ms": 500,
    # By default half of this heap would go to the cleaner.
    "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
    "num.network.threads": 2,
    "num.io.threads": 4,
    # A killed broker is noticed in 6 s, not 9.
    "broker.heartbeat.interval.ms": 1000,
    "broker.session.timeout.ms": 6000,
}
