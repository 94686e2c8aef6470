"""Kafka Connect's connectors of files: FileStream, and sinks of S3, Google's storage and HDFS."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from headrace.convert import connect_transforms
from headrace.convert.connect_parts import NO_METADATA, Connector, duration, step
from headrace.convert.draft import Part, Plain
from headrace.frontend.sql.tables import bare

_FORMATS = {"JsonFormat": "json", "ParquetFormat": "parquet"}
_BUCKETS = {"s3.bucket.name": "s3a", "gcs.bucket.name": "gs"}
_PATHS = {
    "DailyPartitioner": "'year'=YYYY/'month'=MM/'day'=dd",
    "HourlyPartitioner": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
}
_NEEDLESS = (
    "storage.class",
    "s3.part.size",
    "schema.compatibility",
    "schema.cache.size",
    "schema.generator.class",
    "locale",
    "filename.offset.zero.pad.width",
    "partition.duration.ms",
)


def file_stream_source(connector: Connector) -> None:
    """Lines of a file, as they are appended, as records."""
    keys = connector.keys
    transforms = connect_transforms.read(keys, from_kafka=False)
    values = {"connector_type": "log", "path": keys.take("file") or "", "format": "text"}
    connector.sources.append(Part("source", values))
    keys.pass_over(("batch.size",), "is not needed: a batch reads what is there")
    keys.below("value.converter")
    connector.to_kafka({"source": keys.take("topic") or ""}, transforms)
    if not transforms.steps:
        sink = connector.sinks.pop()
        connector.sinks.append(replace(sink, values={**sink.values, "value": "value"}))


def file_stream_sink(connector: Connector) -> None:
    keys = connector.keys
    connector.from_kafka(*connector.subscribed())
    how = "becomes a folder with a file for each batch, of JSON lines"
    connector.report.differs("file", keys.at("file"), how)
    path = keys.take("file") or "output"
    connector.sinks.append(
        Part("sink", {"connector_type": "files", "format": "json", "path": path})
    )


def object_store_sink(connector: Connector) -> None:
    """Records as files in folders of a bucket or of HDFS."""
    keys, report = connector.keys, connector.report
    topics, pattern = connector.subscribed()
    values: dict[str, Plain] = {
        "connector_type": "files",
        "format": _format(connector),
        "path": _folder(connector, topics),
    }
    nulls = keys.take("behavior.on.null.values") or "fail"
    folders = _folders(connector)
    codec = keys.take("parquet.codec", "s3.compression.type", "gcs.compression.type")
    rotation = duration(keys.take("rotate.schedule.interval.ms", "rotate.interval.ms"))
    if rotation is not None:
        connector.values["trigger"] = rotation
    if keys.take("flush.size") is not None:
        how = "has no equal: each batch makes one file in each folder"
        hint = "`trigger` and the source's `batch_size` decide how large a batch is"
        report.differs("flush.size", keys.at("flush.size"), how, hint)
    keys.pass_over(_NEEDLESS, "is not needed")
    connector.from_kafka(topics, pattern)
    connector.set_source(tombstones="skip" if nulls == "ignore" else "bad")
    connector.steps += folders.steps
    if folders.need_metadata:
        connector.set_source(include_metadata=True)
    if folders.columns:
        values["partition_by"] = folders.columns
    if codec is not None:
        values["compression"] = codec.lower()
    connector.sinks.append(Part("sink", values))


def _format(connector: Connector) -> str:
    form = (connector.keys.take("format.class") or "").rpartition(".")[2]
    if form not in _FORMATS:
        why = f"is {form or 'missing'}; files here are JSON lines, Parquet or CSV"
        connector.report.lost("format.class", connector.keys.at("format.class"), why)
    return _FORMATS.get(form, "json")


def _folder(connector: Connector, topics: list[str]) -> str:
    keys, report = connector.keys, connector.report
    address = keys.take("hdfs.url", "store.url") or ""
    for key, scheme in _BUCKETS.items():
        bucket = keys.take(key)
        if bucket is not None:
            address = f"{scheme}://{bucket}"
            how = f"becomes a path of Spark's, which needs the jars and the login of {scheme}://"
            report.differs(key, keys.at(key), how)
    keys.lose(("s3.region",), "is a setting of Spark's file system, not of a pipeline")
    if len(topics) != 1:
        how = "have a folder for each topic; here all topics share one"
        report.differs("topics", keys.at("topics"), how)
    folder = keys.take("topics.dir") or "topics"
    return "/".join([address, folder, *(topics if len(topics) == 1 else ())])


@dataclass(frozen=True)
class _Folders:
    """The columns whose values are folders, and the steps that make them."""

    columns: list[str]
    steps: list[Part] = field(default_factory=list)
    need_metadata: bool = False


def _folders(connector: Connector) -> _Folders:
    keys = connector.keys
    kind = (keys.take("partitioner.class") or "DefaultPartitioner").rpartition(".")[2]
    columns = keys.listed("partition.field.name")
    form, zone = keys.take("path.format") or _PATHS.get(kind, ""), keys.take("timezone")
    clock = (keys.take("timestamp.extractor") or "Wallclock").rpartition(".")[2]
    column = keys.take("timestamp.field")
    if kind == "FieldPartitioner":
        return _Folders(columns)
    if kind == "DefaultPartitioner":
        sql = f"SELECT {NO_METADATA}, _kafka_partition AS partition FROM input"
        return _Folders(["partition"], [step("by_partition", sql)], need_metadata=True)
    parts = re.findall(r"'(\w+)'=(\w+)", form)
    if not parts:
        why = f"is {kind}, whose folders have no equal here"
        connector.report.lost("partitioner.class", keys.at("partitioner.class"), why)
        return _Folders([])
    if clock.startswith("Wallclock"):
        how = "is the clock; here it is the time of the record"
        connector.report.differs("timestamp.extractor", keys.at("partitioner.class"), how)
    if zone not in (None, "UTC"):
        how = f"is {zone}; here times are those of the session"
        hint = f'set `spark: {{"spark.sql.session.timeZone": {zone}}}`'
        connector.report.differs("timezone", keys.at("timezone"), how, hint)
    return _by_time(parts, column)


def _by_time(parts: list[tuple[str, str]], column: str | None) -> _Folders:
    """Folders of years, months and so on, of a column's time or of the record's."""
    time = bare(column) if column else "_kafka_timestamp"
    # Joda's year of the era is Spark's year.
    made = [
        f"date_format({time}, '{form.replace('Y', 'y')}') AS {bare(name)}" for name, form in parts
    ]
    every = "*" if column else NO_METADATA
    sql = f"SELECT {', '.join([every, *made])} FROM input"
    return _Folders([name for name, _ in parts], [step("by_time", sql)], not column)
