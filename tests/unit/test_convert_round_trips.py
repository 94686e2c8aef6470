"""A definition in one notation, in the other, and back: always the same pipeline."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, example, given, settings
from hypothesis import strategies as st
from tests.unit.convert_definitions import LETTERS, definitions

from headrace.catalog import Catalog
from headrace.convert import ours, to_sql, to_yaml, wiring
from headrace.convert.conversion import convert
from headrace.convert.draft import Draft, Part
from headrace.convert.meaning import columns, core
from headrace.convert.notations import Notation
from headrace.frontend import yaml
from headrace.frontend.load import examine
from headrace.frontend.sql import parser
from headrace.frontend.sql.statements import CreateTable
from headrace.model.pipeline import Pipeline, SqlTransform
from headrace.project import Project
from headrace.spans import Node
from headrace.spec import Options

ROOT = Path(__file__).parent.parent.parent
ADDRESSES = {
    "HEADRACE_BOOTSTRAP_SERVER": "localhost:9092",
    "CASE_DATABASE": "jdbc:postgresql://db/shop",
}
FILES = [*ROOT.glob("examples/*.yaml"), *ROOT.glob("tests/cases/accepted/*/pipeline.yaml")]


def load(path: Path, text: str) -> Pipeline:
    path.write_text(text, encoding="utf-8")
    pipeline, found = examine(path)
    assert pipeline is not None, "\n".join([text, *(str(fault) for fault in found)])
    return pipeline


def same(pipeline: Pipeline) -> Pipeline:
    """Without what may be written in two ways: `input`, line breaks of a schema, a semicolon."""
    steps = pipeline.transforms
    return replace(
        pipeline,
        options=_options(pipeline.options),
        sources=tuple(replace(each, options=_options(each.options)) for each in pipeline.sources),
        transforms=tuple(_step(each) if isinstance(each, SqlTransform) else each for each in steps),
        sinks=tuple(replace(each, options=_options(each.options)) for each in pipeline.sinks),
    )


def _step(step: SqlTransform) -> SqlTransform:
    sql = wiring.without_input(step.sql, step.previous) if step.previous else step.sql
    return replace(step, sql=core(sql), previous=None)


def _options(options: Options) -> Options:
    return replace(
        options, values={name: _value(name, each) for name, each in options.values.items()}
    )


def _value(name: str, value: Any) -> Any:
    if isinstance(value, Options):
        return _options(value)
    return columns(value) if name == "schema" else value


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.reuse],
)
@given(text=definitions())
def test_what_is_written_is_read_as_the_same_pipeline(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "made.yaml").write_text(text, encoding="utf-8")
    first = examine(folder / "made.yaml")[0]
    assume(first is not None)
    assert first is not None
    draft = ours.of_yaml(text, "made.yaml")
    assert load(folder / "again.yaml", to_yaml.write(draft)) == first

    assume(not wiring.unread(draft))
    sql = to_sql.write(draft)
    second = load(folder / "made.sql", sql)
    assert same(second) == same(first), sql

    back = to_yaml.write(wiring.implicit(ours.of_sql(sql, "made.sql")))
    assert load(folder / "back.yaml", back) == second, back


def texts(node: Node) -> Any:
    """Scalars as they are written, which is how options take them."""
    if isinstance(node.value, dict):
        return {key: texts(each.node) for key, each in node.value.items()}
    return [texts(item) for item in node.value] if isinstance(node.value, list) else node.text


@settings(max_examples=100, deadline=None, phases=[Phase.explicit, Phase.generate, Phase.reuse])
@given(text=st.text(st.sampled_from(LETTERS), min_size=1))
@example(":'_")
@example("- a\n b: |\n")
@example("\\n\\'")
@example("~")
def test_any_text_stays_as_it_is_at_any_place(text: str) -> None:
    """Also as a name, in a list and in brackets, in both notations."""
    values = {"path": text, "options": {text: text, "list": [text, text], "deep": {"a": [text]}}}
    source = Part("rows", {"connector_type": "python", **values})
    draft = Draft({"pipeline": "made"}, (source,))

    tree, _ = yaml.read(to_yaml.write(draft), "made.yaml")
    assert texts(tree) == {"pipeline": "made", "sources": {"rows": source.values}}

    (table, _), faults = parser.parse(to_sql.write(draft), "made.sql")
    assert faults == []
    assert isinstance(table, CreateTable)
    found = {key: texts(each.node) for key, each in table.options.items()}
    assert found == {"connector": "python", **values}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_example_and_every_case_is_the_same_in_sql(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = file.read_text(encoding="utf-8")
    references = set(re.findall(r"\$\{env:[^}]*\}", text))
    for variable in re.findall(r"\$\{env:(\w+)\}", text):
        monkeypatch.setenv(variable, ADDRESSES.get(variable, "made-up"))

    sql = convert([file])
    assert sql.gaps == ()
    assert references <= set(re.findall(r"\$\{env:[^}]*\}", sql.text))
    first = load(tmp_path / file.name, text)
    second = load(tmp_path / "made.sql", sql.text)
    assert same(second) == same(first)

    back = convert([tmp_path / "made.sql"])
    assert back.gaps == ()
    assert references <= set(re.findall(r"\$\{env:[^}]*\}", back.text))
    assert load(tmp_path / "back.yaml", back.text) == second


DOTTED = """\
pipeline: dotted
source:
  connector_type: kafka
  bootstrap_server: localhost:9092
  topic: orders
  format: avro
  # Whose schemas they are.
  schema_registry.endpoint: http://localhost:8081
  value_subject: orders-value
  schema_registry.api_secret: ${secret:registry}
  schema_registry.api_key: reader
  json.unstructured: false
