"""Kafka Connect's connectors as pipelines, and what is said about each key that is none of ours."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headrace.convert.conversion import Converted, convert
from headrace.convert.notations import Notation
from headrace.errors import DefinitionError
from headrace.frontend.load import examine
from headrace.model.pipeline import Pipeline, SqlTransform

COLUMNS = "id BIGINT NOT NULL, name STRING, card STRING, at TIMESTAMP"
SMT = "org.apache.kafka.connect.transforms."
JSON = "org.apache.kafka.connect.json.JsonConverter"
PLAIN_JSON = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
DATABASE = {"connection.url": "jdbc:postgresql://db:5432/shop", "connection.user": "shop"}
JDBC_SINK = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
    "topics": "orders",
    **DATABASE,
    **PLAIN_JSON,
}
JDBC_SOURCE = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
    **DATABASE,
    "mode": "incrementing",
    "incrementing.column.name": "id",
    "table.whitelist": "orders",
    "topic.prefix": "pg.",
    **PLAIN_JSON,
}
S3 = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "orders",
    "s3.bucket.name": "lake",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
    "partition.field.name": "name",
    **PLAIN_JSON,
}


def transforms(**each: dict[str, str]) -> dict[str, str]:
    keys = {"transforms": ", ".join(each)}
    for name, own in each.items():
        keys |= {f"transforms.{name}.{key}": value for key, value in own.items()}
    return keys


def converted(folder: Path, config: dict[str, Any], schema: str | None = COLUMNS) -> Converted:
    file = folder / "orders.json"
    file.write_text(json.dumps({"name": "orders", "config": config}, indent=2), encoding="utf-8")
    return convert([file], schema=schema)


def made(folder: Path, config: dict[str, Any], schema: str | None = COLUMNS) -> Pipeline:
    text = converted(folder, config, schema).text
    path = folder / "orders.yaml"
    path.write_text(text, encoding="utf-8")
    pipeline, found = examine(path)
    assert pipeline is not None, (text, found)
    return pipeline


def said(result: Converted) -> list[str]:
    """`CODE first-word` of all findings."""
    return [
        f"{each.code} {each.message.split('`')[1]}"
        for each in result.findings
        if "`" in each.message
    ]


def sql(pipeline: Pipeline) -> list[str]:
    return [step.sql for step in pipeline.transforms if isinstance(step, SqlTransform)]


def test_a_sink_of_a_database_reads_like_a_file_of_ours(tmp_path: Path) -> None:
    config = {
        **JDBC_SINK,
        "connection.password": "${file:/opt/secrets.properties:db.password}",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
        "batch.size": 500,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "orders.dead",
        "consumer.override.fetch.min.bytes": "1024",
        "tasks.max": "2",
    }
    result = converted(tmp_path, config)
    assert result.text == (
        "# From orders.json, of Kafka Connect: io.confluent.connect.jdbc.JdbcSinkConnector.\n"
        "# TO_ADD: `connection.password` comes from a config provider, and here from a variable\n"
        """\
pipeline: orders
mode: stream

source:
  connector_type: kafka
  bootstrap_server: ${env:HEADRACE_BOOTSTRAP_SERVER:-localhost:9092}  # the worker's
  topic: orders
  consumer_group: connect-orders
  auto_offset_reset: earliest
  schema: id BIGINT NOT NULL, name STRING, card STRING, at TIMESTAMP
  bad_data: dlq
  dlq_topic: orders.dead
  properties: {fetch.min.bytes: 1024}
  tombstones: bad

sink:
  connector_type: jdbc
  url: jdbc:postgresql://db:5432/shop
  user: shop
  password: ${env:DB_PASSWORD}
  table: orders
  mode: upsert
  key: [id]
  create_table: true
  batch_rows: 500
