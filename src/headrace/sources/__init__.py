"""Sources: where rows come from. One file each; a new one is a file and a line in `SOURCES`."""

from __future__ import annotations

from headrace.sources.delta import DeltaSource
from headrace.sources.files import FilesSource
from headrace.sources.impulse import ImpulseSource
from headrace.sources.jdbc import JdbcSource
from headrace.sources.kafka import KafkaSource
from headrace.sources.log import LogSource
from headrace.sources.python_class import PythonSource
from headrace.sources.reader import SourceKind

SOURCES: dict[str, SourceKind] = {
    "kafka": KafkaSource,
    "files": FilesSource,
    "log": LogSource,
    "jdbc": JdbcSource,
    "delta": DeltaSource,
    "impulse": ImpulseSource,
    "python": PythonSource,
}
