"""The files source: every file of a folder or of a glob, once.

JSON lines, CSV and text are read line by line, so that a bad line is a reason and not the end;
parquet comes decoded. A file must be complete when it appears: write it elsewhere, or under a name
that begins with `.` or `_`, and rename it. What was read is remembered by path and size.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.errors import PathNotFound
from headrace.formats import csv
from headrace.formats.carried import COLUMN, located
from headrace.model import pipeline as model
from headrace.model.offsets import Offsets, Range
from headrace.model.schema import quote
from headrace.sources.lines import LINE_BYTES, METADATA, NO_RECORD, OPTIONS, SCHEMA, LineSource
from headrace.sources.plain import name_clashes, unchecked_not_null
from headrace.sources.reader import RAW, Access
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Setting, Spec, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_FILES = 1000
# Of the newest files a preview takes at least this many bytes.
_ENOUGH_BYTES = 1 << 20
_ALL_FOLDERS = Setting("recursiveFileLookup", "true", "files of the folders in it count too")
# Spark would pass over files that are a week older than the newest that it has read.
_ANY_AGE = Setting("maxFileAge", "36500d", "an old file that appears late is read too")
_PATH = "regexp_replace(url_decode(replace(_metadata.file_path, '+', '%2B')), '^file:/+', '/')"
# Where a row of parquet stands, beside its own columns: by the name that raw rows have for it.
_PLACE = {"topic": "__path", "offset": "__row", "timestamp": "__time"}


@dataclass(frozen=True)
class FilesSource(LineSource):
    STREAMS: ClassVar[bool] = True
    REPLAYS: ClassVar[bool] = True
    SPEC: ClassVar[Spec] = Spec(
        "source",
        "files",
        "New files of a folder: JSON lines, CSV, parquet or text.",
        (
            Option(
                "path",
                Type.TEXT,
                "A folder, whose files and those of the folders in it are read, or a glob; a "
                "relative one is beside the pipeline file. A file must be complete when it "
                "appears.",
                required=True,
                example="incoming",
            ),
            Option(
                "format",
                Type.CHOICE,
                "What the files hold: `json` is one object a line.",
                default="json",
                choices=("json", "csv", "parquet", "text"),
            ),
            SCHEMA,
            Option(
                "header",
                Type.FLAG,
                "With `csv`: a line that names the columns of the schema, in their order, is "
                "passed over.",
                default=False,
            ),
            *OPTIONS,
            Option(
                "max_files_per_batch",
                Type.INTEGER,
                "The most files that a batch of a stream reads.",
                default=DEFAULT_FILES,
                minimum=1,
            ),
        ),
    )

    @staticmethod
    def check(options: Options) -> Iterator[Diagnostic]:
        yield from LineSource.check_lines(options)
        if options["format"] != "parquet":
            return
        if options["schema"] is not None:
            yield from unchecked_not_null(options)
            yield from name_clashes(options, tuple(_PLACE.values()))
        for name in ("bad_data", "dlq_topic", "max_errors_per_batch"):
            if name in options:
                message = f"`{name}` has no effect with parquet, whose rows cannot be bad"
                yield Diagnostic("CONFLICT", message, options.at(name), "remove it")

    @property
    def path(self) -> str:
        return self.located(self.options["path"])

    @property
    def origin(self) -> str:
        return f"files of {self.path}"

    def reads(self, topic: str) -> bool:
        return "/" in topic  # which no topic of Kafka has

    def first(self, mode: model.Mode) -> Setting:  # noqa: ARG002
        return Setting("start", "every file that is there", "a file is new until it is read")

    def settings(self, mode: model.Mode) -> tuple[Setting, ...]:
        path = self.options.setting("path", "path", self.path)
        if mode is model.Mode.BATCH:
            return path, _ALL_FOLDERS
        limit = self.options.setting("maxFilesPerTrigger", "max_files_per_batch")
        return path, _ALL_FOLDERS, _ANY_AGE, limit

    def find(self, access: Access, stored: Offsets) -> Range:
        """A file's position is its size when it was read; one of another size is told of."""
        start: dict[tuple[str, int], int] = {}
        end: dict[tuple[str, int], int] = {}
        for path, size, _ in self._listed(access.spark):
            read = stored.get((path, 0), 0)
            if read and read != size:
                access.warn(
                    f"{path} had {read} bytes when it was read and has {size} now; "
                    "it is not read again: give new data a file of its own"
                )
            start[path, 0], end[path, 0] = read, read or size
        return Range(start, end, unit="bytes")

    def newest(self, access: Access, count: int) -> Range:
        end: dict[tuple[str, int], int] = {}
        files = sorted(self._listed(access.spark), key=lambda file: -file[2])
        for path, size, _ in files:
            end[path, 0] = size
            if sum(end.values()) >= max(_ENOUGH_BYTES, count * LINE_BYTES):
                break
        return Range(dict.fromkeys(end, 0), end, unit="bytes", partial=len(end) < len(files))

    def _listed(self, spark: SparkSession) -> list[tuple[str, int, float]]:
        """Path, size and time of each file, as Spark's own listing has them."""
        reader = spark.read.format("binaryFile").option(_ALL_FOLDERS.name, _ALL_FOLDERS.value)
        with self._must_exist():
            files = reader.load(self.path).select("path", "length", "modificationTime").collect()
        return [(_plain(row[0]), row[1], row[2].timestamp()) for row in files]

    @contextlib.contextmanager
    def _must_exist(self) -> Iterator[None]:
        from pyspark.errors import AnalysisException

        try:
            yield
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                raise PathNotFound("the folder or glob", self.path) from error
            raise

    def stream(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream
        for setting in self.settings(model.Mode.STREAM)[1:]:
            reader = reader.option(setting.name, setting.value)
        with self._must_exist():
            if self.format == "parquet":
                return _rows(reader.schema(self.schema.ddl()).parquet(self.path))
            return _lines(reader.text(self.path))

    def batch(self, spark: SparkSession, found: Range) -> DataFrame:
        parquet = self.format == "parquet"
        paths = [_escaped(key[0]) for key in found.end if found.start[key] < found.end[key]]
        if not paths:
            place = "__path STRING, __row BIGINT, __time TIMESTAMP"
            return spark.createDataFrame([], f"{self.schema.ddl()}, {place}" if parquet else RAW)
        if parquet:
            return _rows(spark.read.schema(self.schema.ddl()).parquet(*paths))
        return _lines(spark.read.text(paths))

    def decode(self, raw: DataFrame, originals: int | None = None) -> DataFrame:
        if self.format == "parquet":
            return self._decode_parquet(raw)
        if self.options["header"]:
            raw = raw.where(f"NOT {csv.is_header(self.schema, self.options['delimiter'])}")
        return super().decode(raw, originals)

    def _decode_parquet(self, raw: DataFrame) -> DataFrame:
        names = [quote(name) for name in self.schema.names]
        wanted = METADATA if self.options["include_metadata"] else {}
        metadata = [f"{_PLACE[column]} AS {name}" for name, column in wanted.items()]
        place = located("__path", offset="__row", timestamp="__time")
        return raw.selectExpr(*names, *metadata, f"{place} AS {COLUMN}")


def _lines(read: DataFrame) -> DataFrame:
    """In the form of RAW. Of a line's place Spark knows only where its block of the file begins."""
    return read.selectExpr(
        "CAST(value AS BINARY) AS value",
        f"{_PATH} AS topic",
        "0 AS partition",
        "_metadata.file_block_start AS offset",
        "_metadata.file_modification_time AS timestamp",
        *NO_RECORD,
    )


def _rows(read: DataFrame) -> DataFrame:
    return read.selectExpr(
        "*",
        f"{_PATH} AS __path",
        "_metadata.row_index AS __row",
        "_metadata.file_modification_time AS __time",
    )


def _plain(path: str) -> str:
    return re.sub(r"^file:/+", "/", path)


def _escaped(path: str) -> str:
    """A name that Spark does not take for a glob."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
