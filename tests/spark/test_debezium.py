"""Debezium's envelopes: which rows they give, which they delete, and which are no changes."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import VariantVal
from tests.debezium import Field, Log, decimal_text
from tests.spark.batches import Batches

from headrace.testing import Message, Outcome, outcome

PIPELINE = """
source:
  connector_type: kafka
  bootstrap_server: unused:9092
  topic: shop.public.orders
  format: debezium
  schema: "id BIGINT NOT NULL, name STRING, born DATE, seen TIMESTAMP, local TIMESTAMP_NTZ,
    price DECIMAL(10, 2), total DECIMAL(38, 4), photo BINARY, tags ARRAY<STRING>, extra VARIANT"
  debezium: RULES
sink:
  connector_type: console
"""

FIELDS = {
    "id": Field("int64"),
    "name": Field("string"),
    "born": Field("int32", "io.debezium.time.Date"),
    "seen": Field("string", "io.debezium.time.ZonedTimestamp"),
    "local": Field("int64", "io.debezium.time.Timestamp"),
    "price": Field("bytes", "org.apache.kafka.connect.data.Decimal", 2),
    "total": Field("bytes", "org.apache.kafka.connect.data.Decimal", 4),
    "photo": Field("bytes"),
    "tags": Field("array"),
    "extra": Field("string", "io.debezium.data.Json"),
}
ROW: dict[str, Any] = {
    "id": 1,
    "name": "Søren",
    "born": datetime.date(1969, 7, 20),
    "seen": datetime.datetime(2026, 3, 2, 10, 0, 0, 123456, tzinfo=datetime.UTC),
    # Microseconds of this year are milliseconds of another: only the schema tells.
    "local": datetime.datetime(1970, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    "price": Decimal("-12.34"),
    "total": Decimal("-9999999999999999999999999999999999.9999"),
    "photo": b"\x00\xff",
    "tags": ["a", None],
    "extra": 5,
}


def after(**fields: Any) -> dict[str, Any]:
    return {"op": "u", "before": None, "after": {"id": 1, **fields}, "source": {"lsn": 5}}


def micros(*moment: int) -> int:
    there = datetime.datetime(*moment).replace(tzinfo=datetime.UTC)  # type: ignore[arg-type]
    return int(there.timestamp()) * 1_000_000


def at(*moment: int) -> datetime.datetime:
    return datetime.datetime(*moment)  # type: ignore[arg-type]


def plain(row: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Some columns of a row; what is of any shape as JSON."""
    found = {name: row[name] for name in names}
    return {name: v.toJson() if isinstance(v, VariantVal) else v for name, v in found.items()}


