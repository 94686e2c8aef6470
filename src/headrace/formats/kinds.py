"""The formats by name, one line each. A new one is a file beside this, and a line here."""

from __future__ import annotations

from headrace.formats.avro import AvroFormat
from headrace.formats.csv import CsvFormat
from headrace.formats.debezium import DebeziumFormat
from headrace.formats.format import Format
from headrace.formats.json import JsonFormat
from headrace.formats.json_schema import JsonSchemaFormat
from headrace.formats.protobuf import ProtobufFormat
from headrace.formats.text import TextFormat

# By `Wanted.language`. Bytes that are passed on as they are, `raw`, are no format in this sense.
FORMATS: dict[str, Format] = {
    "json": JsonFormat(),
    "avro": AvroFormat(),
    "json_schema": JsonSchemaFormat(),
    "debezium": DebeziumFormat(),
    "protobuf": ProtobufFormat(),
    "csv": CsvFormat(),
    "text": TextFormat(),
}
