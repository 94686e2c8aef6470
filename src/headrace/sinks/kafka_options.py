"""The options of the Kafka sink."""

from __future__ import annotations

from headrace.formats.options import KEY_OPTIONS, SINK_OPTIONS, VALUE_OPTIONS
from headrace.model.kafka_properties import producer_fault, topic_config_fault
from headrace.model.names import servers_fault, version_fault
from headrace.sinks.kafka_topics import allowed_fault, topic_fault
from headrace.spec import Option, Spec, Type

_WHERE = (
    Option(
        "bootstrap_server",
        Type.TEXT,
        "Where to find the cluster. Default: the first that the pipeline names.",
        aliases=("bootstrap_servers",),
        example="localhost:9092",
        validate=servers_fault,
    ),
    Option(
        "topic",
        Type.TEXT,
        "The topic to write. With `${…}` in it, a column or an expression of a row, each row names "
        "its own.",
        required=True,
        example="orders.clean",
        validate=topic_fault,
    ),
    Option(
        "allowed_topics",
        Type.LIST,
        "With a topic per row: which topics may be written and made; `*` stands for any letters. A "
        "row that names another is a bad record.",
        default=(),
        example="[orders.*, returns]",
        validate=allowed_fault,
    ),
    Option(
        "create_topic",
        Type.MAPPING,
        "Make a topic that does not exist: `true` with the broker's defaults, a mapping with these "
        "settings, `false` not at all.",
        default=True,
        flag=True,
        aliases=("create_topics",),
        example="{partitions: 6, replication_factor: 3}",
        fields=(
            Option("partitions", Type.INTEGER, "How many partitions.", minimum=1, example="6"),
            Option(
                "replication_factor",
                Type.INTEGER,
                "How many brokers hold each partition.",
                minimum=1,
                example="3",
            ),
            Option(
                "config",
                Type.PROPERTIES,
                "Settings of the topic.",
                default={},
                example='{"retention.ms": 86400000}',
                validate=topic_config_fault,
            ),
        ),
    ),
)

_RECORD = (
    *VALUE_OPTIONS,
    *KEY_OPTIONS,
    *SINK_OPTIONS,
    Option(
        "key",
        Type.TEXT,
        "The record's key: a column or an expression, written as text, or as `key_format` has it; "
        "bytes stay bytes. Rows with the same key stay in order. Default: no key.",
        aliases=("message_unique_key",),
        example="customer",
    ),
    Option(
        "value",
        Type.TEXT,
        "The record's value: a column or an expression, text or bytes, written as it is. Default: "
        "all columns, as `format` has them.",
        example="payload",
    ),
    Option(
        "exclude",
        Type.LIST,
        "Columns that stay out of the value, such as those that only make the key.",
        default=(),
        example="[region]",
    ),
    Option(
        "headers",
        Type.PROPERTIES,
        "Headers by name, each a column or an expression, written as text; bytes stay bytes.",
        default={},
        example='{"tenant": "region"}',
    ),
    Option(
        "headers_from",
        Type.TEXT,
        "More headers: an expression that gives an array of names with values, as "
        "`map_entries(a_map)` and `_kafka_headers` do.",
        example="map_entries(labels)",
    ),
    Option(
        "partition",
        Type.TEXT,
        "The partition to write to: a column or an expression. Default, and where it is NULL: by "
        "the key as Kafka's own clients do, and spread evenly without one.",
        example="id % 3",
    ),
    Option(
        "timestamp",
        Type.TEXT,
        "The record's time: a column or an expression, a time or milliseconds. Default, and where "
        "it is NULL: when it is sent.",
        example="at",
    ),
    Option(
        "envelope",
        Type.MAPPING,
        "What other teams need to know of a message: its id, time, source, type and schema's "
        "version. Without `id` and `time` they are those of the source's record, and the same "
        "when a batch is written again.",
        example="{as: headers, schema_version: 2}",
        fields=(
            Option(
                "as",
                Type.CHOICE,
                "`headers` with CloudEvents' names (`ce_id`, `ce_time`, …), or `fields` of the "
                "JSON object (`event_id`, `event_time`, …).",
                default="headers",
                choices=("headers", "fields"),
            ),
            Option(
                "id",
                Type.TEXT,
                "A column or an expression. Default: topic, partition and offset of the source's "
                "record.",
                example="order_id",
            ),
            Option(
                "time",
                Type.TEXT,
                "A column or an expression. Default: the time of the source's record.",
                example="at",
            ),
            Option(
                "source", Type.TEXT, "Who says it. Default: the pipeline's name.", example="shop"
            ),
            Option(
                "type", Type.TEXT, "What it is about. Default: the sink's name.", example="order"
            ),
            Option("schema_version", Type.TEXT, "Default: none is written.", example="2"),
        ),
    ),
)

_PRODUCER = (
    Option(
        "acks",
        Type.CHOICE,
        "Who must have a record before it counts as written: `all` replicas in sync, the leader "
        "(`1`), or nobody (`0`).",
        default="all",
        choices=("0", "1", "all"),
        renamed={"-1": "all"},
    ),
    Option(
        "idempotence",
        Type.FLAG,
        "A retry inside the producer neither doubles nor reorders records; needs `acks: all`.",
        default=True,
    ),
    Option(
        "compression",
        Type.CHOICE,
        "How batches are compressed. Default: not at all.",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
    ),
    Option(
        "linger_ms",
        Type.INTEGER,
        "How long the producer waits for more records to send together. Default: the client's.",
        minimum=0,
        example="20",
    ),
    Option(
        "batch_bytes",
        Type.INTEGER,
        "The size of the batches that are sent together. Default: the client's.",
        minimum=0,
        example="65536",
    ),
    Option(
        "retries",
        Type.INTEGER,
        "How often the producer sends a record again. Default: until `delivery_timeout_ms`.",
        minimum=0,
        example="10",
    ),
    Option(
        "delivery_timeout_ms",
        Type.INTEGER,
        "How long the producer tries to deliver a record. Default: two minutes.",
        minimum=1,
        example="60000",
    ),
    Option(
        "max_request_bytes",
        Type.INTEGER,
        "The largest message that is sent, key and headers included; the topic's "
        "`max.message.bytes` must allow it too. Default: 1048576.",
        minimum=1000,
        example="6000000",
    ),
    Option(
        "transaction_timeout_ms",
        Type.INTEGER,
        "With `guarantee: exactly_once`: how long a transaction may be open before the broker ends "
        "it. So long may readers wait for one whose writer has died. Default: a minute by lineage, "
        "five by batch.",
        minimum=1000,
        example="120000",
    ),
    Option(
        "api_version",
        Type.LIST,
        "A version of Kafka, which other clients need; here it has no effect.",
        example='"2.6.0"',
        validate=version_fault,
    ),
    Option(
        "writer",
        Type.CHOICE,
        "`spark` is Spark's own Kafka writer, `arrow` Headrace's, which can set times. Default: "
        "Spark's where it can do what is asked.",
        choices=("spark", "arrow"),
    ),
    Option(
        "properties",
        Type.PROPERTIES,
        "Other properties of Kafka's producer.",
        default={},
        example='{"request.timeout.ms": 20000}',
        validate=producer_fault,
    ),
)

SPEC = Spec(
    "sink",
    "kafka",
    "Rows as records of a Kafka topic: JSON, Avro, Protobuf or CSV.",
    (*_WHERE, *_RECORD, *_PRODUCER),
)
