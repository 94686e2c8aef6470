"""SQL text to statements with places, and what is said where it cannot be read."""

from __future__ import annotations

from typing import TypeVar

import pytest
from tests.unit.sql_statements import STATEMENTS

from headrace.frontend.sql.parser import parse
from headrace.frontend.sql.statements import (
    Broken,
    Control,
    CreateConnection,
    CreatePipeline,
    CreateSecret,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Fields,
    Insert,
    Kind,
    Select,
    Set,
    Show,
    Statement,
    Verb,
)
from headrace.frontend.sql.tokens import is_complete
from headrace.spans import Span

S = TypeVar("S", bound=Statement)


def one(text: str, kind: type[S]) -> S:
    statements, faults = parse(text, "p.sql")
    assert faults == []
    (statement,) = statements
    assert isinstance(statement, kind)
    return statement


def faults_of(text: str) -> list[str]:
    return [str(fault).removeprefix("p.sql:") for fault in parse(text, "p.sql")[1]]


def fault_of(text: str) -> str:
    (fault,) = faults_of(text)
    return fault


def plain(options: Fields) -> dict[str, object]:
    return {name: field.node.plain() for name, field in options.items()}


# What is read


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_is_read_whole(text: str) -> None:
    statement = one(f"\n  {text} ;", Statement)
    assert statement.text == text
    assert statement.span == Span("p.sql", 2, 3)
    assert statement.span.raw == text


def test_many_statements_are_read_in_order_with_their_places() -> None:
    text = ";\n\n".join(STATEMENTS) + ";;\n-- the end\n"
    statements, faults = parse(text, "p.sql")
    assert faults == []
    assert [statement.text for statement in statements] == list(STATEMENTS)
    lines = text.split("\n")
    for statement in statements:
        first = statement.text.split("\n")[0]
        assert lines[statement.span.line - 1].startswith(first)


def test_options_are_typed_and_know_their_places() -> None:
    text = (
        "CREATE CONNECTION c TO Kafka (\n"
        "  Topic = 'or''ders', 'fetch.min.bytes' = 10, spark.some.Name = -1.50,\n"
        "  on = TRUE, `odd name` = \"x\", list = ('a', 2), array = ARRAY['b'], brackets = [],\n"
        "  nested = ( a = 1, 'b.c' = ( d = false ) ),\n"
        ")"
    )
    made = one(text, CreateConnection)
    assert made.name.text == "c"
    assert made.connector.text == "kafka"
    assert plain(made.options) == {
        "topic": "or'ders",
        "fetch.min.bytes": 10,
        "spark.some.Name": -1.5,
        "on": True,
        "odd name": "x",
        "list": ["a", 2],
        "array": ["b"],
        "brackets": [],
        "nested": {"a": 1, "b.c": {"d": False}},
    }
    topic = made.options["topic"]
    assert (topic.key.line, topic.key.column) == (2, 3)
    assert str(topic.node.span) == "p.sql:2:12"
    assert str(topic.node.span.within("or'ders", 4)) == "p.sql:2:17"
    assert made.options["spark.some.Name"].node.text == "-1.50"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"'events-\d+\.x'", r"events-\d+\.x"),
        (r"'events-\\d+'", r"events-\d+"),
        (r"r'a\n'", r"a\n"),
        (r"'a\nb\'c'", "a\nb'c"),
        ("'a -- b; /* c'", "a -- b; /* c"),
        ('"it\'s"', "it's"),
    ],
)
def test_a_text_is_what_its_author_means(written: str, value: str) -> None:
    made = one(f"CREATE CONNECTION c TO kafka ( pattern = {written} )", CreateConnection)
    assert plain(made.options) == {"pattern": value}


def test_a_secret_is_a_value_or_a_variable_and_in_no_repr() -> None:
    made = one("CREATE SECRET s AS 'hunter2'", CreateSecret)
    assert (made.value, made.variable) == ("hunter2", None)
    assert "hunter2" not in repr(made)
    named = one("CREATE SECRET s FROM ENV 'X'", CreateSecret)
    assert (named.value, named.variable) == (None, "X")


