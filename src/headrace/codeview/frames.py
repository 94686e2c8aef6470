"""The tables of a query as code: what `runtime.rows` builds, each with a name and a comment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from headrace.codeview.recording import Recorded, render
from headrace.codeview.text import Script, variable
from headrace.model.pipeline import PythonTransform
from headrace.plan.explain import words
from headrace.plan.stages import Apply, Call, Decode, Query, Select, Watermark
from headrace.runtime import functions, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Frames(rows.Tables):
    """As the runtime's, with stand-ins for its DataFrames."""

    def __init__(
        self, script: Script, spark: SparkSession, watermarks: Iterable[Watermark] = ()
    ) -> None:
        super().__init__(spark, str, watermarks)
        self._script = script

    def build(self, query: Query, raw: dict[str, Recorded]) -> Recorded:
        for decode in query.decodes:
            self.decode(decode, cast("DataFrame", raw[decode.source.name]))
        for select in query.selects:
            self.select(select)
        for stage in query.transforms:
            self.apply(stage)
        found = self.frames[query.frame] if query.carried else self.plain(query.frame)
        for refuse in query.refusals:
            self._script.add("")
            self._script.comment(f"Refuse: {words(refuse)}")
            refused = cast(Recorded, refuse.sink.refusing(found, refuse.letters))
            name = f"{variable(query.frame)}_for_{variable(refuse.sink.name)}"
            found = cast("DataFrame", self._script.assign(name, refused))
        return cast(Recorded, found)

    def decode(self, stage: Decode, raw: DataFrame) -> None:
        self._script.add("")
        self._script.comment(f"Decode: {words(stage)}")
        super().decode(stage, raw)
        self._assign(stage.source.name)

    def select(self, stage: Select) -> None:
        self._script.add("")
        self._script.comment(f"Columns of {stage.table}")
        super().select(stage)
        self._assign(stage.table)

    def apply(self, stage: Apply | Call) -> None:
        self._script.add("")
        self._script.comment(f"Step {stage.transform.name}")
        super().apply(stage)
        self._assign(stage.transform.name)

    def plain(self, name: str) -> DataFrame:
        if name not in self._plain:
            found = cast(Any, super().plain(name))
            if found is not self.frames[name]:
                found = self._script.assign(f"{variable(name)}_values", found)
            self._plain[name] = cast("DataFrame", found)
        return self._plain[name]

    def _assign(self, name: str) -> None:
        found = cast(Any, self.frames[name])
        self.frames[name] = cast(Any, self._script.assign(variable(name), found))

    def _of_rows(self, step: PythonTransform, found: DataFrame) -> DataFrame:
        """The author's function is called by the script, not here; it is only asked for columns."""
        module, _, function = step.function.rpartition(".")
        self._script.imports.add(f"from {module} import {function}")
        recorded = cast(Recorded, found)
        real = functions.of_rows(step, recorded.real)
        called = self._script.name(f"{function}({render(recorded)})", real=real)
        return cast("DataFrame", called)
