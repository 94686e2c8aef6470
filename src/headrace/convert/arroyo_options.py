"""The options of Arroyo's connectors by the names of ours, table by table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.convert.report import Keys
from headrace.errors import DefinitionError
from headrace.spans import Field, Node

# What Arroyo calls the things that Kafka knows of a record.
METADATA = {
    "offset_id": "_kafka_offset",
    "partition": "_kafka_partition",
    "topic": "_kafka_topic",
    "timestamp": "unix_millis(_kafka_timestamp)",
    "key": "_kafka_key",
}
# Names of options that only Arroyo has.
MARKS = (
    *("source.offset", "source.group_id", "source.group_id_prefix", "source.read_mode"),
    *("sink.commit_mode", "sink.key_field", "sink.timestamp_field", "event_rate", "message_count"),
    *("event_time_field", "watermark_field", "client_configs", "value.subject"),
    *("json.debezium", "json.include_schema", "json.confluent_schema_registry"),
    *("avro.confluent_schema_registry", "avro.raw_datums", "avro.into_unstructured_json"),
    *("protobuf.confluent_schema_registry", "protobuf.message_name"),
)
_LOGINS = ("auth.", "sasl.", "ssl.", "security.")
_NO_LOGIN = "is a login, which pipelines cannot have yet"
# The formats that a registry knows, by the word that says so.
_REGISTERED = {
    "json.confluent_schema_registry": "json_schema",
    "avro.confluent_schema_registry": "confluent_avro",
    "protobuf.confluent_schema_registry": "confluent_protobuf",
}
_FORMATS_WITH_KEYS = ("avro.", "protobuf.", "json.debezium", "json.confluent", "json.include")
_FILES = ("filename.", "file_naming.", "rollover_", "rolling_policy.", "target_", "storage.")


@dataclass
class Table:
    """A table or connection; what its columns or its pipeline must know of is noted.

    It is `inline` where the connector is named by the table itself, as Arroyo's tables do.
    """

    connector: str
    inline: bool
    keys: Keys
    is_source: bool = True
    once: bool = False
    event_time: str | None = None
    watermark: str | None = None

    def options(self) -> dict[str, Field]:
        """Its options in our names; what has none is lost, with the reason."""
        self.is_source = self._type() != "sink"
        self.event_time = self.keys.take("event_time_field")
        self.watermark = self.keys.take("watermark_field")
        self.keys.lose(("rate_limit.messages_per_second",), "has no equal")
        self.keys.lose(self.keys.left("framing."), "has no equal: a record is one message")
        translate = _CONNECTORS.get(self.connector)
        if translate is not None:
            translate(self)
        elif self.connector in _NO_EQUAL:
            hint = f"tables can be converted from {', '.join(sorted(_CONNECTORS))}"
            message = f"{self.keys.span}: nothing here is like the connector `{self.connector}`"
            raise DefinitionError(message, hint=hint)
        return self.keys.rest()

    def _type(self) -> str:
        field = self.keys.get("type")
        return field.node.text if field is not None else "source"

    # Kafka

    def kafka(self) -> None:
        self._logins()
        self._format()
        if self.is_source:
            self._beginning()
        self.keys.rename("source.group_id", "consumer_group")
        self.keys.rename("sink.key_field", "key")
        self.keys.rename("sink.timestamp_field", "timestamp")
        self.keys.pass_over(
            ("source.group_id_prefix",), "is not needed: the group has the pipeline's name"
        )
        self.keys.rename("source.read_mode", "isolation.level")
        self.once = self.keys.take("sink.commit_mode") == "exactly_once"
        for pair in self.keys.listed("client_configs"):
            name, _, value = pair.partition("=")
            self.keys.set(name.strip(), value.strip())
        if self.keys.peek("bad_data") == "drop":
            self.keys.set("bad_data", "skip")

    def _beginning(self) -> None:
        """Where nothing is said, Arroyo begins at the end, and stops for bad data."""
        offset = self.keys.take("source.offset")
        if offset == "group":
            why = "is group: here a pipeline goes on from its own position, and begins at the end"
            self.keys.report.lost("source.offset", self.keys.at("source.offset"), why)
            offset = "latest"
        said = "offset" in self.keys or "auto_offset_reset" in self.keys
        if offset is not None or (self.inline and not said):
            self.keys.set("auto_offset_reset", offset or "latest")
        if self.inline and "bad_data" not in self.keys:
            self.keys.set("bad_data", "fail")

    def _logins(self) -> None:
        for prefix in _LOGINS:
            self.keys.lose(self.keys.left(prefix), _NO_LOGIN)

    def _format(self) -> None:
        form = self.keys.peek("format") or "json"
        if form in ("raw_string", "raw_bytes"):
            self.keys.set("format", "raw")
        elif form == "debezium_json" or self._is_on("json.debezium"):
            self.keys.set("format", "debezium")
        elif self._is_on(f"{form}.confluent_schema_registry"):
            self.keys.set("format", _REGISTERED[f"{form}.confluent_schema_registry"])
        elif form == "avro":
            self._plain_avro()
        elif form == "protobuf":
            what = "the schema of the Protobuf messages is not in the file"
            hint = "add `schema_file` with the .proto file, or `schema_classpath`"
            self.keys.report.to_add(what, self.keys.at("format"), hint)
        self.keys.rename("protobuf.message_name", "message")
        self.keys.rename("value.subject", "value_subject")
        for prefix in _FORMATS_WITH_KEYS:
            for name in self.keys.left(prefix):
                if self.keys.take(name) != "false":
                    self.keys.report.lost(name, self.keys.at(name), "has no equal")
        times = self.keys.take("json.timestamp_format")
        if times not in (None, "rfc3339"):
            why = f"is {times}; here a TIMESTAMP is text"
            hint = "declare the column BIGINT, and use timestamp_millis(…)"
            self.keys.report.lost(
                "json.timestamp_format", self.keys.at("json.timestamp_format"), why, hint
            )

    def _is_on(self, name: str) -> bool:
        """Whether a flag is set, which is then understood."""
        return name in self.keys and self.keys.flag(name, default=False)

    def _plain_avro(self) -> None:
        """Of a registry after all, single records, or files of their own in each message."""
        if "schema_registry.endpoint" in self.keys or "schema_registry" in self.keys:
            return
        if self._is_on("avro.raw_datums"):
            what = "the schema of the Avro messages is not in the file"
            hint = "add `schema_file` with the .avsc file, or `avro_schema`"
            self.keys.report.to_add(what, self.keys.at("format"), hint)
        else:
            why = "is avro with a schema in each message, which cannot be read here"
            self.keys.report.lost("format", self.keys.at("format"), why)

    # Others

    def impulse(self) -> None:
        self.keys.rename("event_rate", "rate")
        self.keys.rename("message_count", "count")
        self.keys.lose(("event_time_interval",), "has no equal: times follow from `rate`")
        self.keys.pass_over(("type",), "is not needed: impulse is always a source")
        here = self.keys.span
        fields = {"counter": "n", "subtask_index": "0"}
        inside = {name: Field(here, Node(sql, here)) for name, sql in fields.items()}
        self.keys.put("fields", Field(here, Node(inside, here)))

    def filesystem(self) -> None:
        self.keys.set("connector", "files")
        self._path()
        self.keys.rename("partition_fields", "partition_by")
        self.keys.rename("partitioning.fields", "partition_by")
        self.keys.rename("parquet.compression", "compression")
        for prefix in _FILES:
            hint = "`trigger` decides how often files are written"
            self.keys.lose(self.keys.left(prefix), "has no equal: a batch is a file", hint)

    def delta(self) -> None:
        self.keys.set("connector", "delta")
        self._path()
        self.keys.pass_over(("format",), "is not needed: a Delta table is Parquet")
        self.keys.rename("partition_fields", "partition_by")
        for prefix in _FILES:
            self.keys.lose(self.keys.left(prefix), "has no equal: a batch is a commit")

    def single_file(self) -> None:
        self.keys.set("connector", "log" if self.is_source else "files")
        self._format()
        if not self.is_source:
            how = "becomes a folder with a file for each batch"
            self.keys.report.differs("path", self.keys.at("path"), how)
        self.keys.lose(("wait_for_control", "compression"), "has no equal")

    def console(self) -> None:
        self.keys.set("connector", "console")
        self.keys.set("format", "json")

    def _path(self) -> None:
        path = self.keys.peek("path") or ""
        for theirs, ours in (("s3://", "s3a://"), ("file://", "")):
            if path.startswith(theirs):
                self.keys.set("path", ours + path.removeprefix(theirs))


_CONNECTORS: dict[str, Callable[[Table], None]] = {
    "kafka": Table.kafka,
    "confluent": Table.kafka,
    "impulse": Table.impulse,
    "filesystem": Table.filesystem,
    "delta": Table.delta,
    "single_file": Table.single_file,
    "stdout": Table.console,
    "preview": Table.console,
}
_NO_EQUAL = {
    *("blackhole", "fluvio", "iceberg", "kinesis", "mqtt", "nats", "nexmark", "polling_http"),
    *("rabbitmq", "redis", "sse", "webhook", "websocket"),
}
# Connectors by names that only Arroyo has.
CONNECTORS = (*_NO_EQUAL, "confluent", "filesystem", "single_file", "stdout", "preview")
