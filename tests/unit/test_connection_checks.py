"""`test_connection` without a network: the row of checks, files, Delta tables, addresses."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headrace.catalog import Catalog
from headrace.errors import DefinitionError, NoBrokersAvailable
from headrace.model import jdbc
from headrace.model.query import Query
from headrace.project import Project
from headrace.shell import connections, sockets, system
from headrace.shell.connections import Check, Failed, Report
from headrace.shell.known import Connection, Known
from headrace.spans import Span


def ran(*checks: Check, seconds: float = 5) -> list[tuple[str, str, str]]:
    steps = connections._steps(iter(checks), seconds)
    return [(step.check, str(step.result), step.detail) for step in steps]


Rows = list[tuple[str, str, str, str | None]]


def examined(connector: str, folder: Path, **options: str) -> Rows:
    return connections.examine(Connection("c", connector, options), folder).rows


# The row of checks


def test_what_depends_on_a_failure_is_not_tried() -> None:
    def fails() -> str:
        raise Failed("closed", "open it")

    found = ran(
        Check("one", lambda: "good"),
        Check("two", fails, vital=False),
        Check("three", fails),
        Check("four", fails),
    )
    assert [result for _, result, _ in found] == ["ok", "failed", "failed", "not tried"]


def test_an_error_of_ours_is_a_failure_with_its_cure() -> None:
    def fails() -> str:
        raise NoBrokersAvailable("localhost:1", "nobody")

    (step,) = connections._steps(iter([Check("brokers", fails)]), 5)
    assert step.cure == NoBrokersAvailable("localhost:1", "nobody").hint


def test_a_check_that_hangs_is_given_up() -> None:
    released = threading.Event()

    def hangs() -> str:
        released.wait(60)
        return "too late"

    found = ran(Check("first", hangs), Check("second", hangs), seconds=0.05)
    released.set()
    assert found[0][:2] == ("first", "failed")
    assert "no answer" in found[0][2]
    assert found[1][1] == "not tried"


def test_a_report_is_as_good_as_its_worst_check() -> None:
    good = connections.Step("one", connections.Outcome.OK, "fine")
    bad = connections.Step("two", connections.Outcome.FAILED, "not fine", "mend it")
    left = connections.Step("three", connections.Outcome.NOT_TRIED, "later")
    assert Report("c", (good, left)).ok
    report = Report("c", (good, bad, left))
    assert not report.ok
    assert report.failure is bad
    assert report.rows[1] == ("two", "failed", "not fine", "mend it")


# Names


@pytest.fixture
def project(tmp_path: Path) -> Project:
    catalog = Catalog.of(Project(tmp_path))
    catalog.put_secret("word", "hunter2", None)
    texts = {
        ("connection", "kafka_in"): "CREATE CONNECTION kafka_in TO kafka ( bootstrap_servers = "
        "'one:9092,[::1]:9093', topics = 'a, b', group_id = 'g', type = 'source', format = 'json', "
        "'auth.type' = 'sasl', 'auth.mechanism' = 'PLAIN', 'auth.protocol' = 'SASL_SSL', "
        "'auth.username' = 'me', 'auth.password' = '${secret:word}' )",
        ("table", "events"): "CREATE TABLE events ( id BIGINT ) WITH ( connector = 'kafka_in', "
        "topic_pattern = 'events-.*', include_metadata = true )",
        ("table", "direct"): "CREATE TABLE direct ( id BIGINT ) WITH ( connector = 'kafka', "
        "bootstrap_servers = 'two:9092', topic = 'c' )",
    }
    for (kind, name), text in texts.items():
        catalog.put(kind, name, text)
    return Project(tmp_path)


def test_a_table_has_its_own_options_over_those_of_its_connection(project: Project) -> None:
    known = Known.of(Catalog.of(project))
    table = known.connection("EVENTS")
    assert (table.connector, table.over, table.role) == ("kafka", "kafka_in", "source")
    assert table.servers == "one:9092,[::1]:9093"
    assert str(table.subscription) == "topics that match events-.*"
    assert table.options["include_metadata"] == "true"
    assert table.group == "g"
    assert list(known.kafka) == ["kafka_in", "direct"]
    assert known.connections["kafka_in"].subscription.topics == ("a", "b")


def test_a_login_is_that_of_the_client_and_is_in_no_text(project: Project) -> None:
    connection = Known.of(Catalog.of(project)).connection("kafka_in")
    assert connection.login == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": "hunter2",
    }
    assert "hunter2" not in repr(Known.of(Catalog.of(project)))
    checks = [check.name for check in connections.checks(connection, project.root)]
    assert checks[:5] == ["address", "port", "tls", "login", "brokers"]
    assert checks[5:] == ["topic", "permission", "group"]


def test_options_inside_of_an_option_have_names_with_dots(project: Project) -> None:
    catalog = Catalog.of(project)
    catalog.put(
        "connection",
        "avro",
        "CREATE CONNECTION avro TO kafka ( bootstrap_servers = 'one:9092', format = 'avro', "
        "schema_registry = ( endpoint = 'http://a:8081', api_secret = '${secret:word}' ) )",
    )
    catalog.put(
        "table",
        "orders",
        "CREATE TABLE orders WITH ( connector = 'avro', topic = 'orders', "
        "'schema_registry.api_key' = 'me' )",
    )
    orders = Known.of(catalog).connection("orders")
    registry = {name: each for name, each in orders.options.items() if "registry" in name}
    assert registry == {
        "schema_registry.endpoint": "http://a:8081",
        "schema_registry.api_key": "me",
        "schema_registry.api_secret": "hunter2",
    }
    assert orders.hide("no hunter2 of a mapping") == "no (hidden) of a mapping"


def test_a_name_that_is_not_there_is_told_with_the_nearest(project: Project) -> None:
    with pytest.raises(DefinitionError) as caught:
        connections.test_connection(project, "kafka_inn")
    assert caught.value.hint == "did you mean `kafka_in`?"


def test_addresses_are_read_as_kafka_writes_them() -> None:
    assert sockets.parse("one:9092, [::1]:9093") == [("one", 9092), ("::1", 9093)]
    assert sockets.written(("::1", 9093)) == "[::1]:9093"
    with pytest.raises(Failed, match=r"no address is known for nobody\.invalid"):
        sockets.resolve([("nobody.invalid", 9092)])


def test_a_value_that_is_a_secret_is_shown_nowhere(tmp_path: Path) -> None:
    catalog = Catalog.of(Project(tmp_path))
    catalog.put_secret("place", "hidden-place", None)
    text = "CREATE CONNECTION c TO files ( path = '${secret:place}', type = 'source' )"
    catalog.put("connection", "c", text)
    report = connections.test_connection(Project(tmp_path), "c")
    assert not report.ok
    assert "hidden-place" not in str(report)
    query, _ = Query.parse("SELECT * FROM system.connections", Span("sql", 1, 1))
    assert query is not None
    ((*shown,),) = system.select(query, Project(tmp_path)).rows
    assert "hidden-place" not in str(shown)
    assert shown[4] == "(hidden)"


# Files and Delta tables


def test_files_are_there_and_may_be_read(tmp_path: Path) -> None:
    assert examined("files", tmp_path, path="in", type="source")[0][:2] == ("path", "failed")
    (tmp_path / "in" / "day").mkdir(parents=True)
    (tmp_path / "in" / "day" / "a.json").write_text("{}")
    (tmp_path / "in" / "_hidden.json").write_text("{}")
    assert examined("files", tmp_path, path="in", type="source") == [
        ("path", "ok", str(tmp_path / "in"), None),
        ("read", "ok", "1 file may be read", None),
    ]
    assert (
        examined("files", tmp_path, path="in/*/a.json", type="source")[1][2] == "1 file may be read"
    )
    assert examined("log", tmp_path, path="in/day/a.json")[1][2] == "1 file may be read"


def test_a_sink_may_make_its_folder(tmp_path: Path) -> None:
    assert examined("files", tmp_path, path="out/new", type="sink") == [
        ("path", "ok", f"{tmp_path}/out/new is made by the first run", None),
        ("write", "ok", f"{tmp_path} may be written", None),
    ]


def test_a_delta_table_is_known_by_its_log(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.mkdir()
    (table / "file.parquet").touch()
    path, read = examined("delta", tmp_path, path="table", type="source")
    assert path[:3] == ("path", "failed", f"{table} is no Delta table")
    assert read[1] == "not tried"
    (table / "_delta_log").mkdir()
    for version in range(3):
        (table / "_delta_log" / f"{version:020}.json").touch()
    path, _ = examined("delta", tmp_path, path="table", type="source")
    assert path[2] == f"{table}: a Delta table, version 2"


def test_what_cannot_be_looked_at_from_here_is_told(tmp_path: Path) -> None:
    ((_, result, detail, _),) = examined("files", tmp_path, path="s3a://bucket/in")
    assert (result, detail) == (
        "ok",
        "s3a://bucket/in is not on this machine and was not looked at",
    )
    assert examined("impulse", tmp_path)[0][2] == "there is nothing to reach"
    assert examined("kafka", tmp_path)[0][:2] == ("address", "failed")
    assert examined("jdbc", tmp_path, url="jdbc:oracle:x")[0][1] == "failed"


# Databases


def test_the_url_of_a_database_is_taken_apart() -> None:
    place = jdbc.place("jdbc:postgresql://a,b:1,[::1]:2/my%20shop?sslmode=require&readOnly=true")
    assert place.hosts == (("a", 5432), ("b", 1), ("::1", 2))
    assert place.database == "my shop"
    assert place.parameters == {"sslmode": "require", "readOnly": "true"}
