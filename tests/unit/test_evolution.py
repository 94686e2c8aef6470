"""What a newer schema makes of the columns of a pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api import load
from headrace.model.evolution import Evolution, Judgement, judged
from headrace.model.schema import Schema

ADDITIVE, WIDEN, FREEZE = Evolution.ADDITIVE, Evolution.WIDEN, Evolution.FREEZE


def judge(old: str, new: str, rule: Evolution = ADDITIVE) -> Judgement:
    return judged(Schema.parse(old), Schema.parse(new), rule)


def test_new_columns_come_last_and_may_be_null() -> None:
    found = judge(
        "id BIGINT NOT NULL, amount INT", "currency STRING NOT NULL, id BIGINT NOT NULL, amount INT"
    )
    assert found.columns == Schema.parse("id BIGINT NOT NULL, amount INT, currency STRING")
    assert found.taken == ("+ currency STRING",)
    assert not found.refused


def test_a_column_that_is_gone_stays_and_may_be_null() -> None:
    found = judge("id BIGINT, note STRING NOT NULL", "id BIGINT")
    assert found.columns == Schema.parse("id BIGINT, note STRING")
    assert found.taken == ("- note STRING",)


def test_a_column_that_may_become_null_is_a_change_and_the_other_way_round_is_none() -> None:
    assert judge("id BIGINT NOT NULL", "id BIGINT").columns == Schema.parse("id BIGINT")
    assert judge("id BIGINT NOT NULL", "id BIGINT", FREEZE).refused == (
        "~ id BIGINT NOT NULL → may be NULL",
    )
    assert judge("id BIGINT", "id BIGINT NOT NULL", FREEZE) == Judgement(Schema.parse("id BIGINT"))


def test_columns_inside_columns_are_judged_by_their_names() -> None:
    old = (
        "a STRUCT<zip: INT, geo: STRUCT<x: FLOAT>>, items ARRAY<STRUCT<n: INT>>, m MAP<STRING, INT>"
    )
    new = (
        "a STRUCT<geo: STRUCT<y: FLOAT, x: DOUBLE>, zip: INT>, "
        "items ARRAY<STRUCT<n: BIGINT, price: DECIMAL(9,2)>>, m MAP<STRING, BIGINT>"
    )
    found = judge(old, new, WIDEN)
    assert found.taken == (
        "~ a.geo.x FLOAT → DOUBLE",
        "+ a.geo.y FLOAT",
        "~ items.element.n INT → BIGINT",
        "+ items.element.price DECIMAL(9, 2)",
        "~ m.value INT → BIGINT",
    )
    assert found.columns.ddl() == (
        "`a` STRUCT<`zip`: INT, `geo`: STRUCT<`x`: DOUBLE, `y`: FLOAT>>, "
        "`items` ARRAY<STRUCT<`n`: BIGINT, `price`: DECIMAL(9, 2)>>, `m` MAP<STRING, BIGINT>"
    )
    assert judge(old, new).refused == (
        "~ a.geo.x FLOAT → DOUBLE",
        "~ items.element.n INT → BIGINT",
        "~ m.value INT → BIGINT",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TINYINT", "SMALLINT"),
        ("SMALLINT", "BIGINT"),
        ("FLOAT", "DOUBLE"),
        ("DECIMAL", "DECIMAL(12, 2)"),
        ("DECIMAL(5)", "DECIMAL(7, 2)"),
        ("INT", "DOUBLE"),
    ],
)
def test_wider_types_are_taken_up_by_widen_alone(old: str, new: str) -> None:
    assert judge(f"x {old}", f"x {new}", WIDEN).columns == Schema.parse(f"x {new}")
    for rule in (ADDITIVE, FREEZE):
        found = judge(f"x {old}", f"x {new}", rule)
        assert found.columns == Schema.parse(f"x {old}")
        assert len(found.refused) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BIGINT", "DOUBLE"),
        ("BIGINT", "DECIMAL(20, 0)"),
        ("BIGINT", "STRING"),
        ("DATE", "TIMESTAMP_NTZ"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 4)"),
        ("INT", "STRUCT<a: INT>"),
        ("ARRAY<INT>", "MAP<STRING, INT>"),
    ],
)
def test_other_types_are_taken_up_by_nothing(old: str, new: str) -> None:
    for rule in Evolution:
        found = judge(f"x {old}", f"x {new}", rule)
        assert found.columns == Schema.parse(f"x {old}")
        assert found.refused == (f"~ x {old} → {new}",)


def test_a_type_that_became_narrower_is_read_into_the_one_that_is_there() -> None:
    found = judge("x BIGINT", "x INT")
    assert found.columns == Schema.parse("x BIGINT")
    assert found.taken == ("~ x BIGINT → INT, which is read as BIGINT",)
    assert judge("x BIGINT", "x INT", FREEZE).refused


def test_names_that_differ_in_case_alone_are_refused() -> None:
    line = "+ Amount INT: in Spark this is the same name as amount"
    assert judge("amount INT", "Amount INT").refused == (line,)


def test_freeze_lists_every_difference() -> None:
    found = judge("a INT, b STRING", "a BIGINT, c STRING", FREEZE)
    assert found.refused == ("~ a INT → BIGINT", "- b STRING", "+ c STRING")


_TYPES = st.sampled_from(
    [
        "INT",
        "BIGINT",
        "STRING",
        "DOUBLE",
        "ARRAY<INT>",
        "STRUCT<a: INT>",
        "STRUCT<a: BIGINT, b: DATE>",
    ]
)
_SCHEMAS = st.dictionaries(st.sampled_from("abcde"), _TYPES, min_size=1).map(
    lambda columns: ", ".join(f"{name} {kind}" for name, kind in columns.items())
)


@given(_SCHEMAS, _SCHEMAS, st.sampled_from(list(Evolution)))
def test_no_column_is_ever_lost_and_what_was_taken_up_is_no_difference_any_more(
    old: str, new: str, rule: Evolution
) -> None:
    found = judge(old, new, rule)
    names = Schema.parse(old).names
    assert found.columns.names[: len(names)] == names
    if found.refused:
        assert found.columns == Schema.parse(old)
    else:
        again = judged(found.columns, Schema.parse(new), rule)
        assert again.columns == found.columns
        assert not again.refused


DEFINITION = """
pipeline: shop
source:
  connector_type: kafka
  bootstrap_server: localhost:9092
  topic: orders
  format: confluent_avro
  schema_registry: {{endpoint: 'http://localhost:8081'}}
  {source}
transform:
  - sql: {sql}
sink:
  connector_type: delta
  path: orders
  {sink}
"""


@pytest.mark.parametrize(
    ("sql", "source", "sink", "missing"),
    [
        ("SELECT * FROM source", "", "", "merge_schema"),
        ("SELECT *, 1 AS one FROM source", "schema_evolution: widen", "", "merge_schema"),
        (
            "SELECT * FROM source",
            "schema_evolution: widen",
            "merge_schema: true",
            "widen_types",
        ),
        ("SELECT * FROM source", "", "merge_schema: true", None),
        ("SELECT * FROM source", "schema_evolution: freeze", "", None),
        ("SELECT * FROM source", "schema: 'id BIGINT'", "", None),
        ("SELECT id, amount FROM source", "", "", None),
    ],
)
def test_a_table_that_would_not_take_new_columns_is_told_of(
    tmp_path: Path, sql: str, source: str, sink: str, missing: str | None
) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(DEFINITION.format(sql=sql, source=source, sink=sink))
    found = [fault for fault in load(file).check() if fault.code == "STAYS_BEHIND"]
    assert [f"`{missing}: true`" in (fault.hint or "") for fault in found] == [True] * bool(missing)