@pytest.mark.parametrize(
    ("written", "spark"),
    [
        ("TEXT", "STRING"),
        ("bytea", "BINARY"),
        ("JSONB", "VARIANT"),
        ("INT8", "BIGINT"),
        ("double precision", "DOUBLE"),
        ("CHARACTER VARYING(20)", "STRING"),
        ("VARCHAR(20)", "STRING"),
        ("TIMESTAMPTZ", "TIMESTAMP"),
        ("TIMESTAMP(3) WITH TIME ZONE", "TIMESTAMP"),
        ("TIMESTAMP WITHOUT TIME ZONE", "TIMESTAMP_NTZ"),
        ("NUMERIC", "DECIMAL(10, 0)"),
        ("DECIMAL(12,2)", "DECIMAL(12, 2)"),
        ("TEXT[][]", "ARRAY<ARRAY<STRING>>"),
        ("ARRAY<ARRAY<TEXT>>", "ARRAY<ARRAY<STRING>>"),
        ("INT ARRAY", "ARRAY<INT>"),
        ("MAP<TEXT, ARRAY<INT>>", "MAP<STRING, ARRAY<INT>>"),
        ("STRUCT<a TEXT, `b c`: INT>", "STRUCT<`a` STRING, `b c` INT>"),
        ("ROW(a TEXT)", "STRUCT<`a` STRING>"),
    ],
)
def test_a_type_is_sparks(written: str, spark: str) -> None:
    made = one(f"CREATE TABLE t ( c {written} NOT NULL ) WITH ( a = 'b' )", CreateTable)
    assert made.columns is not None
    (column,) = made.columns
    assert (column.type, column.nullable) == (spark, False)


def test_columns_may_be_generated_and_one_has_the_watermark() -> None:
    text = (
        "CREATE TABLE t (\n"
        '  watermark TIMESTAMP NULL, "Two Words" INT,\n'
        "  a TIMESTAMP GENERATED ALWAYS AS (to_timestamp(x, ')')) VIRTUAL NOT NULL,\n"
        "  b AS (c + (1)), d AS upper(e), f GENERATED ALWAYS AS (1),\n"
        "  WATERMARK FOR a AS (a - INTERVAL '1' MINUTE)\n"
        ") WITH ( connector = 'k' )"
    )
    made = one(text, CreateTable)
    assert made.columns is not None
    found = {column.name.text: column for column in made.columns}
    assert list(found) == ["watermark", "Two Words", "a", "b", "d", "f"]
    generated = {name: column.generated.sql for name, column in found.items() if column.generated}
    assert generated == {
        "a": "to_timestamp(x, ')')",
        "b": "c + (1)",
        "d": "upper(e)",
        "f": "1",
    }
    assert [column.type for column in made.columns[2:]] == ["TIMESTAMP", None, None, None]
    assert not found["a"].nullable
    assert made.watermark is not None
    assert (made.watermark.column.text, made.watermark.delay_ms) == ("a", 60_000)
    b = found["b"].generated
    assert b is not None
    assert str(b.span.within(b.sql, 4)) == "p.sql:4:13"


@pytest.mark.parametrize(
    ("written", "delay_ms"),
    [
        ("", 0),
        (" AS at", 0),
        (" AS at - INTERVAL '5 seconds'", 5_000),
        (" AS at - INTERVAL '5' SECOND", 5_000),
        (" AS at - INTERVAL 5 SECONDS", 5_000),
        (" AS at - interval '1.5 hours'", 5_400_000),
        (" AS at - INTERVAL '1 day 02:00:00.5'", 93_600_500),
        (" AS at - INTERVAL 'PT1M30S'", 90_000),
        (" AS `at` - INTERVAL '250 ms'", 250),
    ],
)
def test_a_delay_is_read_in_every_spelling(written: str, delay_ms: int) -> None:
    text = f"CREATE TABLE t ( at TIMESTAMP, WATERMARK FOR at{written} ) WITH ( a = 'b' )"
    watermark = one(text, CreateTable).watermark
    assert watermark is not None
    assert watermark.delay_ms == delay_ms


def test_a_table_may_have_no_columns_and_still_a_watermark() -> None:
    made = one("CREATE TABLE t ( WATERMARK FOR at ) WITH ( connector = 'k' )", CreateTable)
    assert made.columns is None
    assert made.watermark is not None
    assert one("CREATE TABLE t WITH ( connector = 'k' )", CreateTable).columns is None


