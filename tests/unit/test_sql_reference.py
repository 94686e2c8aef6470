"""The statements that users know from another SQL engine for Kafka, and what they mean here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headrace.api import load
from headrace.frontend.load import survey
from headrace.frontend.sql import compile
from headrace.frontend.sql.definitions import Definitions
from headrace.frontend.sql.parser import parse
from headrace.frontend.sql.statements import Select
from headrace.model.pipeline import Pipeline, Source, SqlTransform
from headrace.plan.planner import plan
from headrace.sources import SOURCES
from headrace.sources.kafka import KafkaSource
from headrace.sources.reader import SourceContext
from headrace.spans import Diagnostic, Severity

SECRETS = """
CREATE SECRET kafka_password AS 'secret-of-the-broker';
CREATE SECRET key_password AS 'secret-of-the-key';
CREATE SECRET sr_secret AS 'secret-of-the-registry';
CREATE SECRET confluent_key AS 'key-of-the-registry';
CREATE SECRET confluent_secret AS 'secret-of-confluent';
"""


def written(folder: Path, sql: str) -> Path:
    path = folder / "p.sql"
    path.write_text(sql, encoding="utf-8")
    return path


def pipeline(folder: Path, sql: str, name: str | None = None) -> Pipeline:
    found = load(written(folder, sql), name)
    assert [fault for fault in found.check() if fault.severity is Severity.ERROR] == []
    return found.pipeline


def warnings(folder: Path, sql: str) -> list[Diagnostic]:
    found = load(written(folder, sql)).check()
    assert all(fault.severity is Severity.WARNING for fault in found), found
    return found


def source(folder: Path, sql: str, columns: str = "( id BIGINT )") -> Source:
    """The source of a table over the one connection of `sql`."""
    found = re.search(r"CREATE CONNECTION (\w+)", sql)
    assert found is not None
    table = f"CREATE TABLE a_table {columns} WITH ( connector = '{found[1]}' );"
    text = f"{SECRETS}{sql}\n{table}\nCREATE PIPELINE p AS SELECT * FROM a_table;"
    (only,) = pipeline(folder, text).sources
    return only


def options(found: Source) -> dict[str, Any]:
    """What is set, but for what every one of these has."""
    common = {"bootstrap_server", "topic", "schema", "format", "auto_offset_reset"}
    return {name: value for name, value in found.options.values.items() if name not in common}


KAFKA_SOURCE = """
CREATE CONNECTION kafka_source TO kafka (
    bootstrap_servers = 'broker1:9092,broker2:9092,broker3:9092',
    topic = 'events',
    group_id = 'headrace-consumer-group',
    type = 'source',
    format = 'json'
);
"""


def test_a_connection_names_brokers_topic_and_group(tmp_path: Path) -> None:
    found = source(tmp_path, KAFKA_SOURCE)
    assert found.connector == "kafka"
    assert found.options["bootstrap_server"] == "broker1:9092,broker2:9092,broker3:9092"
    assert found.options["topic"] == "events"
    assert found.options["consumer_group"] == "headrace-consumer-group"
    assert found.options["auto_offset_reset"] == "earliest"


def test_a_connection_without_a_login_needs_nothing_more(tmp_path: Path) -> None:
    sql = """
    CREATE CONNECTION kafka_public TO kafka (
        bootstrap_servers = 'localhost:9092',
        topic = 'public-events',
        type = 'source',
        format = 'json'
    );
    """
    assert warnings(tmp_path, sql) == []
    assert options(source(tmp_path, sql)) == {}


LOGINS = {
    "kafka_sasl": """
        'auth.type' = 'sasl',
        'auth.mechanism' = 'PLAIN',
        'auth.protocol' = 'SASL_SSL',
        'auth.username' = 'user',
        'auth.password' = '${secret:kafka_password}'
    """,
    "kafka_scram": """
        'auth.type' = 'sasl',
        'auth.mechanism' = 'SCRAM-SHA-256',
        'auth.protocol' = 'SASL_SSL',
        'auth.username' = 'user',
        'auth.password' = '${secret:kafka_password}'
    """,
    "kafka_msk": """
        'auth.type' = 'aws_msk_iam',
        'auth.region' = 'us-east-1'
    """,
    "kafka_ssl": """
        'security.protocol' = 'SSL',
        'ssl.ca.location' = '/certs/ca-cert.pem',
        'ssl.certificate.location' = '/certs/client-cert.pem',
        'ssl.key.location' = '/certs/client-key.pem',
        'ssl.key.password' = '${secret:key_password}'
    """,
}
REGISTRIES = {
    "kafka_avro": """
        format = 'avro',
        'schema_registry.endpoint' = 'http://schema-registry:8081',
        'schema_registry.api_key' = 'api_key',
        'schema_registry.api_secret' = '${secret:sr_secret}'
    """,
    "kafka_confluent": """
        format = 'confluent_avro',
        'schema_registry.endpoint' = 'http://confluent-sr:8081',
        'value_subject' = 'events-value',
        'schema_registry.api_key' = '${secret:confluent_key}',
        'schema_registry.api_secret' = '${secret:confluent_secret}'
    """,
}


@pytest.mark.parametrize("name", LOGINS)
def test_logins_are_understood_and_said_to_come(tmp_path: Path, name: str) -> None:
    sql = f"""{SECRETS}
    CREATE CONNECTION {name} TO kafka (
        bootstrap_servers = 'broker:9092',
        topic = 'events',
        type = 'source',
        format = 'json',{LOGINS[name]}
    );
    """
    (only,) = warnings(tmp_path, sql)
    assert only.code == "NOT_YET"
    wanted = re.findall(r"'([a-z_.]+)' =", LOGINS[name])
    assert re.findall(r"`([a-z_.]+)`", only.message) == wanted
    table = f"CREATE TABLE t WITH ( connector = '{name}' );\nCREATE PIPELINE p AS SELECT * FROM t;"
    refused = load(written(tmp_path, sql + table)).check()
    assert [(fault.code, fault.severity) for fault in refused] == [("NOT_YET", Severity.ERROR)]
    assert "secret-of" not in str(refused)


def with_registry(name: str) -> str:
    return f"""
    CREATE CONNECTION {name} TO kafka (
        bootstrap_servers = 'broker:9092',
        topic = 'events',
        type = 'source',{REGISTRIES[name]}
    );
    """


def test_avro_of_a_registry_has_the_columns_of_the_registry(tmp_path: Path) -> None:
    assert warnings(tmp_path, SECRETS + with_registry("kafka_avro")) == []
    found = source(tmp_path, with_registry("kafka_avro"), columns="")
    registry = found.options["schema_registry"]
    assert (found.options["format"], found.options["schema"]) == ("avro", None)
    assert (registry["type"], registry["endpoint"]) == ("confluent", "http://schema-registry:8081")
    assert (registry["api_key"], registry["api_secret"]) == ("api_key", "secret-of-the-registry")
    assert "secret-of" not in repr(found)


def test_avro_of_confluent_names_its_subject(tmp_path: Path) -> None:
    found = source(tmp_path, with_registry("kafka_confluent"), columns="")
    registry = found.options["schema_registry"]
    assert (found.options["format"], found.options["value_subject"]) == (
        "confluent_avro",
        "events-value",
    )
    assert registry["endpoint"] == "http://confluent-sr:8081"
    assert (registry["api_key"], registry["api_secret"]) == (
        "key-of-the-registry",
        "secret-of-confluent",
    )
    kafka = KafkaSource(found, SourceContext("p", tmp_path, None))
    assert kafka.wanted.subjects == ("events-value",)
    assert kafka.unbound


@pytest.mark.parametrize("name", REGISTRIES)
def test_columns_of_a_table_are_those_that_are_read_of_a_registrys_messages(
    tmp_path: Path, name: str
) -> None:
    found = source(tmp_path, with_registry(name), columns="( id BIGINT NOT NULL, name TEXT )")
    assert found.options["schema"] == "id BIGINT NOT NULL, name STRING"
    assert SOURCES["kafka"].columns(found.options) == ("id", "name")


def test_queries_of_columns_that_only_a_registry_knows_are_checked_as_far_as_can_be(
    tmp_path: Path,
) -> None:
    sql = f"""{SECRETS}{with_registry("kafka_avro")}
    CREATE TABLE events WITH ( connector = 'kafka_avro' );
    CREATE VIEW named AS SELECT id, upper(name) AS name FROM events WHERE price > 3;
    CREATE TABLE clean ( id BIGINT, name TEXT ) WITH (
        connector = 'kafka', bootstrap_servers = 'broker:9092', topic = 'clean',
        format = 'confluent_avro', 'schema_registry.endpoint' = 'http://registry:8081',
        key = 'id', key_format = 'confluent_avro', register_schema = false
    );
    """
    insert = "INSERT INTO clean SELECT {} FROM named;"
    found = pipeline(tmp_path, sql + insert.format("id, name"))
    (sink,) = found.sinks
    assert (sink.options["format"], sink.options["key_format"]) == ("confluent_avro",) * 2
    assert sink.options["register_schema"] is False
    (step,) = [each for each in found.transforms if each.name == "into_clean"]
    assert isinstance(step, SqlTransform)
    assert "CAST(`id` AS BIGINT)" in step.sql
    # What the view itself makes is known.
    wrong = load(written(tmp_path, sql + insert.format("id, price"))).check()
    errors = [fault.code for fault in wrong if fault.severity is Severity.ERROR]
    assert errors == ["UNKNOWN_COLUMN"]
    # All of the table goes anywhere.
    whole = sql + "CREATE PIPELINE p AS SELECT * FROM events;"
    assert [each.name for each in pipeline(tmp_path, whole, "p").sources] == ["events"]


def test_what_a_table_says_of_a_registry_is_over_what_its_connection_says(tmp_path: Path) -> None:
    connection = """
    CREATE CONNECTION c TO kafka (
        bootstrap_servers = 'broker:9092', topic = 'events', format = 'avro',
        schema_registry = ( endpoint = 'http://a:8081', api_key = 'one', api_secret = 'shared' )
    );
    """

    def registry(table: str) -> tuple[Any, ...]:
        sql = f"""{connection}
        CREATE TABLE t WITH ( connector = 'c', {table} );
        CREATE PIPELINE p AS SELECT * FROM t;
        """
        (found,) = pipeline(tmp_path, sql).sources
        own = found.options["schema_registry"]
        return own["endpoint"], own["api_key"], own["api_secret"]

    assert registry("value_subject = 's'") == ("http://a:8081", "one", "shared")
    assert registry("'schema_registry.api_key' = 'two'") == ("http://a:8081", "two", "shared")
    nested = "schema_registry = ( api_key = 'two', api_secret = 'own' )"
    assert registry(nested) == ("http://a:8081", "two", "own")
    # The login of one registry is not told to another.
    assert registry("'schema_registry.endpoint' = 'http://b:8081'") == (
        "http://b:8081",
        None,
        None,
    )


EVENTS = """
CREATE CONNECTION kafka_json TO kafka (
    bootstrap_servers = 'localhost:9092',
    topic = 'json-events',
    type = 'source',
    format = 'json',
    'json.unstructured' = 'false'
);

