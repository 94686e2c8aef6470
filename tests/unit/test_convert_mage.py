"""Mage's data loaders and exporters as pipelines."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.convert.conversion import Converted, convert
from headrace.convert.notations import Origin
from headrace.errors import DefinitionError
from headrace.frontend.load import examine

LOADER = """\
connector_type: kafka
bootstrap_server: "localhost:9092"
topics: ['hives', 'queens']
topic: ignored
consumer_group: bees
batch_size: 100
timeout_ms: 500
offset:
  type: "timestamp"
  value: 1609459200000
  partitions:
    - {"topic": "hives", "partition": 0}
"""
EXPORTER = """\
connector_type: kafka
bootstrap_server: "localhost:9092"
topic: honey
api_version: "2.6.0"
batch_size: 16384
timeout_ms: 20
"""


def files(folder: Path, **texts: str) -> list[Path]:
    paths = []
    for name, text in texts.items():
        paths.append(folder / f"{name}.yaml")
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def said(result: Converted) -> list[str]:
    return [f"{each.span.line} {each.code} {each.message}" for each in result.findings]


def test_a_loader_and_an_exporter_are_a_pipeline(tmp_path: Path) -> None:
    loader, exporter = files(tmp_path, loader=LOADER, exporter=EXPORTER)
    # Which is which follows from what is in them.
    for order in ([loader, exporter], [exporter, loader]):
        result = convert(order, schema="bees INT")
        assert result.gaps == ()
        assert result.text.split("\n", 1)[1] == (
            """\
pipeline: loader
mode: stream

source:
  connector_type: kafka
  bootstrap_server: localhost:9092
  topics: [hives, queens]
  consumer_group: bees
  batch_size: 100
  timeout_ms: 500
  offset:
    type: timestamp
    value: 1609459200000
    partitions: [{topic: hives, partition: 0}]
  schema: bees INT

sink:
  connector_type: kafka
  bootstrap_server: localhost:9092
  topic: honey
  linger_ms: 20
  batch_bytes: 16384
"""
        )
    assert said(result) == ["4 NOT_NEEDED `api_version` is agreed on with the brokers"]
    (path,) = files(tmp_path, made=result.text)
    assert examine(path)[0] is not None


def test_what_has_no_equal_is_told_with_its_place(tmp_path: Path) -> None:
    extra = "security_protocol: SASL_SSL\nsasl_config:\n  username: me\nfoo: bar\n"
    extra += "foe: \"{{ variables('x') }}\"\n"
    serde = "serde_config:\n  serialization_method: XML\n  pretty: true\n"
    (loader,) = files(tmp_path, loader=LOADER + extra + serde)
    assert said(convert([loader])) == [
        "1 TO_ADD the columns of the JSON records are not in the file",
        "13 NOT_CONVERTED `security_protocol` is a login, which pipelines cannot have yet",
        "14 NOT_CONVERTED `sasl_config` is a login, which pipelines cannot have yet",
        "16 NOT_CONVERTED `foo` has no equal here",
        "17 NOT_CONVERTED `foe` has a template of Mage's in it, which stays as it is",
        "17 NOT_CONVERTED `foe` has no equal here",
        "18 NOT_CONVERTED `serde_config.serialization_method` is XML, which cannot be read here",
        "20 NOT_CONVERTED `serde_config.pretty` has no equal here",
    ]


def test_bytes_need_no_columns(tmp_path: Path) -> None:
    serde = "serde_config:\n  serialization_method: RAW_VALUE\n"
    (loader,) = files(tmp_path, loader=LOADER + serde)
    result = convert([loader])
    assert result.findings == ()
    assert "  format: raw\n" in result.text


AVRO = """\
serde_config:
  serialization_method: AVRO
  schema_registry_url: https://registry
  schema_registry_username: reader
  schema_registry_password: "{{ mage_secret_var('registry') }}"
"""
PROTOBUF = """\
serde_config:
  serialization_method: PROTOBUF
  schema_classpath: path.to.schema.SchemaClass
"""


@pytest.mark.parametrize(
    ("serde", "expected"),
    [
        (
            AVRO,
            "  format: confluent_avro\n"
            "  schema_registry:\n    endpoint: https://registry\n    api_key: reader\n"
            "    api_secret: ${secret:registry}\n",
        ),
        (PROTOBUF, "  format: protobuf\n  schema_classpath: path.to.schema.SchemaClass\n"),
    ],
)
def test_other_formats_have_columns_of_their_own(tmp_path: Path, serde: str, expected: str) -> None:
    text = LOADER.replace("topics: ['hives', 'queens']\n", "").replace("ignored", "hives")
    (loader,) = files(tmp_path, loader=text + serde)
    result = convert([loader])
    assert result.findings == ()
    assert result.text.endswith(expected)
    with_columns = convert([loader], schema="bees INT")
    assert with_columns.text.endswith(f"{expected}  schema: bees INT\n")


@pytest.mark.parametrize(
    ("exporter", "expected", "codes"),
    [
        (
            "connector_type: postgres\nhost: db\ndatabase: shop\nusername: me\n"
            "password: \"{{ env_var('PW') }}\"\nschema: public\ntable: honey\n"
            "unique_constraints: [id, day]\nunique_conflict_method: UPDATE\n",
            "  connector_type: jdbc\n  url: jdbc:postgresql://db:5432/shop\n  user: me\n"
            "  password: ${env:PW}\n  table: public.honey\n  mode: upsert\n  key: [id, day]\n",
            [],
        ),
        (
            "connector_type: postgres\nhost: db\ndatabase: shop\nusername: me\n"
            "password: \"{{ mage_secret_var('pw') }}\"\ntable: honey\nunique_constraints: [id]\n",
            "  connector_type: jdbc\n  url: jdbc:postgresql://db:5432/shop\n  user: me\n"
            "  password: ${secret:pw}\n  table: honey\n",
            ["NOT_CONVERTED"],
        ),
        (
            "connector_type: amazon_s3\nbucket: lake\nprefix: honey\nfile_type: csv\n"
            "buffer_size_mb: 5\n",
            "  connector_type: files\n  format: csv\n  path: s3a://lake/honey\n",
            ["DIFFERS", "NOT_CONVERTED"],
        ),
        ("connector_type: dummy\nprint_msg: true\n", "  connector_type: console\n", []),
    ],
)
def test_exporters_of_other_kinds(
    tmp_path: Path, exporter: str, expected: str, codes: list[str]
) -> None:
    paths = files(tmp_path, loader=LOADER, exporter=exporter)
    result = convert(paths, schema="id INT, day DATE")
    assert result.text.endswith(f"sink:\n{expected}")
    assert [each.code for each in result.findings] == codes


def test_an_exporter_alone_has_a_source_to_be_filled_in(tmp_path: Path) -> None:
    folder = tmp_path / "data_exporters"
    folder.mkdir()
    (exporter,) = files(folder, honey=EXPORTER)
    result = convert([exporter], schema="bees INT")
    assert [each.code for each in result.gaps] == ["TO_ADD"]
    assert "topic: the_topic  # not in the exporter's file\n" in result.text


def test_what_is_not_of_mage_is_refused(tmp_path: Path) -> None:
    (kinesis,) = files(tmp_path, kinesis="connector_type: kinesis\nstream_name: bees\n")
    with pytest.raises(DefinitionError, match=r"no source here like Mage's `kinesis`"):
        convert([kinesis], Origin.MAGE)
    with pytest.raises(DefinitionError, match="3 files are not one pipeline"):
        convert(files(tmp_path, a=LOADER, b=EXPORTER, c=EXPORTER))
