"""Definitions in SQL: names, options over options, columns, and the same pipelines as in YAML."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.unit.test_cli_pipelines import Answer
from tests.unit.test_convert_round_trips import same

from headrace.api import from_catalog, load
from headrace.catalog import Catalog
from headrace.codeview.secrets import secrets
from headrace.errors import DefinitionError
from headrace.frontend.load import examine, survey
from headrace.frontend.sql import compile, dialect
from headrace.frontend.sql.definitions import Definitions
from headrace.frontend.sql.parser import parse
from headrace.model import query
from headrace.model.pipeline import DeduplicateTransform, Pipeline, PythonTransform, SqlTransform
from headrace.project import Project
from headrace.spans import Severity
from headrace.spec import HIDDEN

ACCEPTED = Path(__file__).parents[1] / "cases" / "accepted"
ORDERS = """
CREATE TABLE orders (
    id BIGINT NOT NULL,
    customer TEXT,
    amount DOUBLE,
    at TIMESTAMP,
    WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders' );
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'orders.clean' );
"""


def written(folder: Path, sql: str, name: str = "shop.sql") -> Path:
    path = folder / name
    path.write_text(sql, encoding="utf-8")
    return path


def pipeline(folder: Path, *parts: str, name: str | None = None) -> Pipeline:
    found, faults = examine(written(folder, "\n".join(parts)), name)
    assert found is not None, faults
    return found


def told(folder: Path, *parts: str) -> list[str]:
    """`line:column CODE` of all that is said."""
    found = load(written(folder, "\n".join(parts))).check()
    return [f"{each.span.line}:{each.span.column} {each.code}" for each in found]


def defined(sql: str) -> Definitions:
    statements, faults = parse(sql, "p.sql")
    definitions, twice = Definitions.of(statements)
    assert [*faults, *twice] == []
    return definitions


# Twins


@pytest.mark.parametrize(
    "case", sorted(each.parent for each in ACCEPTED.glob("*/pipeline.sql")), ids=lambda p: p.name
)
def test_a_case_means_the_same_in_both_notations(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_BOOTSTRAP_SERVER", "localhost:9092")
    monkeypatch.setenv("CASE", "case")
    monkeypatch.setenv("CASE_FOLDER", "/folder")
    in_sql = load(case / "pipeline.sql")
    in_yaml = load(case / "pipeline.yaml")
    assert same(in_sql.pipeline) == same(in_yaml.pipeline)
    severe = [fault for fault in in_sql.check() if fault.severity is Severity.ERROR]
    assert severe == []


# Names


def test_names_are_the_same_in_upper_and_lower_case(tmp_path: Path) -> None:
    found = pipeline(tmp_path, ORDERS, "INSERT INTO CLEAN SELECT ID FROM Orders WHERE id > 1;")
    assert [each.name for each in found.sources] == ["orders"]
    assert [each.name for each in found.sinks] == ["clean"]


def test_statements_may_stand_in_any_order(tmp_path: Path) -> None:
    insert = "INSERT INTO clean SELECT id FROM paid;"
    view = "CREATE VIEW paid AS SELECT id FROM orders WHERE amount > 0;"
    found = pipeline(tmp_path, insert, view, ORDERS)
    assert [each.name for each in found.transforms] == ["paid", "shop"]


def test_only_what_a_pipeline_needs_is_in_it(tmp_path: Path) -> None:
    sql = """
    CREATE TABLE other ( x INT ) WITH ( connector = 'impulse' );
    CREATE VIEW unread AS SELECT x FROM other;
    CREATE VIEW late AS SELECT id, at FROM orders;
    CREATE PIPELINE one WITH ( sink = 'clean' ) AS SELECT id FROM orders;
    CREATE PIPELINE two WITH ( sink = 'clean' ) AS SELECT id FROM late;
    """
    one = pipeline(tmp_path, ORDERS, sql, name="one")
    two = pipeline(tmp_path, ORDERS, sql, name="two")
    assert [each.name for each in (*one.sources, *one.transforms)] == ["orders", "one"]
    assert [each.name for each in (*two.sources, *two.transforms)] == ["orders", "late", "two"]
    definitions = defined(ORDERS + sql)
    compiler = compile.Compiler(definitions)
    assert compiler.needed(definitions.pipelines["two"]) == {"orders", "late", "clean", "two"}


def test_replacing_and_dropping_count_in_order(tmp_path: Path) -> None:
    sql = """
    CREATE VIEW paid AS SELECT 1 AS nothing;
    DROP VIEW paid;
    CREATE VIEW paid AS SELECT id FROM orders;
    CREATE OR REPLACE VIEW paid AS SELECT id, amount FROM orders;
    CREATE VIEW IF NOT EXISTS paid AS SELECT nothing FROM nowhere;
    DROP TABLE IF EXISTS elsewhere;
    INSERT INTO clean SELECT * FROM paid;
    """
    found = pipeline(tmp_path, ORDERS, sql)
    (step,) = found.transforms
    assert isinstance(step, SqlTransform)
    assert step.sql == "SELECT id, amount FROM orders"


def test_bare_inserts_are_one_pipeline_with_the_name_of_the_file(tmp_path: Path) -> None:
    sql = """
    CREATE TABLE lake WITH ( connector = 'delta', path = 'lake' );
    INSERT INTO clean SELECT id FROM orders;
    INSERT INTO lake SELECT * FROM orders;
    INSERT INTO clean SELECT id, amount FROM orders;
    """
    found = pipeline(tmp_path, ORDERS, sql)
    assert found.name == "shop"
    assert [(each.name, each.input) for each in found.sinks] == [
        ("clean", "shop_1"),
        ("lake", "orders"),
        ("clean_2", "shop_3"),
    ]


def test_a_file_of_two_pipelines_needs_the_name_of_one(tmp_path: Path) -> None:
    sql = """
    CREATE PIPELINE one WITH ( sink = 'clean' ) AS SELECT id FROM orders;
    CREATE PIPELINE two WITH ( sink = 'clean' ) AS SELECT amount FROM orders;
    """
    path = written(tmp_path, ORDERS + sql)
    both = load(path)
    assert both.pipelines == ("one", "two")
    with pytest.raises(DefinitionError, match="has 2 pipelines"):
        _ = both.pipeline
    assert load(path, "two").pipeline.name == "two"
    with pytest.raises(DefinitionError, match="no pipeline `three`"):
        load(path, "three")


def test_a_fault_of_another_pipeline_does_not_stop_one(tmp_path: Path) -> None:
    sql = """
    CREATE PIPELINE good WITH ( sink = 'clean' ) AS SELECT id FROM orders;
    CREATE PIPELINE bad WITH ( sink = 'clean' ) AS SELECT price FROM orders;
    """
    path = written(tmp_path, ORDERS + sql)
    assert [fault.code for fault in load(path).check()] == ["UNKNOWN_COLUMN"]
    assert load(path, "good").check() == []


def test_a_file_without_a_pipeline_can_be_checked_only(tmp_path: Path) -> None:
    found = load(written(tmp_path, ORDERS))
    assert found.check() == []
    with pytest.raises(DefinitionError, match="no pipeline in"):
        _ = found.pipeline


def test_what_cannot_be_read_is_not_unknown_to_those_who_use_it(tmp_path: Path) -> None:
    sql = """CREATE TABLE prices ( id BIGNIT ) WITH ( connector = 'shop' );
    CREATE PIPELINE p WITH ( sink = 'clean' ) AS SELECT * FROM orders JOIN prices USING (id);"""
    assert told(tmp_path, ORDERS, sql) == ["11:26 UNKNOWN_TYPE"]


# Options


def test_a_table_says_more_than_its_connection_and_otherwise(tmp_path: Path) -> None:
    sql = """
    CREATE CONNECTION shop TO kafka (
        bootstrap_servers = 'localhost:9092',
        topic = 'orders',
        offset = 'latest',
        group_id = 'all',
        batch_size = 100,
        compression = 'lz4',
        'fetch.min.bytes' = 10,
        'linger.ms' = 5
    );
    CREATE TABLE returns ( id BIGINT ) WITH (
        connector = 'shop',
        bootstrap_server = 'localhost:9093',
        topics = ('returns', 'complaints'),
        'auto.offset.reset' = 'earliest',
        consumer_group = 'own',
        'fetch.min.bytes' = 20
    );
    CREATE TABLE copies WITH ( connector = 'shop', topic = 'copies' );
    INSERT INTO copies SELECT * FROM returns;
    """
    found = pipeline(tmp_path, sql)
    assert found.sources[0].options.values == {
        "bootstrap_server": "localhost:9093",
        "topics": ("returns", "complaints"),
        "auto_offset_reset": "earliest",
        "consumer_group": "own",
        "batch_size": 100,
        "properties": {"fetch.min.bytes": "20"},
        "schema": "id BIGINT",
    }
    assert found.sinks[0].options.values == {
        "bootstrap_server": "localhost:9092",
        "topic": "copies",
        "compression": "lz4",
        "properties": {"linger.ms": "5"},
    }


def test_options_in_options(tmp_path: Path) -> None:
    sql = """
    CREATE TABLE wide WITH (
        connector = 'kafka',
        topic = 'wide',
        create_topic = ( partitions = 6, config = ( 'retention.ms' = 1000 ) ),
        headers = ( tenant = 'customer' ),
        envelope = ( as = 'headers' )
    );
    INSERT INTO wide SELECT id, customer FROM orders;
    """
    options = pipeline(tmp_path, ORDERS, sql).sinks[0].options
    assert options["create_topic"]["partitions"] == 6
    assert options["create_topic"]["config"] == {"retention.ms": "1000"}
    assert options["headers"] == {"tenant": "customer"}
    assert options["envelope"]["as"] == "headers"


def test_the_options_of_a_pipeline(tmp_path: Path) -> None:
    sql = """
    CREATE PIPELINE p WITH (
        sink = 'clean', mode = 'batch', guarantee = 'exactly_once', executor_count = 2,
        'spark.sql.shuffle.partitions' = 4
    ) AS SELECT id FROM orders;
    """
    found = pipeline(tmp_path, ORDERS, sql)
    assert (str(found.mode), str(found.guarantee)) == ("batch", "exactly_once")
    assert found.options["executor_count"] == 2
    assert found.options["spark"] == {"spark.sql.shuffle.partitions": "4"}


def test_other_sources_take_their_own_options(tmp_path: Path) -> None:
    sql = """
    CREATE TABLE numbers ( n BIGINT, made_at TIMESTAMP GENERATED ALWAYS AS (at), x DOUBLE ) WITH (
        connector = 'impulse', rate = 5, fields = ( n = 'n', at = 'at', x = 'rand()' )
    );
    CREATE TABLE lines ( value TEXT, _file_path TEXT ) WITH (
        connector = 'files', path = 'in', format = 'text', include_metadata = true
    );
    CREATE TABLE sheets ( id INT, name TEXT ) WITH (
        connector = 'files', path = 'in', format = 'csv'
    );
    CREATE TABLE shown WITH ( connector = 'console' );
    INSERT INTO shown SELECT x FROM numbers;
    INSERT INTO shown SELECT value FROM lines;
    INSERT INTO shown SELECT name FROM sheets;
    """
    numbers, lines, sheets = pipeline(tmp_path, sql).sources
    assert [(each.name, each.sql) for each in numbers.columns] == [
        ("n", "CAST(n AS BIGINT)"),
        ("made_at", "CAST((at) AS TIMESTAMP)"),
        ("x", "CAST(x AS DOUBLE)"),
    ]
    assert [each.name for each in lines.columns] == ["value", "_file_path"]
    assert lines.options["schema"] is None
    assert (sheets.options["schema"], sheets.columns) == ("id INT, name STRING", ())


# Columns


def test_a_generated_column_is_what_a_watermark_may_be_on(tmp_path: Path) -> None:
    sql = """
    CREATE TABLE events (
        id BIGINT,
        ms BIGINT,
        at TIMESTAMP GENERATED ALWAYS AS (timestamp_millis(ms)) STORED,
        WATERMARK FOR at AS at - INTERVAL '1 minute'
    ) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'events' );
    INSERT INTO clean SELECT tumble(INTERVAL '1 hour') AS w, count(*) AS n FROM events GROUP BY 1;
    """
    found = pipeline(tmp_path, ORDERS, sql)
    (events,) = found.sources
    assert events.options["schema"] == "id BIGINT, ms BIGINT"
    assert [(each.name, each.sql) for each in events.columns] == [
        ("id", None),
        ("ms", None),
        ("at", "CAST((timestamp_millis(ms)) AS TIMESTAMP)"),
    ]
    assert events.watermark is not None
    assert (events.watermark.column, events.watermark.delay_ms) == ("at", 60_000)
    (step,) = found.transforms
    assert isinstance(step, SqlTransform)
    assert "window(at, '1 hour')" in step.sql.replace("`", "")


def test_a_fault_in_a_generated_column_is_told_where_it_stands(tmp_path: Path) -> None:
    sql = """CREATE TABLE events (
    id BIGINT,
    at TIMESTAMP GENERATED ALWAYS AS (timestamp_millis(
        millis))
) WITH ( connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'events' );"""
    assert told(tmp_path, sql) == ["4:9 UNKNOWN_COLUMN"]


def test_rows_are_written_by_position_with_the_names_and_types_of_the_table(tmp_path: Path) -> None:
    sql = """
    CREATE TABLE totals ( shop TEXT, total DECIMAL(10, 2), orders BIGINT ) WITH (
        connector = 'kafka', topic = 'totals', key = 'shop'
    );
    CREATE PIPELINE p AS INSERT INTO totals
    SELECT customer, sum(amount), count(*) FROM orders GROUP BY customer;
    """
    found = pipeline(tmp_path, ORDERS, sql)
    first, second = found.transforms
    assert isinstance(first, SqlTransform)
    assert isinstance(second, SqlTransform)
    assert first.sql == (
        "SELECT customer, sum(amount) AS `total`, count(*) AS `orders` "
        "FROM orders GROUP BY customer"
    )
    assert second.sql == (
        "SELECT CAST(`customer` AS STRING) AS `shop`, CAST(`total` AS DECIMAL(10, 2)) AS `total`, "
        "CAST(`orders` AS BIGINT) AS `orders` FROM p"
    )
    assert found.sinks[0].input == second.name == "into_totals"


def test_columns_that_an_insert_does_not_name_are_null(tmp_path: Path) -> None:
    sql = """
    CREATE TABLE notes ( id BIGINT, note TEXT, at TIMESTAMP ) WITH (
        connector = 'kafka', topic = 'notes'
    );
    INSERT INTO notes (at, id) SELECT o.at, o.id FROM orders AS o JOIN orders AS p ON o.id = p.id;
    """
    step = pipeline(tmp_path, ORDERS, sql).transforms[-1]
    assert isinstance(step, SqlTransform)
    assert step.sql == (
        "SELECT CAST(`at` AS TIMESTAMP) AS `at`, CAST(`id` AS BIGINT) AS `id`, "
        "CAST(NULL AS STRING) AS `note` FROM shop"
    )


def test_places_hold_after_names_were_added(tmp_path: Path) -> None:
    sql = """CREATE TABLE totals ( a DOUBLE, b DOUBLE ) WITH ( connector = 'kafka', topic = 't' );
