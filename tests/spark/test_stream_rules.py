"""What `check` says of streams is what Spark's own rules say; they are asked without a query."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from tests.unit.test_stateful import (
    FINAL,
    FIXED,
    NEVER_FINAL,
    OUTER_REFUSED,
    OUTER_TAKEN,
    REFUSED,
)


@pytest.fixture(scope="module")
def streams(spark: SparkSession) -> SparkSession:
    """A session with the streams `a` and `b`, which have a watermark."""
    session = spark.newSession()
    for name in ("a", "b"):
        rows = session.readStream.format("rate").load()
        rows = rows.selectExpr("value AS id", "timestamp AS at", "CAST(value AS STRING) AS k")
        rows.withWatermark("at", "10 minutes").createOrReplaceTempView(name)
    return session


def _runs(streams: SparkSession, sql: str, mode: str) -> bool:
    """Whether Spark would start a query of this in this output mode."""
    try:
        _ask(streams, streams.sql(sql), mode)
    except AnalysisException:
        return False
    return True


def _ask(streams: SparkSession, rows: DataFrame, mode: str) -> None:
    jvm = streams._jvm
    assert jvm is not None
    rules = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    output = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode)()
    rules.checkForStreaming(rows._jdf.queryExecution().analyzed(), output)


@pytest.mark.parametrize("sql", [*FINAL, *OUTER_TAKEN])
def test_what_becomes_final_is_appended(streams: SparkSession, sql: str) -> None:
    assert _runs(streams, sql, "Append")


@pytest.mark.parametrize("sql", [sql for sql in NEVER_FINAL if "ROLLUP" not in sql])
def test_what_never_becomes_final_is_not(streams: SparkSession, sql: str) -> None:
    assert not _runs(streams, sql, "Append")


@pytest.mark.parametrize("sql", [sql for sql in NEVER_FINAL if "(SELECT" not in sql])
def test_what_never_becomes_final_is_updated(streams: SparkSession, sql: str) -> None:
    assert _runs(streams, sql, "Update")


@pytest.mark.parametrize("sql", [*OUTER_REFUSED, *(sql for sql, _ in REFUSED)])
def test_what_is_refused_runs_in_no_mode(streams: SparkSession, sql: str) -> None:
    assert not _runs(streams, sql, "Append")
    assert not _runs(streams, sql, "Update")


@pytest.mark.parametrize(("sql", "refused"), FIXED)
def test_joins_with_rows_of_the_query(streams: SparkSession, sql: str, refused: bool) -> None:
    assert _runs(streams, sql, "Append") is not refused
