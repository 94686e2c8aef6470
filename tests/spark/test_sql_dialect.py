"""What the dialect is translated to is what the real Spark understands, with the right rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from tests.unit.sql_translations import TABLE, TIMES, TRANSLATIONS, UNCHANGED

from headrace.frontend.sql.dialect import translate
from headrace.frontend.sql.statements import Fragment
from headrace.spans import Span


def test_every_translation_runs(spark: SparkSession) -> None:
    child = spark.newSession()
    child.conf.set("spark.sql.shuffle.partitions", "1")
    child.sql(TABLE).createOrReplaceTempView("t")
    wrong = {}
    for case in (*TRANSLATIONS, *UNCHANGED):
        translated, faults = translate(Fragment(case.sql, Span("p.sql", 1, 1, case.sql)), TIMES)
        assert faults == []
        found = answer(child, translated.sql)
        if sorted(found, key=repr) != sorted(case.rows, key=repr):
            wrong[translated.sql] = found
    assert wrong == {}


def test_lists_are_rows_of_a_stream_too(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "one.json").write_text('{"id": 1, "tags": ["a", "b"]}\n{"id": 2}\n')
    child = spark.newSession()
    orders = child.readStream.schema("id INT, tags ARRAY<STRING>").json(str(tmp_path / "orders"))
    orders.createOrReplaceTempView("orders")
    every = "SELECT id, tag FROM orders, UNNEST(tags) AS tag"
    assert of_stream(child, every) == {(1, "a"), (1, "b")}
    left = "SELECT id, tag FROM orders LEFT JOIN UNNEST(tags) AS u(tag) ON true"
    assert of_stream(child, left) == {(1, "a"), (1, "b"), (2, None)}


def of_stream(spark: SparkSession, sql: str) -> set[tuple[object, ...]]:
    """The rows that a stream makes of all there is."""
    translated, faults = translate(Fragment(sql, Span("p.sql", 1, 1, sql)))
    assert faults == []
    rows: set[tuple[object, ...]] = set()

    def keep(batch: DataFrame, _: int) -> None:
        rows.update(plain(row) for row in batch.collect())

    query = spark.sql(translated.sql).writeStream.foreachBatch(keep).trigger(availableNow=True)
    query.start().awaitTermination()
    return rows


def test_the_examples_of_every_function_stay_as_they_are(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    catalog = spark._jsparkSession.sessionState().catalog()
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    names = [row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    changed = {}
    seen = 0
    for name in names:
        if not name.isidentifier():
            continue
        text = catalog.lookupFunctionInfo(identifier(name)).getExamples()
        for sql in re.findall(r"^\s*> (SELECT [^\n]*);$", text, re.MULTILINE):
            translated, faults = translate(Fragment(sql, Span("p.sql", 1, 1, sql)))
            seen += 1
            if translated.sql != sql or faults:
                changed[sql] = (translated.sql, faults)
    assert seen > 500
    assert changed == {}


def answer(spark: SparkSession, sql: str) -> list[tuple[object, ...]]:
    """The rows of a query, or what Spark says against it."""
    try:
        return [plain(row) for row in spark.sql(sql).collect()]
    except PySparkException as error:
        return [(str(error).splitlines()[0],)]


def plain(row: Row) -> tuple[object, ...]:
    """A row as tuples, its windows, too."""
    return tuple(plain(each) if isinstance(each, Row) else each for each in row)