"""
    )
    assert said(result) == ["TO_ADD connection.password", "NOT_NEEDED tasks.max"]
    assert [each.span.line for each in result.findings] == [10, 19]
    assert len(result.gaps) == 1


def test_every_key_that_is_not_understood_is_told_of(tmp_path: Path) -> None:
    config = {
        **JDBC_SINK,
        "auto.evolve": "true",
        "db.timezone": "Europe/Berlin",
        "value.converter": "com.example.OddConverter",
        "value.converter.schema.registry.url": "http://registry:8081",
        "consumer.override.sasl.jaas.config": "secret",
        **transforms(odd={"type": "com.example.Odd$Value", "level": "9"}),
    }
    assert set(said(converted(tmp_path, config))) == {
        "NOT_CONVERTED auto.evolve",
        "NOT_CONVERTED db.timezone",
        "NOT_CONVERTED value.converter",
        "NOT_CONVERTED value.converter.schema.registry.url",
        "NOT_CONVERTED consumer.override.sasl.jaas.config",
        "NOT_CONVERTED transforms.odd",
    }


def test_columns_that_nobody_names_are_to_be_added(tmp_path: Path) -> None:
    result = converted(tmp_path, JDBC_SINK, schema=None)
    assert [each.code for each in result.gaps] == ["TO_ADD"]
    assert "--schema" in (result.gaps[0].hint or "")
    assert "schema:" not in result.text


def test_json_with_its_schema_inside_is_taken_apart(tmp_path: Path) -> None:
    config = {**JDBC_SINK, "value.converter.schemas.enable": "true"}
    pipeline = made(tmp_path, config)
    assert "payload STRUCT<id: BIGINT" in pipeline.sources[0].options["schema"]
    assert sql(pipeline) == ["SELECT * EXCEPT (payload), payload.* FROM input"]


AVRO = "io.confluent.connect.avro.AvroConverter"
GLUE = "com.amazonaws.services.schemaregistry.kafkaconnect."


@pytest.mark.parametrize(
    ("converter", "extra", "form", "registry"),
    [
        (
            AVRO,
            {
                "schema.registry.url": "http://registry:8081",
                "basic.auth.credentials.source": "USER_INFO",
                "basic.auth.user.info": "reader:${file:/opt/secrets.properties:sr.password}",
            },
            "confluent_avro",
            {
                "endpoint": "http://registry:8081",
                "api_key": "reader",
                "api_secret": "${env:SR_PASSWORD}",
            },
        ),
        (
            "io.confluent.connect.protobuf.ProtobufConverter",
            {
                "schema.registry.url": "http://a:8081,http://b:8081",
                "basic.auth.user.info": "${env:SR_USER}:${env:SR_PASSWORD}",
            },
            "confluent_protobuf",
            {
                "endpoint": "http://a:8081,http://b:8081",
                "api_key": "${env:SR_USER}",
                "api_secret": "${env:SR_PASSWORD}",
            },
        ),
        (
            "io.confluent.connect.json.JsonSchemaConverter",
            {"schema.registry.url": "${env:REGISTRY}"},
            "json_schema",
            {"endpoint": "${env:REGISTRY}"},
        ),
        (
            f"{GLUE}AWSKafkaAvroConverter",
            {"region": "eu-central-1", "registry.name": "shop", "avroRecordType": "GENERIC_RECORD"},
            "avro",
            {"type": "glue", "region": "eu-central-1", "registry_name": "shop"},
        ),
        (
            f"{GLUE}protobuf.ProtobufSchemaConverter",
            {"region": "eu-central-1"},
            "protobuf",
            {"type": "glue", "region": "eu-central-1"},
        ),
    ],
)
def test_a_converter_with_a_registry_is_a_format(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    converter: str,
    extra: dict[str, str],
    form: str,
    registry: dict[str, str],
) -> None:
    values = {"SR_USER": "the-user", "SR_PASSWORD": "the-password", "REGISTRY": "http://r:8081"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    config = {**JDBC_SINK, "value.converter": converter}
    del config["value.converter.schemas.enable"]
    config |= {f"value.converter.{key}": value for key, value in extra.items()}
    # The columns are those of the registry.
    result = converted(tmp_path, config, schema=None)
    assert {each.code for each in result.findings} <= {"NOT_NEEDED", "TO_ADD"}
    assert all(each in result.text for each in registry.values())
    assert "the-password" not in result.text
    (source,) = made(tmp_path, config, schema=None).sources
    filled = {
        key: re.sub(r"\$\{env:(\w+)\}", lambda each: values[each[1]], value)
        for key, value in registry.items()
    }
    assert (source.options["format"], source.options["schema_registry"].values) == (form, filled)
    # Columns that are known are the schema.
    declared = made(tmp_path, config).sources[0].options
    assert (declared["format"], declared["schema"]) == (form, COLUMNS)


def test_a_registry_that_the_worker_names_and_a_login_in_one_are_to_be_added(
    tmp_path: Path,
) -> None:
    config = {**JDBC_SINK, "value.converter": AVRO}
    result = converted(tmp_path, config)
    assert '{endpoint: "${env:HEADRACE_REGISTRY:-http://localhost:8081}"}' in result.text
    (gap,) = result.gaps
    assert (gap.code, gap.hint) == ("TO_ADD", "set the variable HEADRACE_REGISTRY")
    config |= {
        "value.converter.schema.registry.url": "http://registry:8081",
        "value.converter.basic.auth.user.info": "${file:/opt/secrets.properties:login}",
        "value.converter.value.subject.name.strategy": "io.confluent.RecordNameStrategy",
    }
    assert [(each.code, each.message.split("`")[1]) for each in converted(tmp_path, config).gaps][
        -2:
    ] == [
        ("TO_ADD", "value.converter.basic.auth.user.info"),
        ("NOT_CONVERTED", "value.converter.value.subject.name.strategy"),
    ]


def test_rows_of_a_database_are_written_by_the_schema_of_a_registry(tmp_path: Path) -> None:
    registry = {"schema.registry.url": "http://registry:8081", "auto.register.schemas": "false"}
    config = {
        **JDBC_SOURCE,
        **{f"{part}.converter": AVRO for part in ("key", "value")},
        **{f"{p}.converter.{k}": v for p in ("key", "value") for k, v in registry.items()},
        **transforms(key={"type": f"{SMT}ValueToKey", "fields": "id,name"}),
    }
    result = converted(tmp_path, config)
    (sink,) = made(tmp_path, config).sinks
    assert result.gaps == ()
    assert (sink.options["format"], sink.options["register_schema"]) == ("confluent_avro", False)
    assert (sink.options["key_format"], sink.options["key"]) == (
        "confluent_avro",
        "struct(id, name)",
    )
    assert sink.options["schema_registry"]["endpoint"] == "http://registry:8081"
    # With text, the key is JSON.
    plain = {key: each for key, each in config.items() if not key.startswith("key.converter")}
    assert made(tmp_path, plain).sinks[0].options["key"] == "to_json(struct(id, name))"
    # A sink here has one registry.
    config["key.converter.schema.registry.url"] = "http://elsewhere:8081"
    assert [each.message.split("`")[1] for each in converted(tmp_path, config).gaps] == [
        "key.converter.schema.registry.url"
    ]


@pytest.mark.parametrize("converter", [JSON, AVRO])
def test_changes_of_debezium_are_taken_apart_by_the_format(tmp_path: Path, converter: str) -> None:
    config = {**JDBC_SINK, "value.converter": converter, "delete.enabled": "true"}
    config |= {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
    if converter == AVRO:
        config["value.converter.schema.registry.url"] = "http://registry:8081"
    unwrap = {"type": "io.debezium.transforms.ExtractNewRecordState"}
    result = converted(tmp_path, {**config, **transforms(unwrap=unwrap)})
    assert result.gaps == ()
    pipeline = made(tmp_path, {**config, **transforms(unwrap=unwrap)})
    (source,) = pipeline.sources
    assert (source.options["format"], source.options["tombstones"]) == ("debezium", "keep")
    assert sql(pipeline) == []
    rewrite = {**unwrap, "delete.handling.mode": "rewrite", "add.fields": "op"}
    changed = made(tmp_path, {**config, **transforms(unwrap=rewrite)})
    said_of_changes = changed.sources[0].options["debezium"]
    assert (said_of_changes["deletes"], said_of_changes["change_columns"]) == ("rows", True)


def test_several_topics_go_into_a_table_each(tmp_path: Path) -> None:
    config = {**JDBC_SINK, "topics": "orders,returns.eu", "table.name.format": "kafka_${topic}"}
    config |= {"pk.mode": "none", "fields.whitelist": "id,name"}
    config |= transforms(
        route={"type": f"{SMT}RegexRouter", "regex": r"returns\.(.*)", "replacement": "back_$1"}
    )
    pipeline = made(tmp_path, config)
    assert [(each.name, each.options["topic"]) for each in pipeline.sources] == [
        ("orders", "orders"),
        ("returns_eu", "returns.eu"),
    ]
    assert sql(pipeline) == ["SELECT id, name FROM orders", "SELECT id, name FROM returns_eu"]
    assert [(each.input, each.options["table"]) for each in pipeline.sinks] == [
        ("orders_columns", "kafka_orders"),
        ("returns_eu_columns", "kafka_back_eu"),
    ]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (
            {"type": "ReplaceField$Value", "exclude": "card", "renames": "name:who"},
            "SELECT * EXCEPT (card, name), name AS who FROM input",
        ),
        ({"type": "ReplaceField$Value", "include": "id,at"}, "SELECT id, at FROM input"),
        (
            {"type": "InsertField$Value", "static.field": "o", "static.value": "it's"},
            "SELECT *, 'it\\'s' AS o FROM input",
        ),
        (
            {"type": "MaskField$Value", "fields": "card", "replacement": "x"},
            "SELECT * EXCEPT (card), 'x' AS card FROM input",
        ),
        (
            {"type": "Cast$Value", "spec": "id:string,at:int8"},
            "SELECT * EXCEPT (id, at), CAST(id AS STRING) AS id, CAST(at AS TINYINT) AS at "
            "FROM input",
        ),
        (
            {
                "type": "TimestampConverter$Value",
                "field": "at",
                "target.type": "string",
                "format": "yyyy-MM",
            },
            "SELECT * EXCEPT (at), date_format(at, 'yyyy-MM') AS at FROM input",
        ),
        ({"type": "HoistField$Value", "field": "all"}, "SELECT struct(*) AS all FROM input"),
    ],
    ids=lambda each: each["type"] if isinstance(each, dict) else "",
)
def test_a_simple_transform_is_a_select(tmp_path: Path, own: dict[str, str], expected: str) -> None:
    own = {**own, "type": SMT + own["type"]}
    pipeline = made(tmp_path, {**JDBC_SINK, **transforms(one=own)})
    assert sql(pipeline) == [expected]
    assert pipeline.transforms[0].name == "one"


@pytest.mark.parametrize(
    "own",
    [
        {"type": "MaskField$Value", "fields": "card"},
        {"type": "Flatten$Value"},
        {"type": "TimestampConverter$Value", "field": "at", "target.type": "unix"},
        {"type": "ReplaceField$Value", "exclude": "card", "predicate": "some"},
        {"type": "ValueToKey", "fields": "id"},
        {"type": "ExtractField$Key", "field": "id"},
        {"type": "RegexRouter", "regex": "(", "replacement": "x"},
        {"type": "RegexRouter", "regex": "(.*)", "replacement": "$2"},
    ],
    ids=lambda each: each["type"],
)
def test_a_transform_that_depends_on_more_is_lost(tmp_path: Path, own: dict[str, str]) -> None:
    own = {**own, "type": SMT + own["type"]}
    result = converted(tmp_path, {**JDBC_SINK, **transforms(one=own)})
    assert said(result) == ["NOT_CONVERTED transforms.one"]
    assert "transform:" not in result.text


def test_what_kafka_knows_of_a_record_is_used_and_left_out_again(tmp_path: Path) -> None:
    config = {
        **JDBC_SINK,
        **transforms(
            gone={"type": f"{SMT}Filter", "predicate": "dead"},
            other={"type": f"{SMT}Filter", "predicate": "eu", "negate": "true"},
            place={"type": f"{SMT}InsertField$Value", "topic.field": "topic"},
        ),
        "predicates": "dead,eu",
        "predicates.dead.type": f"{SMT}predicates.RecordIsTombstone",
        "predicates.eu.type": f"{SMT}predicates.TopicNameMatches",
        "predicates.eu.pattern": "eu-.*",
    }
    pipeline = made(tmp_path, {**config, "delete.enabled": "true"})
    steps = sql(pipeline)
    assert steps[0] == "SELECT * FROM input WHERE _kafka_topic RLIKE '^(eu-.*)$'"
    assert steps[1] == "SELECT *, _kafka_topic AS topic FROM input"
    assert steps[2].startswith("SELECT * EXCEPT (data, metadata, _kafka_topic,")
    assert pipeline.sources[0].options["include_metadata"]


def test_tables_of_a_database_go_to_a_topic_each(tmp_path: Path) -> None:
    config = {
        **JDBC_SOURCE,
        "table.whitelist": "orders,public.users",
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "updated_at",
        "timestamp.delay.interval.ms": "2000",
        "poll.interval.ms": "60000",
        "producer.override.linger.ms": "20",
        "topic.creation.default.partitions": "6",
        **transforms(
            key={"type": f"{SMT}ValueToKey", "fields": "id"},
            id={"type": f"{SMT}ExtractField$Key", "field": "id"},
            who={"type": f"{SMT}InsertHeader", "header": "who", "value.literal": "pg"},
            less={"type": f"{SMT}ReplaceField$Value", "blacklist": "card"},
        ),
    }
    pipeline = made(tmp_path, config)
    assert pipeline.options["trigger"] == 60_000
    assert [dict(each.options.values) for each in pipeline.sources] == [
        {
            "url": "jdbc:postgresql://db:5432/shop",
            "user": "shop",
            "table": table,
            "column": "updated_at",
            "delay": 2000,
        }
        for table in ("orders", "public.users")
    ]
    assert sql(pipeline) == [
        "SELECT * EXCEPT (card) FROM orders",
        "SELECT * EXCEPT (card) FROM public_users",
    ]
    for sink, topic in zip(pipeline.sinks, ("pg.orders", "pg.users"), strict=True):
        assert sink.options["topic"] == topic
        assert sink.options["key"] == "id"
        assert sink.options["headers"] == {"who": "'pg'"}
        assert sink.options["linger_ms"] == 20
        assert sink.options["create_topic"]["partitions"] == 6


def test_everything_again_each_time_is_not_what_a_pipeline_does(tmp_path: Path) -> None:
    config = {**JDBC_SOURCE, "mode": "bulk", "query": "SELECT * FROM orders"}
    result = converted(tmp_path, config)
    assert "NOT_CONVERTED mode" in said(result)
    assert "query: SELECT * FROM orders\n" in result.text
    assert "topic: pg.\n" in result.text


@pytest.mark.parametrize(
    ("own", "columns", "step"),
    [
        ({}, ("name",), None),
        (
            {"partitioner.class": "x.TimeBasedPartitioner", "path.format": "'y'=YYYY/'m'=MM",
             "timestamp.extractor": "RecordField", "timestamp.field": "at"},
            ("y", "m"),
            "SELECT *, date_format(at, 'yyyy') AS y, date_format(at, 'MM') AS m FROM input",
        ),
    ],
)  # fmt: skip
def test_a_bucket_is_a_folder_of_files(
    tmp_path: Path, own: dict[str, str], columns: tuple[str, ...], step: str | None
) -> None:
    config = {**S3, **own, "rotate.interval.ms": "60000", "behavior.on.null.values": "ignore"}
    pipeline = made(tmp_path, config)
    (sink,) = pipeline.sinks
    assert dict(sink.options.values) == {
        "format": "json",
        "path": "s3a://lake/topics/orders",
        "partition_by": columns,
    }
    assert sql(pipeline) == ([step] if step else [])
    assert pipeline.sources[0].options["tombstones"] == "skip"
    assert pipeline.options["trigger"] == 60_000


def test_a_bucket_has_a_folder_for_each_partition_where_nothing_is_said(tmp_path: Path) -> None:
    config = {key: each for key, each in S3.items() if not key.startswith("partition")}
    pipeline = made(tmp_path, config)
    assert pipeline.sinks[0].options["partition_by"] == ("partition",)
    assert "_kafka_partition AS partition" in sql(pipeline)[0]


def test_lines_of_a_file_are_records_and_the_other_way_round(tmp_path: Path) -> None:
    lines = {"connector.class": "FileStreamSource", "file": "/var/log/app.log", "topic": "logs"}
    pipeline = made(tmp_path, lines)
    assert (pipeline.sources[0].connector, pipeline.sinks[0].options["value"]) == ("log", "value")
    text = "org.apache.kafka.connect.storage.StringConverter"
    back = {"connector.class": "FileStreamSink", "topics": "logs", "value.converter": text}
    result = converted(tmp_path, {**back, "file": "out"})
    assert said(result) == ["DIFFERS file"]
    assert result.gaps == ()
    assert "SELECT CAST(value AS STRING) AS value FROM input" in result.text


def test_a_mirror_copies_records_as_they_are(tmp_path: Path) -> None:
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "east",
        "target.cluster.alias": "west",
        "source.cluster.bootstrap.servers": "east:9092",
        "target.cluster.bootstrap.servers": "west:9092",
        "topics": "orders,clicks.*",
        "replication.factor": "3",
        "sync.topic.configs.enabled": "true",
        "refresh.topics.interval.seconds": "60",
    }
    result = converted(tmp_path, config)
    assert said(result) == [
        "DIFFERS topics",
        "NOT_CONVERTED sync.topic.configs.enabled",
        "NOT_NEEDED refresh.topics.interval.seconds",
    ]
    pipeline = made(tmp_path, config)
    assert pipeline.sources[0].options["topic_pattern"] == "orders|clicks.*"
    sink = pipeline.sinks[0].options
    assert (sink["topic"], sink["allowed_topics"]) == ("east.${topic}", ("east.*",))
    assert (sink["key"], sink["value"], sink["headers_from"]) == ("key", "value", "headers")


def test_a_connector_can_become_sql_at_once(tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    file.write_text(json.dumps(JDBC_SINK), encoding="utf-8")
    result = convert([file], to=Notation.SQL, schema=COLUMNS)
    (tmp_path / "orders.sql").write_text(result.text, encoding="utf-8")
    pipeline, found = examine(tmp_path / "orders.sql")
    assert pipeline is not None, found
    assert pipeline.sinks[0].options["table"] == "orders"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"name": "x", "config": {"tasks.max": "1"}}', "no configuration of a connector"),
        ('{"connector.class": "io.debezium.PostgresConnector"}', "nothing here is equal"),
        ('{"connector.class": }', "orders.json:1:21: this is not JSON"),
    ],
)
def test_what_is_no_connector_of_ours_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "orders.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DefinitionError, match=words):
        convert([file])
