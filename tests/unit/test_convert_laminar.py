"""Arroyo's and Laminar's SQL as pipelines."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.convert.conversion import Converted, convert
from headrace.convert.notations import Notation
from headrace.errors import DefinitionError
from headrace.frontend.load import examine
from headrace.model.pipeline import Guarantee, Pipeline, Watermark

RIDES = """
CREATE TABLE rides (
    at TIMESTAMP,
    driver BIGINT UNSIGNED NOT NULL,
    kind TEXT,
    place BIGINT METADATA FROM 'offset_id',
    part INT GENERATED ALWAYS AS (metadata('partition')) STORED,
    watermark TIMESTAMP GENERATED ALWAYS AS (at - INTERVAL '1 minute') STORED
) WITH (
    connector = 'kafka', type = 'source', topic = 'rides', format = 'json',
    bootstrap_servers = '${env:KAFKA:-localhost:9092}',
    'source.offset' = 'earliest',
    'source.group_id' = 'riders',
    'source.read_mode' = 'read_committed',
    client_configs = 'fetch.min.bytes=1024',
    'json.include_schema' = 'false'
);
"""
HOURS = """
CREATE TABLE hours ( hour TIMESTAMP, kind TEXT, rides BIGINT ) WITH (
    connector = 'kafka', type = 'sink', topic = 'hours', format = 'json',
    bootstrap_servers = 'localhost:9092',
    'sink.commit_mode' = 'exactly_once', 'sink.key_field' = 'kind'
);
INSERT INTO hours
SELECT window.start AS hour, kind, rides FROM (
    SELECT tumble(INTERVAL '1 hour') AS window, kind, count(*) AS rides
    FROM rides GROUP BY window, kind
) AS summed;
"""


def converted(folder: Path, text: str, to: Notation = Notation.AUTO) -> Converted:
    file = folder / "city.sql"
    file.write_text(text, encoding="utf-8")
    return convert([file], to=to)


def made(folder: Path, result: Converted) -> Pipeline:
    path = folder / f"made.{result.notation}"
    path.write_text(result.text, encoding="utf-8")
    pipeline, found = examine(path)
    assert pipeline is not None, (result.text, found)
    return pipeline


def said(result: Converted) -> list[str]:
    return [
        f"{each.span.line} {each.code} {each.message.split('`')[1]}" for each in result.findings
    ]


@pytest.mark.parametrize("notation", [Notation.YAML, Notation.SQL])
def test_a_stream_of_arroyo_means_the_same_here(tmp_path: Path, notation: Notation) -> None:
    result = converted(tmp_path, RIDES + HOURS, notation)
    assert said(result) == ["4 DIFFERS UNSIGNED"]
    assert "${env:KAFKA:-localhost:9092}" in result.text
    pipeline = made(tmp_path, result)
    (source,) = pipeline.sources
    assert source.options["auto_offset_reset"] == "earliest"
    assert source.options["consumer_group"] == "riders"
    assert source.options["bad_data"] == "fail"
    assert source.options["properties"] == {
        "isolation.level": "read_committed",
        "fetch.min.bytes": "1024",
    }
    assert [(each.name, each.sql) for each in source.columns][-2:] == [
        ("place", "CAST((_kafka_offset) AS BIGINT)"),
        ("part", "CAST((_kafka_partition) AS INT)"),
    ]
    assert source.watermark == Watermark("at", 60_000)
    assert pipeline.guarantee is Guarantee.EXACTLY_ONCE
    assert pipeline.sinks[0].options["key"] == "kind"


def test_what_arroyo_does_where_nothing_is_said_is_said(tmp_path: Path) -> None:
    text = """
    CREATE TABLE rides ( kind TEXT ) WITH (
        connector = 'kafka', type = 'source', topic = 'rides', format = 'json',
        bootstrap_servers = 'localhost:9092', 'source.group_id_prefix' = 'a-'
    );
    SELECT kind, count(*) AS rides FROM rides GROUP BY kind, tumble(INTERVAL '1 minute');
    """
    result = converted(tmp_path, text)
    assert said(result) == ["2 DIFFERS rides", "4 NOT_NEEDED source.group_id_prefix"]
    pipeline = made(tmp_path, result)
    (source,) = pipeline.sources
    assert source.options["auto_offset_reset"] == "latest"
    assert source.options["bad_data"] == "fail"
    # Its windows are of the times of records.
    assert source.watermark == Watermark("_kafka_timestamp", 1000)
    assert (pipeline.name, pipeline.sinks) == ("city", ())


def test_logins_are_lost_and_told_of_and_registries_stay(tmp_path: Path) -> None:
    text = """
    CREATE CONNECTION shop TO kafka (
        bootstrap_servers = 'localhost:9092', topic = 'orders', type = 'source',
        format = 'confluent_avro',
        'auth.type' = 'sasl', 'auth.password' = '${secret:pw}',
        'schema_registry.endpoint' = 'http://registry:8081', value_subject = 'orders-value'
    );
    CREATE TABLE orders ( id BIGINT ) WITH ( connector = 'shop', 'source.offset' = 'latest' );
    CREATE TABLE shown WITH ( connector = 'stdout', colour = 'red' );
    SET updating_ttl = '1 hour';
    INSERT INTO shown SELECT id FROM orders;
    """
    result = converted(tmp_path, text)
    assert said(result) == [
        "5 NOT_CONVERTED auth.type",
        "5 NOT_CONVERTED auth.password",
        "9 NOT_CONVERTED colour",
        "10 NOT_CONVERTED SET updating_ttl",
    ]
    pipeline = made(tmp_path, result)
    options = pipeline.sources[0].options
    assert options["auto_offset_reset"] == "latest"
    assert (options["format"], options["value_subject"]) == ("confluent_avro", "orders-value")
    assert options["schema_registry"]["endpoint"] == "http://registry:8081"
    assert pipeline.sinks[0].connector == "console"


REGISTRY = """
    'schema_registry.endpoint' = 'http://registry:8081',
    'schema_registry.api_key' = '${env:SR_KEY}', 'schema_registry.api_secret' = '${env:SR_SECRET}'
