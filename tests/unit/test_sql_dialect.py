"""PostgreSQL's and Arroyo's words become Spark's by edits that keep every place."""

from __future__ import annotations

import pytest
from tests.unit.sql_translations import TIMES, TRANSLATIONS, UNCHANGED, Translation

from headrace.frontend.sql.dialect import translate
from headrace.frontend.sql.statements import Fragment
from headrace.model.query import Query
from headrace.spans import Span


def fragment(sql: str) -> Fragment:
    return Fragment(sql, Span("p.sql", 3, 5, sql))


def faults_of(sql: str) -> list[str]:
    """The faults, placed as if the text stood at the beginning of a file."""
    _, faults = translate(Fragment(sql, Span("p.sql", 1, 1, sql)), TIMES)
    return [str(fault).removeprefix("p.sql:") for fault in faults]


@pytest.mark.parametrize("case", TRANSLATIONS, ids=lambda case: case.sql[:40])
def test_a_query_is_translated(case: Translation) -> None:
    translated, faults = translate(fragment(case.sql), TIMES)
    assert faults == []
    assert translated.sql == case.spark
    again, _ = translate(fragment(case.spark), TIMES)
    assert again.sql == case.spark
    query, faults = Query.parse(translated.sql, translated.span)
    assert query is not None
    assert faults == []


@pytest.mark.parametrize("case", UNCHANGED, ids=lambda case: case.sql[:40])
def test_what_is_sparks_stays(case: Translation) -> None:
    given = fragment(case.sql)
    translated, faults = translate(given, TIMES)
    assert faults == []
    assert translated is given


def test_every_letter_keeps_its_place() -> None:
    sql = "SELECT id::TEXT,\n  doc->>'a' AS x, later FROM t"
    translated, _ = translate(fragment(sql), TIMES)
    assert (
        translated.sql
        == "SELECT id::STRING,\n  variant_get(doc, '$.a', 'string') AS x, later FROM t"
    )
    for word in ("SELECT", "id", "doc", "AS x", "later", "FROM"):
        place = translated.span.within(translated.sql, translated.sql.index(word))
        assert place == fragment(sql).span.within(sql, sql.index(word))


def test_brackets_may_be_nested_without_end() -> None:
    deep = "(" * 1_500 + "a - b" + ")" * 1_500
    translated, faults = translate(fragment(f"EXTRACT(EPOCH FROM {deep})"))
    assert faults == []
    assert translated.sql.endswith(" AS INTERVAL SECOND) AS DECIMAL(20, 6)) AS DOUBLE)")
    chain = "x" + "::json -> 'a'" * 200
    assert translate(fragment(chain))[0].sql.count("parse_json(") == 200


def test_an_expression_is_translated_like_a_query() -> None:
    translated, faults = translate(fragment("CAST(value AS TEXT)"))
    assert (translated.sql, faults) == ("CAST(value AS STRING)", [])


def test_a_column_of_time_is_quoted_where_it_must_be() -> None:
    sql = "SELECT count(*) FROM `my table` a, u GROUP BY tumble('1 minute')"
    translated, _ = translate(fragment(sql), {"My Table": "Event Time"})
    assert translated.sql.endswith("GROUP BY window(a.`Event Time`, '1 minute')")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT tumble('1 minute') FROM (SELECT id FROM t)",
        "SELECT tumble('1 minute') FROM (SELECT date_trunc('day', at) AS at FROM t)",
        "WITH t AS (SELECT 1 AS at) SELECT tumble('1 minute') FROM t",
        "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT tumble('1 minute') FROM a",
        "SELECT tumble('1 minute') FROM unknown",
        "SELECT tumble('1 minute')",
    ],
)
def test_without_a_watermark_there_is_no_time(sql: str) -> None:
    (fault,) = faults_of(sql)
    assert "NO_WATERMARK `tumble` needs a time" in fault
    assert "name the time: `tumble(at, …)`" in fault


