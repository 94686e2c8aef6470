"""The SQL of a step, understood without Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.functions import AGGREGATES, GENERATORS
from headrace.model.query import Query
from headrace.spans import Diagnostic, Severity, Span

COLUMNS = ("id", "customer", "amount", "at", "s", "arr", "items", "m")
KNOWN = {"source": COLUMNS}
HIDDEN, KEEP = "__headrace", "__headrace.error IS NOT NULL"


def examined(text: str) -> tuple[Query | None, list[Diagnostic]]:
    return Query.parse(text, Span("p.yaml", 1, 1, text))


def parsed(text: str) -> Query:
    query, faults = examined(text)
    assert query is not None, faults
    assert faults == []
    return query


def unknown(text: str) -> list[str]:
    return [f"{fault.span} {fault.code}" for fault in parsed(text).unknown_columns(KNOWN)]


# Each row comes from one row


ROWWISE = [
    "SELECT * FROM source",
    "SELECT id FROM source WHERE amount > 0",
    "SELECT s.id FROM source s",
    "SELECT id, upper(customer) AS c FROM `source`",
    "SELECT transform(arr, x -> x + 1) AS t FROM source",
    "SELECT aggregate(arr, 0, (acc, x) -> acc + x) AS t FROM source",
    "SELECT exists(arr, x -> x > 1) AS e FROM source",
    "SELECT * EXCEPT (id) FROM source",
    "SELECT s.*, id FROM source",
    "SELECT id IS DISTINCT FROM 3 AS x FROM source",
    "SELECT extract(year FROM at) AS y FROM source",
    "SELECT id FROM source WHERE customer LIKE ANY ('a%', 'b%')",
    "SELECT parse_json(customer):a::int AS a FROM source",
    "SELECT X '1F' AS b FROM source",
    "SELECT id >>> 1 AS b FROM source",
    "SELECT CAST(arr AS ARRAY<ARRAY<ARRAY<INT>>>) AS n FROM source",
    "-- first\nSELECT id FROM source",
    "SELECT /*+ REPARTITION(3) */ id FROM source",
    "SELECT id FROM source; -- done",
]
NOT_ROWWISE = [
    "SELECT id, window(at, '1 hour') AS w FROM source",
    "SELECT id, session_window(at, '1 hour') AS w FROM source",
    "SELECT DISTINCT id FROM source",
    "SELECT count(*) AS n FROM source",
    "SELECT customer FROM source GROUP BY customer",
    "SELECT id FROM source ORDER BY id",
    "SELECT id FROM source LIMIT 1",
    "SELECT row_number() OVER (ORDER BY id) AS n FROM source",
    "SELECT explode(arr) AS a FROM source",
    "SELECT id, col FROM source LATERAL VIEW explode(arr) t AS col",
    "SELECT id FROM source TABLESAMPLE (10 PERCENT)",
    "SELECT a FROM source AS t (a, b, c, d, e, f, g, h)",
    "SELECT * FROM source UNPIVOT (val FOR k IN (amount))",
    "SELECT to_json(struct(*)) AS j FROM source",
    "SELECT hash(source.*) AS h FROM source",
    "FROM source SELECT id",
    "FROM source |> WHERE id > 1 |> SELECT id",
    "WITH a AS (SELECT id FROM source) SELECT id FROM a",
    "SELECT id FROM (SELECT id FROM source)",
    "SELECT id FROM source WHERE id IN (SELECT id FROM source)",
    "SELECT a.id FROM source a JOIN source b ON a.id = b.id",
    "SELECT id FROM source UNION ALL SELECT id FROM source",
    "SELECT id FROM range(3)",
    "SELECT 1 AS one",
]


@pytest.mark.parametrize("text", ROWWISE)
def test_a_query_that_maps_and_filters_is_rowwise(text: str) -> None:
    assert parsed(text).rowwise


@pytest.mark.parametrize("text", NOT_ROWWISE)
def test_a_query_that_gathers_multiplies_or_hides_rows_is_not_rowwise(text: str) -> None:
    assert not parsed(text).rowwise


@pytest.mark.parametrize("name", sorted(AGGREGATES | GENERATORS))
def test_no_aggregate_or_generator_is_taken_for_a_function_of_one_row(name: str) -> None:
    two = {"corr", "covar_pop", "covar_samp", "max_by", "min_by", "stack"}
    arguments = "id, amount" if name in two or name.startswith("regr_") else "id"
    assert not parsed(f"SELECT {name}({arguments}) AS x FROM source").rowwise


# Carrying the hidden column


@pytest.mark.parametrize(
    ("text", "carried"),
    [
        ("SELECT id FROM source", "SELECT id , __headrace FROM source"),
        ("SELECT id FROM source;", "SELECT id , __headrace FROM source"),
        ("SELECT id FROM source; -- end", "SELECT id , __headrace FROM source"),
        ("SELECT * FROM source", "SELECT * FROM source"),
        ("SELECT t.*, 1 AS a FROM source t", "SELECT t.*, 1 AS a FROM source t"),
        ("SELECT s.* FROM source", "SELECT s.* , __headrace FROM source"),
        (
            "SELECT id IS DISTINCT FROM 3 AS x FROM source",
            "SELECT id IS DISTINCT FROM 3 AS x , __headrace FROM source",
        ),
        (
            "SELECT id FROM source WHERE a OR b -- why",
            f"SELECT id , __headrace FROM source WHERE {KEEP} OR ( a OR b -- why\n)",
        ),
        (
            "SELECT id -- the id\nFROM source\nWHERE a;",
            f"SELECT id -- the id\n, __headrace FROM source\nWHERE {KEEP} OR ( a\n)",
        ),
        (
            "SELECT count_if(x) FILTER (WHERE y) AS n, 'FROM x WHERE' AS t FROM source WHERE a",
            "SELECT count_if(x) FILTER (WHERE y) AS n, 'FROM x WHERE' AS t , __headrace "
            f"FROM source WHERE {KEEP} OR ( a\n)",
        ),
    ],
)
def test_the_hidden_column_is_added_to_the_authors_own_text(text: str, carried: str) -> None:
    assert parsed(text).carrying(HIDDEN, KEEP) == carried


EXPRESSIONS = st.sampled_from(
    [
        "id",
        "upper(customer) AS c",
        "id IS DISTINCT FROM 2 AS d",
        "extract(year FROM at) AS y",
        "CASE WHEN amount > 1 THEN 'FROM' ELSE \"WHERE\" END AS w",
        "trim(BOTH ' ' FROM customer) AS t",
        "filter(arr, x -> x > 1) AS f",
        "`s`.a",
        "s.*",
        "*",
    ]
)
FILTERS = st.sampled_from(
    ["", " WHERE amount > 0", "\nWHERE a OR b", " where (x) -- c", " WHERE s.a = ';' OR TRUE"]
)
ENDS = st.sampled_from(["", ";", " ; -- done", "\n"])


@settings(max_examples=60)
@given(st.lists(EXPRESSIONS, min_size=1, max_size=5), FILTERS, ENDS)
def test_a_carried_query_is_rowwise_again_and_has_one_column_more(
    expressions: Sequence[str], where: str, end: str
) -> None:
    query = parsed(f"SELECT {', '.join(expressions)} FROM source{where}{end}")
    assert query.rowwise
    carried = parsed(query.carrying(HIDDEN, KEEP))
    assert carried.rowwise
    added = len(carried.tree.selects) - len(query.tree.selects)
    assert added == (0 if "*" in expressions else 1)
    assert (carried.tree.args.get("where") is None) == (query.tree.args.get("where") is None)


# Tables


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT 1 AS x", []),
        ("SELECT id FROM source", ["source"]),
        ("SELECT a.id FROM a JOIN b ON a.id = b.id", ["a", "b"]),
        ("SELECT id FROM a UNION ALL SELECT id FROM b", ["a", "b"]),
        ("SELECT id FROM a WHERE id IN (SELECT id FROM b)", ["a", "b"]),
        ("WITH x AS (SELECT id FROM a) SELECT id FROM x", ["a"]),
        ("WITH a AS (SELECT id FROM a) SELECT id FROM a", ["a"]),
        ("WITH a AS (SELECT 1 AS i), b AS (SELECT i FROM a) SELECT i FROM b", []),
        ("SELECT id FROM a CROSS JOIN range(3) AS r", ["a"]),
        ("SELECT * FROM VALUES (1) AS t(x)", []),
        ("SELECT * FROM delta.`/tmp/x`", ["delta.`/tmp/x`"]),
        ("SELECT * FROM csv.`/etc/passwd`", ["csv.`/etc/passwd`"]),
    ],
)
def test_tables_are_those_that_are_not_made_in_the_query(text: str, tables: list[str]) -> None:
    assert list(parsed(text).tables) == tables


# Output columns


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT id, amount AS a FROM source", ("id", "a")),
        ("SELECT s.a, source.id FROM source", ("a", "id")),
        ("SELECT * FROM source", COLUMNS),
        ("SELECT * FROM SOURCE", COLUMNS),
        ("SELECT 1 AS n, x.* FROM source x", ("n", *COLUMNS)),
        ("SELECT id FROM source UNION ALL SELECT amount FROM source", ("id",)),
        ("SELECT s.* FROM source", None),
        ("SELECT * EXCEPT (id) FROM source", None),
        ("SELECT * FROM other", None),
        ("SELECT * FROM (SELECT id AS z FROM source)", None),
        ("SELECT * FROM source UNPIVOT (val FOR k IN (amount))", None),
        ("SELECT * FROM source LATERAL VIEW explode(arr) t AS x", None),
        ("SELECT * FROM source AS t (a, b, c, d, e, f, g, h)", None),
        ("WITH source AS (SELECT 1 AS z) SELECT * FROM source", None),
        ("SELECT upper(customer) FROM source", None),
        ("SELECT posexplode(arr) AS (p, v) FROM source", None),
    ],
)
def test_output_columns_are_named_only_where_they_are_certain(
    text: str, columns: tuple[str, ...] | None
) -> None:
    assert parsed(text).output_columns(KNOWN) == columns


# Unknown columns


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT nme FROM source", ["p.yaml:1:8 UNKNOWN_COLUMN"]),
        ("SELECT id FROM source WHERE amout > 0", ["p.yaml:1:29 UNKNOWN_COLUMN"]),
        ("SELECT id,\n  nme\nFROM source", ["p.yaml:2:3 UNKNOWN_COLUMN"]),
        ("SELECT source.nme FROM source", ["p.yaml:1:15 UNKNOWN_COLUMN"]),
        ("SELECT t.nme FROM source t", ["p.yaml:1:10 UNKNOWN_COLUMN"]),
        ("SELECT upper(a), lower(b) FROM source", 2 * ["p.yaml:1:14 UNKNOWN_COLUMN"]),
    ],
)
def test_an_unknown_column_is_found_at_its_place(text: str, found: list[str]) -> None:
    seen = unknown(text)
    assert len(seen) == len(found)
    assert seen[0] == found[0]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ID, Customer FROM source",
        "SELECT s.a, source.s.b, items[0].sku, items.sku, m['k'] FROM source",
        "SELECT source.id FROM SOURCE",
        "SELECT id AS a, a + 1 AS b FROM source",
        "SELECT id AS `weird name`, `weird name` + 1 AS b FROM source",
        "SELECT transform(arr, x -> x + id) AS t FROM source",
        "SELECT map_filter(m, (k, v) -> v > 1) AS t FROM source",
        "SELECT customer, count(*) AS n FROM source GROUP BY ALL HAVING n > 1 ORDER BY n",
        "SELECT customer, grouping__id FROM source GROUP BY CUBE (customer)",
        "SELECT window.start FROM source GROUP BY window(at, '5 minutes')",
        "SELECT session_window.end FROM source GROUP BY session_window(at, '5 minutes')",
        "SELECT current_date, current_timestamp, user, session_user FROM source",
        "SELECT date_add(DAY, 1, at), timestampdiff(HOUR, at, at) FROM source",
        "SELECT extract(DAYOFWEEK FROM at), trim(BOTH ' ' FROM customer) FROM source",
        "SELECT id, t.col FROM source LATERAL VIEW explode(arr) t AS col",
        "SELECT id, x FROM source, LATERAL explode(arr) AS t(x)",
        "SELECT id, k, val FROM source UNPIVOT (val FOR k IN (amount))",
        "SELECT aa FROM source PIVOT (sum(amount) FOR customer IN ('a' AS aa))",
        "SELECT c FROM source AS t (i, c, a, at, s, arr, items, m)",
        "SELECT id FROM source NATURAL JOIN source",
        "SELECT r.id FROM source CROSS JOIN range(3) AS r",
        "SELECT x FROM source CROSS JOIN (VALUES (1)) AS v(x)",
        "WITH a AS (SELECT id AS z FROM source) SELECT z FROM a",
        "WITH source AS (SELECT id AS z FROM source) SELECT z FROM source",
        "SELECT z FROM (SELECT id AS z FROM source)",
        "SELECT id FROM source o WHERE EXISTS (SELECT 1 FROM source i WHERE i.id = o.id)",
        "FROM source |> EXTEND amount * 2 AS twice |> SELECT id, twice",
        "SELECT last_value(id, true) FROM source",
        "SELECT nope FROM other",
    ],
)
def test_what_spark_may_know_raises_no_alarm(text: str) -> None:
    assert unknown(text) == []


# What cannot stand in a pipeline


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT reflect('java.lang.Runtime', 'x') FROM source", "FORBIDDEN_FUNCTION"),
        ("SELECT `reflect`('a', 'b') FROM source", "FORBIDDEN_FUNCTION"),
        ("SELECT Java_Method('a', 'b') FROM source", "FORBIDDEN_FUNCTION"),
        ("SELECT system.builtin.reflect('a') FROM source", "FORBIDDEN_FUNCTION"),
        ("SELECT from_protobuf(x, 'M', '/etc/d') FROM source", "FORBIDDEN_FUNCTION"),
        ("SELECT * FROM IDENTIFIER('csv.`/etc/passwd`')", "FORBIDDEN_FUNCTION"),
        ("SELECT * FROM table_changes_by_path('/x', 0)", "FORBIDDEN_FUNCTION"),
        ("SELECT TRANSFORM(id) USING 'cat' AS (x) FROM source", "FORBIDDEN_FUNCTION"),
        ("WITH a AS (SELECT reflect('x') AS r FROM source) SELECT r FROM a", "FORBIDDEN_FUNCTION"),
        ("SET spark.jars = x", "NOT_A_QUERY"),
        ("-- hi\nDROP TABLE x", "NOT_A_QUERY"),
        ("CREATE TABLE x (a INT)", "NOT_A_QUERY"),
        ("INSERT INTO x SELECT 1", "NOT_A_QUERY"),
        ("FROM source INSERT INTO t SELECT id", "NOT_A_QUERY"),
        ("ADD JAR /x.jar", "NOT_A_QUERY"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "NOT_A_QUERY"),
        ("SELECT 1; SELECT 2", "NOT_A_QUERY"),
        ("-- nothing", "NOT_A_QUERY"),
        ("source", "NOT_A_QUERY"),
        ("SELECT id, FROM source", "SQL_SYNTAX"),
        ("SELECT id FROM", "SQL_SYNTAX"),
        ("SELECT 'open FROM source", "SQL_SYNTAX"),
        ("SELECT " + "(" * 1000 + "1" + ")" * 1000, "SQL_SYNTAX"),
    ],
)
def test_what_is_no_harmless_select_is_refused(text: str, code: str) -> None:
    _, faults = examined(text)
    assert [fault.code for fault in faults] == [code]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT id FRM source WHERE", "p.yaml:1:11"),
        ("SELECT id,\n  upper(customer\nFROM source", "p.yaml:3:1"),
        ("SELECT reflect('a') FROM source", "p.yaml:1:8"),
        ("-- hi\n  SET x = 1", "p.yaml:2:3"),
        ("SELECT id\n, FROM source", "p.yaml:2:1"),
    ],
)
def test_a_fault_in_sql_has_its_line_and_column(text: str, place: str) -> None:
    _, faults = examined(text)
    assert str(faults[0].span) == place


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("SELECT * FORM t", "1:10 `FORM` cannot stand here (did you mean `FROM`?)"),
        ("SELECT a FROM t WHRE x = 1", "1:17 `WHRE` cannot stand here (did you mean `WHERE`?)"),
        ("SELECT a FROM t INNER JION u", "1:23 `JION` cannot stand here (did you mean `JOIN`?)"),
        ("SELECT a FROM t GROUP a", "1:17 expected `BY` after `GROUP`"),
        ("SELECT CASE WHEN a THEN b FROM t", "1:8 this CASE has no END"),
        ("SELECT a FROM", "1:10 the name of a table is missing after `FROM`"),
        ("SELECT a FROM t, WHERE a", "1:16 a comma too many before WHERE (remove it)"),
        ("SELECT upper(a,) FROM t", "1:15 a comma too many before `)` (remove it)"),
        ("SELECT a FROM t ORDER BY a,", "1:27 a comma too many at the end (remove it)"),
        ("SELECT a FROM t WHERE a = = 1", "1:27 something is missing, near `=`"),
        ("SELECT a FROM t WHERE a && b", "1:25 `&&` cannot stand here (write AND)"),
        ("SELECT CAST(a BIGINT) FROM t", "1:15 expected `AS`, found `BIGINT` "
         "(write `CAST(a AS STRING)`)"),
        ("SELECT CAST(a AS BIGNT) FROM t", "1:18 `BIGNT` is not a type (did you mean BIGINT?)"),
        ("WITH x AS SELECT 1 SELECT 2", "1:11 expected `(`, found `SELECT`"),
        ("SELECT a b c FROM t", "1:12 `c` cannot stand here "
         "(a comma or an operator may be missing before it)"),
        ("SELECT ${x} FROM t", "1:8 `$` has no meaning here "
         "(a reference to a variable is written ${env:NAME})"),
        ("SELECT 'a FROM t", "1:1 a text, a name or a comment has no end "
         "(look for a ', \", ` or /* without its partner)"),
    ],
)  # fmt: skip
def test_a_slip_is_told_with_its_cure(text: str, fault: str) -> None:
    _, faults = examined(text)
    (place, message) = fault.split(" ", 1)
    assert str(faults[0]) == f"p.yaml:{place} SQL_SYNTAX {message}"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('SELECT "id", id FROM source', ["1:8"]),
        ('SELECT id FROM source WHERE "customer" = \'x\' AND ("AMOUNT" > 1)', ["1:29", "1:51"]),
        ('SELECT id AS "amount", "other" AS x FROM source', []),
        ("SELECT named_struct(\"id\", id) AS s, 'id' AS t, `id` FROM source", []),
        ('SELECT "id" FROM elsewhere', []),
    ],
)
def test_a_text_in_double_quotes_is_no_column(text: str, places: list[str]) -> None:
    found = list(parsed(text).texts_like_columns(KNOWN))
    assert [str(fault.span) for fault in found] == [f"p.yaml:{place}" for place in places]
    assert {fault.severity for fault in found} <= {Severity.WARNING}


# DISTINCT


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ("SELECT DISTINCT id FROM source", "SELECT  id FROM source"),
        (
            "WITH x AS (SELECT DISTINCT id FROM source) SELECT /*+ X */ distinct id FROM x",
            "WITH x AS (SELECT DISTINCT id FROM source) SELECT /*+ X */  id FROM x",
        ),
    ],
)
def test_the_rows_of_select_distinct_can_be_had_with_their_repetitions(
    text: str, repeated: str
) -> None:
    assert parsed(text).distinct
    assert parsed(text).without_distinct() == repeated


def test_distinct_inside_a_query_is_none_of_the_whole() -> None:
    assert not parsed("SELECT count(DISTINCT id) AS n FROM source").distinct
    assert not parsed("SELECT id IS DISTINCT FROM 3 AS x FROM source").distinct
    assert not parsed("SELECT id FROM (SELECT DISTINCT id FROM source)").distinct
