"""What the sources that read lines of text have in common: their options, checks and decoding.

`files` and `log` give raw rows in the form of `reader.RAW`, one for each line, with the file's path
as topic. Lines that are empty are passed over. Decoding, reasons and dead letters are then those of
Kafka records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.formats import csv, reading, text
from headrace.formats.carried import COLUMN, refusing
from headrace.formats.kinds import FORMATS
from headrace.formats.options import DELIMITER, Part, Wanted
from headrace.formats.reading import Reading
from headrace.model.names import servers_fault, topic_fault
from headrace.model.schema import Schema, quote, schema_fault
from headrace.sources import json_records
from headrace.sources.plain import PlainSource, name_clashes
from headrace.sources.reader import decoded
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METADATA = {"_file_path": "topic", "_file_offset": "offset", "_file_time": "timestamp"}
# What a record of Kafka has and a line has not.
NO_RECORD = (
    "CAST(NULL AS BINARY) AS key",
    "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
)
_SHAPES = {"schema", "json_unstructured"}
# How long a line is taken to be where only the number of lines is given.
LINE_BYTES = 200
_ONLY_CSV = ("header", "delimiter")
_NOT_BLANK = "length(trim(BOTH ' \\t\\r' FROM CAST(value AS STRING))) > 0"

SCHEMA = Option(
    "schema",
    Type.TEXT,
    "The columns, as in CREATE TABLE. A field that is NOT NULL must be there. `text` has none: its "
    "one column is `value STRING`.",
    example='"id BIGINT NOT NULL, customer STRING, amount DOUBLE"',
    validate=schema_fault,
)


OPTIONS = (
    json_records.UNSTRUCTURED,
    DELIMITER,
    Option(
        "include_metadata",
        Type.FLAG,
        "Adds the columns " + ", ".join(f"`{name}`" for name in METADATA) + ".",
        default=False,
    ),
    Option(
        "bad_data",
        Type.CHOICE,
        "What becomes of a line that cannot be decoded: `dlq` writes it to `dlq_topic`, `skip` "
        "counts and drops it, `fail` stops the pipeline. Default: `dlq` where there is a "
        "`dlq_topic`, else `fail`.",
        choices=("dlq", "skip", "fail"),
    ),
    Option(
        "dlq_topic",
        Type.TEXT,
        "The Kafka topic of dead letters.",
        example="orders.dlq",
        validate=topic_fault,
    ),
    Option(
        "bootstrap_server",
        Type.TEXT,
        "The Kafka cluster of `dlq_topic`. Default: the first that the pipeline names.",
        aliases=("bootstrap_servers",),
        example="localhost:9092",
        validate=servers_fault,
    ),
    Option(
        "max_errors_per_batch",
        Type.INTEGER,
        "More bad lines than this in one batch stop the pipeline before any of the batch is "
        "written. Default: no limit.",
        minimum=0,
        example="10",
    ),
)


@dataclass(frozen=True)
class LineSource(PlainSource):
    @staticmethod
    def check_lines(options: Options) -> Iterator[Diagnostic]:
        form = options["format"]
        if form == "text" and "schema" in options:
            message = "`schema` does not go with `format: text`, whose one column is `value STRING`"
            yield Diagnostic("CONFLICT", message, options.at("schema"), "remove one of them")
        elif form != "text" and not _SHAPES & {*options.values, *options.meant}:
            message = f"`format: {form}` needs `schema`"
            hint = f"add `schema: {SCHEMA.example}`"
            yield Diagnostic("MISSING_OPTION", message, options.span, hint)
        for name in _ONLY_CSV:
            if name in options and form != "csv":
                message = f"`{name}` has no effect with `format: {form}`"
                yield Diagnostic("CONFLICT", message, options.at(name), "remove one of them")
        yield from json_records.faults(options, form)
        yield from _bad_data(options)
        if options["schema"] is not None:
            taken = tuple(METADATA) if options["include_metadata"] else ()
            yield from name_clashes(options, (*taken, csv.CORRUPT, COLUMN))
            yield from _not_in_csv(options)

    @staticmethod
    def columns(options: Options, doubtful: bool = False) -> tuple[str, ...] | None:
        if options["format"] == "text":
            names: tuple[str, ...] = (text.COLUMN_NAME,)
        else:
            schema = _declared(options)
            if schema is None:
                return None
            names = schema.names
        wanted = options["include_metadata"] or doubtful
        return tuple(dict.fromkeys((*names, *METADATA))) if wanted else names

    @property
    def format(self) -> str:
        return str(self.options["format"])

    @property
    def schema(self) -> Schema:
        schema = _declared(self.options)
        assert schema is not None  # only text needs none
        return schema

    @property
    def shape(self) -> str:
        metadata = ", and _file_… metadata" if self.options["include_metadata"] else ""
        if self.format == "text":
            return f"lines of text into value STRING{metadata}"
        return decoded(self.format.upper(), self.schema, metadata, self.bad_data)

    @property
    def bootstrap(self) -> str | None:
        return self.options["bootstrap_server"] or self.context.bootstrap

    @property
    def bad_data(self) -> str:
        return self.options["bad_data"] or ("dlq" if self.options["dlq_topic"] else "fail")

    @property
    def dead_letter_topic(self) -> str | None:
        return self.options["dlq_topic"] if self.bad_data == "dlq" else None

    @property
    def max_errors(self) -> int | None:
        return self.options["max_errors_per_batch"]  # type: ignore[no-any-return]

    @property
    def reading(self) -> Reading:
        if self.format == "text":
            return text.TextReading()
        return FORMATS[self.format].reading(_wanted(self.options), self.name, None)

    @property
    def reason(self) -> str:
        return reading.reason(self.reading)

    def decode(self, raw: DataFrame, originals: int | None = None) -> DataFrame:
        lines = raw if self.format == "text" else raw.where(_NOT_BLANK)
        decoded = reading.decode(
            lines, self.reading, self._metadata(), tombstones=False, originals=originals
        )
        if self.bad_data != "fail":
            return decoded
        own = [quote(name) for name in decoded.columns if name != COLUMN]
        return decoded.selectExpr(*own, f"{refusing(self.reason)} AS {COLUMN}")

    def _metadata(self) -> tuple[str, ...]:
        wanted = METADATA if self.options["include_metadata"] else {}
        return tuple(f"{column} AS {name}" for name, column in wanted.items())


def _bad_data(options: Options) -> Iterator[Diagnostic]:
    chosen = options["bad_data"]
    if chosen == "dlq" and not {"dlq_topic"} & {*options.values, *options.meant}:
        message = "`bad_data: dlq` needs `dlq_topic`"
        hint = "add `dlq_topic: orders.dlq`"
        yield Diagnostic("MISSING_OPTION", message, options.at("bad_data"), hint)
    if "dlq_topic" in options and chosen in ("skip", "fail"):
        message = f"`dlq_topic` has no effect with `bad_data: {chosen}`"
        yield Diagnostic("CONFLICT", message, options.at("dlq_topic"), "remove one of them")


def _not_in_csv(options: Options) -> Iterator[Diagnostic]:
    if options["format"] != "csv":
        return
    for message in FORMATS["csv"].faults(_wanted(options)):
        hint = "declare it as STRING, and parse it in a step"
        yield Diagnostic("BAD_VALUE", message, options.at("schema"), hint)


def _wanted(options: Options) -> Wanted:
    """What a line is."""
    return Wanted(
        Part.VALUE,
        str(options["format"]),
        Path(),
        Schema.parse(options["schema"]) if options["schema"] is not None else None,
        delimiter=options["delimiter"],
        unstructured=options["json_unstructured"],
    )


def _declared(options: Options) -> Schema | None:
    """The columns of a line; None where nothing says it."""
    wanted = _wanted(options)
    form = FORMATS.get(wanted.format)  # Spark reads Parquet by itself
    return form.columns(wanted) if form is not None else wanted.schema
