"""Which JSON messages are good, and what is said of those that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.testing import Message, Outcome, outcome

PIPELINE = """
source:
  connector_type: kafka
  tombstones: bad
  bootstrap_server: unused:9092
  topic: t
  schema: "id BIGINT NOT NULL, name STRING, amount DOUBLE, at TIMESTAMP, tags ARRAY<STRING>"
sink:
  connector_type: console
"""

GOOD: dict[bytes, dict[str, Any]] = {
    b'{"id": 1}': {"id": 1, "name": None},
    b' {"id": 2, "unknown": {"a": [1]}} ': {"id": 2},
    b'{"id": 3, "name": {"a": 1}}': {"id": 3, "name": '{"a":1}'},
    b'{"id": 4, "name": "}{", "tags": ["} {"]}': {"id": 4, "name": "}{", "tags": ["} {"]},
    b'{"id": 5, "name": "caf\xc3\xa9"}': {"id": 5, "name": "café"},
    b'{"id": 9223372036854775807}': {"id": 9223372036854775807},
    b'{"id": 6, "more": [{"a": 1}, {"a": 2}], "again": {"b": 1, "b": 2}}': {"id": 6},
}

BAD: dict[bytes | None, tuple[str, str]] = {
    None: ("NULL_VALUE", "no value"),
    b"": ("EMPTY_VALUE", "empty"),
    b"nope": ("NOT_JSON", "not valid JSON"),
    b'{"id": 1, "name": "x"': ("NOT_JSON", "not valid JSON"),
    b'\xff\xfe{"id": 1}': ("NOT_UTF8", "UTF-8"),
    b'{"id": 1, "name": "\xff"}': ("NOT_UTF8", "UTF-8"),
    b'[{"id": 1}]': ("NOT_AN_OBJECT", "one JSON object"),
    b"null": ("NOT_AN_OBJECT", "one JSON object"),
    b'"text"': ("NOT_AN_OBJECT", "one JSON object"),
    b"17": ("NOT_AN_OBJECT", "one JSON object"),
    b'{"id": 1} trailing': ("NOT_AN_OBJECT", "one JSON object"),
    b'{"id": 1}{"id": 2}': ("NOT_AN_OBJECT", "one JSON object"),
    b'{"id": 1}\n{"id": 2}': ("NOT_AN_OBJECT", "one JSON object"),
    b'{"id": 1},{"id": 2}': ("NOT_AN_OBJECT", "one JSON object"),
    b'{"id": 1} x {"id": 2}': ("NOT_AN_OBJECT", "one JSON object"),
    b'{"id": 1, "more": {"a": 1}}, {}': ("NOT_AN_OBJECT", "one JSON object"),
    b'{"id": "one"}': ("WRONG_TYPE", "id is not BIGINT"),
    b'{"id": 1.5}': ("WRONG_TYPE", "id is not BIGINT"),
    b'{"id": 99999999999999999999}': ("WRONG_TYPE", "id is not BIGINT"),
    b'{"id": 1, "at": "yesterday"}': ("WRONG_TYPE", "at is not TIMESTAMP"),
    b'{"id": 1, "amount": "much", "tags": 3}': ("WRONG_TYPE", "amount is not DOUBLE, tags"),
    b"{}": ("MISSING_FIELD", "id"),
    b'{"id": null}': ("MISSING_FIELD", "id"),
    b'{"ID": 1}': ("MISSING_FIELD", "id"),
}


@pytest.fixture(scope="module")
def decoded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """All of them at once: a Spark job for each would take minutes."""
    file = tmp_path_factory.mktemp("decoding") / "pipeline.yaml"
    file.write_text(PIPELINE)
    values: list[bytes | None] = [*GOOD, *BAD]
    messages = [Message(value, key="k", headers=(("h", b"1"),)) for value in values]
    return outcome(file, messages, spark)


@pytest.mark.parametrize(("number", "value"), list(enumerate(GOOD)))
def test_a_good_message_becomes_its_columns(decoded: Outcome, number: int, value: bytes) -> None:
    row = decoded.rows["sink"][number]
    assert {name: row[name] for name in GOOD[value]} == GOOD[value]


@pytest.mark.parametrize(("number", "value"), list(enumerate(BAD)))
def test_a_bad_message_becomes_a_reason_with_its_bytes(
    decoded: Outcome, number: int, value: bytes | None
) -> None:
    letter = decoded.bad["source"][number]
    code, words = BAD[value]
    assert letter["error"] == code
    assert words in letter["message"]
    assert letter["value"] == value
    assert (letter["key"], letter["offset"]) == (b"k", len(GOOD) + number)
    assert letter["headers"] == [{"key": "h", "value": b"1"}]


def test_sql_finds_nothing_in_a_bad_record_that_it_could_fail_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`id` could be read, and dividing by it would stop the pipeline for a record set aside."""
    file = tmp_path / "pipeline.yaml"
    step = "transform:\n  - sql: SELECT 10 / id AS share FROM source WHERE amount > 0\n"
    file.write_text(PIPELINE + step)
    found = outcome(file, [b'{"id": 0, "amount": "much"}', {"id": 5, "amount": 1}], spark)
    assert found.rows["sink"] == [{"share": 2.0}]
    assert [bad["error"] for bad in found.bad["source"]] == ["WRONG_TYPE"]


def test_every_record_is_either_a_row_or_a_reason(decoded: Outcome) -> None:
    assert len(decoded.rows["sink"]) == len(GOOD)
    assert len(decoded.bad["source"]) == len(BAD)


def test_a_decoded_batch_is_parsed_once(spark: SparkSession, tmp_path: Path) -> None:
    """A filter must not be moved below the decoding, where it would parse every message again."""
    from headrace.api import load
    from headrace.runtime import rows

    file = tmp_path / "pipeline.yaml"
    step = "transform:\n  - sql: SELECT id FROM source WHERE amount > 0\n"
    file.write_text(PIPELINE + step)
    query = load(file).plan.queries[0]
    schema = (
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, "
        "timestamp TIMESTAMP, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    )
    child = spark.newSession()
    frame = rows.build(child, query, {"source": child.createDataFrame([], schema)})
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    filters = [line for line in plan.splitlines() if "Filter" in line]
    assert filters
    assert not any("from_json" in line for line in filters)
