"""The Python source: a class that the author wrote, for Spark's Python data source interface.

The class is a `pyspark.sql.datasource.DataSource` in a module beside the pipeline file. Its module
is sent to Spark's workers by value; whatever else it imports must be installed there. A batch has
no position to go on from, so every run reads everything.
"""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.errors import DefinitionError
from headrace.formats.carried import COLUMN, located
from headrace.model import pipeline as model
from headrace.model.offsets import Offsets, Range
from headrace.model.schema import literal
from headrace.sources.plain import PlainSource, register
from headrace.sources.reader import Access
from headrace.spec import Option, Setting, Spec, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource

_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


def _class_fault(name: str) -> str | None:
    return None if _CLASS.fullmatch(name) else "must be a module and a class: module.Class"


@dataclass(frozen=True)
class PythonSource(PlainSource):
    STREAMS: ClassVar[bool] = True
    REPLAYS: ClassVar[bool] = False
    SPEC: ClassVar[Spec] = Spec(
        "source",
        "python",
        "Rows of a Python class, by Spark's Python data source interface.",
        (
            Option(
                "class",
                Type.TEXT,
                "A `pyspark.sql.datasource.DataSource`, as `module.Class`; the module is beside "
                "the pipeline file, or installed.",
                required=True,
                example="weather.Stations",
                validate=_class_fault,
            ),
            Option(
                "options",
                Type.PROPERTIES,
                "What the class finds in its `options`.",
                default={},
                example="{station: Gdynia}",
            ),
        ),
    )

    @property
    def topic(self) -> str:
        return str(self.options["class"])

    @property
    def origin(self) -> str:
        return f"rows of the Python class {self.topic}"

    @property
    def shape(self) -> str:
        return "the columns that the class declares"

    def first(self, mode: model.Mode) -> Setting:
        value = "the class's first offset" if mode is model.Mode.STREAM else "all of its rows"
        return Setting("start", value, "the class decides")

    def settings(self, mode: model.Mode) -> tuple[Setting, ...]:  # noqa: ARG002
        where = f"options ({self.options.at('options')})"
        return tuple(Setting(name, value, where) for name, value in self.options["options"].items())

    def find(self, access: Access, stored: Offsets) -> Range:
        """A position counts the runs, as there is nothing else to count."""
        access.warn(f"`{self.name}`: {self.topic} has no position in a batch; all of it is read")
        runs = stored.get(self.key, 0)
        return self.span_of(runs, runs + 1, "runs")

    def newest(self, access: Access, count: int) -> Range:  # noqa: ARG002
        return self.span_of(0, 1, "runs")

    def batch(self, spark: SparkSession, found: Range) -> DataFrame:  # noqa: ARG002
        name = register(spark, self._kind("a batch", ("reader",)))
        return spark.read.format(name).options(**self.options["options"]).load()

    def stream(self, spark: SparkSession) -> DataFrame:
        kind = self._kind("a stream", ("streamReader", "simpleStreamReader"))
        name = register(spark, kind)
        return spark.readStream.format(name).options(**self.options["options"]).load()

    def decode(self, raw: DataFrame, originals: int | None = None) -> DataFrame:  # noqa: ARG002
        return raw.selectExpr("*", f"{located(literal(self.topic))} AS {COLUMN}")

    def _kind(self, what: str, methods: tuple[str, ...]) -> type[DataSource]:
        """The class, if it has one of the methods that are needed."""
        from pyspark.sql.datasource import DataSource

        kind = self._load()
        if not isinstance(kind, type) or not issubclass(kind, DataSource):
            raise self._fault("is no pyspark.sql.datasource.DataSource")
        if not any(getattr(kind, name) is not getattr(DataSource, name) for name in methods):
            raise self._fault(f"cannot be read as {what}: it has no {' or '.join(methods)}")
        return kind

    def _load(self) -> Any:
        module, _, name = self.topic.rpartition(".")
        folder = str(self.context.folder)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            found = importlib.import_module(module)
            kind = getattr(found, name)
        except (ImportError, AttributeError) as error:
            raise self._fault(f"cannot be imported: {error}") from error
        self._send_along(found)
        return kind

    def _send_along(self, module: Any) -> None:
        """A worker cannot import what stands beside the pipeline file; it gets the code itself."""
        from pyspark.cloudpickle import register_pickle_by_value

        if str(getattr(module, "__file__", "")).startswith(str(self.context.folder)):
            register_pickle_by_value(module)  # type: ignore[no-untyped-call]

    def _fault(self, problem: str) -> DefinitionError:
        module = self.topic.rpartition(".")[0]
        return DefinitionError(
            f"source `{self.name}` at {self.options.at('class')}: {self.topic} {problem}",
            hint=f"it must be in a module beside the pipeline file: {module}.py",
        )
