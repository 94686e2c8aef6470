"""JSON of any shape: whole records, columns of a schema, headers; and columns made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.api import load
from headrace.errors import HeadraceError
from headrace.runtime import rows
from headrace.sinks.writer import Batch
from headrace.sources.reader import RAW
from headrace.testing import Message, Outcome, outcome

PIPELINE = """
sources:
  any:
    connector_type: kafka
    bootstrap_server: unused:9092
    topic: any
    tombstones: bad
    json_unstructured: true
    include_metadata: true
  shaped:
    connector_type: kafka
    bootstrap_server: unused:9092
    topic: shaped
    schema: "id BIGINT NOT NULL, event VARIANT NOT NULL, more MAP<STRING, VARIANT>"
    include_metadata: true
    metadata_headers: json
    columns:
      share: 10 / id
      event: event
      kind: event:kind::string            -- of any shape
      at: timestamp_millis(CAST(variant_get(event, '$.at') AS BIGINT))
      trace: _kafka_headers:trace::string
      headers: _kafka_headers
      more: more
      from: _kafka_offset
  lines:
    connector_type: files
    path: nowhere
    json_unstructured: true
    schema: line VARIANT
    bad_data: skip
transform:
  - name: any_json
    sql: |
      SELECT to_json(value) AS value, value IS NULL AS missing, is_variant_null(value) AS nothing,
        to_json(data) AS data, variant_get(value, '$.a[1]', 'int') AS second
      FROM any
  - name: shaped_json
    sql: |
      SELECT *, to_json(struct(event, more), map('ignoreNullFields', 'false')) AS body FROM shaped
  - name: line_json
    sql: SELECT to_json(line) AS line FROM lines
sinks:
  any: {connector_type: console, from: any_json}
  shaped: {connector_type: console, from: shaped_json}
  lines: {connector_type: console, from: line_json}
