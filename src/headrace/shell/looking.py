"""SELECT and EXPLAIN: rows and plans to look at. Nothing is written and no position moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.api import Definition
from headrace.frontend.sql.statements import CreatePipeline, Explain, Insert, Select
from headrace.model.query import Query
from headrace.plan.explain import explain
from headrace.plan.planner import preview_query
from headrace.plan.stages import Plan
from headrace.project import Project
from headrace.runtime.session import settings
from headrace.shell import connections, routes, system
from headrace.shell.checking import Checker, everything_of, refuse
from headrace.shell.kept import Kept
from headrace.shell.result import Result
from headrace.shell.settings import Settings
from headrace.shell.spark import WarmSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.runtime.preview import Preview

_BAD_SHOWN = 3


@dataclass(frozen=True)
class Looking:
    project: Project
    checker: Checker
    spark: WarmSpark
    settings: Settings
    master: str | None

    def select(self, statement: Select, kept: Kept) -> Result:
        route = routes.route(statement, kept)
        refuse(route.faults)
        if route.tests is not None:
            return self._test(route.tests)
        assert route.query is not None
        if route.pipeline is None:
            return self._without_tables(statement, route.query)
        if not system.named(route.query):
            return self.preview(route.pipeline, kept)
        found = system.contents(route.query, self.project)
        mixed = routes.route(statement, kept, {name: each.rows for name, each in found.items()})
        assert mixed.pipeline is not None
        warnings = [warning for each in found.values() for warning in each.warnings]
        return self.preview(mixed.pipeline, kept, warnings)

    def preview(self, made: CreatePipeline, kept: Kept, warnings: Iterable[str] = ()) -> Result:
        """The rows that a pipeline would make of what there is now."""
        pipeline = self.checker.definition(made, kept).pipeline
        rows, scan = self.settings.values["rows"], self.settings.values["scan"]

        def look(spark: SparkSession) -> Preview:
            from headrace.runtime.preview import preview

            return preview(pipeline, spark, rows, scan)

        found = self.spark.do("this SELECT", look)
        told = (*warnings, *_bad_records(found))
        return Result(found.columns, found.values, _extent(found), told)

    def _without_tables(self, statement: Select, query: Query) -> Result:
        """Over system tables, or over nothing: SQLite where it can, and Spark for the rest."""
        if not query.tables:
            return self._by_spark(query.text)
        try:
            answer = system.select(query, self.project)
        except system.NotInSqlite:
            found = system.contents(query, self.project)
            rows = {name: each.rows for name, each in found.items()}
            return self._by_spark(routes.with_rows(statement.query, query, rows).sql)
        note = _counted(len(answer.rows))
        return Result(answer.columns, tuple(answer.rows), note, answer.warnings)

    def _by_spark(self, sql: str) -> Result:
        limit = self.settings.values["rows"]

        def look(spark: SparkSession) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
            from headrace.runtime.preview import values_of

            frame = spark.sql(sql)
            return tuple(frame.columns), values_of(frame, limit + 1)

        columns, rows = self.spark.do("this SELECT", look)
        return Result(
            columns, tuple(rows[:limit]), _counted(min(len(rows), limit), len(rows) > limit)
        )

    def _test(self, name: str) -> Result:
        report = connections.test_connection(self.project, name)
        failure = report.failure
        note = f"{name} works" if report.ok else None
        warnings = (f"{name}: {failure.check}: {failure.detail}",) if failure else ()
        return Result(report.COLUMNS, tuple(report.rows), note, warnings)

    # EXPLAIN

    def explain(self, statement: Explain, kept: Kept) -> Result:
        made = self._explained(statement, kept)
        if made is None:
            return Result(note="it is answered without Spark, so there is no plan")
        definition = self.checker.definition(made, kept)
        if statement.code:
            _ = definition.plan  # what is wrong is told before Spark is started
            code = self.spark.do("EXPLAIN CODE", lambda spark: definition.code(spark, self.master))
            return Result(text=code.rstrip("\n"))
        if definition.pipeline.sinks:
            return Result(story=definition.explain(self.master))
        note = "there is no sink: SELECT shows its rows, and nothing is written"
        return Result(story=self._reading(definition), note=note)

    def _reading(self, definition: Definition) -> dict[str, Any]:
        pipeline = definition.pipeline
        plan = Plan(pipeline, (), (preview_query(pipeline),), ())
        return explain(plan, settings(pipeline, self.master))

    def _explained(self, statement: Explain, kept: Kept) -> CreatePipeline | None:
        """What is asked about, as a pipeline; None for a SELECT that reads nothing kept."""
        inner = statement.statement
        if inner is None:
            assert statement.name is not None
            made = kept.find(statement.name.text)
            if isinstance(made, CreatePipeline):
                return made
            return everything_of(statement.name)
        if isinstance(inner, Select):
            return routes.route(inner, kept).pipeline
        if isinstance(inner, Insert):
            return kept.inserted(inner)
        assert isinstance(inner, CreatePipeline)
        return inner


def _extent(found: Preview) -> str:
    """How many rows there are, and whether there could be more."""
    partial = [f"not all of `{each}` was read: SET scan = all reads it" for each in found.partial]
    return "; ".join([_counted(len(found.values), found.more), *partial])


def _counted(rows: int, more: bool = False) -> str:
    told = f"{rows:,} row" + ("" if rows == 1 else "s")
    return f"{told}; and more: SET rows = all shows them" if more else told


def _bad_records(found: Preview) -> Iterator[str]:
    for bad in found.bad[:_BAD_SHOWN]:
        place = f"{bad.topic}[{bad.partition}]@{bad.offset}"
        yield f"left out: {place} {bad.error}: {bad.message}"
    if len(found.bad) > _BAD_SHOWN:
        yield f"{len(found.bad) - _BAD_SHOWN:,} more bad records were left out"
