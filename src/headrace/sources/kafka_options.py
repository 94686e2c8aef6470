"""The options of the Kafka source, and what is decided by them alone."""

from __future__ import annotations

import json

from headrace.admin import times
from headrace.errors import DefinitionError
from headrace.formats.options import KEY_OPTIONS, SOURCE_OPTIONS, VALUE_OPTIONS
from headrace.model.kafka_properties import consumer_fault
from headrace.model.names import (
    servers_fault,
    topic_fault,
    topic_or_topics_fault,
    topics_fault,
    version_fault,
)
from headrace.model.schema import schema_fault
from headrace.model.subscription import pattern_fault
from headrace.sources.json_records import UNSTRUCTURED
from headrace.spec import Option, Options, Spec, Type

METADATA = {
    "_kafka_topic": "topic",
    "_kafka_partition": "partition",
    "_kafka_offset": "offset",
    "_kafka_timestamp": "timestamp",
    "_kafka_key": "key",
    "_kafka_headers": "headers",
}
# The headers as one object. A map would refuse a name that comes twice, so only the last is taken.
HEADERS_JSON = (
    "to_variant_object(map_from_entries(transform("
    "filter(headers, (one, i) -> NOT exists(slice(headers, i + 2, size(headers)), "
    "later -> later.key = one.key)), "
    "one -> struct(one.key, try_validate_utf8(CAST(one.value AS STRING))))))"
)
# A record as one value beside what Kafka knows of it; a column of the schema comes first.
DATA, ENVELOPE = "data", "metadata"
ENVELOPE_SQL = (
    "named_struct('key', try_validate_utf8(CAST(key AS STRING)), 'partition', partition, "
    "'offset', offset, 'time', unix_millis(timestamp), 'topic', topic)"
)

BEGINNING, END, INT, TIMESTAMP = "beginning", "end", "int", "timestamp"


def reset_of(options: Options) -> str | None:
    """What `offset` asks for, as text: the same text is the same wish, however it is written."""
    asked = options["offset"]
    if asked is None:
        return None
    return json.dumps([asked["type"], asked["value"], sorted(named_in(asked))])


def named_in(asked: Options) -> list[tuple[str, int]]:
    """The partitions that an `offset` names; none when it holds for all."""
    return [(each["topic"], each["partition"]) for each in asked["partitions"]]


def _offset_fault(asked: Options) -> str | None:
    kind, value = asked["type"], asked["value"]
    if kind in (BEGINNING, END):
        return None if value is None else f"with `type: {kind}` takes no `value`"
    if value is None:
        example = "1000" if kind == INT else "2026-03-01T12:00:00Z"
        return f"with `type: {kind}` needs a `value`, for example `value: {example}`"
    if kind == INT:
        whole = value.isascii() and value.isdecimal() and len(value) < 19
        return None if whole else f"needs a whole number from 0 as `value`, and has `{value}`"
    try:
        times.parse(value)
    except DefinitionError as error:
        return f"{error}; {error.hint}"
    return None


def _named_twice(asked: Options) -> str | None:
    keys = named_in(asked)
    twice = next((key for key in keys if keys.count(key) > 1), None)
    return twice and f"names {twice[0]}[{twice[1]}] twice"


OFFSET = Option(
    "offset",
    Type.MAPPING,
    "Where partitions begin when the pipeline is next started. It is followed once: "
    "a plain restart goes on from the stored position, and only another `offset`, or "
    "`headrace run --reset-offsets`, moves it again. Other partitions keep their position.",
    example="{type: int, value: 1000, partitions: [{topic: orders, partition: 0}]}",
    validate=lambda asked: _offset_fault(asked) or _named_twice(asked),
    fields=(
        Option(
            "type",
            Type.CHOICE,
            "The oldest record, the end, an offset, or the first record that is not older than a "
            "time. A time past the end means the end.",
            required=True,
            choices=(BEGINNING, END, INT, TIMESTAMP),
            example=BEGINNING,
        ),
        Option(
            "value",
            Type.TEXT,
            "The offset; or the time, as milliseconds since 1970 or as `2026-03-01T12:00:00Z`.",
            nullable=True,
            example="1000",
        ),
        Option(
            "partitions",
            Type.MAPPINGS,
            "The partitions that it holds for. Default: all that this source reads.",
            default=(),
            example="[{topic: orders, partition: 0}]",
            fields=(
                Option(
                    "topic",
                    Type.TEXT,
                    "A topic that this source reads.",
                    required=True,
                    example="orders",
                    validate=topic_fault,
                ),
                Option(
                    "partition",
                    Type.INTEGER,
                    "A partition of it, counted from 0.",
                    required=True,
                    minimum=0,
                    example="0",
                ),
            ),
        ),
    ),
)

