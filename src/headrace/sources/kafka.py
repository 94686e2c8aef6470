"""The Kafka source: records of one or more topics, as a stream or as a range of offsets.

Its options are in `kafka_options`, the checks of them in `kafka_checks` and `kafka_format_checks`,
what Spark's reader gets by them in `kafka_settings`, what it asks the brokers for in
`kafka_offsets`, and its formats in words in `kafka_shape`. Here is what ties them together: the
columns, the decisions, and the reading itself. Positions are stored elsewhere: `runtime.starts` for
streams, `runtime.offsets_table` for batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from headrace.errors import DataLoss, PositionBeyondEnd
from headrace.formats import raw as raw_format
from headrace.formats import reading
from headrace.formats.carried import COLUMN, refusing
from headrace.formats.kinds import FORMATS
from headrace.formats.known import Known
from headrace.formats.options import Part, Wanted, key_wanted, value_wanted
from headrace.formats.reading import KeyReading, Reading
from headrace.model import pipeline as model
from headrace.model.names import version_text
from headrace.model.offsets import Offsets, Range, by_topic
from headrace.model.schema import quote
from headrace.model.subscription import Subscription, dead_letter_topic
from headrace.sources import kafka_checks, kafka_settings, kafka_shape
from headrace.sources.kafka_options import (
    DATA,
    ENVELOPE,
    ENVELOPE_SQL,
    HEADERS_JSON,
    METADATA,
    SPEC,
    named_in,
    reset_of,
)
from headrace.sources.reader import RAW, Access, SourceContext, decoded
from headrace.spans import Diagnostic
from headrace.spec import Options, Setting, Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.admin.client import Clusters
    from headrace.sources.kafka_offsets import Extent


@dataclass(frozen=True)
class KafkaSource:
    """A source of the model with its decisions made.

    What a registry knows of its messages, the `schemas`, is there when a run begins.
    """

    source: model.Source
    context: SourceContext
    schemas: Mapping[Part, Known] = field(default_factory=dict)

    STREAMS: ClassVar[bool] = True
    REPLAYS: ClassVar[bool] = True
    SPEC: ClassVar[Spec] = SPEC

    @staticmethod
    def check(options: Options) -> Iterator[Diagnostic]:
        yield from kafka_checks.faults(options)

    @staticmethod
    def columns(options: Options, doubtful: bool = False) -> tuple[str, ...] | None:
        folder = Path(options.span.file).parent
        names = _value_columns(value_wanted(options, folder))
        if names is None:
            return None
        if options["key_format"] is not None:
            names = (*names, options["key_column"])
        wanted = options["include_metadata"] or doubtful
        return (*names, *_added(names)) if wanted else names

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
    def subscription(self) -> Subscription:
        return Subscription.of(self.options)

    @property
    def topics(self) -> tuple[str, ...]:
        """Those that it names; none when it goes by a pattern."""
        return self.subscription.topics

    @property
    def origin(self) -> str:
        return f"records of {self.subscription} at {self.bootstrap}"

    @property
    def shape(self) -> str:
        metadata = ", and _kafka_… metadata" if self.options["include_metadata"] else ""
        if self.wanted.format == "raw":
            return f"bytes as they are, in {', '.join(raw_format.COLUMNS)}{metadata}"
        key = self.key_wanted
        column = f", the key as {key.format} into {key.column}" if key is not None else ""
        if Part.VALUE in self.registered and Part.VALUE not in self.schemas:
            return kafka_shape.registered(self.wanted, column + metadata, self.options)
        return decoded(self.reading.name, self.reading.schema, column + metadata, self.bad_data)

    @property
    def wanted(self) -> Wanted:
        """What its values are."""
        return value_wanted(self.options, self.context.folder, self.topics)

    @property
    def key_wanted(self) -> Wanted | None:
        """What its keys are, where they are read."""
        return key_wanted(self.options, self.context.folder, self.topics)

    @property
    def registered(self) -> dict[Part, Wanted]:
        """What of its messages is read by schemas of a registry."""
        both = {Part.VALUE: self.wanted, Part.KEY: self.key_wanted}
        return {part: each for part, each in both.items() if each is not None and each.registered}

    @property
    def unbound(self) -> bool:
        """Whether its registry has still to be asked."""
        return any(part not in self.schemas for part in self.registered)

    def knowing(self, schemas: Mapping[Part, Known]) -> KafkaSource:
        """The same source with what its registry knows."""
        return replace(self, schemas=schemas)

    @property
    def reading(self) -> Reading:
        wanted = self.wanted
        return FORMATS[wanted.language].reading(wanted, self.name, self.schemas.get(Part.VALUE))

    @property
    def key_reading(self) -> KeyReading | None:
        wanted = self.key_wanted
        if wanted is None:
            return None
        known = self.schemas.get(Part.KEY)
        form = FORMATS[wanted.language]
        return KeyReading(wanted.column, form.reading(wanted, self.name, known))

    @property
    def group(self) -> str:
        return self.options["consumer_group"] or self.context.pipeline

    @property
    def shares(self) -> bool:
        """Whether it reads only those partitions that its group gives to this pipeline."""
        return bool(self.options["share_partitions"])

    @property
    def membership(self) -> tuple[Setting, ...]:
        """What the client gets that is a member of the group."""
        return tuple(kafka_settings.of_member(self.options))

    @property
    def bad_data(self) -> str:
        return str(self.options["bad_data"])

    @property
    def reason(self) -> str:
        if self.wanted.format == "raw":
            return raw_format.reason()
        return reading.reason(self.reading, self.key_reading)

    @property
    def dead_letter_topic(self) -> str | None:
        return dead_letter_topic(self.options, self.context.pipeline)

    @property
    def max_errors(self) -> int | None:
        return self.options["max_errors_per_batch"]  # type: ignore[no-any-return]

    @property
    def reset(self) -> str | None:
        """What `offset` asks for; as long as it is the same, it has been followed already."""
        return reset_of(self.options)

    def moves(self, key: tuple[str, int]) -> bool:
        """Whether `offset` holds for a partition: one that it names, or any if it names none."""
        asked = self.options["offset"]
        return asked is not None and (not asked["partitions"] or key in named_in(asked))

    @property
    def reset_in_words(self) -> str:
        asked = self.options["offset"]
        named = ", ".join(f"{topic}[{number}]" for topic, number in sorted(named_in(asked)))
        value = "" if asked["value"] is None else f" {asked['value']}"
        where = f"offset ({self.options.at('offset')})"
        begin = f"{named or 'all partitions'} begin once at {asked['type']}{value}"
        return f"{begin} when it is next started ({where})"

    @property
    def passes_losses(self) -> bool:
        """Whether it goes on when records are gone that it has not read."""
        return str(self.options["on_data_loss"]) == "reset"

    @property
    def reads_committed(self) -> bool:
        """Whether it waits for transactions that are open, as it does unless told otherwise."""
        return bool(self.options["properties"].get("isolation.level") != "read_uncommitted")

    def first(self, mode: model.Mode) -> Setting:
        default = "earliest" if mode is model.Mode.BATCH else "latest"
        value = self.options["auto_offset_reset"] or default
        return self.options.setting("startingOffsets", "auto_offset_reset", value)

    def settings(self, mode: model.Mode) -> tuple[Setting, ...]:
        return tuple(kafka_settings.of_reader(self.options, mode, self.first(mode)))

    def reads(self, topic: str) -> bool:
        return self.subscription.reads(topic)

    # From here on a cluster or Spark is needed; all of it runs on the driver.

    def remarks(self, clusters: Clusters) -> Iterator[str]:
        """What the operator should know before a run, and only a cluster can tell."""
        from headrace.admin import transaction_holds, versions

        cluster = clusters.at(self.bootstrap)
        if self.subscription.pattern is not None and not self.extent(clusters).begins:
            yield f"`{self.name}`: no topic matches {self.subscription.pattern} at {self.bootstrap}"
        if self.options["api_version"] is not None:
            named = version_text(self.options["api_version"])
            spoken = versions.spoken(cluster)
            if not versions.same(named, spoken):
                yield (
                    f"`{self.name}`: api_version is {named}, and the brokers speak {spoken}; "
                    "it has no effect, as Spark's client agrees on versions with them itself"
                )
        if self.reads_committed:
            for remark in transaction_holds.remarks(cluster, self.partitions(clusters)):
                yield f"`{self.name}`: {remark}"

    def partitions(self, clusters: Clusters) -> list[tuple[str, int]]:
        """Those that there are now."""
        from headrace.sources import kafka_offsets

        return kafka_offsets.partitions(clusters.at(self.bootstrap), self.subscription)

    def extent(self, clusters: Clusters) -> Extent:
        """What there is in its topics now."""
        from headrace.sources import kafka_offsets

        cluster = clusters.at(self.bootstrap)
        return kafka_offsets.Extent.of(cluster, self.partitions(clusters))

    def begins(self, clusters: Clusters) -> Offsets:
        """The oldest record still there, of every partition."""
        return self.extent(clusters).begins

    def ends(self, clusters: Clusters) -> Offsets:
        """The end of every partition, as far as committed records go."""
        return self.extent(clusters).ends

    def starts(
        self,
        clusters: Clusters,
        mode: model.Mode,
        stored: Offsets,
        extent: Extent,
        warn: Callable[[str], None],
    ) -> Offsets:
        """Where every partition begins when `offset` is followed."""
        from headrace.sources import kafka_offsets

        cluster, asked = clusters.at(self.bootstrap), self.options["offset"]
        moved = kafka_offsets.reset(cluster, asked, extent, warn) if asked is not None else {}
        # Those that are named are known now, whatever has been stored.
        first = self.first(mode).value
        rest = kafka_offsets.without(extent, moved)
        return {**kafka_offsets.fill(self.name, first, stored, rest), **moved}

    def known(self, stands: Offsets, extent: Extent) -> Offsets:
        """Where every partition that there is begins, given positions; a new one at its oldest."""
        return {key: stands.get(key, at) for key, at in extent.begins.items()}

    def require_positions(self, stands: Offsets, extent: Extent) -> None:
        """With `auto_offset_reset: none`, every partition must have been read before."""
        from headrace.sources import kafka_offsets

        if self.options["auto_offset_reset"] == "none":
            kafka_offsets.fill(self.name, "none", stands, extent)

    def find(self, access: Access, stored: Offsets) -> Range:
        from headrace.sources import kafka_offsets

        extent = self.extent(access.clusters)
        first = self.first(model.Mode.BATCH).value
        return self.between(kafka_offsets.fill(self.name, first, stored, extent), extent)

    def between(self, start: Offsets, extent: Extent) -> Range:
        """From there to the end of what is in these partitions; raises DataLoss as `find` does."""
        self.refuse_beyond(start, extent)
        lost = self.lost(start, extent)
        if lost and not self.passes_losses:
            raise DataLoss(lost)
        start = {key: max(at, extent.begins[key]) for key, at in start.items()}
        ends = {key: max(extent.ends[key], start[key]) for key in start}
        return Range(start, ends, lost)

    def refuse_beyond(self, stands: Offsets, extent: Extent) -> None:
        """A topic that ends before the position has been made anew: nothing tells what to read."""
        from headrace.sources import kafka_offsets

        beyond = kafka_offsets.beyond(stands, extent)
        if beyond:
            raise PositionBeyondEnd(self.name, beyond)

    def lost(self, stands: Offsets, extent: Extent) -> str | None:
        """Which records between the position and the oldest one left are gone, in words."""
        from headrace.sources import kafka_offsets

        return kafka_offsets.loss_in_words(kafka_offsets.lost(stands, extent))

    def newest(self, access: Access, count: int) -> Range:
        extent = self.extent(access.clusters)
        ends = {key: max(end, extent.begins[key]) for key, end in extent.ends.items()}
        everything = Range(extent.begins, ends)
        if everything.records <= count:
            return everything
        share = max(count // len(ends), 1)
        start = {key: max(extent.begins[key], end - share) for key, end in ends.items()}
        return Range(start, ends, partial=True)

    def stream(self, spark: SparkSession, starts: Offsets | None = None) -> DataFrame:
        """`starts` counts where there is no checkpoint yet, and names every partition."""
        settings = {setting.name: setting.value for setting in self.settings(model.Mode.STREAM)}
        if starts:
            settings["startingOffsets"] = _offsets_json(starts)
        return spark.readStream.format("kafka").options(**settings).load()

    def batch(self, spark: SparkSession, found: Range) -> DataFrame:
        if not found.end:  # a pattern that no topic matches
            return spark.createDataFrame([], RAW)
        settings = {setting.name: setting.value for setting in self.settings(model.Mode.BATCH)}
        # Not `subscribe`, which wants an offset for partitions too that were added since.
        settings.pop(kafka_settings.subscribing(self.options).name)
        settings["assign"] = json.dumps(
            {topic: sorted(partitions) for topic, partitions in by_topic(found.end).items()}
        )
        settings["startingOffsets"] = _offsets_json(found.start)
        settings["endingOffsets"] = _offsets_json(found.end)
        return spark.read.format("kafka").options(**settings).load()

    def decode(self, raw: DataFrame, originals: int | None = None) -> DataFrame:
        tombstones = self.options["tombstones"]
        if tombstones == "skip" or self._deletes_otherwise:
            raw = raw.where("key IS NULL OR value IS NOT NULL")
        if self.wanted.format == "raw":
            return raw_format.decode(raw, self._metadata(raw_format.COLUMNS, "value"), originals)
        own, key = self.reading, self.key_reading
        names = (*own.schema.names, *([key.column] if key is not None else []))
        metadata = self._metadata(names, reading.whole(own))
        keep = tombstones != "bad"
        decoded = reading.decode(raw, own, metadata, keep, originals, key)
        if self.bad_data != "fail":
            return decoded
        columns = [quote(name) for name in decoded.columns if name != COLUMN]
        return decoded.selectExpr(*columns, f"{refusing(self.reason)} AS {COLUMN}")

    @property
    def _deletes_otherwise(self) -> bool:
        """Whether a tombstone says nothing more, as the change before it tells of the deletion."""
        wanted = self.wanted
        readable = not wanted.registered or self.key_wanted is not None
        return wanted.format == "debezium" and (wanted.changes.deletes == "rows" or not readable)

    def _metadata(self, names: tuple[str, ...], data: str) -> tuple[str, ...]:
        """SQL for the columns that `include_metadata` adds; `data` is that for the whole value."""
        if not self.options["include_metadata"]:
            return ()
        made = {**METADATA, DATA: data, ENVELOPE: ENVELOPE_SQL}
        if self.options["metadata_headers"] == "json":
            made["_kafka_headers"] = HEADERS_JSON
        return tuple(f"{made[name]} AS {name}" for name in _added(names))


def _value_columns(wanted: Wanted) -> tuple[str, ...] | None:
    """The columns of a value by its definition alone; None where only a registry knows them."""
    if wanted.format == "raw":
        return raw_format.COLUMNS
    schema = FORMATS[wanted.language].columns(wanted)
    return schema.names if schema is not None else None


def _added(names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that `include_metadata` adds to those of the value, which come first."""
    taken = {name.lower() for name in names}
    return tuple(name for name in (*METADATA, DATA, ENVELOPE) if name not in taken)


def _offsets_json(offsets: Offsets) -> str:
    return json.dumps(
        {
            topic: {str(partition): offset for partition, offset in partitions.items()}
            for topic, partitions in by_topic(offsets).items()
        }
    )
