"""The schemas of sinks: what is proposed, held against the rows and registered, and what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, SchemaStore, StoredSchema
from headrace.admin.stores import RegistryAddress, Stores
from headrace.errors import IncompatibleSchema, SchemaMismatch, UnknownSubject
from headrace.formats.options import Part
from headrace.plan.stages import Plan
from headrace.runtime.sink_schemas import SinkSchemas

Texts = tuple[tuple[str, str], ...]
SOURCE = """
source:
  connector_type: kafka
  bootstrap_server: localhost:9092
  topic: orders
  schema: "id BIGINT NOT NULL, customer STRING, took INT"
transform:
  sql: COLUMNS
sinks:
"""
AVRO = """
  NAME:
    connector_type: kafka
    topic: orders.NAME
    format: confluent_avro
    schema_registry: {endpoint: 'http://localhost:8081'}
"""
ALL = "SELECT * FROM source"
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


class Shelf:
    """A store in memory that takes a schema unless its subject has one of another name."""

    framing = Framing.CONFLUENT
    url = "http://localhost:8081"

    def __init__(self) -> None:
        self.stored: list[StoredSchema] = []

    def by_id(self, id: str) -> StoredSchema:
        return self.stored[int(id)]

    def versions(self, subject: str) -> list[StoredSchema]:
        return [each for each in self.stored if each.subject == subject]

    def newest(self, subject: str) -> StoredSchema | None:
        return next(reversed(self.versions(subject)), None)

    def subjects(self) -> list[str]:
        return sorted({each.subject or "" for each in self.stored})

    def register(
        self, subject: str, type: SchemaType, text: str, references: Texts = ()
    ) -> StoredSchema:
        if self.accepts(subject, type, text, references):
            raise IncompatibleSchema(subject, "409")
        number, version = str(len(self.stored)), len(self.versions(subject)) + 1
        self.stored.append(StoredSchema(number, type, text, references, subject, version))
        return self.stored[-1]

    def accepts(
        self,
        subject: str,
        type: SchemaType,  # noqa: ARG002
        text: str,
        references: Texts = (),  # noqa: ARG002
    ) -> list[str]:
        newest = self.newest(subject)
        same = newest is None or _name(newest.text) == _name(text)
        return [] if same else ["it has another name"]


class Shelves(Stores):
    def __init__(self, shelf: Shelf) -> None:
        super().__init__()
        self.shelf = shelf

    def at(self, address: RegistryAddress) -> SchemaStore:  # noqa: ARG002
        return self.shelf


def _name(text: str) -> Any:
    return json.loads(text).get("name")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def schemas(shelf: Shelf) -> SinkSchemas:
    return SinkSchemas(Shelves(shelf))


def planned(folder: Path, sinks: str, columns: str = ALL) -> Plan:
    file = folder / "p.yaml"
    file.write_text(SOURCE.replace("COLUMNS", columns) + sinks)
    return headrace.load(file).plan


def sink(name: str, **options: Any) -> str:
    more = "".join(f"    {option}: {json.dumps(value)}\n" for option, value in options.items())
    return AVRO.replace("NAME", name) + more


def test_a_schema_is_made_of_the_rows_and_registered_once(
    tmp_path: Path, spark: SparkSession, shelf: Shelf, schemas: SinkSchemas
) -> None:
    """Bound again without a change it is the same; a column more is one more version."""
    written = sink(
        "clean", exclude=["took"], envelope={"as": "fields"}, key="id", key_format="avro"
    )
    plan = planned(tmp_path, written)
    bound = schemas.bound(plan, spark)
    assert shelf.subjects() == ["orders.clean-key", "orders.clean-value"]
    value = json.loads(shelf.versions("orders.clean-value")[0].text)
    assert (value["namespace"], value["name"]) == ("headrace", "OrdersClean")
    assert [each["name"] for each in value["fields"]] == [
        "id", "customer", "event_id", "event_time", "event_source", "event_type",
    ]  # fmt: skip
    assert json.loads(shelf.versions("orders.clean-key")[0].text) == "long"
    (query,) = bound.queries
    assert not query.kafka_sinks[0].unbound
    assert query.refusals[0].sink == query.kafka_sinks[0]

    assert schemas.bound(bound, spark) == bound
    assert SinkSchemas(Shelves(shelf), register=False).bound(plan, spark) != bound
    assert len(shelf.stored) == 2

    more = planned(tmp_path, written, "SELECT *, id * 2 AS twice FROM source")
    schemas.bound(more, spark)
    assert [len(shelf.versions(each)) for each in shelf.subjects()] == [1, 2]


def test_what_does_not_fit_is_found_before_anything_is_registered(
    tmp_path: Path, spark: SparkSession, shelf: Shelf, schemas: SinkSchemas
) -> None:
    good = sink("good")
    given = sink("given", avro_schema=json.dumps(ORDER))
    with pytest.raises(SchemaMismatch) as unfit:
        schemas.bound(planned(tmp_path, good + given), spark)
    told = str(unfit.value)
    assert told.startswith("writing `given` to Kafka topic orders.given at localhost:9092: ")
    assert "customer" in told
    assert "took" in told

    none = "SELECT id, NULL AS nothing, INTERVAL '1' DAY AS took FROM source"
    with pytest.raises(SchemaMismatch) as untyped:
        schemas.bound(planned(tmp_path, good, none), spark)
    assert "`nothing` is VOID" in str(untyped.value)
    assert "`took` is INTERVAL" in str(untyped.value)
    assert shelf.stored == []


def test_the_newest_schema_is_used_where_none_is_to_be_registered(
    tmp_path: Path, spark: SparkSession, shelf: Shelf, schemas: SinkSchemas
) -> None:
    plan = planned(tmp_path, sink("clean", register_schema=False), "SELECT id FROM source")
    with pytest.raises(UnknownSubject, match=r"orders\.clean-value"):
        schemas.bound(plan, spark)
    shelf.register("orders.clean-value", SchemaType.AVRO, json.dumps(ORDER))
    bound = schemas.bound(plan, spark)
    assert bound.queries[0].kafka_sinks[0].encodings[Part.VALUE].required == (("id",),)
    (verdict,) = schemas.verdicts(plan, spark)
    assert (verdict.version, verdict.refusal) == (1, None)

    with pytest.raises(SchemaMismatch, match=r"schema 1 of orders\.clean-value: "):
        schemas.bound(planned(tmp_path, sink("clean", register_schema=False)), spark)
    shelf.register("orders.text-value", SchemaType.JSON, "{}")
    with pytest.raises(SchemaMismatch, match="it is JSON, and not AVRO"):
        schemas.bound(planned(tmp_path, sink("text", register_schema=False)), spark)


def test_a_refusal_shows_what_is_different_and_a_verdict_changes_nothing(
    tmp_path: Path, spark: SparkSession, shelf: Shelf, schemas: SinkSchemas
) -> None:
    plan = planned(tmp_path, sink("clean") + sink("other"))
    assert [str(each) for each in schemas.verdicts(plan, spark)] == [
        "orders.clean-value would accept it",
        "orders.other-value would accept it",
    ]
    shelf.register("orders.clean-value", SchemaType.AVRO, json.dumps(ORDER))
    refused, taken = schemas.verdicts(plan, spark)
    assert taken.refusal is None
    assert refused.refusal is not None
    with pytest.raises(IncompatibleSchema) as told:
        schemas.bound(plan, spark)
    assert str(told.value) == str(refused.refusal)
    assert "it has another name" in str(told.value)
    assert "\n  + customer: null | string" in str(told.value)
    assert len(shelf.stored) == 1
