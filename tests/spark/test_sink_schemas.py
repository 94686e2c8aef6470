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
from headrace.errors import IncompatibleSchema, RowRefused, SchemaMismatch, UnknownSubject
from headrace.formats.options import Part
from headrace.plan.stages import Plan
from headrace.runtime import failures
from headrace.runtime.sink_schemas import SinkSchemas
from headrace.testing import outcome

Texts = tuple[tuple[str, str], ...]
SOURCE = """
source:
  connector_type: kafka
  bootstrap_server: localhost:9092
  topic: orders
  schema: "id BIGINT NOT NULL, customer STRING, took INT"
  dlq_topic: orders.dlq
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
    """A store in memory that takes a schema unless a field of it has had another type."""

    framing = Framing.CONFLUENT
    compares = True
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
        had = _types(newest.text) if newest is not None else {}
        return [
            f"{each} was another"
            for each, type in _types(text).items()
            if had.get(each, type) != type
        ]


class Shelves(Stores):
    def __init__(self, shelf: Shelf) -> None:
        super().__init__()
        self.shelf = shelf

    def at(self, address: RegistryAddress) -> SchemaStore:  # noqa: ARG002
        return self.shelf


def _types(text: str) -> dict[str, set[str]]:
    """What each field of a record may be, but for null."""
    schema = json.loads(text)
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    listed = {each["name"]: each["type"] for each in fields}
    return {
        name: {str(each) for each in (kind if isinstance(kind, list) else [kind])} - {"null"}
        for name, kind in listed.items()
    }


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
    shelf.register("orders.clean-value", SchemaType.AVRO, json.dumps(ORDER).replace("id", "took"))
    refused, taken = schemas.verdicts(plan, spark)
    assert taken.refusal is None
    assert refused.refusal is not None
    with pytest.raises(IncompatibleSchema) as told:
        schemas.bound(plan, spark)
    assert str(told.value) == str(refused.refusal)
    assert "took was another" in str(told.value)
    assert "\n  + customer: null | string" in str(told.value)
    assert "\n  ~ took: long → null | int" in str(told.value)
    assert len(shelf.stored) == 1


OTHERS = {
    "impulse": "{connector_type: impulse, rate: 1, count: 1, fields: {n: n}}",
    "files": "{connector_type: files, path: in, format: json, schema: n BIGINT}",
    "log": "{connector_type: log, path: in/*.log, format: json, schema: n BIGINT}",
    "delta": "{connector_type: delta, path: table}",
}


@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_the_types_of_rows_are_known_before_a_source_is_read(
    tmp_path: Path, spark: SparkSession, mode: str
) -> None:
    (tmp_path / "in").mkdir()
    spark.range(1).toDF("n").write.format("delta").save(str(tmp_path / "table"))
    for name, source in OTHERS.items():
        file = tmp_path / f"{name}.yaml"
        made = sink("clean", bootstrap_server="localhost:9092")
        file.write_text(f"mode: {mode}\nsource: {source}\nsinks:\n{made}")
        shelf = Shelf()
        SinkSchemas(Shelves(shelf)).bound(headrace.load(file).plan, spark)
        (value,) = shelf.stored
        assert json.loads(value.text)["fields"] == [
            {"name": "n", "type": ["null", "long"], "default": None}
        ], name


def test_rows_are_judged_without_a_registry_and_those_that_no_message_holds_are_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    """As bad records with the bytes that they had, in a test on rows; by name where that fails."""
    proto = sink("clean").replace("confluent_avro", "confluent_protobuf")
    plan = planned(tmp_path, proto, "SELECT id, array(customer) AS names FROM source")
    found = outcome(tmp_path / "p.yaml", [{"id": 1, "customer": "ann"}, {"id": 2}], spark)
    assert [row["names"] for row in found.rows["clean"]] == [["ann"]]
    (bad,) = found.bad["source"]
    assert (bad["error"], bytes(bad["value"])) == ("MISSING_FIELD", b'{"id": 2}')

    (query,) = SinkSchemas(register=False).bound(plan, spark).queries
    rows = spark.createDataFrame([(1, ["ann"]), (2, [None])], "id BIGINT, names ARRAY<STRING>")
    guarded, made = query.kafka_sinks[0].guarded(rows)
    with pytest.raises(Exception, match="HEADRACE_ROW_REFUSED") as failed:
        guarded.selectExpr(made["value"]).collect()
    refused = failures.translate(failed.value, "writing `clean`")
    assert isinstance(refused, RowRefused)
    assert refused.code == "MISSING_FIELD"
    assert "its schema wants a value for: names" in str(refused)
