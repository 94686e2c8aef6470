"""Functions of messages between a source and a sink, by Spark's own workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.errors import BadRecord, DefinitionError, HeadraceError, StepFailed
from headrace.runtime import failures
from headrace.testing import Message, Outcome, outcome

ORDERS = 'schema: "id BIGINT, amount DOUBLE, tags MAP<STRING, INT>, at TIMESTAMP"'
Make = Callable[..., Outcome]


@pytest.fixture
def made(tmp_path: Path, spark: SparkSession) -> Make:
    """What a pipeline with these steps, and this code beside it, makes of records."""

    def make(
        code: str,
        steps: str,
        records: Sequence[Any],
        source: str = ORDERS,
        mode: str = "stream",
    ) -> Outcome:
        (tmp_path / "shop.py").write_text(code)
        options = "".join(f"  {line.strip()}\n" for line in source.splitlines())
        file = tmp_path / "pipeline.yaml"
        file.write_text(
            f"mode: {mode}\nsource:\n  connector_type: kafka\n"
            f"  bootstrap_server: unused:9092\n  topic: orders\n{options}"
            f"transform:\n{steps}\nsink: {{connector_type: console}}\n"
        )
        return outcome(file, records, spark)

    return make


def failure(make: Make, *arguments: Any, **options: Any) -> HeadraceError:
    """The error that a run would end with."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        make(*arguments, **options)
    return failures.translate(caught.value, "running it")


def order(id: int, amount: float | None = 1.0) -> dict[str, Any]:
    return {"id": id, "amount": amount, "tags": {"n": id}, "at": "2026-03-01T12:00:00Z"}


SCORE = """
from pathlib import Path

import prices

print("a function may print")

def score(messages, *args, **kwargs):
    with (Path(__file__).parent / "calls").open("a") as calls:
        calls.write(f"{[m['id'] for m in messages]}\\n")
    for message in messages:
        message["total"] = prices.with_tax(message.pop("amount"))
        message["of"] = len(messages)
        message["at"] = message["at"].replace(year=2027)
        message["tags"]["seen"] = 1
    return messages
"""


def test_a_function_gets_lists_and_what_it_fails_for_is_set_aside_with_its_bytes(
    made: Make, tmp_path: Path
) -> None:
    (tmp_path / "prices.py").write_text("def with_tax(amount): return amount * 2\n")
    records = [
        *(order(number) for number in range(1, 4)),
        Message("?", key="broken"),
        Message(order(4, None), key="no amount", headers=(("h", b"1"),)),
        Message(None, key="gone"),
        *(order(number) for number in range(5, 7)),
        Message(order(7), partition=1),
    ]
    steps = """
  - sql: SELECT * FROM source WHERE id <> 2
  - python_rows: shop.score
    batch_size: 2
    schema: "id BIGINT NOT NULL, total DOUBLE, of INT, tags MAP<STRING, INT>, at TIMESTAMP"
  - sql: SELECT id, total, of, tags, year(at) AS year FROM input WHERE id <> 6
"""
    found = made(SCORE, steps, records)
    assert [tuple(row.values()) for row in found.rows["sink"]] == [
        (1, 2.0, 2, {"n": 1, "seen": 1}, 2027),
        (3, 2.0, 2, {"n": 3, "seen": 1}, 2027),
        (5, 2.0, 2, {"n": 5, "seen": 1}, 2027),
        (7, 2.0, 1, {"n": 7, "seen": 1}, 2027),
    ]
    broken, refused = sorted(found.bad["source"], key=lambda row: row["offset"])
    assert (broken["error"], broken["offset"]) == ("NOT_JSON", 3)
    assert (refused["error"], refused["topic"], refused["partition"], refused["offset"]) == (
        *("PYTHON_ERROR", "orders", 0, 4),
    )
    told = "shop.score raised TypeError: unsupported operand type(s) for *: 'NoneType' and 'int'"
    assert refused["message"] == told
    assert (refused["key"], json.loads(refused["value"])) == (b"no amount", order(4, None))
    assert [header["value"] for header in refused["headers"]] == [b"1"]
    # Each list is seen once: rows and bad records come from the same calls.
    calls = (tmp_path / "calls").read_text().splitlines()
    assert sorted(calls) == ["[1, 3]", "[4]", "[5, 6]", "[7]"]


def test_messages_with_metadata_are_as_other_tools_have_them(made: Make) -> None:
    code = """
def name(messages):
    for message in messages:
        data, metadata = message["data"], message["metadata"]
        assert sorted(message) == ["data", "metadata"] and sorted(data) == ["id"]
        assert isinstance(metadata.pop("time"), int)
        message["data"] = {"id": data["id"], "told": str(metadata)}
    return messages
"""
    steps = '  - python_rows: shop.name\n    schema: "id BIGINT, told STRING"'
    source = "schema: id BIGINT\ninclude_metadata: true"
    found = made(code, steps, [Message({"id": 1}, key="k", partition=3)], source)
    facts = {"key": "k", "partition": 3, "offset": 0, "topic": "orders"}
    assert found.bad["source"] == []
    assert found.rows["sink"] == [{"id": 1, "told": str(facts)}]


