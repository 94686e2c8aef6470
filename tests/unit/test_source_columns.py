"""The columns that a definition gives to a source: known to SQL, planned, and in words."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.definitions import CONSOLE, SINK, below, codes, faults, kafka, planned, steps
from tests.unit.test_planner import shape

from headrace.model.expressions import projection, simplified, type_of
from headrace.model.schema import Schema
from headrace.plan.explain import words
from headrace.plan.promises import EXACTLY_ONCE
from headrace.plan.stages import Decode, Select, Watermark
from headrace.sinks.writer import Way
from headrace.spans import Span
from headrace.spec import Expression

HERE = Span("p.yaml", 1, 1)
COLUMNS = "columns: {id: id, at: CAST(name AS TIMESTAMP), gross: amount * 1.2}\n"
DOCUMENT = COLUMNS.replace("}", ", doc: parse_json(name)}")
SOURCE = below("source", kafka() + COLUMNS)
TIMED = below("source", kafka() + DOCUMENT + "watermark: {column: at, delay: 5 minutes}\n")
WINDOWS = steps(
    "SELECT window(at, '1 hour') AS w, sum(gross) AS total FROM source GROUP BY 1, doc:a.b"
)


def test_they_are_what_sql_and_sinks_see(tmp_path: Path) -> None:
    assert codes(tmp_path, SOURCE, steps("SELECT id, at, gross FROM source"), CONSOLE) == []
    told = faults(tmp_path, SOURCE, steps("SELECT amount FROM source"), CONSOLE)
    assert [fault.code for fault in told] == ["UNKNOWN_COLUMN"]
    assert "known: at, gross, id" in str(told[0])
    assert codes(tmp_path, SOURCE, SINK + "  key: name\n") == ["10:8 UNKNOWN_COLUMN"]


def test_a_list_of_names_takes_them_as_they_are(tmp_path: Path) -> None:
    listed = below("source", kafka() + "columns: [amount, id]\n")
    (source,) = planned(tmp_path, listed, CONSOLE).pipeline.sources
    assert [(each.name, projection(each)) for each in source.columns] == [
        ("amount", "`amount`"),
        ("id", "`id`"),
    ]
    assert codes(tmp_path, listed, steps("SELECT name FROM source"), CONSOLE) == [
        "8:17 UNKNOWN_COLUMN"
    ]


@pytest.mark.parametrize(
    ("name", "sql", "same"),
    [
        ("id", "id", True),
        ("a b", "`a b`", True),
        ("id", "ID", False),
        ("a b", "a b", False),
        ("current_date", "current_date", False),
    ],
)
def test_a_name_that_stands_for_itself_is_no_expression(name: str, sql: str, same: bool) -> None:
    assert (simplified(Expression(name, sql, HERE)) == Expression(name, None, HERE)) == same


def test_a_source_whose_columns_only_spark_knows_can_have_some(tmp_path: Path) -> None:
    delta = "source:\n  connector_type: delta\n  path: t\n  columns: {day: date(at)}\n"
    assert codes(tmp_path, delta, steps("SELECT day FROM source"), CONSOLE) == []
    assert codes(tmp_path, delta, steps("SELECT at FROM source"), CONSOLE) == [
        "6:17 UNKNOWN_COLUMN"
    ]


def test_rows_are_traced_through_them(tmp_path: Path) -> None:
    once = "guarantee: exactly_once\n"
    plan = planned(tmp_path, once, SOURCE, steps("SELECT id, gross FROM source"), SINK)
    assert shape(plan) == [("main", "Read Decode Select Apply Refuse SetAside Write")]
    assert plan.queries[0].way is Way.LINEAGE
    assert {promise.kept for promise in plan.promises} == {EXACTLY_ONCE}


def test_dead_letters_alone_need_none(tmp_path: Path) -> None:
    plan = planned(tmp_path, SOURCE, "transform: {python: shop.clean}\n", SINK)
    assert shape(plan) == [
        ("main", "Read Decode Select Apply Write"),
        ("dead.source", "Read Decode SetAside"),
    ]


def test_a_watermark_on_one_of_them_makes_windows_final(tmp_path: Path) -> None:
    assert codes(tmp_path, TIMED, WINDOWS, CONSOLE) == []
    query = planned(tmp_path, TIMED, WINDOWS, CONSOLE).queries[0]
    kinds = [type(stage) for stage in query.stages]
    assert kinds.index(Decode) < kinds.index(Select) < kinds.index(Watermark)
    assert query.watermarks == (Watermark("source", "at", 300_000),)
    (kept,) = query.kept
    assert (kept.final, kept.grows) == (True, False)
    assert kept.what == "one row for each window(at, '1 hour'), doc:a.b"


def test_a_batch_sums_up_windows_of_one_without_a_watermark(tmp_path: Path) -> None:
    query = planned(tmp_path, "mode: batch\n", TIMED, WINDOWS, CONSOLE).queries[0]
    assert (query.watermarks, len(query.selects)) == ((), 1)


def test_they_are_explained(tmp_path: Path) -> None:
    query = planned(tmp_path, SOURCE, CONSOLE).queries[0]
    assert [words(stage) for stage in query.selects] == [
        "`source`: id, CAST(name AS TIMESTAMP) AS at, amount * 1.2 AS gross"
    ]


def test_a_comment_does_not_swallow_the_name() -> None:
    assert projection(Expression("a", "b -- why", HERE)) == "(b -- why\n) AS `a`"


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("CAST(id AS TIMESTAMP)", "TIMESTAMP"),
        ("(TRY_CAST(id AS DATE))", "DATE"),
        ("ID", "BIGINT"),
        ("`at`", "TIMESTAMP"),
        (None, "TIMESTAMP"),
        ("timestamp_millis(id)", None),
        ("at.year", None),
        ("nothing", None),
        ("id +", None),
    ],
)
def test_the_type_of_one_is_told_where_it_is_plain(sql: str | None, kind: str | None) -> None:
    schema = Schema.parse("id BIGINT, at TIMESTAMP")
    assert type_of(Expression("at", sql, HERE), schema) == kind
