"""The JDBC sink against a real PostgreSQL: types, replays, and what it says when things fail."""

from __future__ import annotations

import datetime
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.batches import Batches, deletion

from headrace.cluster.ports import free_ports
from headrace.errors import (
    AuthenticationFailure,
    ConstraintViolated,
    DatabaseUnavailable,
    HeadraceError,
    SchemaMismatch,
    UnknownTable,
)
from headrace.testing.postgres import Database


@pytest.fixture
def batches(tmp_path: Path, spark: SparkSession) -> Batches:
    return Batches(tmp_path, spark)


def sink(database: Database, **options: object) -> str:
    given: dict[str, object] = {
        "connector_type": "jdbc",
        "url": database.url,
        "user": database.user,
        "password": database.password,
        "table": "orders",
    }
    return "".join(f"{name}: {value}\n" for name, value in {**given, **options}.items())


def staging_tables(database: Database) -> list[Any]:
    return database.execute(
        r"SELECT relname FROM pg_class WHERE relname LIKE 'headrace\_staging\_%'"
    )


SCHEMA = (
    "id BIGINT, small SMALLINT, ok BOOLEAN, price DECIMAL(10,2), ratio DOUBLE, f FLOAT, "
    "name STRING, raw BINARY, day DATE, at TIMESTAMP, tags ARRAY<STRING>, "
    "place STRUCT<town: STRING, zip: INT>, counts MAP<STRING, INT>"
)
FULL = {
    "id": 2**62,
    "small": 7,
    "ok": True,
    "price": 12.5,
    "ratio": 0.1,
    "f": 0.5,
    "name": 'Zoë "quoted" \\ \t',
    "raw": "AAH/",
    "day": "2026-01-31",
    "at": "2026-01-31T12:30:00.123456Z",
    "tags": ["a", "b,c"],
    "place": {"town": "Köln", "zip": 50667},
    "counts": {"a": 1},
}


def test_every_type_arrives_in_a_table_that_the_sink_makes(
    batches: Batches, database: Database
) -> None:
    database.execute('CREATE SCHEMA "My Shop"')
    batches.schema = SCHEMA
    batches.define(sink(database, table='"My Shop.Orders"', batch_rows=2))
    batches.write([FULL, {"id": 2}, {"id": 3}, deletion("2")], 0)
    batches.write([FULL, {"id": 2}, {"id": 3}], 0)
    table = '"My Shop"."Orders"'
    (values,) = database.execute(f"SELECT * FROM {table} WHERE ok")
    found = dict(zip(FULL, values, strict=True))
    assert found == FULL | {
        "price": found["price"],
        "raw": b"\x00\x01\xff",
        "day": datetime.date(2026, 1, 31),
        "at": datetime.datetime(2026, 1, 31, 12, 30, 0, 123456, tzinfo=datetime.UTC),
    }
    assert str(found["price"]) == "12.50"
    assert database.execute(f"SELECT id FROM {table} WHERE ok IS NULL ORDER BY id") == [(2,), (3,)]
    assert database.execute('SELECT pipeline, sink, batch FROM "My Shop".headrace_batches') == [
        ("shop", "sink", 0)
    ]
    assert staging_tables(database) == []


def test_rows_fit_the_types_and_the_spelling_of_a_table_that_is_there(
    batches: Batches, database: Database
) -> None:
    database.execute("CREATE TYPE mood AS ENUM ('fine', 'bad')")
    database.execute(
        'CREATE TABLE orders (id UUID PRIMARY KEY, "Mood" mood, doc JSONB, more INT DEFAULT 5)'
    )
    batches.schema = "ID STRING, mood STRING, doc STRING"
    batches.define(sink(database, mode="upsert", key="id"))
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    batches.write([{"ID": first, "mood": "fine", "doc": '{"a": 1}'}, {"ID": second}], 0)
    batches.write([{"ID": first, "mood": "bad"}, deletion(second)], 1)
    assert database.execute('SELECT id::TEXT, "Mood"::TEXT, doc, more FROM orders') == [
        (first, "bad", None, 5)
    ]


