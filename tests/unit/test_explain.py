"""A plan in words."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from tests.unit import golden
from tests.unit.definitions import SINK, SOURCE, planned, steps, write

from headrace.api import load
from headrace.cli.main import main
from headrace.plan.explain import words
from headrace.plan.stages import Plan, Stage

HERE = Path(__file__).parent
TEXT = (
    "pipeline: orders_clean\n"
    + SOURCE
    + "  batch_size: 500\n  max_errors_per_batch: 9\n  properties: {fetch.min.bytes: 10}\n"
    + "transform:\n"
    + "  - {name: paid, sql: SELECT id FROM source WHERE amount > 0}\n"
    + "  - {python: shop.clean, from: source}\n"
    + "sinks:\n"
    + "  topic: {connector_type: kafka, topic: out, from: paid}\n"
    + "  screen: {connector_type: console}\n"
)


def test_a_pipeline_is_explained_from_source_to_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, TEXT)
    with pytest.raises(SystemExit):
        main(["explain", "p.yaml"])
    told, _, spark = capsys.readouterr().out.partition("\nSpark\n")
    assert "spark.master = local[*]" in spark
    golden.check(HERE / "explained.txt", told)


def stages(plan: Plan) -> list[Stage]:
    return [stage for query in plan.queries for stage in query.stages]


def test_every_kind_of_stage_is_explained(tmp_path: Path) -> None:
    function = "  - python_rows: shop.score\n"
    row_wise = planned(tmp_path, SOURCE, steps("SELECT id FROM source"), function, SINK)
    timed = (
        SOURCE.replace("amount DOUBLE", "at TIMESTAMP")
        + "  columns: [id, at]\n  watermark: {column: at, delay: 1h}\n"
    )
    summed = planned(
        tmp_path, timed, steps("SELECT at, count(*) AS n FROM source GROUP BY at"), SINK
    )
    found = [*stages(row_wise), *stages(summed)]
    assert {type(stage) for stage in found} == set(get_args(Stage))
    for stage in found:
        assert words(stage)


def test_what_is_kept_and_when_it_is_written_is_explained(tmp_path: Path) -> None:
    text = SOURCE.replace("amount DOUBLE", "at TIMESTAMP") + (
        "  watermark: {column: at, delay: 90 minutes}\n"
        "transform:\n"
        "  - deduplicate: {by: [id]}\n"
        "  - sql: SELECT window(at, '1 day') AS day, name, count(*) AS n FROM input GROUP BY 1, 2\n"
    )
    story = load(write(tmp_path, text + SINK)).explain()
    main = story["queries"][0]
    does = {stage["stage"]: stage["does"] for stage in main["stages"]}
    assert does["Watermark"] == (
        "`source`: a row is late when its `at` is more than 1 h 30 m behind the newest of the "
        "batches before"
    )
    assert main["state"] == [
        "output mode append, by output_mode (default): each row is written once, when it is final",
        "kept: every `id` seen, until the watermark has passed its time by the delay",
        "kept: one row for each window(at, '1 day'), name, until the watermark has passed its end",
    ]


@pytest.mark.parametrize("stage", get_args(Stage))
def test_a_kind_of_stage_has_words_of_its_own(stage: type) -> None:
    assert words.dispatch(stage) is not words.dispatch(object)
    assert fields(stage)


def test_every_setting_has_an_origin(tmp_path: Path) -> None:
    story = load(write(tmp_path, TEXT)).explain()
    settings = [
        s for query in story["queries"] for stage in query["stages"] for s in stage["settings"]
    ]
    assert settings
    for setting in [*settings, *story["spark"]]:
        assert setting["origin"]


def test_an_option_that_is_set_is_shown_with_its_place(tmp_path: Path) -> None:
    story = load(write(tmp_path, TEXT)).explain()
    shown = {s["name"]: s for s in story["queries"][0]["stages"][0]["settings"]}
    assert shown["maxOffsetsPerTrigger"]["value"] == "500"
    assert shown["maxOffsetsPerTrigger"]["origin"].endswith("p.yaml:7:15)")
    assert shown["kafka.fetch.min.bytes"]["value"] == "10"
    assert shown["failOnDataLoss"]["origin"] == "on_data_loss (default)"


REGISTERED = """
pipeline: orders_clean
source:
  connector_type: kafka
  bootstrap_server: localhost:9092
  topic: orders
  format: confluent_avro
  key_format: avro
  schema_evolution: widen
  on_incompatible_schema: dlq
  schema_registry:
    endpoint: http://registry:8081
    api_key: the-reader
    api_secret: the-password
sinks:
  clean:
    connector_type: kafka
    topic: clean
    format: protobuf
    schema_registry: {endpoint: 'http://registry:8081', api_key: me, api_secret: the-password}
    key: id
    key_format: confluent_avro
  known:
    connector_type: kafka
    topic: known
    format: json_schema
    register_schema: false
    schema_registry: {type: glue, region: eu-central-1, registry_name: shop}
"""


def test_what_registries_are_asked_and_told_is_explained_without_their_secrets(
    tmp_path: Path,
) -> None:
    found = load(write(tmp_path, REGISTERED))
    assert found.check() == []
    story = found.explain()
    assert story["before"][-5:] == [
        "know the schemas of orders-value at http://registry:8081 (values of `source`)",
        "know the schemas of orders-key at http://registry:8081 (keys of `source`)",
        "register the schema of clean-value at http://registry:8081 if it is new "
        "(values of `clean`)",
        "register the schema of clean-key at http://registry:8081 if it is new (keys of `clean`)",
        "the newest schema of known at AWS Glue, registry shop must fit the values of `known`",
    ]
    stages = {each["stage"]: each["does"] for each in story["queries"][0]["stages"]}
    assert stages["Decode"] == (
        "confluent_avro by http://registry:8081 into the columns of orders-value, the key as avro "
        "into key; new fields become columns, and types may become wider, messages of any other "
        "are bad records"
    )
    words = " ".join(each["does"] for each in story["queries"][0]["stages"])
    assert "as protobuf with keys as confluent_avro, by Spark's writer" in words
    assert "as json_schema, by Spark's writer" in words
    assert "the-password" not in str(story)
    assert "the-reader" not in str(story)