-- How it is used
CREATE TABLE events (
    id BIGINT,
    name TEXT,
    timestamp TIMESTAMP,
    metadata JSON
) WITH (
    connector = 'kafka_json'
);
"""


def test_json_with_columns_has_a_schema(tmp_path: Path) -> None:
    found = pipeline(tmp_path, EVENTS + "CREATE PIPELINE p AS SELECT * FROM events;")
    (events,) = found.sources
    schema = "id BIGINT, name STRING, timestamp TIMESTAMP, metadata VARIANT"
    assert (events.name, events.options["schema"]) == ("events", schema)
    assert events.options["json_unstructured"] is False
    assert events.columns == ()


def test_unstructured_json_is_one_column_of_any_shape(tmp_path: Path) -> None:
    sql = EVENTS.partition("-- How")[0].replace("'false'", "'true'")
    anything = source(tmp_path, sql, "")
    assert (anything.options["json_unstructured"], anything.options["schema"]) == (True, None)
    named = source(tmp_path, sql, "( document JSON )")
    assert named.options["schema"] == "document VARIANT"


RAW = """
CREATE CONNECTION kafka_raw TO kafka (
    bootstrap_servers = 'localhost:9092',
    topic = 'raw-data',
    type = 'source',
    format = 'raw'
);

-- Bytes as they are
CREATE TABLE raw_events (
    key BYTEA,
    value BYTEA,
    timestamp TIMESTAMP,
    partition INT,
    offset BIGINT
) WITH (
    connector = 'kafka_raw',
    include_metadata = 'true'
);
"""


def test_raw_records_have_the_five_columns_that_are_declared(tmp_path: Path) -> None:
    found = pipeline(tmp_path, RAW + "CREATE PIPELINE p AS SELECT * FROM raw_events;")
    (events,) = found.sources
    assert (events.options["format"], events.options["include_metadata"]) == ("raw", True)
    shown = [(column.name, column.sql) for column in events.columns]
    names = ("key", "value", "timestamp", "partition", "offset")
    assert shown == [(name, None) for name in names]


WITH_METADATA = (
    KAFKA_SOURCE
    + """
