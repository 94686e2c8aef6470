"""Sinks: where rows go. One file each; a new one is a file and a line in `SINKS`."""

from __future__ import annotations

from headrace.sinks.console import ConsoleSink
from headrace.sinks.delta import DeltaSink
from headrace.sinks.files import FilesSink
from headrace.sinks.jdbc import JdbcSink
from headrace.sinks.kafka import KafkaSink
from headrace.sinks.writer import SinkKind

SINKS: dict[str, SinkKind] = {
    "console": ConsoleSink,
    "delta": DeltaSink,
    "files": FilesSink,
    "jdbc": JdbcSink,
    "kafka": KafkaSink,
}