def test_a_batch_that_a_table_refuses_leaves_nothing_and_passes_later(
    batches: Batches, database: Database
) -> None:
    database.execute(
        "CREATE TABLE orders (id BIGINT, name VARCHAR(5), amount INT CHECK (amount>0))"
    )
    batches.define(sink(database))
    batches.write([{"id": 1, "name": "a", "amount": 1}], 0)
    batch = [{"id": 2, "name": "b", "amount": 1}, {"id": 3, "name": "c", "amount": -1}]
    with pytest.raises(
        ConstraintViolated, match=r'PostgreSQL table orders at .*"orders_amount_check'
    ):
        batches.write(batch, 1)
    with pytest.raises(ConstraintViolated, match="value too long"):
        batches.write([{"id": 2, "name": "too long"}], 1)
    with pytest.raises(ConstraintViolated, match="0x00"):
        batches.write([{"id": 2, "name": "\0"}], 1)
    assert database.execute("SELECT count(*) FROM orders") == [(1,)]
    assert database.execute("SELECT batch FROM headrace_batches") == [(0,)]
    assert staging_tables(database) == []

    database.execute("ALTER TABLE orders DROP CONSTRAINT orders_amount_check")
    batches.write(batch, 1)
    assert database.execute("SELECT count(*) FROM orders") == [(3,)]


def test_what_a_crash_left_is_dropped_by_the_next_batch(
    batches: Batches, database: Database
) -> None:
    batches.define(sink(database))
    (query,) = batches.definition.plan.queries
    from headrace.sinks.jdbc import JdbcSink
    from headrace.sinks.writer import Batch

    writer = query.writes[0].sink
    assert isinstance(writer, JdbcSink)
    left = writer._staging_prefix(Batch(0, "life")) + "0000"
    database.execute("CREATE TABLE orders (id BIGINT, name TEXT, amount INT)")
    database.execute(f"CREATE TABLE {left} (id BIGINT)")
    database.execute("CREATE TABLE headrace_staging_of_another (id BIGINT)")
    batches.write([{"id": 1}], 0)
    assert staging_tables(database) == [("headrace_staging_of_another",)]


def _refused(batches: Batches, definition: str) -> HeadraceError:
    batches.define(definition)
    with pytest.raises(HeadraceError) as caught:
        batches.write([{"id": 1, "name": "a", "amount": 1}], 0)
    return caught.value


def test_what_is_wrong_outside_is_said_by_name(batches: Batches, database: Database) -> None:
    missing = _refused(batches, sink(database, create_table=False))
    assert isinstance(missing, UnknownTable)

    database.execute("CREATE TABLE orders (id BIGINT, name TEXT)")
    fewer = _refused(batches, sink(database))
    assert isinstance(fewer, SchemaMismatch)
    assert "no column amount; it has id, name" in str(fewer)

    database.execute("ALTER TABLE orders ADD COLUMN amount INT")
    no_index = _refused(batches, sink(database, mode="upsert", key="id"))
    assert isinstance(no_index, SchemaMismatch)
    assert no_index.hint == "the table needs a unique index on the columns of `key`"

    login = _refused(batches, sink(database, password="geheim"))
    assert isinstance(login, AuthenticationFailure)
    assert "password authentication failed" in str(login)
    assert "geheim" not in f"{login}{login.hint}"

    gone = database.url.replace(str(database.port), str(free_ports(1)[0]))
    refused = _refused(batches, sink(database, url=gone))
    assert isinstance(refused, DatabaseUnavailable)
    assert refused.retry

    unknown = _refused(batches, sink(database, url=database.url + "x"))
    assert unknown.code == "DatabaseRefused"
    assert "does not exist (SQLSTATE 3D000)" in str(unknown)


def test_a_password_is_shown_nowhere(batches: Batches, database: Database) -> None:
    definition = batches.define(sink(database))
    told = json.dumps(definition.explain()) + repr(definition.pipeline) + repr(definition.plan)
    assert database.password not in told
    assert "(hidden)" in told
