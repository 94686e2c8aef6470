"""Sources as Mage's users write them, in files of their own: each is taken, and means the same.

Only `schema` is added, which a source of JSON needs here. What needs a login is elsewhere.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.definitions import CONSOLE, below, write

from headrace.admin.stores import RegistryAddress
from headrace.api import load
from headrace.model.pipeline import Mode
from headrace.plan.planner import plan
from headrace.sources.kafka import KafkaSource
from headrace.spans import Severity

BEES = 'connector_type: kafka\nbootstrap_server: "localhost:9092"\nschema: "bees INT"\n'

BASIC = (
    BEES
    + """
topic: hives
consumer_group: hive_reader
include_metadata: false
api_version: "0.10.2"
batch_size: 100
timeout_ms: 500
auto_offset_reset: latest
max_partition_fetch_bytes: 5242880
offset:
  value: null
  type: "end"
  partitions:
  - {"topic": "hives", "partition": 1}
"""
)
SEVERAL_TOPICS = (
    BEES
    + """
topics: ['hives', 'queens', 'swarms']
consumer_group: all_bees
batch_size: 200
max_partition_fetch_bytes: 10485760
timeout_ms: 1000
"""
)
FROM_THE_BEGINNING = (
    BEES
    + """
topic: hives
consumer_group: hive_reader
offset:
  type: "beginning"
  partitions:
    - {"topic": "hives", "partition": 0}
    - {"topic": "hives", "partition": 1}
"""
)
FROM_A_NUMBER = (
    BEES
    + """
topic: hives
consumer_group: hive_reader
offset:
  type: "int"
  value: 1000
  partitions:
    - {"topic": "hives", "partition": 0}
"""
)
FROM_A_TIME = (
    BEES
    + """
topic: old_hives
consumer_group: hive_history
batch_size: 1000
max_partition_fetch_bytes: 10485760
timeout_ms: 1000
offset:
  type: "timestamp"
  value: 1609459200000
  partitions:
    - {"topic": "old_hives", "partition": 0}
    - {"topic": "old_hives", "partition": 1}
    - {"topic": "old_hives", "partition": 2}
"""
)
BYTES = """
connector_type: kafka
bootstrap_server: "localhost:9092"
topic: hives
consumer_group: hive_reader
serde_config:
  serialization_method: RAW_VALUE
"""
AVRO = """
connector_type: kafka
bootstrap_server: "localhost:9092"
topic: hives
consumer_group: hive_reader
serde_config:
  serialization_method: AVRO
  schema_registry_url: https://schema_registry_url
  schema_registry_username: username
  schema_registry_password: not-a-password
"""
PROTOBUF = """
connector_type: kafka
bootstrap_server: "localhost:9092"
topic: hives
consumer_group: hive_reader
serde_config:
  serialization_method: PROTOBUF
  schema_classpath: "path.to.schema.SchemaClass"
"""
# What `from path.to.schema import SchemaClass` finds: a class as `protoc` makes it.
SCHEMA_CLASS = """
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

file = descriptor_pb2.FileDescriptorProto(name="bees.proto", package="bees", syntax="proto3")
message = file.message_type.add(name="SchemaClass")
message.field.add(name="hive", number=1, type=9, label=1)
message.field.add(name="bees", number=2, type=3, label=1)
pool = descriptor_pool.Default()
pool.AddSerializedFile(file.SerializeToString())
SchemaClass = message_factory.GetMessageClass(pool.FindMessageTypeByName("bees.SchemaClass"))
"""
MUCH = (
    BEES.replace("localhost:9092", "hive1:9092,hive2:9092")
    + """
topic: busy_hives
consumer_group: busy_reader
batch_size: 1000
max_partition_fetch_bytes: 10485760
timeout_ms: 1000
auto_offset_reset: earliest
"""
)
SOON = (
    BEES
    + """
topic: alarms
consumer_group: alarm_reader
batch_size: 10
max_partition_fetch_bytes: 1048576
timeout_ms: 100
auto_offset_reset: latest
"""
)
SMALL = (
    BEES
    + """
topic: flights
consumer_group: flight_reader
batch_size: 500
max_partition_fetch_bytes: 2097152
timeout_ms: 500
auto_offset_reset: latest
include_metadata: false
"""
)
LARGE = (
    BEES.replace("localhost:9092", "hive1:9092,hive2:9092")
    + """
