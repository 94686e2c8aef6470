"""What the checks believe of Spark's functions is what Spark says of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.formats.carried import COLUMN, IS_BAD
from headrace.model.functions import AGGREGATES, FORBIDDEN, GENERATORS
from headrace.model.query import Query
from headrace.spans import Span

# Aggregates and generators that Spark lists under the type of their arguments.
UNDER_ANOTHER_GROUP = {
    *("schema_of_variant_agg", "vector_avg", "vector_sum"),
    *("json_tuple", "variant_explode", "variant_explode_outer"),
}
# Table functions that tell of Spark and not of the data; none is allowed in a pipeline.
ABOUT_SPARK = {"collations", "python_worker_logs", "sql_keywords"}


@pytest.fixture(scope="module")
def functions(spark: SparkSession) -> dict[str, Any]:
    """Every built-in function, as Spark describes it."""
    jvm: Any = spark._jvm
    catalog = spark._jsparkSession.sessionState().catalog()
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    names = [row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    words = [name for name in names if name.isidentifier()]
    return {name: catalog.lookupFunctionInfo(identifier(name)) for name in words}


def test_the_lists_of_aggregates_and_generators_are_sparks(functions: dict[str, Any]) -> None:
    groups = {name: info.getGroup() for name, info in functions.items()}
    aggregates = {name for name, group in groups.items() if group == "agg_funcs"}
    generators = {name for name, group in groups.items() if group == "generator_funcs"}
    assert aggregates <= AGGREGATES
    assert generators - ABOUT_SPARK <= GENERATORS
    assert aggregates | generators | UNDER_ANOTHER_GROUP >= AGGREGATES | GENERATORS


def test_the_first_example_of_every_function_can_carry_the_hidden_column(
    spark: SparkSession, functions: dict[str, Any]
) -> None:
    hidden = f"SELECT 1L AS id, named_struct('error', CAST(NULL AS STRING)) AS {COLUMN}"
    spark.sql(hidden).createOrReplaceTempView("source")
    carried = 0
    for name, info in functions.items():
        example = re.search(r"^\s*> (SELECT [^\n]*);$", info.getExamples(), re.MULTILINE)
        if example is None or " FROM " in example[1].upper() or name in FORBIDDEN:
            continue
        if not _analysed(spark, example[1]):
            continue
        text = f"{example[1]} FROM source WHERE id > 0"
        query, faults = Query.parse(text, Span("p.yaml", 1, 1, text))
        assert query is not None, faults
        assert faults == []
        assert list(query.unknown_columns({"source": ("id",)})) == []
        assert query.rowwise or name in AGGREGATES | GENERATORS
        if query.rowwise:
            assert spark.sql(query.carrying(COLUMN, IS_BAD)).columns[-1] == COLUMN
            carried += 1
    assert carried > 300


def _analysed(spark: SparkSession, text: str) -> bool:
    """Whether Spark itself takes the example; some want settings that are not ours."""
    try:
        return bool(spark.sql(f"{text} FROM source").columns)
    except PySparkException:
        return False