CREATE TABLE events_with_metadata (
    -- what the record says
    id BIGINT,
    message TEXT,

    -- what Kafka says of it
    _kafka_topic TEXT,
    _kafka_partition INT,
    _kafka_offset BIGINT,
    _kafka_timestamp TIMESTAMP,
    _kafka_key BYTEA,
    _kafka_headers JSON
) WITH (
    connector = 'kafka_source',
    include_metadata = 'true'
);
"""
)


def test_metadata_are_columns_beside_those_of_the_record(tmp_path: Path) -> None:
    found = pipeline(
        tmp_path, WITH_METADATA + "CREATE PIPELINE p AS SELECT * FROM events_with_metadata;"
    )
    (events,) = found.sources
    assert events.options["schema"] == "id BIGINT, message STRING"
    assert events.options["include_metadata"] is True
    assert events.options["metadata_headers"] == "json"
    kafka = ("topic", "partition", "offset", "timestamp", "key", "headers")
    names = ["id", "message", *(f"_kafka_{name}" for name in kafka)]
    assert [column.name for column in events.columns] == names


SELECTS = {
    "metadata": """
        SELECT
            id,
            message,
            _kafka_partition,
            _kafka_offset,
            _kafka_timestamp
        FROM events_with_metadata
        WHERE _kafka_partition = 0
    """,
    "lag": """
        SELECT
            _kafka_partition,
            MAX(_kafka_offset) as latest_offset,
            COUNT(*) as messages_processed,
            MAX(_kafka_timestamp) as latest_message_time
        FROM events_with_metadata
        GROUP BY _kafka_partition
    """,
    "rate": """
        WITH consumption_stats AS (
            SELECT
                DATE_TRUNC('minute', _kafka_timestamp) as minute,
                COUNT(*) as messages,
                AVG(EXTRACT(EPOCH FROM (NOW() - _kafka_timestamp))) as lag_seconds
            FROM events_with_metadata
            WHERE _kafka_timestamp > NOW() - INTERVAL '1 hour'
            GROUP BY DATE_TRUNC('minute', _kafka_timestamp)
        )
        SELECT * FROM consumption_stats
        ORDER BY minute DESC
    """,
}


def previewed(folder: Path, sql: str) -> Pipeline:
    """The one SELECT of a text, as the pipeline without a sink that it is looked at by."""
    from headrace.api import from_definitions
    from headrace.project import Project

    statements, faults = parse(sql, "p.sql")
    definitions, twice = Definitions.of(statements)
    assert [*faults, *twice] == []
    (only,) = definitions.previews
    return from_definitions(Project(folder), definitions, only).pipeline


@pytest.mark.parametrize("name", SELECTS)
def test_queries_over_metadata_are_previews_of_one_source(tmp_path: Path, name: str) -> None:
    sql = f"{WITH_METADATA}\n{SELECTS[name]};"
    assert warnings(tmp_path, sql) == []
    found = previewed(tmp_path, sql)
    assert [each.name for each in found.sources] == ["events_with_metadata"]
    assert found.sinks == ()
    (step,) = found.transforms
    assert isinstance(step, SqlTransform)
    assert step.inputs == ("events_with_metadata",)


def test_what_is_written_for_postgres_is_translated(tmp_path: Path) -> None:
    (step,) = previewed(tmp_path, f"{WITH_METADATA}\n{SELECTS['rate']};").transforms
    assert isinstance(step, SqlTransform)
    assert "EXTRACT(EPOCH" not in step.sql
    assert "DATE_TRUNC('minute', _kafka_timestamp) as minute" in step.sql


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT * FROM system.connections WHERE name = 'kafka_source'", ["connections"]),
        (
            "SELECT * FROM system.kafka_consumer_groups WHERE group_id = 'my-application-group'",
            ["kafka_consumer_groups"],
        ),
        (
            "SELECT * FROM system.kafka_brokers WHERE connection = 'kafka_source'",
            ["kafka_brokers"],
        ),
        ("SELECT test_connection('kafka_source')", []),
    ],
)
def test_queries_over_the_system_are_left_to_the_shell(
    tmp_path: Path, query: str, tables: list[str]
) -> None:
    sql = f"{KAFKA_SOURCE}\n{query};"
    assert warnings(tmp_path, sql) == []
    statements, _ = parse(sql, "p.sql")
    assert isinstance(statements[-1], Select)
    definitions, _ = Definitions.of(statements)
    compiler = compile.Compiler(definitions)
    found = compiler.queries.select(statements[-1].query)
    assert list(found.tables) == [f"system.{table}" for table in tables]
    assert list(compiler.selects) == []


def test_a_group_is_the_pipelines_own_unless_it_is_named(tmp_path: Path) -> None:
    auto = """
    CREATE CONNECTION kafka_auto_group TO kafka (
        bootstrap_servers = 'localhost:9092',
        topic = 'events',
        type = 'source',
        format = 'json'
        -- the group is named after the pipeline
    );
    """
    manual = """
    CREATE CONNECTION kafka_custom_group TO kafka (
        bootstrap_servers = 'localhost:9092',
        topic = 'events',
        type = 'source',
        format = 'json',
        group_id = 'my-application-group'
    );
    """
    assert options(source(tmp_path, auto)) == {}
    assert options(source(tmp_path, manual)) == {"consumer_group": "my-application-group"}


SHARED = """
CREATE CONNECTION kafka_shared TO kafka (
    bootstrap_servers = 'localhost:9092',
    topic = 'high-volume-events',
    type = 'source',
    format = 'json',
    group_id = 'shared-processing-group'
);
CREATE TABLE events ( id BIGINT, name TEXT ) WITH ( connector = 'kafka_shared' );
"""
PROCESSORS = """
CREATE PIPELINE processor_1 {sink} AS
SELECT * FROM events WHERE MOD(hash(id), 2) = 0;