# Without a schema, what comes and the values that it gives.
GOOD: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (after(), {"id": 1, "name": None, "born": None, "price": None}),
    (after(seen=micros(2026, 3, 2)), {"seen": at(2026, 3, 2)}),
    (after(seen=micros(2026, 3, 2) // 1000), {"seen": at(2026, 3, 2)}),
    (after(seen=micros(2026, 3, 2) * 1000 + 999), {"seen": at(2026, 3, 2)}),
    (after(local=micros(1901, 1, 1)), {"local": at(1901, 1, 1)}),
    (after(seen="2026-03-02T10:00:00+02:00"), {"seen": at(2026, 3, 2, 8)}),
    (after(born="2026-03-02Z"), {"born": datetime.date(2026, 3, 2)}),
    (after(price=decimal_text(Decimal("0.00"), 2)), {"price": Decimal("0.00")}),
    (after(price=decimal_text(Decimal("99999999.99"), 2)), {"price": Decimal("99999999.99")}),
    (after(price="12.5"), {"price": Decimal("12.50")}),
    (after(price=12.5), {"price": Decimal("12.50")}),
    (after(price={"scale": 1, "value": "fQ=="}), {"price": Decimal("12.50")}),
    (after(total=decimal_text(Decimal(10**33), 4)), {"total": Decimal(10**33)}),
    (after(total=decimal_text(Decimal(-(2**63)), 4)), {"total": Decimal(-(2**63))}),
    (after(extra={"a": [1]}), {"extra": '{"a":[1]}'}),
    (after(extra='{"a": [1]}'), {"extra": '{"a":[1]}'}),
    (after(extra="{a"), {"extra": '"{a"'}),
    ({"op": "r", "after": {"id": 2}}, {"id": 2}),
    ({"op": "c", "before": None, "after": {"id": 3, "unknown": 1}}, {"id": 3}),
]
BAD: list[tuple[Any, str, str]] = [
    (b"nope", "NOT_JSON", "not valid JSON"),
    (b"[]", "NOT_AN_OBJECT", "one JSON object"),
    ({}, "NOT_A_CHANGE", "no op"),
    ({"ts_ms": 1_772_445_600_000}, "NOT_A_CHANGE", "no op"),
    ({"status": "BEGIN", "id": "571", "event_count": None}, "NOT_A_CHANGE", "no op"),
    ({"schema": None, "payload": None}, "NOT_A_CHANGE", "no op"),
    ({"op": "x", "after": {"id": 1}}, "UNKNOWN_OP", "none of c, u, d and r"),
    ({"op": "t", "source": {}}, "TRUNCATE", "truncated"),
    ({"op": "m", "message": {"prefix": "p", "content": "eA=="}}, "MESSAGE", "message"),
    ({"op": "c", "before": None, "after": None}, "NO_AFTER", "after"),
    ({"op": "u", "before": {"id": 1}}, "NO_AFTER", "after"),
    ({"op": "c", "after": 5}, "WRONG_TYPE", "does not fit the schema: id is not BIGINT, name"),
    ({"op": "c", "after": {"id": 1}, "before": 5}, "WRONG_TYPE", "the envelope"),
    ({"op": "c", "after": {"id": "one"}}, "WRONG_TYPE", "schema: id is not BIGINT"),
    ({"payload": {"op": "c", "after": {"id": "one"}}}, "WRONG_TYPE", "id is not BIGINT"),
    (after(born="soon", price="a lot"), "WRONG_TYPE", "born is not DATE, price is not DECIMAL"),
    (after(seen=[1]), "WRONG_TYPE", "seen is not TIMESTAMP"),
    (after(price=decimal_text(Decimal(10**30), 2)), "WRONG_TYPE", "price is not DECIMAL(10, 2)"),
    (after(price=decimal_text(Decimal(10**50), 2)), "WRONG_TYPE", "price is not DECIMAL(10, 2)"),
    ({"op": "c", "after": {"name": "x"}}, "MISSING_FIELD", "without a value for: id"),
    (after(name="__debezium_unavailable_value"), "UNAVAILABLE_VALUE", "all): name"),
    (after(tags=["__debezium_unavailable_value"]), "UNAVAILABLE_VALUE", "all): tags"),
    (
        after(photo="X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        "UNAVAILABLE_VALUE",
        "REPLICA IDENTITY FULL",
    ),
]


@pytest.fixture(scope="module")
def decoded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """All of them at once: a Spark job for each would take minutes."""
    file = tmp_path_factory.mktemp("decoding") / "pipeline.yaml"
    file.write_text(PIPELINE.replace("RULES", "{change_columns: true, deletes: rows}"))
    whole = Log(FIELDS, wrapped=True, whole_before=True)
    mysql = Log(FIELDS, connector="mysql", wrapped=True)
    told = [
        whole.change("u", ROW, ROW),
        whole.change("d", ROW, None),
        mysql.change("d", ROW, None),
        *((b'{"id": 1}', json.dumps(value).encode()) for value, _ in GOOD),
        *((None, v if isinstance(v, bytes) else json.dumps(v).encode()) for v, _, _ in BAD),
        (b'{"id": 1}', None),
    ]
    return outcome(file, [Message(value, key=key) for key, value in told], spark)


def test_a_message_with_its_schema_gives_each_value_as_it_is_in_the_table(decoded: Outcome) -> None:
    now, gone, mysql = decoded.rows["sink"][:3]
    times = {name: ROW[name].replace(tzinfo=None) for name in ("seen", "local")}
    assert plain(now, ROW) == ROW | times | {"extra": "5"}
    assert plain(gone, ROW) == ROW | times | {"extra": "5"}
    assert plain(mysql, ROW) == dict.fromkeys(ROW) | {"id": 1}
    changes = [
        [row[name] for name in ("_change_op", "_change_time", "_change_position")]
        for row in (now, gone, mysql)
    ]
    place = 24_023_144
    first = at(2026, 3, 2, 10) + datetime.timedelta(milliseconds=place)
    second = first + datetime.timedelta(milliseconds=16)
    assert changes == [
        ["u", first, f"{place:020}"],
        ["d", second, f"{place + 16:020}"],
        ["d", first, f"mysql-bin.000003:{place:020}:0000000000"],
    ]


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_a_message_without_a_schema_is_read_by_the_declared_types(
    decoded: Outcome, number: int
) -> None:
    row, expected = decoded.rows["sink"][3 + number], GOOD[number][1]
    assert plain(row, expected) == expected


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_is_no_change_of_a_row_is_a_bad_record(decoded: Outcome, number: int) -> None:
    letter = decoded.bad["source"][number]
    _, code, words = BAD[number]
    assert letter["error"] == code
    assert words in letter["message"]


def test_every_record_is_either_a_row_or_a_reason(decoded: Outcome) -> None:
    assert len(decoded.rows["sink"]) == 3 + len(GOOD)
    assert len(decoded.bad["source"]) == len(BAD)


RECORDED = Path(__file__).parents[1] / "cases" / "debezium" / "mysql_products.jsonl"
PRODUCTS = (
    "id INT NOT NULL, region STRING NOT NULL, name STRING, weight DECIMAL(9, 3), made TIMESTAMP, "
    "sold TIMESTAMP, changed TIMESTAMP, tags VARIANT, stock SMALLINT"
)
STEPS = """\
  format: debezium
  debezium: {change_columns: true}
transform:
  - sql: SELECT * EXCEPT (id, _change_op, _change_time), id AS number FROM source WHERE stock <> 0
"""


def test_a_recorded_stream_of_mysql_gives_its_table_however_often_it_comes(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = Batches(tmp_path, spark, PRODUCTS)
    sink = "connector_type: delta\npath: products\nmode: upsert\nkey: [number, region]"
    batches.define(sink + "\norder_by: _change_position", STEPS)
    told = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    messages = [Message(each["value"], key=json.dumps(each["key"])) for each in told]
    batches.write(messages[:6], 0)
    batches.write(messages[6:], 1)
    batches.write(messages[6:], 1)
    # Only the place in the database's log tells which of two partitions is newer.
    older = [replace(each, partition=1) for each in messages[:6]]
    batches.offsets[1] = 1000
    batches.write([*messages[6:], *older], 2)
    rows = spark.read.format("delta").load(str(tmp_path / "products")).orderBy("number", "region")
    columns = ("number", "region", "name", "weight", "made", "sold", "changed", "stock")
    noon = at(2026, 3, 2, 10)
    second = datetime.timedelta(seconds=1)
    assert [tuple(row) for row in rows.select(*columns).collect()] == [
        (
            *(101, "eu", "scooter", Decimal("3.140"), at(1970, 1, 2)),
            *(noon + 60 * second + datetime.timedelta(microseconds=250), noon, 2),
        ),
        (102, "eu", "sledgehammer", Decimal("0.750"), None, None, noon + second, 1),
        (102, "us", "hammer", Decimal("0.750"), None, None, noon + second, 9),
        (
            113,
            "eu",
            "rocks",
            Decimal("-999999.999"),
            at(1955, 11, 5),
            None,
            noon + 180 * second,
            -1,
        ),
    ]
