"""System tables over a catalog and state folders; those of clusters are in `broker/`."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.errors import DefinitionError
from headrace.model.query import Query
from headrace.project import Project
from headrace.runtime.state import PipelineState, Status
from headrace.shell import connections, system
from headrace.shell.system_rows import Asked
from headrace.shell.system_tables import TABLES
from headrace.spans import Span

STATEMENTS = {
    ("connection", "incoming"): "CREATE CONNECTION incoming TO files ( path = 'in', "
    "type = 'source', format = 'csv' )",
    ("connection", "made_up"): "CREATE CONNECTION made_up TO impulse ( )",
    ("table", "orders"): "CREATE TABLE orders ( id BIGINT NOT NULL, name TEXT, at TIMESTAMP, "
    "WATERMARK FOR at AS at - INTERVAL '5 seconds' ) WITH ( connector = 'incoming' )",
    ("table", "screen"): "CREATE TABLE screen WITH ( connector = 'console', type = 'sink' )",
    ("view", "named"): "CREATE VIEW named AS SELECT id FROM orders WHERE name IS NOT NULL",
    ("pipeline", "first"): "CREATE PIPELINE first WITH ( sink = 'screen' ) AS SELECT id FROM named",
    ("pipeline", "second"): "CREATE PIPELINE second AS BEGIN INSERT INTO screen SELECT 1 FROM "
    "orders; INSERT INTO screen SELECT 2 FROM named; END",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    catalog = Catalog.of(project)
    for (kind, name), text in STATEMENTS.items():
        catalog.put(kind, name, text)
    (tmp_path / "in").mkdir()
    return project


def query_of(sql: str) -> Query:
    query, faults = Query.parse(sql, Span("sql", 1, 1, sql))
    assert query is not None
    assert not faults
    return query


def rows(sql: str, project: Project) -> list[tuple[Any, ...]]:
    return system.select(query_of(sql), project).rows


# The catalog and the state folders


def test_connections_are_described_and_tested(project: Project) -> None:
    names = "name, connector, type, format, address, topic, group_id, status, error"
    found = rows(f"SELECT {names} FROM system.connections ORDER BY name", project)
    folder = project.root / "in"
    assert found == [
        ("incoming", "files", "source", "csv", "in", "in", None, "ok", None),
        ("made_up", "impulse", "source", None, None, None, None, "ok", None),
    ]
    folder.rmdir()
    sql = "SELECT status, error FROM system.connections WHERE name = 'incoming'"
    assert rows(sql, project) == [("failed", f"path: {folder} does not exist")]


def test_tables_views_and_secrets(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT name, connection, connector, type, columns, watermark FROM system.tables"
    assert rows(sql, project) == [
        (
            *("orders", "incoming", "files", "source"),
            "id BIGINT NOT NULL, name STRING, at TIMESTAMP",
            "at",
        ),
        ("screen", None, "console", "sink", None, None),
    ]
    assert rows("SELECT name, query FROM system.views", project) == [
        ("named", "SELECT id FROM orders WHERE name IS NOT NULL")
    ]
    catalog = Catalog.of(project)
    catalog.put_secret("own", "hunter2", None)
    catalog.put_secret("lent", None, "HEADRACE_TEST_SECRET")
    monkeypatch.delenv("HEADRACE_TEST_SECRET", raising=False)
    found = rows("SELECT name, variable, known FROM system.secrets ORDER BY name DESC", project)
    assert found == [("own", None, True), ("lent", "HEADRACE_TEST_SECRET", False)]


def test_pipelines_that_ran_and_those_that_only_were_made(project: Project) -> None:
    sql = "SELECT name, state, mode, origin, sources, sinks, records FROM system.pipelines"
    assert rows(sql, project) == [
        ("first", "created", "stream", "catalog", "named", "screen", None),
        ("second", "created", "stream", "catalog", "orders, named", "screen", None),
    ]
    for name, file, ended in (("first", "catalog:first", "stopped"), ("old", "old.yaml", "failed")):
        folder = project.ensure(project.state(name))
        status = Status(name, "stream", file, state=ended, records=7, written=6, dead_letters=1)
        PipelineState(folder).write_status(status)
    Catalog.of(project).set_state("first", "paused")
    Catalog.of(project).set_state("second", "paused")
    sql = "SELECT name, state, mode, origin, records, dead_letters FROM system.pipelines"
    assert rows(sql, project) == [
        ("first", "paused", "stream", "catalog", 7, 1),
        ("old", "failed", "stream", "old.yaml", 7, 1),
        ("second", "paused", "stream", "catalog", None, None),
    ]


def test_nothing_created_is_empty_tables_and_makes_no_file(tmp_path: Path) -> None:
    for name in TABLES:
        assert rows(f"SELECT * FROM system.{name}", Project(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


# SQL over them


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) AS n FROM system.tables", [(2,)]),
        ("SELECT NAME FROM System.Tables WHERE Name LIKE 'o%'", [("orders",)]),
        ("SELECT name FROM system.tables WHERE name LIKE 'O%'", []),
        ("SELECT name FROM system.tables WHERE name ILIKE 'O%'", [("orders",)]),
        ("SELECT name FROM system.tables WHERE name RLIKE '^s.*n$'", [("screen",)]),
        ("SELECT 1 / 2 AS half FROM system.views", [(0.5,)]),
        ("SELECT system.views.name FROM system.views", [("named",)]),
        ("SELECT `name` FROM `system`.`views`", [("named",)]),
        (
            "WITH t AS (SELECT connector AS c FROM system.tables) SELECT c FROM t ORDER BY c",
            [("console",), ("files",)],
        ),
        (
            "SELECT t.name, c.connector FROM system.tables t JOIN system.connections c "
            "ON t.connection = c.name",
            [("orders", "files")],
        ),
        (
            "SELECT name, 'view' AS kind FROM system.views UNION ALL "
            "SELECT name, 'table' FROM system.tables ORDER BY 1",
            [("named", "view"), ("orders", "table"), ("screen", "table")],
        ),
        ("SELECT count_if(type = 'sink') AS n FROM system.tables", [(1,)]),
        ("SELECT name FROM system.tables ORDER BY connection, name LIMIT 1", [("screen",)]),
    ],
)
def test_sql_is_answered_as_spark_would(
    sql: str, expected: list[tuple[Any, ...]], project: Project
) -> None:
    assert system.covers(query_of(sql))
    assert rows(sql, project) == expected


def test_values_keep_their_types(project: Project) -> None:
    ((changed, flag),) = rows(
        "SELECT v.changed, s.known FROM system.views v LEFT JOIN system.secrets s ON 1 = 1", project
    )
    assert isinstance(changed, datetime.datetime)
    assert abs(datetime.datetime.now(datetime.UTC) - changed) < datetime.timedelta(minutes=10)
    assert flag is None
    answer = system.select(query_of("SELECT name AS n, count(*) FROM system.views"), project)
    assert answer.columns[0] == "n"


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        (
            "SELECT * FROM system.table",
            "sql:1:15 UNKNOWN_TABLE `system.table` is not a table (did you mean `system.tables`?)",
        ),
        (
            "SELECT nme FROM system.views",
            "sql:1:8 UNKNOWN_COLUMN `nme` is not a column (did you mean `name`?)",
        ),
        (
            "SELECT v.quer FROM system.views v",
            "sql:1:8 UNKNOWN_COLUMN `quer` is not a column (did you mean `query`?)",
        ),
    ],
)
def test_what_is_not_there_is_told_with_its_place(sql: str, fault: str, project: Project) -> None:
    with pytest.raises(DefinitionError) as caught:
        rows(sql, project)
    assert [str(each) for each in caught.value.diagnostics] == [fault]


def test_what_sqlite_does_not_know_is_left_to_spark(project: Project) -> None:
    sql = "SELECT date_trunc('hour', changed) FROM system.views"
    with pytest.raises(system.NotInSqlite):
        rows(sql, project)


def test_a_query_over_other_tables_too_is_not_answered_here() -> None:
    assert not system.covers(query_of("SELECT * FROM system.views JOIN orders ON name = id"))
    assert not system.covers(query_of("SELECT 1"))
    mixed = query_of("SELECT * FROM system.views, system.nothing")
    assert system.named(mixed) == {"views", "nothing"}


def test_the_queries_of_the_documentation_are_answered(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "system-tables.md").read_text()
    blocks = re.findall(r"^```sql\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    texts = [text.strip() for block in blocks for text in block.split(";") if text.strip()]
    queries = [query_of(text) for text in texts if "test_connection" not in text]
    assert len(queries) >= 4
    for query in queries:
        assert system.covers(query)
        assert system.select(query, Project(tmp_path)).rows == []
    assert all(f"system.{name}" in page for name in TABLES)


# Nobody is asked in vain


@pytest.mark.parametrize(
    ("where", "values"),
    [
        ("connection = 'a'", {"connection": {"a"}}),
        ("'a' = connection", {"connection": {"a"}}),
        ("connection IN ('a', 'b') AND lag > 3", {"connection": {"a", "b"}}),
        ("g.group_id = 'x' AND connection = 'a'", {"group_id": {"x"}, "connection": {"a"}}),
        ("connection = 'a' OR lag > 3", {}),
        ("NOT connection = 'a'", {}),
        ("connection = topic", {}),
    ],
)
def test_a_condition_says_which_cluster_is_asked(where: str, values: dict[str, set[str]]) -> None:
    query = query_of(f"SELECT * FROM system.kafka_consumer_groups g WHERE {where}")
    asked = system._asked(query.tree, "kafka_consumer_groups")
    assert asked.values == values


def test_a_table_that_is_read_twice_or_joined_is_computed_whole() -> None:
    for sql in (
        "SELECT * FROM system.kafka_topics WHERE connection = 'a' UNION ALL "
        "SELECT * FROM system.kafka_topics",
        "SELECT * FROM system.kafka_topics t LEFT JOIN system.views v ON 1 = 1 WHERE topic = 'a'",
    ):
        assert system._asked(query_of(sql).tree, "kafka_topics").values == {}


def test_connections_are_tested_only_where_someone_looks(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested: list[str] = []
    examine = connections.examine

    def noted(connection: Any, *rest: Any) -> Any:
        tested.append(connection.name)
        return examine(connection, *rest)

    monkeypatch.setattr(connections, "examine", noted)
    rows("SELECT name, connector FROM system.connections", project)
    assert tested == []
    rows("SELECT * FROM system.connections WHERE name = 'made_up'", project)
    assert tested == ["made_up"]


def test_asked_admits_everything_by_default() -> None:
    assert Asked().admits("topic", "orders")
    assert Asked().reads("status")
    assert not Asked(columns=frozenset({"name"})).reads("status", "error")
