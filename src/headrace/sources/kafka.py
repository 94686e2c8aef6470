"""The Kafka source: JSON records of one or more topics, as a stream or as a range of offsets.

In order: its options, the checks that need no cluster, what it makes of them (`KafkaSource`), and
the finding of offsets and the reading itself, which need a cluster and Spark. Positions are stored
elsewhere: `runtime.positions`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.errors import DataLoss, PositionBeyondEnd
from headrace.formats import json as json_format
from headrace.formats.carried import COLUMN, refusing
from headrace.model import pipeline as model
from headrace.model.kafka_properties import consumer_fault
from headrace.model.names import servers_fault, topic_fault, topics_fault
from headrace.model.offsets import Offsets, Range, by_topic
from headrace.model.schema import Schema, quote, schema_fault
from headrace.sources.reader import Access, SourceContext
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Setting, Spec, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.admin.client import Cluster, Clusters

# A first start against a full topic must not become one batch of everything.
DEFAULT_BATCH_SIZE = 1_000_000

METADATA = {
    "_kafka_topic": "topic",
    "_kafka_partition": "partition",
    "_kafka_offset": "offset",
    "_kafka_timestamp": "timestamp",
    "_kafka_key": "key",
    "_kafka_headers": "headers",
}


@dataclass(frozen=True)
class KafkaSource:
    """A source of the model with its decisions made."""

    source: model.Source
    context: SourceContext

    STREAMS: ClassVar[bool] = True
    REPLAYS: ClassVar[bool] = True
    SPEC: ClassVar[Spec] = Spec(
        "source",
        "kafka",
        "Records of one or more Kafka topics.",
        (
            Option(
                "bootstrap_server",
                Type.TEXT,
                "Where to find the cluster: `host:port`, several separated by commas.",
                required=True,
                aliases=("bootstrap_servers",),
                example="localhost:9092",
                validate=servers_fault,
            ),
            Option(
                "topic",
                Type.TEXT,
                "The topic to read.",
                example="orders",
                validate=topic_fault,
            ),
            Option(
                "topics",
                Type.LIST,
                "The topics to read, when there are several.",
                example="[orders, returns]",
                validate=topics_fault,
            ),
            Option(
                "consumer_group",
                Type.TEXT,
                "The group that shows the position and lag. Default: the pipeline's name.",
                aliases=("group_id",),
                example="orders_clean",
            ),
            Option(
                "format",
                Type.CHOICE,
                "What a record's value is.",
                default="json",
                choices=("json",),
            ),
            Option(
                "schema",
                Type.TEXT,
                "The columns, as in CREATE TABLE. A field that is NOT NULL must be there.",
                required=True,
                example='"id BIGINT NOT NULL, customer STRING, amount DOUBLE"',
                validate=schema_fault,
            ),
            Option(
                "auto_offset_reset",
                Type.CHOICE,
                "Where a first run begins. Default: `latest` for a stream, `earliest` for a batch.",
                choices=("earliest", "latest"),
                renamed={"smallest": "earliest", "largest": "latest"},
            ),
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
                "include_metadata",
                Type.FLAG,
                "Adds the columns " + ", ".join(f"`{name}`" for name in METADATA) + ".",
                default=False,
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
                "stops, `reset` goes on from what is left.",
                default="fail",
                choices=("fail", "reset"),
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

    @staticmethod
    def check(options: Options) -> Iterator[Diagnostic]:
        given = {"topic", "topics"} & {*options.values, *options.meant}
        if not given:
            message = "the kafka source needs `topic` or `topics`"
            yield Diagnostic("MISSING_OPTION", message, options.span, "add `topic: orders`")
        elif "topic" in options and "topics" in options:
            message = "`topic` and `topics` cannot stand together"
            yield Diagnostic("CONFLICT", message, options.at("topics"), "keep one of them")
        if "dlq_topic" in options and options["bad_data"] != "dlq":
            message = f"`dlq_topic` has no effect with `bad_data: {options['bad_data']}`"
            yield Diagnostic("CONFLICT", message, options.at("dlq_topic"), "remove one of them")
        if "timeout_ms" in options and "batch_size" not in options:
            message = (
                "`timeout_ms` says how long to wait for a full batch, and there is no batch_size"
            )
            yield Diagnostic("CONFLICT", message, options.at("timeout_ms"), "add `batch_size`")
        topics = (options["topic"], *(options["topics"] or ()))
        if options["dlq_topic"] is not None and options["dlq_topic"] in topics:
            message = "the dead letters would be read again: `dlq_topic` is the topic itself"
            yield Diagnostic("CONFLICT", message, options.at("dlq_topic"), "name another topic")
        if options["schema"] is not None:
            yield from _name_clashes(options)

    @staticmethod
    def columns(options: Options, doubtful: bool = False) -> tuple[str, ...] | None:
        if options["schema"] is None:
            return None
        names = Schema.parse(options["schema"]).names
        wanted = options["include_metadata"] or doubtful
        return tuple(dict.fromkeys((*names, *METADATA))) if wanted else names

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def options(self) -> Options:
        return self.source.options

    @property
    def bootstrap(self) -> str:
        return str(self.options["bootstrap_server"])

    @property
    def origin(self) -> str:
        return f"records of {', '.join(self.topics)} at {self.bootstrap}"

    @property
    def shape(self) -> str:
        columns = ", ".join(
            f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in self.schema.columns
        )
        metadata = ", and _kafka_… metadata" if self.options["include_metadata"] else ""
        return f"JSON into {columns}{metadata}"

    @property
    def topics(self) -> tuple[str, ...]:
        return self.options["topics"] or (self.options["topic"],)

    @property
    def group(self) -> str:
        return self.options["consumer_group"] or self.context.pipeline

    @property
    def schema(self) -> Schema:
        return Schema.parse(self.options["schema"])

    @property
    def bad_data(self) -> str:
        return str(self.options["bad_data"])

    @property
    def reason(self) -> str:
        return json_format.reason(self.schema)

    @property
    def dead_letter_topic(self) -> str | None:
        if self.bad_data != "dlq":
            return None
        base = self.topics[0] if len(self.topics) == 1 else self.context.pipeline
        return self.options["dlq_topic"] or f"{base}.dlq"

    @property
    def max_errors(self) -> int | None:
        return self.options["max_errors_per_batch"]  # type: ignore[no-any-return]

    def first(self, mode: model.Mode) -> Setting:
        default = "earliest" if mode is model.Mode.BATCH else "latest"
        value = self.options["auto_offset_reset"] or default
        return self.options.setting("startingOffsets", "auto_offset_reset", value)

    def settings(self, mode: model.Mode) -> tuple[Setting, ...]:
        options = self.options
        subscribe = "topics" if "topics" in options else "topic"
        loss = str(options["on_data_loss"] == "fail").lower()
        fixed = [
            options.setting("kafka.bootstrap.servers", "bootstrap_server"),
            options.setting("subscribe", subscribe, ",".join(self.topics)),
            options.setting("failOnDataLoss", "on_data_loss", loss),
            Setting("includeHeaders", "true", "dead letters and metadata keep headers"),
        ]
        if mode is model.Mode.STREAM:
            fixed += [self.first(mode), *self._limits()]
        own = options["properties"]
        if "isolation.level" not in own:
            why = "records of open or aborted transactions are not read"
            fixed.append(Setting("kafka.isolation.level", "read_committed", why))
        where = f"properties ({options.at('properties')})"
        return (*fixed, *(Setting(f"kafka.{name}", own[name], where) for name in own))

    def _limits(self) -> Iterator[Setting]:
        size = self.options["batch_size"] or DEFAULT_BATCH_SIZE
        yield self.options.setting("maxOffsetsPerTrigger", "batch_size", size)
        if self.options["timeout_ms"]:
            wait = self.options["timeout_ms"]
            yield self.options.setting("minOffsetsPerTrigger", "batch_size", size)
            yield self.options.setting("maxTriggerDelay", "timeout_ms", f"{wait}ms")

    def reads(self, topic: str) -> bool:
        return topic in self.topics

    # From here on a cluster or Spark is needed; all of it runs on the driver.

    def begins(self, clusters: Clusters) -> Offsets:
        """The oldest record still there, of every partition."""
        from headrace.admin import offsets as partition_offsets

        cluster = clusters.at(self.bootstrap)
        return partition_offsets.earliest(cluster, self._partitions(cluster))

    def ends(self, clusters: Clusters) -> Offsets:
        """The end of every partition, as far as committed records go."""
        from headrace.admin import offsets as partition_offsets

        cluster = clusters.at(self.bootstrap)
        return partition_offsets.latest(cluster, self._partitions(cluster), stable=True)

    def _partitions(self, cluster: Cluster) -> list[tuple[str, int]]:
        from headrace.admin import topics

        return [key for topic in self.topics for key in topics.keys(cluster, topic)]

    def find(self, access: Access, stored: Offsets) -> Range:
        first, last = self.begins(access.clusters), self.ends(access.clusters)
        fresh = first if self.first(model.Mode.BATCH).value == "earliest" else last
        # A partition that was not there when positions were stored is read from its beginning.
        unknown = first if stored else fresh
        start = {key: stored.get(key, unknown[key]) for key in last}
        beyond = [key for key, at in start.items() if at > last[key]]
        if beyond:
            told = (f"{t}[{p}] ends at {last[t, p]}, not {start[t, p]}" for t, p in sorted(beyond))
            raise PositionBeyondEnd(self.name, ", ".join(told))
        lost = self._lost(start, first)
        if lost and self.options["on_data_loss"] == "fail":
            raise DataLoss(lost)
        start = {key: max(at, first[key]) for key, at in start.items()}
        return Range(start, last, lost)

    @staticmethod
    def _lost(start: Offsets, first: Offsets) -> str | None:
        """Which records between the position and the oldest one left are gone, in words."""
        gone = {key: first[key] - at for key, at in start.items() if at < first[key]}
        detail = ", ".join(
            f"{topic}[{partition}] offsets {start[topic, partition]} to "
            f"{start[topic, partition] + count - 1} ({count} records)"
            for (topic, partition), count in sorted(gone.items())
        )
        return detail or None

    def newest(self, access: Access, count: int) -> Range:
        first, last = self.begins(access.clusters), self.ends(access.clusters)
        share = max(count // max(len(last), 1), 1)
        return Range({key: max(first[key], end - share) for key, end in last.items()}, last)

    def stream(self, spark: SparkSession) -> DataFrame:
        settings = {setting.name: setting.value for setting in self.settings(model.Mode.STREAM)}
        return spark.readStream.format("kafka").options(**settings).load()

    def batch(self, spark: SparkSession, found: Range) -> DataFrame:
        settings = {setting.name: setting.value for setting in self.settings(model.Mode.BATCH)}
        # Not `subscribe`, which wants an offset for partitions too that were added since.
        settings.pop("subscribe")
        settings["assign"] = json.dumps(
            {topic: sorted(partitions) for topic, partitions in by_topic(found.end).items()}
        )
        settings["startingOffsets"] = _offsets_json(found.start)
        settings["endingOffsets"] = _offsets_json(found.end)
        return spark.read.format("kafka").options(**settings).load()

    def decode(self, raw: DataFrame, originals: bool = False) -> DataFrame:
        metadata = METADATA if self.options["include_metadata"] else {}
        columns = tuple(f"{column} AS {name}" for name, column in metadata.items())
        tombstones = self.options["tombstones"]
        if tombstones == "skip":
            raw = raw.where("key IS NULL OR value IS NOT NULL")
        decoded = json_format.decode(raw, self.schema, columns, tombstones != "bad", originals)
        if self.bad_data != "fail":
            return decoded
        own = [quote(name) for name in decoded.columns if name != COLUMN]
        return decoded.selectExpr(*own, f"{refusing(self.reason)} AS {COLUMN}")


def _offsets_json(offsets: Offsets) -> str:
    return json.dumps(
        {
            topic: {str(partition): offset for partition, offset in partitions.items()}
            for topic, partitions in by_topic(offsets).items()
        }
    )


def _name_clashes(options: Options) -> Iterator[Diagnostic]:
    """Columns of the schema that something else is called."""
    for name in Schema.parse(options["schema"]).names:
        hint = f"remove `{name}` from it"
        if options["include_metadata"] and name.lower() in METADATA:
            message = f"`include_metadata` adds the column `{name}`, which the schema declares too"
            yield Diagnostic("CONFLICT", message, options.at("schema"), hint)
        elif name.lower() in (COLUMN, json_format.CORRUPT):
            message = f"the schema declares `{name}`, a column that Headrace needs for itself"
            yield Diagnostic("CONFLICT", message, options.at("schema"), hint)
