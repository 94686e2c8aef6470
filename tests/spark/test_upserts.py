"""Sinks with keys: the newest row of a key stays, tombstones delete, nothing happens twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.batches import Batches, deletion

from headrace.errors import DuplicateKey, UnusableKey
from headrace.testing import Message
from headrace.testing.postgres import Database

Rows = set[tuple[Any, ...]]
Messages = list[Message | dict[str, Any]]


class Target:
    """A table with keys: how a definition names it, and what it holds."""

    def __init__(
        self, sink: str, read: Callable[[], Rows], notes: Callable[[], Sequence[str]]
    ) -> None:
        self.sink, self.read, self.notes = sink, read, notes


@pytest.fixture
def batches(tmp_path: Path, spark: SparkSession) -> Batches:
    return Batches(tmp_path, spark)


@pytest.fixture(params=["delta", "jdbc"])
def target(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Target:
    if request.param == "jdbc":
        database: Database = request.getfixturevalue("database")
        return Target(
            f"connector_type: jdbc\nurl: {database.url}\nuser: {database.user}\n"
            f"password: {database.password}\ntable: orders\nmode: upsert\n",
            lambda: set(database.execute("SELECT * FROM orders")),
            lambda: [
                note for (note,) in database.execute("SELECT positions FROM headrace_batches")
            ],
        )
    table = str(tmp_path / "orders")
    return Target(
        "connector_type: delta\npath: orders\nmode: upsert\n",
        lambda: {tuple(row) for row in spark.read.format("delta").load(table).collect()},
        lambda: [
            row.userMetadata
            for row in spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()
            if row.operation == "MERGE"
        ],
    )


# What is decided before the rows come to a sink is the same for all of them.
one_target = pytest.mark.parametrize("target", ["jdbc"], indirect=True)


def row(number: int, name: str | None = None, amount: int | None = None) -> dict[str, Any]:
    return {"id": number, "name": name, "amount": amount}


def test_the_newest_of_a_key_stays_and_no_batch_counts_twice(
    batches: Batches, target: Target
) -> None:
    batches.define(target.sink + "key: id")
    first: Messages = [
        row(1, "a"),
        row(2, "b"),
        row(1, "c", 5),
        deletion("2"),
        row(3, "x"),
        deletion("3"),
        row(3, "y"),
        deletion("99"),
    ]
    batches.write(first, 0, positions='{"orders": {"0": 8}}')
    assert target.read() == {(1, "c", 5), (3, "y", None)}

    batches.write([deletion("1"), row(2, "back")], 1, positions='{"orders": {"0": 10}}')
    newer = {(2, "back", None), (3, "y", None)}
    assert target.read() == newer

    batches.write(first, 0)  # an old batch, run again
    batches.write([row(3, "again")], 1)
    assert target.read() == newer
    assert json.loads(target.notes()[0]) == {"orders": {"0": 10}}

    batches.write([row(4)], 0, generation="next life")
    assert target.read() == newer | {(4, None, None)}
    batches.write([deletion("4")], None)
    assert target.read() == newer


@one_target
def test_a_key_that_cannot_be_used_stops_the_batch_and_names_the_record(
    batches: Batches, target: Target
) -> None:
    batches.define(target.sink + "key: id")
    batches.write([row(1, "a")], 0)
    with pytest.raises(UnusableKey, match=r"orders\[0\]@2: the key of the tombstone is not a val"):
        batches.write([row(2), deletion("one")], 1)
    with pytest.raises(UnusableKey, match=r"orders\[0\]@3: id is NULL"):
        batches.write([{"name": "nobody"}], 1)
    assert target.read() == {(1, "a", None)}

    batches.define(target.sink + "key: id\nbad_tombstone: skip")
    batches.write([row(2), deletion("one"), deletion(b"\xff"), deletion("1")], 1)
    assert target.read() == {(2, None, None)}


def test_a_key_of_several_columns_is_an_object_in_the_key_of_a_tombstone(
    batches: Batches, target: Target
) -> None:
    batches.schema = "Shop STRING, day DATE, amount INT"
    batches.define(target.sink + "key: [shop, DAY]")
    batches.write(
        [
            {"Shop": "a", "day": "2026-01-01", "amount": 1},
            {"Shop": "a", "day": "2026-01-02", "amount": 2},
            {"Shop": "b", "day": "2026-01-01", "amount": 3},
            {"Shop": "a", "day": "2026-01-02", "amount": 4},
            deletion({"shop": "b", "day": "2026-01-01", "more": 1}),
        ],
        0,
    )
    found = {(shop, str(day), amount) for shop, day, amount in target.read()}
    assert found == {("a", "2026-01-01", 1), ("a", "2026-01-02", 4)}
    with pytest.raises(UnusableKey, match="not a value of shop, DAY"):
        batches.write([deletion({"shop": "a"})], 1)


TYPED_KEYS = """\
  key_format: json
  key_schema: id BIGINT
  key_column: record_key
  bad_data: skip
transform:
  - sql: SELECT id + 100 AS number, name, 10 / amount AS share FROM source WHERE amount > 0
"""


@one_target
def test_a_tombstone_whose_key_is_read_deletes_what_steps_make_of_it(
    batches: Batches, target: Target
) -> None:
    batches.define(target.sink + "key: number", TYPED_KEYS)
    sent: Messages = [
        Message(row(number, amount=number), key=json.dumps({"id": number}))
        for number in (0, 1, 2, 3)
    ]
    batches.write([*sent, deletion({"id": 2}), deletion({"id": 0})], 0)
    assert {number for number, *_ in target.read()} == {101, 103}
    batches.write([deletion({"id": 3}), deletion({"id": "three"})], 1)
    assert {number for number, *_ in target.read()} == {101}


GROUPED = """
transform:
  - sql: SELECT DISTINCT id, name, amount FROM source
"""


@one_target
def test_rows_without_an_order_must_have_a_key_each(batches: Batches, target: Target) -> None:
    batches.define(target.sink + "key: id", GROUPED)
    batches.write([row(1, "a"), row(1, "a"), row(2, "b")], 0)
    assert target.read() == {(1, "a", None), (2, "b", None)}
    with pytest.raises(DuplicateKey, match=r'have the key {"id":1}'):
        batches.write([row(1, "a"), row(1, "b")], 1)

    batches.define(target.sink + "key: id\norder_by: amount", GROUPED)
    batches.write([row(1, "new", 7), row(1, "old", 6), row(1, "none"), row(2, "b", 1)], 1)
    assert target.read() == {(1, "new", 7), (2, "b", 1)}


@one_target
def test_order_by_counts_more_than_the_offset_and_a_tombstone_is_as_new_as_what_it_follows(
    batches: Batches, target: Target
) -> None:
    batches.define(target.sink + "key: id\norder_by: amount")
    late: Messages = [row(1, "new", 7), row(1, "late", 6)]
    deleted: Messages = [row(2, "x", 5), deletion("2"), row(2, "late", 4)]
    revived: Messages = [row(3, "x", 5), deletion("3"), row(3, "newer", 6)]
    batches.write([*late, *deleted, *revived, deletion("4"), row(4, "y")], 0)
    assert target.read() == {(1, "new", 7), (3, "newer", 6), (4, "y", None)}