INSERT INTO totals
SELECT amount * 2,
       amount::DOUBLE + amont FROM orders WHERE at > NOW() AND idd IS DISTINCT FROM 1;"""
    found = told(tmp_path, ORDERS, sql)
    assert found == ["9:14 UNUSED", "14:25 UNKNOWN_COLUMN", "14:64 UNKNOWN_COLUMN"]


def test_raw_rows_keep_key_and_value(tmp_path: Path) -> None:
    sql = """
    CREATE CONNECTION bytes TO kafka ( bootstrap_servers = 'localhost:9092', format = 'raw' );
    CREATE TABLE first ( key BYTEA, value BYTEA ) WITH ( connector = 'bytes', topic = 'first' );
    CREATE TABLE second ( key BYTEA, value BYTEA ) WITH ( connector = 'bytes', topic = 'second' );
    INSERT INTO second SELECT key, value FROM first WHERE key IS NOT NULL;
    """
    (sink,) = pipeline(tmp_path, sql).sinks
    assert (sink.options["key"], sink.options["value"]) == ("key", "value")


# Steps that are no SELECT


def test_functions_and_deduplication_are_views_with_options(tmp_path: Path) -> None:
    sql = """
    CREATE VIEW scored WITH ( python = 'shop.score', from = 'orders' );
    CREATE VIEW once WITH ( deduplicate = ( by = 'id' ), from = 'orders' );
    CREATE PIPELINE p AS BEGIN
        INSERT INTO clean SELECT * FROM scored;
        INSERT INTO clean SELECT id FROM once;
    END;
    """
    function, once, _ = pipeline(tmp_path, ORDERS, sql).transforms
    assert isinstance(function, PythonTransform)
    assert (function.function, function.inputs) == ("shop.score", ("orders",))
    assert isinstance(once, DeduplicateTransform)
    assert (once.by, once.inputs) == (("id",), ("orders",))


# Groups


GROUP = """
CREATE TABLE orders ( id BIGINT, customer TEXT ) WITH (
    connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 'orders', {group} = 'both'
);
CREATE TABLE clean WITH ( connector = 'kafka', topic = 'clean' );
CREATE PIPELINE p WITH ( sink = 'clean' {options} ) AS SELECT {select} FROM orders;
"""


@pytest.mark.parametrize(
    ("group", "options", "select", "shares"),
    [
        ("group_id", "", "id", True),
        ("'group.id'", "", "id", True),
        ("consumer_group", "", "id", None),
        ("group_id", ", mode = 'batch'", "id", False),
        ("group_id", ", guarantee = 'exactly_once'", "id", False),
        ("group_id", "", "DISTINCT customer", False),
    ],
)
def test_a_group_id_shares_where_the_pipeline_can(
    tmp_path: Path, group: str, options: str, select: str, shares: bool | None
) -> None:
    sql = GROUP.format(group=group, options=options, select=select)
    found = pipeline(tmp_path, sql)
    assert found.sources[0].options["share_partitions"] is bool(shares)
    warned = [each for each in told(tmp_path, sql) if each.endswith("NOT_SHARED")]
    assert bool(warned) is (shares is False)


# Secrets


def test_a_secret_is_in_the_model_and_nowhere_to_be_seen(tmp_path: Path) -> None:
    sql = """
    CREATE SECRET where_it_is AS 'hidden-host:9092';
    CREATE TABLE secret_orders ( id BIGINT ) WITH (
        connector = 'kafka', bootstrap_server = '${secret:where_it_is}', topic = 'orders',
        'client.id' = '${secret:where_it_is}'
    );
    CREATE PIPELINE p WITH ( sink = 'clean' ) AS SELECT id FROM secret_orders;
    """
    found = load(written(tmp_path, ORDERS + sql))
    options = found.pipeline.sources[0].options
    assert options["bootstrap_server"] == "hidden-host:9092"
    assert options["properties"] == {"client.id": "hidden-host:9092"}
    assert secrets(found.pipeline) == {"hidden-host:9092": "WHERE_IT_IS"}
    story = json.dumps(found.explain())
    assert "hidden-host" not in f"{found.check()}{options}{story}"
    assert HIDDEN in story


def test_a_script_reads_each_secret_from_a_variable_of_its_own(tmp_path: Path) -> None:
    sql = """
    CREATE SECRET one AS 'first-secret';
    CREATE SECRET two AS 'second-secret';
    CREATE TABLE t ( id BIGINT ) WITH (
        connector = 'kafka', bootstrap_server = 'localhost:9092', topic = 't',
        'client.id' = 'a-${secret:one}', 'client.rack' = '${secret:two}'
    );
    CREATE PIPELINE p WITH ( sink = 'clean' ) AS SELECT id FROM t;
    """
    found = secrets(pipeline(tmp_path, ORDERS, sql))
    assert found == {"a-first-secret": "T_PROPERTIES", "second-secret": "T_PROPERTIES_2"}


def test_secrets_of_the_catalog_are_for_yaml_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.of(Project(tmp_path))
    catalog.put_secret("Broker", "kept-host:9092", None)
    catalog.put_secret("moved", None, "MOVED_TO")
    text = "source:\n  connector_type: kafka\n  bootstrap_server: ${secret:broker}\n"
    text += "  topic: orders\n  format: raw\nsink:\n  connector_type: kafka\n  topic: out\n"
    text += "  bootstrap_server: ${secret:moved}\n"
    path = written(tmp_path, text, "p.yaml")
    (fault,) = load(path).check()
    assert (fault.code, fault.span.line) == ("UNDEFINED_SECRET", 9)
    assert "MOVED_TO" in fault.message
    monkeypatch.setenv("MOVED_TO", "other-host:9092")
    found = load(path)
    assert found.pipeline.sources[0].options["bootstrap_server"] == "kept-host:9092"
    assert found.pipeline.sinks[0].options["bootstrap_server"] == "other-host:9092"
    shown = json.dumps(found.explain()) + repr(found.pipeline)
    assert "kept-host" not in shown
    assert "other-host" not in shown


# The catalog


def kept(folder: Path, sql: str) -> Project:
    """A project whose catalog holds these statements."""
    project = Project(folder)
    catalog = Catalog.of(project)
    for made in defined(sql).named.values():
        catalog.put("any", made.name.text, made.text)
    return project


def test_a_pipeline_of_the_catalog_is_found_by_its_name(tmp_path: Path) -> None:
    sql = "CREATE PIPELINE Clean_Orders WITH ( sink = 'clean' ) AS SELECT id FROM orders;"
    project = kept(tmp_path, ORDERS + sql)
    found = from_catalog(project, "clean_orders")
    assert found.check() == []
    assert found.pipeline.name == "Clean_Orders"
    assert found.pipeline.file is not None
    assert found.pipeline.file.parent == tmp_path
    assert str(found.pipeline.sources[0].span) == "catalog:orders:1:14"
    with pytest.raises(DefinitionError, match="no pipeline `dirty_orders` in the catalog"):
        from_catalog(project, "dirty_orders")


def test_only_what_a_pipeline_needs_can_keep_it_from_running(tmp_path: Path) -> None:
    sql = """
    CREATE TABLE broken ( id BIGINT ) WITH ( connector = 'nowhere' );
    CREATE PIPELINE good WITH ( sink = 'clean' ) AS SELECT id FROM orders;
    CREATE PIPELINE bad WITH ( sink = 'clean' ) AS SELECT id FROM broken;
    """
    project = kept(tmp_path, ORDERS + sql)
    Catalog.of(project).put("view", "of_tomorrow", "CREATE VIEW of_tomorrow AS SELEKT 1")
    assert from_catalog(project, "good").check() == []
    (fault,) = from_catalog(project, "bad").check()
    assert (fault.code, fault.span.file) == ("UNKNOWN_CONNECTOR", "catalog:broken")


# Commands


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_is_checked_with_its_sql(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(here, ORDERS)
    written(here, "CREATE VIEW v AS SELECT a FROM b;", "wrong.sql")
    answer = Answer(capsys, "check", ".")
    assert answer.code == 2
    assert answer.out.startswith("wrong.sql:1:32 UNKNOWN_TABLE `b` is not a table or a view")
    assert answer.err == "shop.sql: ok\n"


def test_explain_takes_a_pipeline_of_a_file_or_of_the_catalog(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = """
    CREATE PIPELINE one WITH ( sink = 'clean' ) AS SELECT id FROM orders;
    CREATE PIPELINE two WITH ( sink = 'clean' ) AS SELECT amount FROM orders;
    """
    written(here, ORDERS + two)
    kept(here, ORDERS + two)
    ambiguous = Answer(capsys, "explain", "shop.sql")
    assert (ambiguous.code, ambiguous.out) == (2, "")
    assert "name one with `--pipeline`: one, two" in ambiguous.err
    for words in (("shop.sql", "--pipeline", "two"), ("two",)):
        answer = Answer(capsys, "explain", *words, "-o", "json")
        assert json.loads(answer.out)["pipeline"] == "two"
    unknown = Answer(capsys, "explain", "thre")
    assert "there is no pipeline `thre` in the catalog" in unknown.err
    preview = Answer(capsys, "explain", "two", "--pipeline", "two")
    assert preview.code == 2


def test_a_pipeline_without_a_sink_can_only_be_looked_at(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(here, ORDERS + "CREATE PIPELINE p AS SELECT id FROM orders;")
    answer = Answer(capsys, "run", "shop.sql")
    assert answer.code == 2
    assert "MISSING_SINK there is nothing to run into" in answer.err
    assert "INSERT INTO" in answer.err


# Work


def test_views_over_too_many_views_are_a_fault_and_no_crash(tmp_path: Path) -> None:
    views = [f"CREATE VIEW v{n + 1} AS SELECT * FROM v{n};" for n in range(600)]
    first = "CREATE VIEW v0 AS SELECT id FROM orders;"
    insert = "INSERT INTO copied SELECT * FROM v600;"
    table = "CREATE TABLE copied ( id BIGINT ) WITH ( connector = 'kafka', topic = 'copied' );"
    found = told(tmp_path, insert, *reversed(views), first, table, ORDERS)
    assert found[0] == "1:1 VIEWS_TOO_DEEP"
    assert {each.partition(" ")[2] for each in found} == {"VIEWS_TOO_DEEP", "UNUSED"}


def big(groups: int) -> str:
    text = [ORDERS, "CREATE CONNECTION shop TO kafka ( bootstrap_servers = 'localhost:9092' );"]
    for number in range(groups):
        text.append(f"""
        CREATE TABLE t{number} ( id BIGINT, n INT ) WITH ( connector = 'shop', topic = '{number}' );
        CREATE VIEW v{number} AS SELECT id, n::INT AS m FROM t{number} JOIN orders USING (id);
        CREATE PIPELINE p{number} WITH ( sink = 'clean' ) AS SELECT m FROM v{number};
        """)
    return "\n".join(text)


def test_the_work_of_a_check_grows_with_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that all pipelines read is read once, and so is each query."""
    done: Counter[str] = Counter()

    def counted(module: Any, function: str) -> None:
        real = getattr(module, function)

        def call(*arguments: Any, **named: Any) -> Any:
            done[function] += 1
            return real(*arguments, **named)

        monkeypatch.setattr(module, function, call)

    counted(dialect, "translate")
    counted(query, "_parse")
    work = []
    for groups in (10, 20, 40):
        done.clear()
        query._read.cache_clear()
        found = survey(written(tmp_path, big(groups), f"big{groups}.sql"))
        assert found.faults == ()
        work.append(dict(done))
    assert work == [{"translate": 2 * groups, "_parse": 2 * groups} for groups in (10, 20, 40)]
