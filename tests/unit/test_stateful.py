"""What a stream remembers, when it forgets it, and what it refuses.

The cases are tried on Spark's own rules by `tests/spark/test_stream_rules.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.definitions import CONSOLE, codes, faults, planned

from headrace.model.pipeline import OutputMode
from headrace.model.query import Query
from headrace.model.stateful import Reading, read
from headrace.model.timing import Table
from headrace.plan.stages import Watermark
from headrace.spans import Severity, Span

NAMES = frozenset({"id", "at", "k"})
TIMED = Table(frozenset({"at"}), names=NAMES)
UNTIMED = Table(names=NAMES)
BETWEEN = "a.id = b.id AND b.at BETWEEN a.at AND a.at + INTERVAL 5 MINUTES"
WINDOWED = "SELECT window(at, '5 minutes') AS w, count(*) AS n FROM a GROUP BY 1"


def reading(sql: str, a: Table = TIMED, b: Table = TIMED) -> Reading:
    query, wrong = Query.parse(sql, Span("p.yaml", 1, 1, sql))
    assert query is not None, wrong
    return read(query, {"a": a, "b": b})


def untimed(sql: str) -> Reading:
    return reading(sql, UNTIMED, UNTIMED)


# Aggregations


FINAL = [
    "SELECT k, count(*) AS n FROM a GROUP BY window(at, '5 minutes'), k",
    "SELECT window(at, '5 minutes') AS w, count(*) AS n FROM a GROUP BY w",
    "SELECT window.start AS s, count(*) AS n FROM a GROUP BY window(at, '5 minutes')",
    "SELECT at, count(*) AS n FROM a GROUP BY at",
    "SELECT window(t, '5 minutes') AS w, count(*) AS n FROM (SELECT at AS t FROM a) GROUP BY 1",
    "SELECT window(at, '10 minutes', '5 minutes') AS w, count(*) AS n FROM a GROUP BY ALL",
    "SELECT session_window(at, '5 minutes') AS w, k, count(*) AS n FROM a GROUP BY 1, 2",
    "WITH x AS (SELECT * FROM a) SELECT max(id) AS m FROM x GROUP BY window(x.at, '1 hour')",
    "SELECT w, count(*) AS n FROM (SELECT window(at, '5 minutes') AS w FROM a) GROUP BY w",
    f"SELECT window(window_time(w), '1 hour') AS v, sum(n) AS n FROM ({WINDOWED}) GROUP BY 1",
    "SELECT count(*) AS n FROM (SELECT at FROM a UNION ALL SELECT at FROM b) GROUP BY at",
    f"SELECT window(a.at, '5 minutes') AS w, count(*) AS n FROM a JOIN b ON {BETWEEN} GROUP BY 1",
]
NEVER_FINAL = [
    "SELECT count(*) AS n FROM a",
    "SELECT k, count(*) AS n FROM a GROUP BY k",
    "SELECT window(at, '5 minutes').start AS s, count(*) AS n FROM a GROUP BY s",
    "SELECT date_trunc('hour', at) AS h, count(*) AS n FROM a GROUP BY 1",
    "SELECT window(coalesce(at, at), '5 minutes') AS w, count(*) AS n FROM a GROUP BY 1",
    "SELECT k, count(*) AS n FROM a GROUP BY ROLLUP (window(at, '5 minutes'), k)",
    "SELECT id FROM a GROUP BY id HAVING max(at) > '2026-01-01'",
    f"SELECT n, count(*) AS c FROM ({WINDOWED}) GROUP BY n",
]


@pytest.mark.parametrize("sql", FINAL)
def test_a_group_with_a_time_of_the_watermark_becomes_final(sql: str) -> None:
    found = reading(sql)
    assert found.faults == ()
    assert found.kept[-1].final is True
    assert found.kept[-1].until is not None


@pytest.mark.parametrize("sql", NEVER_FINAL)
def test_any_other_group_may_always_change(sql: str) -> None:
    found = reading(sql)
    assert found.faults == ()
    assert found.kept[-1].final is False
    assert found.kept[-1].until is None


def test_one_sum_of_everything_does_not_grow_and_a_sum_of_each_key_does() -> None:
    (whole,) = reading(NEVER_FINAL[0]).kept
    (each,) = reading(NEVER_FINAL[1]).kept
    assert (whole.grows, each.grows) == (False, True)
    assert each.words == "one row for each k, for ever"


def test_what_only_spark_knows_is_left_to_it() -> None:
    (kept,) = reading(WINDOWED, Table(opaque=True)).kept
    assert kept.final is None
    assert not kept.grows


@pytest.mark.parametrize(
    ("sql", "timed"),
    [
        ("SELECT id, at AS t FROM a", {"t"}),
        ("SELECT * EXCEPT (at) FROM a", set()),
        ("SELECT b.*, 1 AS at FROM a JOIN b ON a.id = b.id", {"at"}),
        (WINDOWED, {"w"}),
        ("SELECT window, count(*) AS n FROM a GROUP BY window(at, '5 minutes')", {"window"}),
        ("SELECT CAST(at AS DATE) AS at FROM a", set()),
    ],
)
def test_the_watermark_is_followed_by_column(sql: str, timed: set[str]) -> None:
    assert reading(sql).table.timed == timed


# Joins


@pytest.mark.parametrize(
    ("condition", "bounded"),
    [
        ("a.id = b.id", False),
        (BETWEEN, True),
        ("a.id = b.id AND b.at >= a.at", False),
        ("a.at = b.at", True),
        ("a.id = b.id AND b.at <= a.at + INTERVAL 5 MINUTES AND a.at <= b.at", True),
    ],
)
def test_a_join_forgets_rows_when_both_sides_are_bounded(condition: str, bounded: bool) -> None:
    for sql in (
        f"SELECT a.id FROM a JOIN b ON {condition}",
        f"SELECT a.id FROM a, b WHERE {condition}",
    ):
        (kept,) = reading(sql).kept
        assert kept.grows is not bounded


OUTER_REFUSED = [
    "SELECT a.id FROM a LEFT JOIN b ON a.id = b.id",
    "SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND b.at >= a.at",
    "SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND b.at - a.at <= INTERVAL 5 MINUTES",
    "SELECT a.id FROM a FULL JOIN b USING (id)",
    "SELECT a.id FROM a LEFT SEMI JOIN b ON a.id = b.id",
]


@pytest.mark.parametrize("sql", OUTER_REFUSED)
def test_an_outer_join_needs_bounds(sql: str) -> None:
    assert "stop waiting" in reading(sql).faults[0].message


OUTER_TAKEN = [
    f"SELECT a.id FROM a LEFT JOIN b ON {BETWEEN}",
    f"SELECT a.id FROM a RIGHT JOIN b ON {BETWEEN}",
    f"SELECT a.id FROM a FULL JOIN b ON {BETWEEN}",
    f"SELECT a.id FROM a LEFT SEMI JOIN b ON {BETWEEN}",
    "SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND b.at <= a.at + INTERVAL 5 MINUTES",
    "SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND a.at = b.at",
    f"SELECT x.n FROM ({WINDOWED}) x LEFT JOIN ({WINDOWED}) y ON x.w = y.w",
]


@pytest.mark.parametrize("sql", OUTER_TAKEN)
def test_an_outer_join_with_bounds_is_taken(sql: str) -> None:
    assert reading(sql).faults == ()


def test_the_side_that_may_be_missing_needs_the_watermark() -> None:
    sql = f"SELECT a.id FROM a LEFT JOIN b ON {BETWEEN}"
    assert reading(sql, TIMED, UNTIMED).faults
    assert reading(sql, UNTIMED, TIMED).faults == ()


FIXED = [
    ("SELECT a.id FROM a JOIN (VALUES (1)) v(id) ON a.id = v.id", False),
    ("SELECT a.id FROM a LEFT JOIN (VALUES (1)) v(id) ON a.id = v.id", False),
    ("SELECT a.id FROM a LEFT ANTI JOIN (VALUES (1)) v(id) ON a.id = v.id", False),
    ("SELECT a.id FROM (VALUES (1)) v(id) RIGHT JOIN a ON a.id = v.id", False),
    ("SELECT a.id FROM a CROSS JOIN range(3) r", False),
    ("SELECT a.id FROM a RIGHT JOIN (VALUES (1)) v(id) ON a.id = v.id", True),
    ("SELECT a.id FROM a FULL JOIN (VALUES (1)) v(id) ON a.id = v.id", True),
    ("SELECT a.id FROM (VALUES (1)) v(id) LEFT JOIN a ON a.id = v.id", True),
]


@pytest.mark.parametrize(("sql", "refused"), FIXED)
def test_a_join_with_rows_of_the_query_keeps_nothing(sql: str, refused: bool) -> None:
    found = untimed(sql)
    assert found.kept == ()
    assert bool(found.faults) is refused


# Refused in every mode


REFUSED = [
    ("SELECT id FROM a ORDER BY id LIMIT 3", "ORDER BY"),
    ("SELECT id FROM a SORT BY id", "SORT BY"),
    ("SELECT row_number() OVER (PARTITION BY k ORDER BY at) AS n FROM a", "window function"),
    ("SELECT count(DISTINCT k) AS n FROM a", "DISTINCT in an aggregate"),
    ("SELECT id FROM a INTERSECT SELECT id FROM b", "INTERSECT"),
    ("SELECT id FROM a EXCEPT ALL SELECT id FROM b", "EXCEPT"),
    ("SELECT * FROM (SELECT id, k FROM a) PIVOT (count(id) FOR k IN ('x'))", "PIVOT"),
    (f"SELECT a.id FROM a LEFT ANTI JOIN b ON {BETWEEN}", "ANTI join"),
    ("SELECT id FROM a WHERE id IN (SELECT id FROM b)", "cannot ask a stream"),
    ("SELECT id, (SELECT max(id) FROM b) AS m FROM a", "cannot ask a stream"),
]
# What Spark lets pass, and then fails for in the first batch, or does otherwise than is meant.
REFUSED_BY_US = [
    ("SELECT id FROM a UNION SELECT id FROM b", "UNION without ALL"),
    ("SELECT id FROM (SELECT DISTINCT id FROM a)", "DISTINCT inside"),
    ("SELECT a.id FROM a JOIN b ON a.id > b.id", "equal columns"),
    ("SELECT a.id FROM a CROSS JOIN b", "equal columns"),
    (
        "SELECT session_window(at, '1 minute') AS w, count(*) AS n FROM a GROUP BY 1",
        "the only key",
    ),
]


@pytest.mark.parametrize(("sql", "words"), [*REFUSED, *REFUSED_BY_US])
def test_what_spark_would_refuse_is_refused(sql: str, words: str) -> None:
    found = reading(sql).faults
    assert any(words in fault.message for fault in found)
    assert all(fault.hint for fault in found)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM a WHERE id > 1",
        "SELECT explode(array(1, 2)) AS x FROM a",
        "SELECT id FROM a UNION ALL SELECT id FROM b",
        "SELECT window(at, '5 minutes') AS w, id FROM a",
        "SELECT x FROM a LATERAL VIEW explode(array(1, 2)) t AS x",
    ],
)
def test_what_needs_no_memory_keeps_nothing(sql: str) -> None:
    found = untimed(sql)
    assert (found.kept, found.faults) == ((), ())


def test_an_ordered_list_inside_an_aggregate_is_no_order_of_the_stream() -> None:
    sql = "SELECT at, listagg(k, ',') WITHIN GROUP (ORDER BY k) AS l FROM a GROUP BY at"
    assert reading(sql).faults == ()


# Whole pipelines


def stream(*steps: str, watermark: str | None = "10 minutes", head: str = "", **more: str) -> str:
    """A pipeline on a source with a time, and its steps as they stand in YAML."""
    lines = [
        *head.splitlines(),
        "source:",
        "  connector_type: kafka",
        "  bootstrap_server: localhost:9092",
        "  topic: orders",
        "  schema: id BIGINT, k STRING, at TIMESTAMP, n INT",
    ]
    if watermark is not None:
        lines.append(f"  watermark: {{column: at, delay: {watermark}}}")
    lines += [f"  {name}: {value}" for name, value in more.items()]
    if steps:
        lines += ["transform:", *(f"  - {step}" for step in steps)]
    return "\n".join(lines) + "\n" + CONSOLE


HOURLY = "sql: SELECT window(at, '1 hour') AS w, count(*) AS n FROM source GROUP BY 1"
BY_KEY = "sql: SELECT k, count(*) AS n FROM source GROUP BY k"


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (stream(HOURLY), OutputMode.APPEND),
        (stream(HOURLY, head="output_mode: update"), OutputMode.UPDATE),
        (stream(BY_KEY), OutputMode.UPDATE),
        (stream(HOURLY, watermark=None), OutputMode.UPDATE),
        (stream("deduplicate: {by: [id]}"), OutputMode.APPEND),
        (stream("sql: SELECT DISTINCT id FROM source"), OutputMode.APPEND),
        (stream("sql: SELECT id FROM source"), OutputMode.APPEND),
    ],
)
def test_rows_are_appended_where_they_become_final(
    tmp_path: Path, text: str, mode: OutputMode
) -> None:
    (query,) = (query for query in planned(tmp_path, text).queries if query.name == "main")
    assert query.output_mode is mode


def errors(folder: Path, text: str) -> list[str]:
    return [
        f"{fault.span.line}: {fault.message}"
        for fault in faults(folder, text)
        if fault.severity is Severity.ERROR
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (stream(BY_KEY, head="output_mode: append"), "never is"),
        (stream(HOURLY, watermark=None, head="output_mode: append"), "never is"),
        (
            stream(
                HOURLY,
                "sql: SELECT window(w, '1 day') AS d, sum(n) AS n FROM input GROUP BY 1",
                head="output_mode: update",
            ),
            "another aggregation",
        ),
        (
            stream(
                "sql: SELECT session_window(at, '5 minutes') AS w, k, count(*) AS n FROM source "
                "GROUP BY 1, 2",
                head="output_mode: update",
            ),
            "sessions are written once",
        ),
        (
            stream(
                "sql: SELECT session_window(at, '5 minutes') AS w, k, count(*) AS n FROM source "
                "GROUP BY 1, 2",
                watermark=None,
            ),
            "no end without a watermark",
        ),
        (
            stream(
                "sql: SELECT a.id FROM source a LEFT JOIN source b ON a.id = b.id AND a.at = b.at",
                head="output_mode: update",
            ),
            "an outer join of streams writes a row once",
        ),
        (
            stream("deduplicate: {by: [id], remember: watermark}", watermark=None),
            "`remember: watermark` needs",
        ),
    ],
)
def test_a_mode_that_cannot_be_is_refused(tmp_path: Path, text: str, words: str) -> None:
    found = errors(tmp_path, text)
    assert len(found) == 1
    assert words in found[0]


def test_two_sums_after_each_other_append(tmp_path: Path) -> None:
    daily = "sql: SELECT window(w, '1 day') AS d, sum(n) AS n FROM input GROUP BY 1"
    assert faults(tmp_path, stream(HOURLY, daily)) == []


def test_a_batch_takes_them_all(tmp_path: Path) -> None:
    for step in (HOURLY, BY_KEY, "deduplicate: {by: [id]}", "sql: SELECT id FROM source LIMIT 3"):
        assert errors(tmp_path, stream(step, head="mode: batch")) == []


@pytest.mark.parametrize(
    ("step", "watermark", "grows"),
    [
        (BY_KEY, "10 minutes", True),
        (HOURLY, "10 minutes", False),
        (HOURLY, None, True),
        ("deduplicate: {by: [id]}", "10 minutes", False),
        ("deduplicate: {by: [id], remember: forever}", "10 minutes", True),
        ("deduplicate: {by: [id, at]}", "10 minutes", False),
        ("deduplicate: {by: [id]}", None, True),
        ("sql: SELECT DISTINCT id, at FROM source", "10 minutes", False),
        ("sql: SELECT DISTINCT id FROM source", "10 minutes", True),
        ("sql: SELECT a.id FROM source a JOIN source b ON a.id = b.id", "10 minutes", True),
        ("sql: SELECT count(*) AS n FROM source", "10 minutes", False),
    ],
)
def test_state_that_grows_for_ever_is_a_warning(
    tmp_path: Path, step: str, watermark: str | None, grows: bool
) -> None:
    found = {fault.code for fault in faults(tmp_path, stream(step, watermark=watermark))}
    assert found == ({"STATE_GROWS"} if grows else set())


def test_a_stream_that_is_polled_remembers_nothing(tmp_path: Path) -> None:
    text = (
        "source:\n  connector_type: jdbc\n  url: jdbc:postgresql://localhost:5432/shop\n"
        "  user: me\n  password: secret\n  table: orders\n  column: id\n"
        "transform:\n  - sql: SELECT count(*) AS n FROM source\n" + CONSOLE
    )
    assert [line.split(": ", 1)[0] for line in errors(tmp_path, text)] == ["9"]


# Watermarks


def test_a_watermark_stands_where_rows_stop_being_traced(tmp_path: Path) -> None:
    plan = planned(tmp_path, stream(HOURLY))
    assert plan.queries[0].watermarks == (Watermark("source", "at", 600_000),)
    assert plan.queries[1].watermarks == ()  # dead letters need none


def test_a_watermark_is_set_after_a_function_of_messages(tmp_path: Path) -> None:
    counted = "sql: SELECT window(t, '1 hour') AS w, count(*) AS n FROM input GROUP BY 1"
    renamed = "sql: SELECT id, at AS t FROM source"
    plan = planned(tmp_path, stream(renamed, "python_rows: shop.score", counted))
    assert plan.queries[0].watermarks == (Watermark("step_2", "t", 600_000),)
    lost = '{python_rows: shop.score, schema: "id BIGINT"}'
    dropped = planned(
        tmp_path, stream(renamed, lost, "sql: SELECT id, count(*) AS n FROM input GROUP BY 1")
    )
    assert dropped.queries[0].watermarks == ()


def test_a_row_wise_pipeline_has_no_use_for_a_watermark(tmp_path: Path) -> None:
    text = stream("sql: SELECT id FROM source", head="output_mode: update")
    assert [fault.code for fault in faults(tmp_path, text)] == ["NO_EFFECT", "NO_EFFECT"]
    assert planned(tmp_path, text).queries[0].watermarks == ()


def test_the_column_of_a_watermark_is_a_time_that_is_there(tmp_path: Path) -> None:
    text = stream(HOURLY)
    assert codes(tmp_path, text.replace("column: at", "column: att")) == ["6:23 UNKNOWN_COLUMN"]
    assert codes(tmp_path, text.replace("column: at", "column: k")) == ["6:23 BAD_VALUE"]
    with_metadata = stream(
        "sql: SELECT _kafka_timestamp AS t, count(*) AS n FROM source GROUP BY 1",
        include_metadata="true",
    )
    assert codes(tmp_path, with_metadata.replace("column: at", "column: _kafka_timestamp")) == []


def test_columns_of_deduplicate_are_those_of_its_input(tmp_path: Path) -> None:
    assert codes(tmp_path, stream("deduplicate: {by: [id, kk]}")) == ["8:23 UNKNOWN_COLUMN"]
