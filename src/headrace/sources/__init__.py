"""Sources: where rows come from. One file each; a new one is a file and a line in `SOURCES`."""

from __future__ import annotations

from headrace.sources.kafka import KafkaSource
from headrace.sources.reader import SourceKind

SOURCES: dict[str, SourceKind] = {
    "kafka": KafkaSource,
}