SPEC = Spec(
    "source",
    "kafka",
    "Records of one or more Kafka topics.",
    (
        Option(
            "bootstrap_server",
            Type.TEXT,
            "Where to find the cluster: `host:port`, several separated by commas, of which one "
            "that answers is enough.",
            required=True,
            aliases=("bootstrap_servers",),
            example="localhost:9092",
            validate=servers_fault,
        ),
        Option(
            "topic",
            Type.TEXT,
            "The topic to read, or several separated by commas.",
            example="orders",
            validate=topic_or_topics_fault,
        ),
        Option(
            "topics",
            Type.LIST,
            "The topics to read, when there are several.",
            example="[orders, returns]",
            validate=topics_fault,
        ),
        Option(
            "topic_pattern",
            Type.TEXT,
            "A regular expression: every topic whose whole name matches it is read, one that is "
            "made later too, from its beginning.",
            example="orders-.*",
            validate=pattern_fault,
        ),
        Option(
            "consumer_group",
            Type.TEXT,
            "The group that shows the position and lag. Default: the pipeline's name.",
            aliases=("group_id",),
            example="orders_clean",
        ),
        Option(
            "share_partitions",
            Type.FLAG,
            "Be a member of the consumer group: pipelines with the same group share the partitions "
            "of its topics, and one that joins, stops or dies moves them over. The group is then "
            "the position. Needs `consumer_group`.",
            default=False,
        ),
        *VALUE_OPTIONS,
        Option(
            "schema",
            Type.TEXT,
            "The columns, as in CREATE TABLE. A field that is NOT NULL must be there; a VARIANT "
            "takes any JSON. Needed for CSV, and for JSON unless it is `json_unstructured`; for "
            "others the default is the columns of the messages' own schema.",
            example='"id BIGINT NOT NULL, customer STRING, amount DOUBLE"',
            validate=schema_fault,
        ),
        UNSTRUCTURED,
        *KEY_OPTIONS,
        *SOURCE_OPTIONS,
        Option(
            "auto_offset_reset",
            Type.CHOICE,
            "Where a partition without a stored position begins; with `none` that is an error. "
            "Default: `latest` for a stream, `earliest` for a batch.",
            choices=("earliest", "latest", "none"),
            renamed={"smallest": "earliest", "largest": "latest"},
        ),
        OFFSET,
        Option(
            "batch_size",
            Type.INTEGER,
            "The most records that a batch of a stream reads. Default: one million.",
            minimum=1,
            example="10000",
        ),
        Option(
            "timeout_ms",
            Type.INTEGER,
            "With `batch_size`: how long a stream waits for that many records before it goes "
            "on with fewer. Default: it does not wait.",
            aliases=("batch_timeout_ms",),
            minimum=0,
            example="500",
        ),
        Option(
            "max_partition_fetch_bytes",
            Type.INTEGER,
            "The most bytes of one partition that a consumer asks for at once; one larger record "
            "comes all the same. Default: Kafka's own, one MiB.",
            minimum=1,
            example="5242880",
        ),
        Option(
            "include_metadata",
            Type.FLAG,
            "Adds the columns "
            + ", ".join(f"`{name}`" for name in METADATA)
            + f", and the record as two values: `{DATA}`, and `{ENVELOPE}` with key, partition, "
            "offset, time and topic.",
            default=False,
        ),
        Option(
            "metadata_headers",
            Type.CHOICE,
            "With `include_metadata`: what `_kafka_headers` is. `array` has each header's key and "
            "bytes as they came; `json` is one VARIANT object of names and texts, the last of a "
            "name that is there twice, and null for what is no UTF-8.",
            default="array",
            choices=("array", "json"),
        ),
        Option(
            "tombstones",
            Type.CHOICE,
            "What becomes of a record with a key and no value: `keep` passes it by the steps "
            "to sinks that can delete, `skip` drops it, `bad` treats it as a bad record.",
            default="keep",
            choices=("keep", "skip", "bad"),
        ),
        Option(
            "bad_data",
            Type.CHOICE,
            "What becomes of a record that cannot be decoded: `dlq` writes it to `dlq_topic`, "
            "`skip` counts and drops it, `fail` stops the pipeline.",
            default="dlq",
            choices=("dlq", "skip", "fail"),
        ),
        Option(
            "dlq_topic",
            Type.TEXT,
            "The topic of dead letters. Default: the topic's name, or with several topics the "
            "pipeline's, followed by `.dlq`.",
            example="orders.dlq",
            validate=topic_fault,
        ),
        Option(
            "max_errors_per_batch",
            Type.INTEGER,
            "More bad records than this in one batch stop the pipeline before any of the batch "
            "is written. Default: no limit.",
            minimum=0,
            example="10",
        ),
        Option(
            "on_data_loss",
            Type.CHOICE,
            "When records between the stored position and the oldest one left are gone: `fail` "
            "stops, `reset` goes on from what is left. Both say which and how many.",
            default="fail",
            choices=("fail", "reset"),
        ),
        Option(
            "api_version",
            Type.LIST,
            "A version of Kafka, which other clients need. It is compared with the brokers' and "
            "has no other effect: Spark's client agrees on versions with the brokers itself.",
            example='"2.6.0"',
            validate=version_fault,
        ),
        Option(
            "session_timeout_ms",
            Type.INTEGER,
            "With `share_partitions`: how long the partitions of a member that died wait for it. "
            "Default: Kafka's own, 45 seconds. Otherwise no position depends on it, as Spark's "
            "consumers join no group.",
            minimum=1,
            example="6000",
        ),
        Option(
            "properties",
            Type.PROPERTIES,
            "Properties of Kafka's consumer.",
            default={},
            example='{"fetch.min.bytes": 65536}',
            validate=consumer_fault,
        ),
    ),
)
