"""Which columns a schema of Debezium's envelopes gives, and which schemas give none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.debezium import envelope_schema

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import StoredSchema
from headrace.formats.kinds import FORMATS
from headrace.formats.options import ChangeRules, Part, Wanted
from headrace.model.schema import Schema

WANTED = Wanted(Part.VALUE, "debezium", Path())
DEBEZIUM = FORMATS["debezium"]


def connect(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "connect.version": 1, "connect.name": name, **more}


FIELDS: dict[str, Any] = {
    "id": "long",
    "born": connect("int", "io.debezium.time.Date"),
    "seen": ["null", connect("string", "io.debezium.time.ZonedTimestamp")],
    "millis": connect("long", "io.debezium.time.Timestamp"),
    "micros": ["null", connect("long", "io.debezium.time.MicroTimestamp")],
    "nanos": connect("long", "io.debezium.time.NanoTimestamp"),
    "price": connect(
        "bytes",
        "org.apache.kafka.connect.data.Decimal",
        scale=2,
        precision=10,
        logicalType="decimal",
    ),
    "note": ["null", "string"],
}


def stored(schema: object, kind: SchemaType = SchemaType.AVRO) -> StoredSchema:
    return StoredSchema("1", kind, json.dumps(schema), (), "orders-value", 1)


def columns(**declared: str) -> Schema:
    return Schema.parse(", ".join(f"{name} {kind}" for name, kind in declared.items()))


def test_columns_are_those_of_the_table_with_the_types_that_connect_names() -> None:
    found, scalar = DEBEZIUM.columns_of(stored(envelope_schema(FIELDS)), WANTED)
    assert not scalar
    assert {each.name: each.type for each in found.columns} == {
        "id": "BIGINT",
        "born": "DATE",
        "seen": "TIMESTAMP",
        "millis": "TIMESTAMP",
        "micros": "TIMESTAMP",
        "nanos": "BIGINT",
        "price": "DECIMAL(10, 2)",
        "note": "STRING",
    }


@pytest.mark.parametrize(
    ("declared", "faults"),
    [
        (columns(id="BIGINT", seen="TIMESTAMP", micros="TIMESTAMP_NTZ", born="DATE"), 0),
        (columns(micros="BIGINT", seen="STRING", born="INT", added="STRING"), 0),
        (columns(id="DATE"), 1),
        (columns(note="VARIANT"), 0),
    ],
)
def test_declared_columns_may_be_what_is_meant_or_what_is_written(
    declared: Schema, faults: int
) -> None:
    schema = stored(envelope_schema(FIELDS))
    found = DEBEZIUM.unreadable(schema, declared, WANTED)
    assert len(found) >= faults
    assert bool(found) is bool(faults)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (stored({"type": "record", "name": "Order", "fields": []}), "no fields"),
        (
            stored({"type": "record", "name": "O", "fields": [{"name": "op", "type": "string"}]}),
            "no envelope of Debezium",
        ),
        (stored({"type": "object"}, SchemaType.JSON), "it is JSON"),
    ],
)
def test_what_is_no_envelope_is_told(schema: StoredSchema, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DEBEZIUM.columns_of(schema, WANTED)
    assert words in DEBEZIUM.unreadable(schema, columns(id="BIGINT"), WANTED)[0]


def test_a_column_of_the_table_is_not_called_as_one_that_is_added() -> None:
    wanted = Wanted(Part.VALUE, "debezium", Path(), changes=ChangeRules(change_columns=True))
    with pytest.raises(ValueError, match="_change_op"):
        DEBEZIUM.columns_of(stored(envelope_schema({"_change_op": "string"})), wanted)