def test_raw_messages_are_bytes_with_and_without_metadata(made: Make) -> None:
    code = """
def upper(messages):
    return [message.upper() for message in messages]

def parsed(messages):
    return [{"key": m["metadata"]["key"], "n": int(m["data"])} for m in messages]
"""
    records = [Message(b"12", key="a"), Message(b"x\xff", key="b")]
    raw = "serde_config: {serialization_method: RAW_VALUE}"
    plain = made(code, "  - python_rows: shop.upper", records, raw)
    assert plain.rows["sink"] == [{"value": b"12"}, {"value": b"X\xff"}]
    steps = '  - python_rows: shop.parsed\n    schema: "key STRING, n INT"'
    found = made(code, steps, records, f"{raw}\ninclude_metadata: true")
    assert found.rows["sink"] == [{"key": "a", "n": 12}]
    (bad,) = found.bad["source"]
    assert (bad["error"], bad["offset"], bad["value"]) == ("PYTHON_ERROR", 1, b"x\xff")
    assert bad["message"].startswith("shop.parsed raised ValueError: invalid literal")


CHECK = """
def check(messages):
    for message in messages:
        if message["amount"] < 0:
            raise ValueError("too little")
    return messages

def empty(messages):
    return None

nothing = 1
"""


def test_a_failure_names_the_record_where_it_stops_the_pipeline(made: Make) -> None:
    records = [order(1), order(2, -1)]
    steps = "  - python_rows: shop.check"
    error = failure(made, CHECK, steps, records, ORDERS + "\nbad_data: fail")
    assert isinstance(error, BadRecord)
    assert (error.topic, error.partition, error.offset) == ("orders", 0, 1)
    assert error.reason == "PYTHON_ERROR: shop.check raised ValueError: too little"
    grouped = steps + "\n  - sql: SELECT sum(amount) AS total FROM input"
    error = failure(made, CHECK, grouped, records, mode="batch")
    assert isinstance(error, BadRecord)
    assert error.offset == 1
    dropped = made(CHECK, grouped, records, ORDERS + "\nbad_data: skip", "batch")
    assert dropped.rows["sink"] == [{"total": 1.0}]


def test_a_function_that_is_wrong_is_an_error_of_its_step(made: Make) -> None:
    error = failure(made, CHECK, "  - python_rows: shop.empty", [order(1)])
    assert isinstance(error, StepFailed)
    assert str(error) == (
        "step `step_1`: shop.empty returned NoneType, and must return a list of messages"
    )
    after = "  - python: shop.same\n  - python_rows: shop.check"
    error = failure(made, CHECK + "\ndef same(rows): return rows", after, [order(1, -1)])
    assert isinstance(error, StepFailed)
    assert "shop.check raised ValueError: too little, with the message {" in str(error)


@pytest.mark.parametrize(
    ("code", "function", "told"),
    [
        ("import no_such_module", "shop.f", "cannot be imported: No module named 'no_such_module'"),
        ("def g(): pass", "shop.f", "has no attribute 'f'"),
        ("def f(: pass", "shop.f", "cannot be imported: invalid syntax"),
        ("f = 1", "shop.f", "shop.f is no function"),
    ],
)
def test_a_function_that_cannot_be_had_is_said_before_anything_runs(
    made: Make, code: str, function: str, told: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        made(code, f"  - python_rows: {function}", [])
    assert told in str(caught.value)
    assert "pipeline.yaml:8:18" in str(caught.value)


def test_a_variant_inside_another_value_is_refused_before_anything_runs(made: Make) -> None:
    with pytest.raises(DefinitionError, match="`v` has a VARIANT inside") as caught:
        made(CHECK, "  - python_rows: shop.check", [], "schema: v ARRAY<VARIANT>")
    assert caught.value.hint is not None
    assert "to_variant_object(`v`)" in caught.value.hint


def test_a_variant_is_a_plain_value_to_a_function(made: Make) -> None:
    code = """
def count(messages):
    for message in messages:
        event = message["event"]
        size = {"items": len(event["items"]), "of": event} if event else None
        yield {"event": size if size != {"items": 0, "of": {"items": []}} else float("nan")}
"""
    steps = """
  - python_rows: shop.count
  - sql: SELECT to_json(event) AS event, event:items::int AS items FROM input
"""
    given = [{"event": {"items": [1, {"a": None}]}}, {"event": None}, {}, {"event": {"items": []}}]
    found = made(code, steps, given, "schema: event VARIANT")
    assert [row["items"] for row in found.rows["sink"]] == [2, None, None]
    whole = json.loads(found.rows["sink"][0]["event"])
    assert whole == {"items": 2, "of": {"items": [1, {"a": None}]}}
    (bad,) = found.bad["source"]
    assert (bad["error"], bad["offset"]) == ("PYTHON_ERROR", 3)
    assert "returned `event` = nan, which is no variant" in bad["message"]


def test_a_function_of_data_frames_may_use_functions_of_its_own_in_workers(made: Make) -> None:
    code = """
from pyspark.sql.functions import udf

RATE = 3

def times(amount):
    return amount * RATE

def priced(rows):
    return rows.select("id", udf(times, "double")("amount").alias("price"))
"""
    found = made(code, "  - python: shop.priced", [order(1, 2.0)])
    assert found.rows["sink"] == [{"id": 1, "price": 6.0}]
