"""Kafka Connect: a connector's JSON as a pipeline.

A sink connector is a Kafka source, its transforms as steps, and a sink; a source connector the
other way round; MirrorMaker's is a copy from Kafka to Kafka. Connectors are told by their class.
What the worker decides (brokers, default converters) is not in a connector's file, and is said.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.convert import connect_jdbc, connect_json, connect_mirror, connect_stores
from headrace.convert.connect_parts import Connector
from headrace.convert.draft import Draft
from headrace.convert.report import Keys, Reading, Report
from headrace.errors import DefinitionError

_CONNECTORS: dict[str, Callable[[Connector], None]] = {
    "FileStreamSource": connect_stores.file_stream_source,
    "FileStreamSink": connect_stores.file_stream_sink,
    "JdbcSource": connect_jdbc.source,
    "JdbcSink": connect_jdbc.sink,
    "S3Sink": connect_stores.object_store_sink,
    "GcsSink": connect_stores.object_store_sink,
    "HdfsSink": connect_stores.object_store_sink,
    "Hdfs3Sink": connect_stores.object_store_sink,
    "MirrorSource": connect_mirror.source,
}


def read(text: str, file: str, schema: str | None = None) -> Reading:
    """The pipeline of one connector. `schema` are the columns of its records."""
    report = Report()
    found = connect_json.read(text, file, report)
    keys = Keys(found.fields, found.span, report)
    title = keys.take("connector.class") or ""
    connector = Connector(found.name, keys, schema)
    _reader(title, file)(connector)
    connector.leftovers()
    draft = Draft(
        values={"pipeline": found.name, "mode": "stream", **connector.values},
        sources=tuple(connector.sources),
        steps=tuple(connector.steps),
        sinks=tuple(connector.sinks),
        heading=(f"From {file}, of Kafka Connect: {title}.",),
    )
    return Reading(draft, report.ordered)


def _reader(title: str, file: str) -> Callable[[Connector], None]:
    """By the class's own name, which may stand alone and without its last word."""
    kind = title.rpartition(".")[2].removesuffix("Connector")
    if kind not in _CONNECTORS:
        hint = f"these can be converted: {', '.join(f'{each}Connector' for each in _CONNECTORS)}"
        raise DefinitionError(f"{file}: nothing here is equal to the connector {title}", hint=hint)
    return _CONNECTORS[kind]