def test_a_view_is_a_select_or_options() -> None:
    made = one("CREATE OR REPLACE VIEW v AS\nSELECT 1", CreateView)
    assert made.query is not None
    assert (made.or_replace, made.query.sql) == (True, "SELECT 1")
    assert str(made.query.span) == "p.sql:2:1"
    step = one("CREATE VIEW v WITH ( python = 'shop.clean' )", CreateView)
    assert step.query is None
    assert plain(step.options) == {"python": "shop.clean"}


def test_a_pipeline_is_a_select_an_insert_or_a_block_of_them() -> None:
    made = one("CREATE PIPELINE p WITH ( sink = 'a' ) AS SELECT 1", CreatePipeline)
    assert made.query is not None
    assert (made.query.sql, made.inserts, plain(made.options)) == ("SELECT 1", (), {"sink": "a"})
    insert = one("CREATE PIPELINE p AS INSERT INTO t (a, `b`) SELECT 1, 2", CreatePipeline)
    assert insert.query is None
    assert [name.text for name in insert.inserts[0].columns] == ["a", "b"]
    assert insert.inserts[0].text == "INSERT INTO t (a, `b`) SELECT 1, 2"


@pytest.mark.parametrize("end", [";\nEND", "\nEND"])
def test_a_block_ends_at_its_own_end(end: str) -> None:
    second = "SELECT CASE WHEN x THEN 1 ELSE 2 END, window.end AS end FROM t"
    text = f"CREATE PIPELINE p AS BEGIN INSERT INTO a SELECT 1;\nINSERT INTO b {second}{end}"
    made = one(f"{text};", CreatePipeline)
    assert [insert.query.sql for insert in made.inserts] == ["SELECT 1", second]
    assert [insert.table.text for insert in made.inserts] == ["a", "b"]
    assert made.text == text


def test_an_insert_names_its_table_and_maybe_columns() -> None:
    made = one("INSERT INTO TABLE t (SELECT 1)", Insert)
    assert (made.table.text, made.columns, made.query.sql) == ("t", (), "(SELECT 1)")
    assert one("INSERT INTO table SELECT 1", Insert).table.text == "table"


def test_the_statements_of_the_shell() -> None:
    drop = one("DROP PIPELINE IF EXISTS p PURGE", Drop)
    assert (drop.kind, drop.if_exists, drop.cascade, drop.purge) == (
        Kind.PIPELINE,
        True,
        False,
        True,
    )
    assert one("SHOW connections", Show).what == "connections"
    assert one("SHOW DEAD LETTERS", Show).what == "dead_letters"
    show = one("SHOW CREATE VIEW v", Show)
    assert (show.what, show.kind, str(show.name)) == ("create", Kind.VIEW, "v")
    assert one("DESCRIBE table", Describe).name.text == "table"
    described = one("DESC TABLE `table`", Describe)
    assert (described.kind, described.name.text) == (Kind.TABLE, "table")
    assert one("DESCRIBE system.tables", Describe).name.text == "system.tables"
    start = one("START PIPELINE p WITH ( once = true )", Control)
    assert (start.verb, start.name.text, plain(start.options)) == (Verb.START, "p", {"once": True})
    assert [one(f"{verb} PIPELINE p", Control).verb for verb in ("STOP", "pause", "Resume")] == [
        Verb.STOP,
        Verb.PAUSE,
        Verb.RESUME,
    ]
    setting = one("SET scan = 1000", Set)
    assert (str(setting.name), setting.value) == ("scan", "1000")
    assert one("SET a.b TO 'c d'", Set).value == "c d"
    assert one("SET scan", Set).value is None
    assert one("SET", Set).name is None


def test_explain_takes_a_name_or_a_statement() -> None:
    named = one("EXPLAIN code", Explain)
    assert (named.code, str(named.name)) == (False, "code")
    code = one("EXPLAIN CODE PIPELINE p", Explain)
    assert (code.code, str(code.name), code.statement) == (True, "p", None)
    select = one("EXPLAIN CODE SELECT 1", Explain)
    assert isinstance(select.statement, Select)
    assert select.statement.text == "SELECT 1"
    assert isinstance(
        one("EXPLAIN CREATE PIPELINE p AS SELECT 1", Explain).statement, CreatePipeline
    )


# What cannot be read


def test_reading_goes_on_after_each_fault() -> None:
    text = "CRAETE VIEW a;\nSHOW TABLES;\nSHOW TABLE;\nCREATE VIEW b AS SELECT 1;"
    statements, faults = parse(text, "p.sql")
    assert [type(each) for each in statements] == [Show, CreateView]
    assert [str(fault.span) for fault in faults] == ["p.sql:1:1", "p.sql:3:6"]


