"""The log source: the lines that are appended to files, as they are appended.

A position is the next byte of a file, which is known by its identity (`formats.growing`), so that a
log that is rotated is read to its end under its new name and from the beginning of the new file. A
line is read when it is complete.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.formats import growing
from headrace.model import pipeline as model
from headrace.model.offsets import Offsets, Range
from headrace.sources.lines import LINE_BYTES, NO_RECORD, OPTIONS, SCHEMA, LineSource
from headrace.sources.reader import RAW, Access
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Setting, Spec, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Key = tuple[str, int]
# The identity of no file: stored by a run that found none, so that it counts as one that was here.
_NOTHING = -1


@dataclass(frozen=True)
class LogSource(LineSource):
    STREAMS: ClassVar[bool] = False
    REPLAYS: ClassVar[bool] = True
    SPEC: ClassVar[Spec] = Spec(
        "source",
        "log",
        "Lines appended to files, by byte offset; rotation is followed.",
        (
            Option(
                "path",
                Type.TEXT,
                "A file, or a glob of files, that every Spark worker can open; a relative one is "
                "beside the pipeline file.",
                required=True,
                example="/var/log/shop/app.log",
            ),
            Option(
                "format",
                Type.CHOICE,
                "What a line is.",
                default="text",
                choices=("text", "json", "csv"),
            ),
            SCHEMA,
            Option(
                "auto_offset_reset",
                Type.CHOICE,
                "Where a first run begins: with the lines that are there, or with those to come.",
                default="earliest",
                choices=("earliest", "latest"),
            ),
            *OPTIONS,
        ),
    )

    @staticmethod
    def check(options: Options) -> Iterator[Diagnostic]:
        yield from LineSource.check_lines(options)
        if "://" in (options["path"] or ""):
            message = "`path` must be of a local or mounted file system"
            hint = "read whole files of an object store with `connector_type: files`"
            yield Diagnostic("BAD_VALUE", message, options.at("path"), hint)

    @property
    def path(self) -> str:
        return self.located(self.options["path"])

    @property
    def origin(self) -> str:
        return f"lines appended to {self.path}"

    def reads(self, topic: str) -> bool:
        return "/" in topic  # which no topic of Kafka has

    def first(self, mode: model.Mode) -> Setting:  # noqa: ARG002
        return self.options.setting("start", "auto_offset_reset")

    def settings(self, mode: model.Mode) -> tuple[Setting, ...]:  # noqa: ARG002
        return (self.options.setting("path", "path", self.path),)

    def find(self, access: Access, stored: Offsets) -> Range:
        files = self._files(stored)
        skip = not stored and self.options["auto_offset_reset"] == "latest"
        start: dict[Key, int] = {}
        end: dict[Key, int] = {}
        for key, location in files.items():
            read = stored.get(key, 0)
            size = Path(location).stat().st_size
            if size < read:
                access.warn(f"{location} has {size} bytes, and {read} were read: it begins anew")
                read = 0
            end[key] = growing.complete(location, read)
            start[key] = end[key] if skip else read
        for key in self._given_up(access, stored, files):
            start[key] = end[key] = 0
        if not end:
            access.warn(f"no file {self.path} with a complete line is there yet")
            start = end = {(self.path, _NOTHING): 0}
        return Range(start, end, unit="bytes", partial=any(start.values()))

    def _files(self, stored: Offsets) -> dict[Key, str]:
        """Where each file is now, by the name that it had when it was first seen."""
        known = {number: (topic, number) for topic, number in stored}
        files: dict[Key, str] = {}
        for path in sorted(glob.glob(self.path)):  # noqa: PTH207
            number = growing.identity(path)
            if number is not None:
                files[known.get(number, (path, number))] = path
        for key in stored:
            location = growing.locate(*key) if key not in files else None
            if location is not None:
                files[key] = location
        return files

    def _given_up(self, access: Access, stored: Offsets, files: dict[Key, str]) -> list[Key]:
        """Files that had the name of one that is seen for the first time, and are not found.

        A position of 0 says that this was told. A file that is merely not there keeps its position.
        """
        lost: list[Key] = []
        for path, _ in files.keys() - stored.keys():
            former = [key for key in stored if key[0] == path and stored[key]]
            gone = [key for key in former if key not in files]
            for key in gone:
                rest = f"what the old one got after its byte {stored[key]} cannot be found"
                access.warn(f"{path} is another file now; {rest}")
            if former and not gone:
                access.warn(f"{path} is another file now; the old one is read to its end")
            lost += gone
        return lost

    def newest(self, access: Access, count: int) -> Range:  # noqa: ARG002
        files = self._files({})
        end = {key: growing.complete(path) for key, path in files.items()}
        back = count * LINE_BYTES
        start = {key: growing.line_after(files[key], at - back) for key, at in end.items()}
        return Range(start, end, unit="bytes")

    def batch(self, spark: SparkSession, found: Range) -> DataFrame:
        work = [
            piece
            for (path, number), start in found.start.items()
            for piece in growing.pieces(path, number, start, found.end[path, number])
        ]
        if not work:
            return spark.createDataFrame([], RAW)

        def lines(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield from growing.read(work[number])

        rows = spark.range(0, len(work), 1, len(work)).mapInArrow(lines, growing.ROW)
        return rows.selectExpr("*", *NO_RECORD)
