"""Declared schemas, read without Spark."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.schema import Column, Schema, literal, quote, schema_fault


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("BIGINT", "BIGINT"),
        ("long", "BIGINT"),
        ("INTEGER", "INT"),
        ("SHORT", "SMALLINT"),
        ("BYTE", "TINYINT"),
        ("REAL", "FLOAT"),
        ("DOUBLE", "DOUBLE"),
        ("DECIMAL(10,2)", "DECIMAL(10, 2)"),
        ("NUMERIC", "DECIMAL"),
        ("STRING", "STRING"),
        ("BINARY", "BINARY"),
        ("BOOLEAN", "BOOLEAN"),
        ("DATE", "DATE"),
        ("TIMESTAMP", "TIMESTAMP"),
        ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ"),
        ("VARIANT", "VARIANT"),
        ("ARRAY<INT>", "ARRAY<INT>"),
        ("MAP<STRING, ARRAY<INT>>", "MAP<STRING, ARRAY<INT>>"),
        ("STRUCT<a: INT, b: STRUCT<c: DATE>>", "STRUCT<a: INT, b: STRUCT<c: DATE>>"),
        ("STRUCT<`a b`: INT>", "STRUCT<`a b`: INT>"),
        ("INT COMMENT 'a, b'", "INT"),
    ],
)
def test_a_type_is_read_as_spark_reads_it(written: str, meant: str) -> None:
    assert Schema.parse(f"id {written}").columns == (Column("id", meant),)


def test_not_null_columns_are_required() -> None:
    schema = Schema.parse("id BIGINT NOT NULL, name STRING NULL, at TIMESTAMP not null")
    assert schema.required == ("id", "at")
    assert schema.ddl() == "`id` BIGINT, `name` STRING, `at` TIMESTAMP"


@pytest.mark.parametrize(
    "name",
    [
        *("at", "order", "date", "timestamp", "primary", "key", "index", "comment", "constraint"),
        *("check", "unique", "like", "partition", "user", "value", "case", "select", "not", "null"),
        *("exclude", "from", "table", "größe"),
    ],
)
def test_any_word_can_be_a_column(name: str) -> None:
    assert Schema.parse(f"id INT, {name} STRING NOT NULL").names == ("id", name)


@pytest.mark.parametrize(
    ("written", "name"), [("`a b`", "a b"), ("`a``b`", "a`b"), ("`x.y`", "x.y")]
)
def test_a_quoted_name_may_hold_anything(written: str, name: str) -> None:
    schema = Schema.parse(f"{written} INT")
    assert schema.names == (name,)
    assert Schema.parse(schema.ddl()) == schema


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no columns"),
        ("  ", "no columns"),
        ("id", "no type"),
        ("id:INT", "no type"),
        ("id BIGNT", "BIGNT"),
        ("id INT name STRING", "name"),
        ("id INT,, name STRING", "unexpected `,`"),
        ("id INT, ID STRING", "twice"),
        ("id VARCHAR(10)", "STRING"),
        ("id CHAR(3)", "STRING"),
        ("id UUID", "`UUID`"),
        ("id DATETIME", "`DATETIME`"),
        ("id ARRAY", "incomplete"),
        ("id MAP<STRING>", "incomplete"),
        ("id INT(4)", "incomplete"),
        ("id DECIMAL(99, 2)", "impossible"),
        ("id DECIMAL(x)", "impossible"),
        ("s STRUCT<a: INT NOT NULL>", "NOT NULL inside `s`"),
        ("id INT, PRIMARY KEY (id)", "no type"),
        ("id INT) USING parquet LOCATION '/x' --", "unexpected `)`"),
        ("id INT); DROP TABLE x", "unexpected `)`"),
        ("a 'open", "name TYPE"),
        ("a " + "ARRAY<" * 300 + "INT" + ">" * 300, "deep"),
        ("(" * 500, "deep"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_reason(text: str, word: str) -> None:
    fault = schema_fault(text)
    assert fault is not None
    assert word in fault


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8)
SIMPLE = st.sampled_from(["INT", "BIGINT", "STRING", "DOUBLE", "TIMESTAMP", "DECIMAL(10, 2)"])
TYPES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map(lambda of: f"ARRAY<{of}>"),
        inner.map(lambda of: f"MAP<STRING, {of}>"),
        st.tuples(inner, inner).map(lambda two: f"STRUCT<a: {two[0]}, b: {two[1]}>"),
    ),
    max_leaves=4,
)


@settings(max_examples=60)
@given(st.lists(st.tuples(NAMES, TYPES), min_size=1, max_size=5, unique_by=lambda c: c[0].lower()))
def test_the_text_for_spark_means_the_same_schema(columns: list[tuple[str, str]]) -> None:
    schema = Schema(tuple(Column(name, kind) for name, kind in columns))
    assert Schema.parse(schema.ddl()) == schema


@settings(max_examples=60)
@given(st.text(max_size=40))
def test_any_text_is_a_schema_or_has_a_fault(text: str) -> None:
    fault = schema_fault(text)
    assert fault is None or fault
    if fault is None:
        assert Schema.parse(text).columns


def test_names_and_texts_are_quoted_for_spark() -> None:
    assert quote("a`b") == "`a``b`"
    assert literal("it's \\") == "'it\\'s \\\\'"
