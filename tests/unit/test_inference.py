"""Columns told from a sample of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.inference import infer
from headrace.model.schema import Schema, schema_fault


def columns(*records: Any) -> str:
    return infer(json.dumps(record).encode() for record in records).schema


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "BIGINT"),
        ([1, 2.5], "DOUBLE"),
        ([2**70], "DOUBLE"),
        ([True], "BOOLEAN"),
        ([True, 1], "VARIANT"),
        (["a"], "STRING"),
        (["2026-01-01T10:00:00Z", None], "TIMESTAMP"),
        (["2026-01-01 10:00:00.123456789+02:00"], "TIMESTAMP"),
        (["2026-13-01T10:00:00Z"], "STRING"),
        (["2026-01-31"], "DATE"),
        (["2026-02-31"], "STRING"),
        (["2026-01-31", "2026-01-01T10:00:00Z"], "STRING"),
        ([None], "STRING"),
        ([[1, None], [2.5]], "ARRAY<DOUBLE>"),
        ([[]], "ARRAY<STRING>"),
        ([{}], "VARIANT"),
        ([{"b": 1}, {"c": "x"}], "STRUCT<b: BIGINT, c: STRING>"),
        ([{"b": 1}, 3], "VARIANT"),
        ([{"two words": 1, "select": 2}], "STRUCT<`two words`: BIGINT, `select`: BIGINT>"),
    ],
)
def test_a_column_takes_what_all_its_values_fit_into(values: list[Any], kind: str) -> None:
    assert columns(*({"a": value} for value in values)) == f"a {kind}"


def test_fields_come_in_the_order_in_which_they_were_seen_and_case_does_not_count() -> None:
    assert columns({"b": 1}, {"a": "x", "B": 2.5}) == "b DOUBLE, a STRING"


def test_what_is_no_object_is_counted_and_left_out() -> None:
    found = infer([b'{"id": 1}', b"[1]", b"not json", b"\xff", None])
    assert (found.schema, found.records, found.others) == ("id BIGINT", 1, 3)
    assert infer([b"3", None]).schema == ""
    assert infer([b'{"":1}']).schema == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.text(min_size=1), JSON, min_size=1, max_size=4), min_size=1))
def test_what_is_told_can_be_declared(records: list[dict[str, Any]]) -> None:
    schema = columns(*records)
    assert schema_fault(schema) is None, schema
    wanted = {name.lower() for record in records for name in record}
    assert {name.lower() for name in Schema.parse(schema).names} == wanted