def test_a_table_hides_behind_a_cte_of_its_name() -> None:
    sql = "WITH t AS (SELECT at AS seen FROM t) SELECT tumble('1 minute') FROM t GROUP BY 1"
    translated, faults = translate(fragment(sql), TIMES)
    assert faults == []
    assert "window(seen, '1 minute')" in translated.sql


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        (
            "SELECT count(*) FROM t GROUP BY tumbel(INTERVAL '1 minute')",
            "1:33 UNKNOWN_FUNCTION `tumbel` is not a function of windows "
            "(did you mean `tumble`? write `tumble(INTERVAL '1 minute')`)",
        ),
        (
            "SELECT count(*) FROM t GROUP BY sliding(INTERVAL '1 s', INTERVAL '1 minute')",
            "1:33 UNKNOWN_FUNCTION `sliding` is not a function of windows (did you mean `hop`? "
            "write `hop(INTERVAL '10 seconds', INTERVAL '1 minute')`, the slide first)",
        ),
        (
            "SELECT count(*) FROM t GROUP BY hop(INTERVAL '1 minute')",
            "1:33 BAD_WINDOW `hop` does not take these arguments "
            "(write `hop(INTERVAL '10 seconds', INTERVAL '1 minute')`, the slide first)",
        ),
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE))",
            "1:21 BAD_WINDOW `TUMBLE` stands in GROUP BY, and not in FROM "
            "(write `tumble(INTERVAL '1 minute')`)",
        ),
        (
            "SELECT count(*) FROM t a JOIN t b ON a.id = b.id GROUP BY tumble('1 minute')",
            "1:59 BAD_WINDOW `tumble` may be of `a.at` or `b.at` "
            "(name the time: `tumble(a.at, …)`)",
        ),
        (
            "SELECT count(*) FROM t GROUP BY tumble(INTERVAL '1 month')",
            "1:40 BAD_INTERVAL the length of a window cannot be in months or years "
            "(count in days or weeks)",
        ),
        (
            "SELECT count(*) FROM t GROUP BY tumble(INTERVAL '0 seconds')",
            "1:40 BAD_INTERVAL a window cannot be empty (for example INTERVAL '1 minute')",
        ),
        (
            "SELECT at - INTERVAL '5 secnds' FROM t",
            "1:22 BAD_INTERVAL `secnds` is not a unit of time (did you mean `seconds`?)",
        ),
        (
            "SELECT at + INTERVAL '1 month 2 days' FROM t",
            "1:22 BAD_INTERVAL an interval has months or days, and not both "
            "(add one after the other: `… + INTERVAL '1 month' + INTERVAL '2 days'`)",
        ),
        (
            "SELECT sum(UNNEST(items)) FROM t",
            "1:12 SQL_SYNTAX UNNEST stands by itself in the list of SELECT, or in FROM "
            "(write `FROM t, UNNEST(t.items) AS item`, and use `item`)",
        ),
        (
            "SELECT * FROM t, UNNEST(items, parts) AS u(i, p)",
            "1:18 SQL_SYNTAX UNNEST takes one list "
            "(of several, side by side: `inline(arrays_zip(a, b))`)",
        ),
        (
            "SELECT * FROM t JOIN UNNEST(items) AS item ON item > 1",
            "1:44 SQL_SYNTAX UNNEST takes no condition but `ON true` "
            "(write it in WHERE, or take the elements first: `UNNEST(filter(items, x -> …))`)",
        ),
        (
            "SELECT * FROM t, UNNEST(items) WITH ORDINALITY AS u(i, n)",
            "1:32 SQL_SYNTAX Spark knows no WITH ORDINALITY "
            "(write `LATERAL posexplode(items) AS t(number, item)`, which counts from 0)",
        ),
        (
            "SELECT doc ->> name FROM t",
            "1:16 SQL_SYNTAX after `->>` stands a text or a whole number "
            "(write `variant_get(document, '$.' || name, 'string')`)",
        ),
    ],
)
def test_what_cannot_be_translated_is_told_with_the_way_out(sql: str, fault: str) -> None:
    assert faults_of(sql) == [fault]