topic: pictures
consumer_group: picture_reader
batch_size: 100
max_partition_fetch_bytes: 104857600
timeout_ms: 2000
auto_offset_reset: earliest
include_metadata: true
"""
)
ALL = {
    "basic": BASIC,
    "several topics": SEVERAL_TOPICS,
    "from the beginning": FROM_THE_BEGINNING,
    "from a number": FROM_A_NUMBER,
    "from a time": FROM_A_TIME,
    "bytes": BYTES,
    "avro": AVRO,
    "much": MUCH,
    "soon": SOON,
    "small": SMALL,
    "large": LARGE,
}


def _source(folder: Path, text: str) -> tuple[KafkaSource, dict[str, str]]:
    pipeline = load(write(folder, below("source", text) + CONSOLE)).pipeline
    (source,) = plan(pipeline).sources
    assert isinstance(source, KafkaSource)
    return source, {setting.name: setting.value for setting in source.settings(Mode.STREAM)}


@pytest.mark.parametrize("name", ALL)
def test_a_source_of_mage_is_a_file_of_its_own(tmp_path: Path, name: str) -> None:
    found = load(write(tmp_path, ALL[name])).check()
    assert [fault for fault in found if fault.severity is Severity.ERROR] == []
    assert {fault.code for fault in found} <= {"NO_EFFECT"}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (
            "basic",
            {"subscribe": "hives", "maxOffsetsPerTrigger": "100", "maxTriggerDelay": "500ms"},
        ),
        ("several topics", {"subscribe": "hives,queens,swarms", "startingOffsets": "latest"}),
        ("much", {"kafka.bootstrap.servers": "hive1:9092,hive2:9092"}),
        ("soon", {"minOffsetsPerTrigger": "10", "kafka.max.partition.fetch.bytes": "1048576"}),
        ("large", {"kafka.fetch.max.bytes": "104857600", "startingOffsets": "earliest"}),
    ],
)
def test_its_options_reach_spark(tmp_path: Path, name: str, settings: dict[str, str]) -> None:
    _, given = _source(tmp_path, ALL[name])
    assert settings.items() <= given.items()


def test_its_positions_and_its_group_are_the_sources(tmp_path: Path) -> None:
    source, _ = _source(tmp_path, FROM_A_TIME)
    assert source.group == "hive_history"
    assert [number for number in range(5) if source.moves(("old_hives", number))] == [0, 1, 2]
    assert _source(tmp_path, BYTES)[0].wanted.format == "raw"
    columns = KafkaSource.columns(_source(tmp_path, LARGE)[0].options) or ()
    assert {"data", "metadata"} <= set(columns)


def test_its_registry_is_that_of_the_messages(tmp_path: Path) -> None:
    source, _ = _source(tmp_path, AVRO)
    wanted = source.wanted
    assert (wanted.format, wanted.subjects) == ("confluent_avro", ("hives-value",))
    assert wanted.registry == RegistryAddress(
        "confluent", "https://schema_registry_url", "username", "not-a-password"
    )
    assert "not-a-password" not in f"{source!r} {source.shape}"
    dotted = AVRO.replace("serde_config:\n", "").replace("  s", "serde_config.s")
    assert _source(tmp_path, dotted)[0].wanted == wanted
    ours = """
format: confluent_avro
schema_registry.endpoint: https://schema_registry_url
schema_registry.api_key: username
schema_registry.api_secret: not-a-password
"""
    assert _source(tmp_path, AVRO.partition("serde")[0] + ours)[0].wanted == wanted


def test_its_class_of_protobuf_gives_the_columns(tmp_path: Path) -> None:
    module = tmp_path / "path" / "to" / "schema.py"
    module.parent.mkdir(parents=True)
    module.write_text(SCHEMA_CLASS, encoding="utf-8")
    source, _ = _source(tmp_path, PROTOBUF)
    wanted = source.wanted
    assert (wanted.format, wanted.classpath) == ("protobuf", "path.to.schema.SchemaClass")
    assert KafkaSource.columns(source.options) == ("hive", "bees")
    assert not source.unbound
    text = below("source", PROTOBUF) + "transform:\n  - sql: SELECT queens FROM input\n" + CONSOLE
    (fault,) = load(write(tmp_path, text)).check()
    assert fault.code == "UNKNOWN_COLUMN"