def test_a_line_that_begins_with_create_is_a_new_statement_after_a_fault() -> None:
    statements, faults = parse("SELECT (1\nCREATE VIEW b AS SELECT 1", "p.sql")
    assert [type(each) for each in statements] == [CreateView]
    assert len(faults) == 1


def test_the_name_of_what_is_broken_is_known() -> None:
    statements, faults = parse("CREATE TABLE t ( id BIGNT ) WITH ( connector = 'k' );", "p.sql")
    (broken,) = statements
    assert isinstance(broken, Broken)
    assert (broken.kind, broken.name.text, len(faults)) == (Kind.TABLE, "t", 1)
    assert broken.text == "CREATE TABLE t ( id BIGNT ) WITH ( connector = 'k' )"


def test_a_broken_block_is_left_at_its_end() -> None:
    text = "CREATE PIPELINE p AS BEGIN SELECT 1; INSERT INTO a SELECT 1; END; SHOW TABLES"
    statements, faults = parse(text, "p.sql")
    assert [type(each) for each in statements] == [Broken, Show]
    assert [fault.code for fault in faults] == ["SQL_SYNTAX"]


def test_all_faults_of_a_list_are_told() -> None:
    text = "CREATE TABLE t ( a BIGNT, b TEXT, c INTT ) WITH ( x = y, x2 = 1, x3 'z' );"
    assert [fault.split(" ")[0] for fault in faults_of(text)] == ["1:20", "1:37", "1:55", "1:69"]


def test_words_after_a_statement_are_a_fault() -> None:
    assert fault_of("SHOW TABLES now") == (
        "1:13 SQL_SYNTAX expected the end of the statement, found `now` "
        "(remove it, or end the statement: `;`)"
    )


def test_a_missing_semicolon_is_told_where_the_next_statement_begins() -> None:
    text = "CREATE VIEW v AS SELECT a FROM t\nINSERT INTO s SELECT a FROM v;"
    assert fault_of(text) == (
        "2:1 SQL_SYNTAX a `;` is missing before `INSERT` "
        "(one statement ends with `;` before the next begins)"
    )


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("SELECT 'abc", "1:8", "this text has no end"),
        ("SELECT `abc", "1:8", "this name has no end"),
        ("SELECT 1 /* abc", "1:10", "this comment has no end"),
        ("SELECT upper(a FROM t", "1:13", "this `(` is not closed"),
        ("SELECT a[1) FROM t", "1:9", "this `[` is not closed"),
        ("SELECT a) FROM t", "1:9", "this `)` has no `(`"),
        ("CREATE CONNECTION c TO kafka ( a = 'b'", "1:30", "this `(` is not closed"),
    ],
)
def test_what_is_not_closed_is_told_where_it_begins(text: str, place: str, what: str) -> None:
    assert fault_of(text).startswith(f"{place} SQL_SYNTAX {what}")


def test_a_text_that_took_the_next_lines_is_suspected() -> None:
    text = "CREATE CONNECTION c TO kafka (\n  topic = 'a,\n  type = 'source',\n  format = 'json'\n)"
    assert "the text that begins at 2:11 may lack its closing quote" in faults_of(text)[0]


def test_a_line_of_a_query_may_begin_with_a_word_of_statements() -> None:
    text = "SELECT id,\n  insert, drop\nFROM t WHERE\n  create IS NULL AND\n  drop > 1"
    assert one(text, Select).query.sql == text


def test_what_is_nested_without_end_is_refused() -> None:
    deep = "ARRAY<" * 5_000
    assert "nested too deeply" in fault_of(f"CREATE TABLE t ( a {deep} ) WITH ( a = 'b' )")
    options = "( a = " * 5_000
    assert "nested too deeply" in faults_of(f"CREATE CONNECTION c TO kafka {options}")[0]


# What the shell asks before it reads


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 1 -- ;", False),
        ("SELECT 1; -- done", True),
        ("CREATE PIPELINE p AS BEGIN INSERT INTO a SELECT 1;", False),
        ("CREATE PIPELINE p AS BEGIN INSERT INTO a SELECT 1; END;", True),
        ("", False),
    ],
)
def test_a_statement_is_complete_at_its_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) is complete
