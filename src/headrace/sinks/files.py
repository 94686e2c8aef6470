"""The files sink: rows as Parquet, JSON or CSV files in a plain folder that any program can read.

    1. finish   move what a crash left half moved
    2. skip     a batch that is noted is in the folder
    3. stage    Spark writes the batch into a folder that readers pass over
    4. note     which staged file goes where; from here on the batch counts
    5. move     each file by one rename into its place, under a name with generation and batch
    6. clear    what was staged, and the notes of older batches

The note is written whole or not at all, so a batch is staged again or moved to its end, and never
both. Notes and staged files are in `_headrace/` of the folder, which readers pass over.

A batch is one file in each folder that it touches, so that it appears there at once. More are
allowed by `max_files_per_batch`; they then appear one by one, each whole.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.errors import OutsideError
from headrace.model import pipeline as model
from headrace.sinks.writer import Batch, SinkContext, column_twice, unknown_partitions
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Setting, Spec, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

HIDDEN = "_headrace"
NOTE = ".note"
_COMPRESSIONS: Mapping[str, tuple[str, ...]] = {
    "parquet": ("none", "snappy", "gzip", "zstd"),
    "json": ("none", "gzip", "bzip2"),
    "csv": ("none", "gzip", "bzip2"),
}


@dataclass(frozen=True)
class FilesSink:
    sink: model.Sink
    context: SinkContext

    CARRIED: ClassVar[bool] = False
    REPLAY_SAFE: ClassVar[bool] = True
    SPEC: ClassVar[Spec] = Spec(
        "sink",
        "files",
        "Rows as files of a folder: Parquet, JSON lines or CSV.",
        (
            Option(
                "path",
                Type.TEXT,
                "The folder; a relative one is beside the pipeline file.",
                required=True,
                example="exports/orders",
            ),
            Option(
                "format",
                Type.CHOICE,
                "What the files are.",
                required=True,
                choices=tuple(_COMPRESSIONS),
                example="parquet",
            ),
            Option(
                "partition_by",
                Type.LIST,
                "Columns whose values become folders: `day=2026-01-31/`.",
                default=(),
                example="[day]",
            ),
            Option(
                "compression",
                Type.CHOICE,
                "How the files are compressed. Default: snappy for Parquet, else none.",
                choices=("none", "snappy", "gzip", "zstd", "bzip2"),
                example="gzip",
            ),
            Option(
                "header",
                Type.FLAG,
                "For CSV: whether the first line has the names of the columns.",
                default=True,
            ),
            Option(
                "max_files_per_batch",
                Type.INTEGER,
                "How many files a batch may make in one folder. With one, a batch appears in a "
                "folder at once.",
                default=1,
                minimum=1,
            ),
        ),
    )

    @staticmethod
    def check(options: Options, columns: tuple[str, ...] | None) -> Iterator[Diagnostic]:
        form, compression = options["format"], options["compression"]
        if form and compression and compression not in _COMPRESSIONS[form]:
            message = f"{form} files cannot be compressed by {compression}"
            hint = f"use one of {', '.join(_COMPRESSIONS[form])}"
            yield Diagnostic("CONFLICT", message, options.at("compression"), hint)
        if "header" in options and form and form != "csv":
            message = f"`header` is of use only with `format: csv`, and this is {form}"
            yield Diagnostic("CONFLICT", message, options.at("header"), "leave it out")
        if columns is None:
            return
        yield from column_twice(options, columns)
        known = {column.lower() for column in columns}
        partition_by = options["partition_by"] or ()
        yield from unknown_partitions(options, columns)
        if known <= {name.lower() for name in partition_by}:
            message = "`partition_by` has all columns, and nothing is left for the files"
            yield Diagnostic("BAD_VALUE", message, options.at("partition_by"))

    @property
    def name(self) -> str:
        return self.sink.name

    @property
    def path(self) -> str:
        return self.context.located(self.sink.options["path"])

    @property
    def format(self) -> str:
        return str(self.sink.options["format"])

    @property
    def target(self) -> str:
        return f"{self.format} files in {self.path}"

    def settings(self) -> tuple[Setting, ...]:
        options = self.sink.options
        return (
            options.setting("path", "path", self.path),
            *(options.setting(name, name, value) for name, value in self._options().items()),
        )

    def _options(self) -> dict[str, str]:
        options = self.sink.options
        given = {"compression": options["compression"]} if options["compression"] else {}
        if self.format == "csv":
            given["header"] = str(options["header"]).lower()
        return given

    def write(self, rows: DataFrame, batch: Batch) -> None:
        self.deliver(rows, batch, Folder(rows.sparkSession, self.path))

    def scripted(self, rows: DataFrame, batch: Batch) -> None:  # noqa: ARG002
        self._writer(rows).mode("append").save(self.path)

    def deliver(self, rows: DataFrame, batch: Batch, folder: Folder) -> None:
        """The numbered steps above, in `folder`."""
        desk = self._desk
        notes = [f"{desk}/{name}" for name in folder.names(desk) if name.endswith(NOTE)]
        for note in notes:
            self._move(folder, note)  # 1
        label = self._label(batch)
        note = f"{desk}/{label}{NOTE}"
        older = [other for other in notes if f"/{batch.generation}-" in other]
        if batch.id is not None and any(note <= other for other in older):  # 2
            return
        staging = f"{desk}/staging-{batch.generation}"
        self._writer(rows).mode("overwrite").save(folder.at(staging))  # 3
        folder.write(note, json.dumps(self._moves(folder, staging, label)))  # 4
        self._move(folder, note)  # 5
        for name in (staging, *older):  # 6
            folder.delete(name)

    def newest(self, spark: SparkSession, generation: str) -> int | None:
        names = Folder(spark, self.path).names(self._desk)
        own = [name for name in names if name.startswith(f"{generation}-") and name.endswith(NOTE)]
        return max((int(name[len(generation) + 1 : -len(NOTE)]) for name in own), default=None)

    @property
    def _desk(self) -> str:
        """The folder of its notes."""
        return f"{HIDDEN}/{self.context.pipeline}.{self.name}"

    def _label(self, batch: Batch) -> str:
        """Labels of one generation are in the order of their batches."""
        if batch.id is None:
            return f"once-{uuid.uuid4().hex}"
        return f"{batch.generation}-{batch.id:019}"

    def _writer(self, rows: DataFrame) -> DataFrameWriter:
        files: int = self.sink.options["max_files_per_batch"]
        partition_by = self.sink.options["partition_by"]
        if files == 1 and partition_by:
            # All rows of a folder come to one task.
            rows = rows.repartition(*partition_by)
        else:
            rows = rows.repartition(1) if files == 1 else rows.coalesce(files)
        writer = rows.write.format(self.format).options(**self._options())
        return writer.partitionBy(*partition_by) if partition_by else writer

    def _moves(self, folder: Folder, staging: str, label: str) -> dict[str, str]:
        """Where each staged file goes; nothing of a batch without rows, which stages one, too."""
        staged = folder.files(staging)
        if len(staged) == 1 and self._is_empty(folder, staging):
            return {}
        moves = {}
        for number, name in enumerate(staged):
            place, _, file = name.rpartition("/")
            ending = file.partition(".")[2]
            own = f"{self.context.pipeline}.{self.name}-{label}-{number:05}.{ending}"
            moves[f"{staging}/{name}"] = f"{place}/{own}" if place else own
        return moves

    def _is_empty(self, folder: Folder, staging: str) -> bool:
        reader = folder.spark.read.format(self.format).options(**self._options())
        # Without names and types of its own the reader would look for them, and fail where
        # there are none.
        return reader.schema("nothing STRING").load(folder.at(staging)).isEmpty()

    def _move(self, folder: Folder, note: str) -> None:
        """Also for a second time, after a crash half-way."""
        for staged, place in json.loads(folder.read(note)).items():
            if folder.exists(staged):
                folder.move(staged, place)


class Folder:
    """A folder on any file system that Spark's Hadoop knows. Names are relative to it."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark = spark
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._root = self._jvm.org.apache.hadoop.fs.Path(path)
        configuration = spark._jsc.hadoopConfiguration()
        self._system = self._root.getFileSystem(configuration)

    def at(self, name: str) -> str:
        return str(self._path(name).toString())

    def names(self, name: str) -> list[str]:
        """What is directly in a folder, in order; nothing if it does not exist."""
        if not self.exists(name):
            return []
        return sorted(
            str(each.getPath().getName()) for each in self._system.listStatus(self._path(name))
        )

    def files(self, name: str) -> list[str]:
        """The files below a folder that are no secret of their writer's, in order."""
        base = self._system.makeQualified(self._path(name)).toUri()
        found = self._system.listFiles(self._path(name), True)
        names = []
        while found.hasNext():
            path = found.next().getPath()
            if not path.getName().startswith(("_", ".")):
                names.append(str(base.relativize(path.toUri()).getPath()))
        return sorted(names)

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._path(name)))

    def read(self, name: str) -> str:
        stream = self._system.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """A new file, whole or not at all."""
        stream = self._system.create(self._path(f"{name}.new"), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.move(f"{name}.new", name)

    def move(self, old: str, new: str) -> None:
        """By one rename; where that is a copy, as in object stores, an unfinished one is undone."""
        target = self._path(new)
        self._system.mkdirs(target.getParent())
        self._system.delete(target, False)
        if not self._system.rename(self._path(old), target):
            raise OutsideError(f"moving {self.at(old)} to {self.at(new)}: it was not allowed")

    def delete(self, name: str) -> None:
        self._system.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)
