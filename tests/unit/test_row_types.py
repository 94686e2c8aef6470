"""Spark's types in the words of schemas."""

from __future__ import annotations

import pytest
from pyspark.sql import types as t

from headrace.formats.row_types import schema_of
from headrace.model.schema import Column


def rows(**kinds: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in kinds.items()])


def test_every_type_has_its_word_and_not_null_is_what_spark_knows() -> None:
    inner = rows(**{"x y": t.DecimalType(10, 2), "days": t.ArrayType(t.DateType())})
    found = schema_of(
        t.StructType(
            [
                t.StructField("id", t.LongType(), nullable=False),
                t.StructField("a `quoted` name", t.MapType(t.StringType("UNICODE"), inner)),
                t.StructField("any", t.VariantType()),
                t.StructField("local", t.TimestampNTZType()),
            ]
        )
    )
    assert found.columns == (
        Column("id", "BIGINT", nullable=False),
        Column(
            "a `quoted` name", "MAP<STRING, STRUCT<`x y`: DECIMAL(10, 2), `days`: ARRAY<DATE>>>"
        ),
        Column("any", "VARIANT"),
        Column("local", "TIMESTAMP_NTZ"),
    )


def test_every_column_that_no_message_can_have_is_named() -> None:
    with pytest.raises(ValueError, match="must be cast") as refused:
        schema_of(rows(id=t.LongType(), nothing=t.NullType(), took=t.DayTimeIntervalType()))
    assert str(refused.value) == (
        "`nothing` is VOID, which must be cast to another type; "
        "`took` is INTERVAL DAY TO SECOND, which must be cast to another type"
    )