"""

VALUES = [
    b'{"a": [1, 2.50, null], "b": {"c": "\xc3\xa9"}}',
    b" 17 ",
    b"null",
    b'"] , [\\" }{"',
    b"[]",
    b"-0.5",
    b"true",
]
BAD: dict[bytes | None, tuple[str, str]] = {
    None: ("NULL_VALUE", "no value"),
    b"": ("EMPTY_VALUE", "empty"),
    b" ": ("NOT_JSON", "not one valid JSON value"),
    b"\xff17": ("NOT_UTF8", "UTF-8"),
    b"nope": ("NOT_JSON", "not one valid JSON value"),
    b'{"a": 1': ("NOT_JSON", "not one valid JSON value"),
    b'{"a": 1} x': ("NOT_JSON", "not one valid JSON value"),
    b'{"a": 1}{"b": 2}': ("NOT_JSON", "not one valid JSON value"),
    b"1, 2": ("NOT_JSON", "not one valid JSON value"),
    b"1],[2": ("NOT_JSON", "not one valid JSON value"),
    b"1] x": ("NOT_JSON", "not one valid JSON value"),
    b"1,": ("NOT_JSON", "not one valid JSON value"),
    b'{"a": 1, "a": 2}': ("NOT_JSON", "a field twice"),
    b"NaN": ("NOT_JSON", "not one valid JSON value"),
    b"[" * 2000 + b"]" * 2000: ("NOT_JSON", "not one valid JSON value"),
}
SHAPED = [
    Message(
        {
            "id": 5,
            "event": {"kind": "paid", "at": 1_700_000_000_000},
            "more": {"a": [1], "b": None},
        },
        headers=(("trace", b"old"), ("trace", b"new"), ("bytes", b"\xff"), ("empty", b"")),
    ),
    Message({"id": 2, "event": None}),
    Message({"id": 0}),
    Message('{"id": 0, "event": {"x": 1, "x": 2}}'),
    Message({"id": "none", "event": 1}),
]


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    file = tmp_path_factory.mktemp("variants") / "pipeline.yaml"
    file.write_text(PIPELINE)
    records: dict[str, list[Any]] = {
        "any": [*VALUES, *BAD],
        "shaped": SHAPED,
        "lines": ["7", "7 8", "", '{"a": 1}'],
    }
    return outcome(file, records, spark)


def test_every_json_value_is_a_row(found: Outcome) -> None:
    got = [json.loads(row["value"]) for row in found.rows["any"]]
    assert got == [json.loads(value) for value in VALUES]
    assert [row["data"] for row in found.rows["any"]] == [row["value"] for row in found.rows["any"]]
    assert not any(row["missing"] for row in found.rows["any"])
    assert [row["value"] for row in found.rows["any"] if row["nothing"]] == ["null"]
    assert [row["second"] for row in found.rows["any"]][:1] == [2]


def test_what_is_not_one_json_value_is_bad_with_its_bytes(found: Outcome) -> None:
    told = [(bad["value"], bad["error"]) for bad in found.bad["any"]]
    assert told == [(value, code) for value, (code, _) in BAD.items()]
    for bad, (_, words) in zip(found.bad["any"], BAD.values(), strict=True):
        assert words in bad["message"]


def test_a_column_of_a_schema_takes_any_json_and_tells_null_from_nothing(found: Outcome) -> None:
    paid, nothing = found.rows["shaped"]
    assert json.loads(paid["body"]) == {
        "event": {"kind": "paid", "at": 1_700_000_000_000},
        "more": {"a": [1], "b": None},
    }
    assert json.loads(nothing["body"]) == {"event": None, "more": None}
    assert [(bad["offset"], bad["error"]) for bad in found.bad["shaped"]] == [
        (2, "MISSING_FIELD"),
        (3, "NOT_JSON"),
        (4, "WRONG_TYPE"),
    ]
    assert "id is not BIGINT" in found.bad["shaped"][2]["message"]


def test_columns_are_made_of_good_records_only(found: Outcome) -> None:
    """Of a bad one nothing is computed that could fail, as a division by its id would."""
    paid, nothing = found.rows["shaped"]
    assert [*paid][:8] == ["share", "event", "kind", "at", "trace", "headers", "more", "from"]
    assert (paid["share"], paid["kind"], paid["from"]) == (2.0, "paid", 0)
    assert paid["at"].timestamp() == 1_700_000_000
    assert (nothing["share"], nothing["kind"], nothing["at"]) == (5.0, None, None)
    assert found.bad["shaped"][0]["value"] == b'{"id": 0}'


def test_headers_are_one_object_with_the_last_of_each_name(found: Outcome) -> None:
    paid, nothing = found.rows["shaped"]
    assert paid["trace"] == "new"
    assert paid["headers"].toPython() == {"trace": "new", "bytes": None, "empty": ""}
    assert (nothing["headers"], nothing["trace"]) == (None, None)


def test_lines_of_files_may_be_any_json(found: Outcome) -> None:
    assert [row["line"] for row in found.rows["lines"]] == ["7", '{"a":1}']


def test_the_columns_of_a_batch_are_decoded_once(spark: SparkSession, tmp_path: Path) -> None:
    """Each column reads the parsed value, and none parses it again."""
    frame = _frame(spark, tmp_path, "any")
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("concat([") == 1
    shaped = _frame(spark, tmp_path, "shaped")._jdf.queryExecution().optimizedPlan().toString()
    assert shaped.count("from_json(StructField") == 1


def test_a_column_that_spark_refuses_is_named_with_its_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.replace("share: 10 / id", "share: upper(id, id)"))
    with pytest.raises(HeadraceError, match=r"`columns\.share` of `shaped` at .*:18:14"):
        outcome(file, {}, spark)


def _frame(spark: SparkSession, folder: Path, frame: str) -> DataFrame:
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE)
    query = next(q for q in load(file).plan.queries if q.frame == f"{frame}_json")
    child = spark.newSession()
    return rows.build(child, query, {frame: child.createDataFrame([], RAW)})


TABLE = """
source: {connector_type: impulse, fields: {id: n, value: parse_json(n)}}
sinks:
  table: {connector_type: delta, path: table, from: source}
  keyed: {connector_type: delta, path: keyed, mode: upsert, key: id, from: source}
  parquet: {connector_type: files, format: parquet, path: parquet, from: source}
  json: {connector_type: files, format: json, path: json, from: source}
"""


def test_sinks_that_have_the_type_keep_it(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(TABLE)
    plan = load(file).plan
    session = spark.newSession()
    values = session.sql("""
        SELECT 1 AS id, parse_json('{"a": [1, null]}') AS value
        UNION ALL SELECT 2, parse_json('null') UNION ALL SELECT 3, NULL
    """)
    got: dict[str, Any] = {}
    for sink in plan.sinks:
        sink.write(values.coalesce(1), Batch(0, "a"))
        form = "delta" if sink.name in ("table", "keyed") else sink.name
        read = session.read.format(form).load(str(tmp_path / sink.name)).orderBy("id")
        got[sink.name] = [
            row["value"] for row in read.selectExpr("to_json(value) AS value").collect()
        ]
    assert got["table"] == got["keyed"] == got["parquet"] == ['{"a":[1,null]}', "null", None]
    assert got["json"] == ['{"a":[1,null]}', None, None]