CREATE PIPELINE processor_2 {sink} AS
SELECT * FROM events WHERE MOD(hash(id), 2) = 1;
"""


def test_pipelines_without_a_sink_are_previews(tmp_path: Path) -> None:
    found = survey(written(tmp_path, SHARED + PROCESSORS.format(sink="")))
    assert found.faults == ()
    assert [each.name for each in found.pipelines] == ["processor_1", "processor_2"]
    assert [each.sinks for each in found.pipelines] == [(), ()]
    assert [each.transforms[0].name for each in found.pipelines] == list(found.names)


def test_pipelines_of_one_group_id_share_its_partitions(tmp_path: Path) -> None:
    out = "CREATE TABLE out WITH ( connector = 'kafka', topic = 'processed' );"
    sql = SHARED + out + PROCESSORS.format(sink="WITH ( sink = 'out' )")
    path = written(tmp_path, sql)
    assert load(path).check() == []
    for name in ("processor_1", "processor_2"):
        found = load(path, name).pipeline
        (events,) = found.sources
        assert events.options["consumer_group"] == "shared-processing-group"
        assert events.options["share_partitions"] is True
        assert [(sink.name, sink.input) for sink in found.sinks] == [("out", name)]


@pytest.mark.parametrize(
    ("sql", "begins"),
    [
        ("offset = 'earliest'", {"auto_offset_reset": "earliest"}),
        ("offset = 'latest'", {"auto_offset_reset": "latest"}),
    ],
)
def test_where_a_first_run_begins(tmp_path: Path, sql: str, begins: dict[str, str]) -> None:
    connection = f"""
    CREATE CONNECTION kafka_from TO kafka (
        bootstrap_servers = 'localhost:9092',
        topic = 'events',
        type = 'source',
        format = 'json',
        {sql}
    );
    """
    found = source(tmp_path, connection)
    assert {name: found.options[name] for name in begins} == begins
    assert found.options["offset"] is None


def test_a_first_run_may_begin_at_a_time(tmp_path: Path) -> None:
    sql = """
    CREATE CONNECTION kafka_from_timestamp TO kafka (
        bootstrap_servers = 'localhost:9092',
        topic = 'events',
        type = 'source',
        format = 'json',
        offset = 'timestamp',
        timestamp = '2024-01-01T00:00:00Z'
    );
    """
    asked = source(tmp_path, sql).options["offset"]
    assert (asked["type"], asked["value"]) == ("timestamp", "2024-01-01T00:00:00Z")
    assert asked["partitions"] == ()


def test_how_commits_are_made_is_not_for_the_author_to_say(tmp_path: Path) -> None:
    sql = """
    CREATE CONNECTION kafka_commit TO kafka (
        bootstrap_servers = 'localhost:9092',
        topic = 'events',
        type = 'source',
        format = 'json',
        'enable.auto.commit' = 'false',
        'commit.interval.ms' = '5000',
        'auto.offset.reset' = 'earliest'
    );
    """
    found = warnings(tmp_path, sql)
    assert [fault.code for fault in found] == ["NO_EFFECT", "NO_EFFECT"]
    assert [fault.span.line for fault in found] == [7, 8]
    assert source(tmp_path, sql).options["auto_offset_reset"] == "earliest"


def test_properties_of_kafka_are_options_or_go_to_its_consumer(tmp_path: Path) -> None:
    sql = """
    CREATE CONNECTION kafka_advanced TO kafka (
        bootstrap_servers = 'localhost:9092',
        topic = 'events',
        type = 'source',
        format = 'json',

        -- how much at once
        'fetch.min.bytes' = '1024',
        'fetch.max.wait.ms' = '500',
        'max.partition.fetch.bytes' = '1048576',

        -- how long
        'session.timeout.ms' = '30000',
        'heartbeat.interval.ms' = '3000',
        'connections.max.idle.ms' = '540000',

        -- how often
        'max.poll.records' = '500',
        'max.poll.interval.ms' = '300000'
    );
    """
    found = source(tmp_path, sql)
    assert options(found) == {
        "properties": {
            "fetch.min.bytes": "1024",
            "fetch.max.wait.ms": "500",
            "max.partition.fetch.bytes": "1048576",
            "session.timeout.ms": "30000",
            "heartbeat.interval.ms": "3000",
            "connections.max.idle.ms": "540000",
            "max.poll.records": "500",
            "max.poll.interval.ms": "300000",
        }
    }


@pytest.mark.parametrize(
    ("sql", "option", "value"),
    [
        ("topic_pattern = 'events-.*',  -- a regular expression", "topic_pattern", "events-.*"),
        ("topics = 'events,orders,users',", "topics", ("events", "orders", "users")),
    ],
)
def test_several_topics(tmp_path: Path, sql: str, option: str, value: object) -> None:
    connection = f"""
    CREATE CONNECTION kafka_several TO kafka (
        bootstrap_servers = 'localhost:9092',
        {sql}
        type = 'source',
        format = 'json'
    );
    """
    assert options(source(tmp_path, connection)) == {option: value}


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (
            "bad_data = 'dlq',  -- keep them\n        dlq_topic = 'events-dlq'",
            {"bad_data": "dlq", "dlq_topic": "events-dlq"},
        ),
        (
            "bad_data = 'skip',  -- drop them\n        max_errors_per_batch = '10'",
            {"bad_data": "skip", "max_errors_per_batch": 10},
        ),
    ],
)
def test_bad_records(tmp_path: Path, sql: str, wanted: dict[str, object]) -> None:
    connection = f"""
    CREATE CONNECTION kafka_bad TO kafka (
        bootstrap_servers = 'localhost:9092',
        topic = 'events',
        type = 'source',
        format = 'json',
        {sql}
    );
    """
    assert options(source(tmp_path, connection)) == wanted


def test_how_much_is_read_at_once(tmp_path: Path) -> None:
    sql = """
    CREATE CONNECTION kafka_batches TO kafka (
        bootstrap_servers = 'localhost:9092',
        topic = 'events',
        type = 'source',
        format = 'json',
        batch_size = 1000,
        batch_timeout_ms = 1000
    );
    """
    assert options(source(tmp_path, sql)) == {"batch_size": 1000, "timeout_ms": 1000}


SCENARIOS = """
CREATE CONNECTION broker TO kafka ( bootstrap_servers = 'localhost:9092' );
CREATE TABLE numbers ( n BIGINT, at TIMESTAMP ) WITH ( connector = 'impulse', rate = 10 );
CREATE TABLE test_input ( n BIGINT, at TIMESTAMP ) WITH (
    connector = 'broker', topic = 'test-input', format = 'json'
);
CREATE TABLE test_output ( n BIGINT, doubled BIGINT ) WITH (
    connector = 'broker', topic = 'test-output', format = 'json', key = 'n'
);
CREATE PIPELINE source_test AS SELECT * FROM test_input;
CREATE PIPELINE sink_test AS INSERT INTO test_input SELECT n, at FROM numbers;
CREATE PIPELINE end_to_end AS INSERT INTO test_output SELECT n, n * 2 FROM test_input WHERE n > 10;
"""


def test_the_three_scenarios(tmp_path: Path) -> None:
    found = survey(written(tmp_path, SCENARIOS))
    assert found.faults == ()
    preview, filled, through = found.pipelines
    assert (preview.output, preview.transforms, preview.sinks) == ("test_input", (), ())
    assert [each.connector for each in filled.sources] == ["impulse"]
    assert [(sink.options["topic"], sink.input) for sink in filled.sinks] == [
        ("test-input", "into_test_input")
    ]
    assert [each.name for each in through.transforms] == ["end_to_end", "into_test_output"]
    assert [
        str(stage.sink.target) for query in plan(through).queries for stage in query.writes
    ] == ["Kafka topic test-output at localhost:9092"]