"""


@pytest.mark.parametrize("role", ["source", "sink"])
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            "format = 'avro', 'avro.confluent_schema_registry' = 'true', "
            f"'value.subject' = 'rides', {REGISTRY}",
            {"format": "confluent_avro", "value_subject": "rides"},
        ),
        (
            f"format = 'json', 'json.confluent_schema_registry' = 'true', {REGISTRY}",
            {"format": "json_schema"},
        ),
        (
            "format = 'protobuf', 'protobuf.confluent_schema_registry' = 'true', "
            f"'protobuf.message_name' = 'city.Ride', {REGISTRY}",
            {"format": "confluent_protobuf", "message": "city.Ride"},
        ),
        (f"format = 'avro', {REGISTRY}", {"format": "avro"}),
    ],
)
def test_formats_of_a_registry_are_the_same_here(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    role: str,
    written: str,
    expected: dict[str, str],
) -> None:
    monkeypatch.setenv("SR_KEY", "a-key-of-it")
    monkeypatch.setenv("SR_SECRET", "a-secret-of-it")
    other = "connector = 'stdout'" if role == "source" else "connector = 'impulse', event_rate = 1"
    rides = f"bootstrap_servers = 'localhost:9092', topic = 'rides', type = '{role}', {written}"
    tables = {role: f"connector = 'kafka', {rides}", "other": other}
    read, into = ("other", role) if role == "sink" else (role, "other")
    text = f"""
    CREATE TABLE {read} ( counter BIGINT ) WITH ( {tables[read]} );
    CREATE TABLE {into} ( counter BIGINT ) WITH ( {tables[into]} );
    INSERT INTO {into} SELECT counter FROM {read};
    """
    for notation in (Notation.YAML, Notation.SQL):
        result = converted(tmp_path, text, notation)
        assert "a-key-of-it" not in result.text
        assert "${env:SR_SECRET}" in result.text
        pipeline = made(tmp_path, result)
        (part,) = pipeline.sources if role == "source" else pipeline.sinks
        registry = part.options["schema_registry"]
        assert registry["endpoint"] == "http://registry:8081"
        assert (registry["api_key"], registry["api_secret"]) == ("a-key-of-it", "a-secret-of-it")
        assert {name: part.options[name] for name in expected} == expected
        assert "a-secret-of-it" not in repr(part)


def test_changes_and_schemas_that_are_not_in_the_file(tmp_path: Path) -> None:
    def of(options: str) -> Converted:
        text = f"""
        CREATE TABLE rides ( id BIGINT ) WITH (
            connector = 'kafka', type = 'source', topic = 'rides', {options},
            bootstrap_servers = 'localhost:9092', 'source.offset' = 'earliest'
        );
        SELECT id FROM rides;
        """
        return converted(tmp_path, text)

    for changes in ("format = 'debezium_json'", "format = 'json', 'json.debezium' = 'true'"):
        result = of(changes)
        assert said(result) == []
        assert made(tmp_path, result).sources[0].options["format"] == "debezium"
    gaps = {
        "format = 'avro'": "NOT_CONVERTED",
        "format = 'avro', 'avro.raw_datums' = 'true'": "TO_ADD",
        "format = 'protobuf', 'protobuf.message_name' = 'Ride'": "TO_ADD",
        "format = 'json', 'json.include_schema' = 'true'": "NOT_CONVERTED",
    }
    assert {each: of(each).gaps[0].code for each in gaps} == gaps


def test_other_connectors_and_tables_in_memory(tmp_path: Path) -> None:
    text = """
    CREATE TABLE ticks WITH ( connector = 'impulse', event_rate = '10', message_count = 100 );
    CREATE TABLE passing ( number BIGINT, part BIGINT );
    CREATE TABLE lake ( number BIGINT, part BIGINT ) WITH (
        connector = 'filesystem', type = 'sink', format = 'parquet',
        path = 's3://lake/ticks', partition_fields = 'part', rollover_seconds = 60
    );
    INSERT INTO passing SELECT counter, subtask_index FROM ticks;
    INSERT INTO lake SELECT number, part FROM passing WHERE number > 3;
    """
    result = converted(tmp_path, text)
    assert said(result) == ["6 NOT_CONVERTED rollover_seconds"]
    pipeline = made(tmp_path, result)
    (source,) = pipeline.sources
    assert (source.options["rate"], source.options["count"]) == (10, 100)
    assert source.options["fields"] == {"counter": "n", "subtask_index": "0"}
    assert pipeline.transforms[0].name == "passing"
    sink = pipeline.sinks[0].options
    assert (sink["path"], sink["partition_by"]) == ("s3a://lake/ticks", ("part",))


def test_laminars_statements_are_taken_as_they_are(tmp_path: Path) -> None:
    text = """
    CREATE CONNECTION shop TO kafka (
        bootstrap_servers = 'localhost:9092', topic = 'orders', type = 'source', format = 'json',
        bad_data = 'skip', max_errors_per_batch = '10', 'max.poll.records' = '500'
    );
    CREATE TABLE orders ( id BIGINT, note TEXT ) WITH ( connector = 'shop' );
    CREATE PIPELINE even AS SELECT * FROM orders WHERE MOD(hash(id), 2) = 0;
    CREATE PIPELINE odd AS SELECT * FROM orders WHERE MOD(hash(id), 2) = 1;
    """
    file = tmp_path / "shop.sql"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DefinitionError, match="2 pipelines"):
        convert([file])
    result = convert([file], pipeline="odd")
    assert result.gaps == ()
    pipeline = made(tmp_path, result)
    assert (pipeline.name, pipeline.sources[0].options["bad_data"]) == ("odd", "skip")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CREATE TABLE t WITH ( connector = 'kinesis' ); SELECT * FROM t;", "kinesis"),
        (RIDES + "SELECT nothing FROM rides WHERE;", "cannot be understood"),
        (RIDES, "no pipeline to convert"),
    ],
)
def test_what_cannot_be_understood_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        converted(tmp_path, text)