"""


def test_names_with_dots_become_mappings_and_keep_their_comments(tmp_path: Path) -> None:
    file = tmp_path / "dotted.yaml"
    file.write_text(DOTTED, encoding="utf-8")
    Catalog.of(Project(tmp_path)).put_secret("registry", "the-secret", None)
    first = load(file, DOTTED)
    sql = convert([file]).text
    assert "the-secret" not in sql
    assert "-- Whose schemas they are." in sql
    assert "api_secret = '${secret:registry}'" in sql
    second = load(tmp_path / "dotted.sql", sql)
    assert same(second) == same(first)
    back = convert([tmp_path / "dotted.sql"]).text
    assert "  schema_registry:\n    endpoint: http://localhost:8081\n" in back
    assert load(tmp_path / "back.yaml", back) == second
    # A source alone is ours, too, as it needs no columns.
    alone = DOTTED.partition("source:\n")[2].replace("\n  ", "\n")[2:]
    (tmp_path / "alone.yaml").write_text(alone, encoding="utf-8")
    converted = convert([tmp_path / "alone.yaml"])
    assert (converted.notation, converted.findings) == (Notation.SQL, ())
    assert "endpoint = 'http://localhost:8081'" in converted.text


SHOP = """
-- Orders of the shop, by the words of SQL.
CREATE SECRET db FROM ENV 'DB_PASSWORD';
CREATE CONNECTION cluster TO kafka ( bootstrap_servers = '${env:KAFKA}', 'fetch.min.bytes' = 1024 );
CREATE TABLE orders (
    id BIGINT NOT NULL,
    name TEXT,
    amount DECIMAL(10, 2),
    at TIMESTAMP,
    day DATE GENERATED ALWAYS AS (CAST(at AS DATE)),
    WATERMARK FOR at AS at - INTERVAL '90 seconds'
) WITH (
    connector = 'cluster', topic = 'orders',
    group_id = 'shop',  -- shared with others
    bad_data = 'dlq', dlq_topic = 'orders.dlq'
);
CREATE TABLE raw WITH ( connector = 'cluster', topics = 'a,b', format = 'raw', offset = 'latest' );
CREATE VIEW once WITH ( deduplicate = ( by = 'id' ), from = 'orders' );
CREATE VIEW cheap AS SELECT id, name::TEXT AS who, day FROM once WHERE amount < 10;
CREATE TABLE lake WITH ( connector = 'delta', path = 'tables/cheap', partition_by = 'day' );
CREATE TABLE books ( id BIGINT, who TEXT, day DATE ) WITH (
    connector = 'jdbc', url = 'jdbc:postgresql://db/shop', user = 'me',
    password = '${secret:db}', table = 'cheap'
);
CREATE PIPELINE cheap_orders WITH ( trigger = '5 seconds', 'spark.sql.shuffle.partitions' = 4 ) AS
BEGIN
    INSERT INTO lake SELECT * FROM cheap;
    INSERT INTO books SELECT * FROM cheap;
END;
CREATE PIPELINE copies AS
INSERT INTO lake SELECT CAST(value AS TEXT) AS line, topic AS day FROM raw;
"""


@pytest.mark.parametrize("pipeline", ["cheap_orders", "copies"])
def test_sql_as_people_write_it_is_the_same_in_yaml(
    pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA", "localhost:9092")
    monkeypatch.setenv("DB_PASSWORD", "hidden")
    file = tmp_path / "shop.sql"
    file.write_text(SHOP, encoding="utf-8")
    first, found = examine(file, pipeline)
    assert first is not None, found

    converted = convert([file], pipeline=pipeline)
    # The secret is in no definition of YAML: its place is the catalog.
    assert [(each.code, each.span.line) for each in converted.gaps] == [("TO_ADD", 3)]
    assert "hidden" not in converted.text
    assert "${env:KAFKA}" in converted.text
    Catalog.of(Project(tmp_path)).put_secret("db", None, "DB_PASSWORD")
    assert load(tmp_path / "shop.yaml", converted.text) == first
