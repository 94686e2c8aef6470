"""Schemas of Avro as columns, columns as schemas of Avro, and what fits what."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.admin.stores import RegistryAddress
from headrace.formats import avro_schema
from headrace.formats.avro import AvroFormat
from headrace.formats.avro_resolution import Resolution, resolved
from headrace.formats.encoding import ELEMENTS
from headrace.formats.known import Known
from headrace.formats.options import Part, Wanted
from headrace.model.schema import Column, Schema
from headrace.model.types import parsed

AVRO = AvroFormat()
REGISTRY = RegistryAddress("confluent", "http://unused:8081", None, None)
WANTED = Wanted(Part.VALUE, "confluent_avro", Path(), registry=REGISTRY)


def stored(schema: Any, *references: tuple[str, Any], id: str = "7") -> StoredSchema:
    texts = tuple((name, json.dumps(each)) for name, each in references)
    return StoredSchema(id, SchemaType.AVRO, json.dumps(schema), texts)


def record(**fields: Any) -> dict[str, Any]:
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "R", "fields": named}


def types(**fields: Any) -> list[str]:
    found, scalar = AVRO.columns_of(stored(record(**fields)), WANTED)
    assert not scalar
    return [each.type.replace("`", "") for each in found.columns]


def logical(kind: Any, name: str, **rest: Any) -> dict[str, Any]:
    return {**(kind if isinstance(kind, dict) else {"type": kind}), "logicalType": name, **rest}


def fixed(size: int, name: str = "F") -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


def test_every_type_is_a_type_of_spark() -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    assert types(
        a="boolean",
        b="int",
        c="long",
        d="float",
        e="double",
        f="bytes",
        g="string",
        h="null",
        i=enum,
        j=fixed(4),
        k={"type": "array", "items": ["null", "int"]},
        m={"type": "map", "values": {"type": "array", "items": "E"}},
        n=["null", "string"],
        o=["int", "null", "long"],
        p=["float", "double"],
        q=["null", "string", "E", {"type": "array", "items": "int"}],
        r={"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]},
        s={"type": {"type": "string"}},
    ) == [
        "BOOLEAN",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "BINARY",
        "STRING",
        "STRING",
        "STRING",
        "BINARY",
        "ARRAY<INT>",
        "MAP<STRING, ARRAY<STRING>>",
        "STRING",
        "BIGINT",
        "DOUBLE",
        "STRUCT<string: STRING, E: STRING, array: ARRAY<INT>>",
        "STRUCT<x: INT>",
        "STRING",
    ]


def test_logical_types_that_spark_has_become_those_and_others_what_they_are_stored_as() -> None:
    assert types(
        a=logical("int", "date"),
        b=logical("int", "time-millis"),
        c=logical("long", "time-micros"),
        d=logical("long", "timestamp-millis"),
        e=logical("long", "timestamp-micros"),
        f=logical("long", "timestamp-nanos"),
        g=logical("long", "local-timestamp-millis"),
        h=logical("long", "local-timestamp-micros"),
        i=logical("string", "uuid"),
        j=logical("bytes", "decimal", precision=9, scale=2),
        k=logical(fixed(8), "decimal", precision=18),
        m=logical(fixed(12, "D"), "duration"),
        n=logical("bytes", "decimal", precision=2, scale=5),  # which counts as none
        o=logical(fixed(2, "G"), "decimal", precision=5),  # which has no room for its digits
    ) == [
        "DATE",
        "INT",
        "BIGINT",
        "TIMESTAMP",
        "TIMESTAMP",
        "BIGINT",
        "TIMESTAMP_NTZ",
        "TIMESTAMP_NTZ",
        "STRING",
        "DECIMAL(9, 2)",
        "DECIMAL(18, 0)",
        "BINARY",
        "BINARY",
        "BINARY",
    ]


def test_names_mean_what_their_namespace_says_and_other_schemas_define() -> None:
    money = {
        "type": "record",
        "name": "Money",
        "namespace": "shop",
        "fields": record(c="int")["fields"],
    }
    inner = {
        "type": "record",
        "name": "In",
        "fields": [{"name": "of", "type": "Color"}, {"name": "m", "type": "shop.Money"}],
    }
    color = {"type": "enum", "name": "Color", "symbols": ["RED"]}
    schema = {**record(color=color, inner=inner, again="com.In"), "namespace": "com"}
    found, _ = AVRO.columns_of(stored(schema, ("shop.Money", money)), WANTED)
    kind = "STRUCT<`of`: STRING, `m`: STRUCT<`c`: INT>>"
    assert [each.type for each in found.columns] == ["STRING", kind, kind]


@pytest.mark.parametrize("text", ['"long"', "long", '{"type": "long"}', '["null", "long"]'])
def test_a_schema_of_one_value_is_one_column(text: str) -> None:
    schema = StoredSchema("7", SchemaType.AVRO, text)
    found, scalar = AVRO.columns_of(schema, WANTED)
    assert (found, scalar) == (Schema((Column("value", "BIGINT"),)), True)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ('{"type": "record"', "not JSON: Expecting ',' delimiter at line 1, column 18"),
        ({}, "it has no type: {}"),
        ({"type": "record", "fields": []}, "it is of type record and has no `name`"),
        ({"type": "record", "name": "R"}, "`R` has no list of `fields`"),
        (record(), "the message is the record `R`, which has no fields"),
        (record(a="Elsewhere"), "`a` is of an unknown type `Elsewhere`"),
        (record(a={"type": "array"}), "`a` is of type array and has no `items`"),
        (record(a={"type": "map"}), "`a` is of type map and has no `values`"),
        (record(a=[]), "`a` is a union of nothing"),
        (record(a=["int", ["string"]]), "`a` is a union within a union"),
        (record(a=fixed(4), b=fixed(8)), "`b` defines `F` a second time"),
        (record(a={"type": "fixed", "name": "F"}), "the fixed `F` has no `size`"),
        (record(a={"type": "enum", "name": "E"}), "`E` has no list of `symbols`"),
        ({**record(), "fields": [{"type": "int"}]}, "it has a field without a name"),
        ({**record(), "fields": [{"name": "a"}]}, "`a` has no type"),
        ({**record(), "fields": record(a="int")["fields"] * 2}, "the field `a` twice"),
        (record(next=["null", "R"]), "`next` is the record `R` within itself"),
        (record(id="int", ID="int"), "`id` and `ID`, which are the same name in SQL"),
        (record(a=logical("bytes", "decimal", precision=39)), "`a` is a decimal of 39 digits"),
    ],
)
def test_what_is_wrong_with_a_schema_is_told_with_its_place(schema: Any, words: str) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with pytest.raises(ValueError, match=re.escape(words)):
        AVRO.columns_of(StoredSchema("7", SchemaType.AVRO, text), WANTED)


@pytest.mark.parametrize(
    ("own", "target"),
    [
        ("int", "BIGINT"),
        ("int", "DECIMAL(12, 2)"),
        ("long", "DOUBLE"),
        ("float", "DOUBLE"),
        ("bytes", "STRING"),
        (["null", "int", "long"], "BIGINT"),
        (logical("bytes", "decimal", precision=9, scale=2), "DECIMAL(11, 4)"),
        (logical("bytes", "decimal", precision=9, scale=2), "DOUBLE"),
        (logical("int", "date"), "TIMESTAMP_NTZ"),
        ("null", "STRUCT<x: INT>"),
        (record(x="int", more="string"), "STRUCT<X: BIGINT, new: STRING>"),
        ({"type": "array", "items": "int"}, "ARRAY<BIGINT>"),
        ({"type": "map", "values": "float"}, "MAP<STRING, DOUBLE>"),
        (["string", "int"], "STRUCT<string: STRING, int: BIGINT, boolean: BOOLEAN>"),
    ],
)
def test_a_type_is_read_into_a_wider_one(own: Any, target: str) -> None:
    writer = stored({**record(c=own), "name": "Top"})
    assert AVRO.unreadable(writer, Schema.parse(f"c {target}"), WANTED) == []


@pytest.mark.parametrize(
    ("own", "target", "words"),
    [
        ("long", "INT", "`c` is BIGINT in the messages, and INT in the columns"),
        ("string", "INT", "`c` is STRING in the messages, and INT in the columns"),
        ("int", "DECIMAL(5, 2)", "`c` is INT in the messages, and DECIMAL(5, 2) in the columns"),
        (
            logical("long", "timestamp-millis"),
            "TIMESTAMP_NTZ",
            "`c` is TIMESTAMP in the messages, and TIMESTAMP_NTZ in the columns",
        ),
        (
            record(x="string"),
            "STRUCT<x: INT>",
            "`c.x` is STRING in the messages, and INT in the columns",
        ),
        (
            {"type": "array", "items": "string"},
            "ARRAY<INT>",
            "`c.element` is STRING in the messages, and INT in the columns",
        ),
        (
            ["string", "int"],
            "STRUCT<string: STRING, double: DOUBLE>",
            "`c` may be of type `int`, and has no field for it in the columns",
        ),
        (
            ["string", "int"],
            "STRING",
            "`c` is STRUCT<string: STRING, int: INT> in the messages, and STRING in the columns",
        ),
    ],
)
def test_a_type_that_does_not_fit_is_told(own: Any, target: str, words: str) -> None:
    writer = stored({**record(c=own), "name": "Top"})
    assert AVRO.unreadable(writer, Schema.parse(f"c {target}"), WANTED) == [words]


def test_one_value_does_not_fit_several_columns() -> None:
    (words,) = AVRO.unreadable(stored("long"), Schema.parse("a INT, b INT"), WANTED)
    assert words.startswith("the message is BIGINT in the messages, and STRUCT<a: INT")


def test_no_field_of_a_message_is_read_into_two_columns() -> None:
    """One that was renamed stays what it is called while its old column is there, too."""
    old = avro_schema.parsed(json.dumps(record(client="string", Total="int")))
    new = record(customer="string", total="int")
    new["fields"][0]["aliases"] = ["client"]
    kind = parsed("STRUCT<customer: STRING, client: STRING, TOTAL: INT, total: INT>")
    found = resolved(old, kind, avro_schema.parsed(json.dumps(new)))
    assert isinstance(found, Resolution)
    fields = json.loads(found.writer)["fields"][0]["type"]["fields"]
    assert [each["name"] for each in fields] == ["client", "TOTAL"]


def test_branches_of_a_union_are_not_promoted_into_each_other() -> None:
    kind = parsed("STRUCT<int: BIGINT, long: BIGINT, string: STRING>")
    found = resolved(avro_schema.parsed('["int", "long", "string"]'), kind)
    assert isinstance(found, Resolution)
    union = json.loads(found.reader)["fields"][0]["type"]
    assert [each if each == "null" else each["type"] for each in union] == [
        "null",
        "int",
        "long",
        "string",
    ]
    assert found.found != found.target  # so that it is cast


def test_a_known_schema_that_does_not_fit_is_refused_by_the_reading() -> None:
    """It should have been found before; the messages are bad then, and nothing worse."""
    good, bad = stored(record(id="int")), stored(record(id="string"), id="8")
    known = Known(Framing.CONFLUENT, Schema.parse("id BIGINT"), (good, bad), good)
    fault = AVRO.reading(WANTED, "s", known).fault("value", "__")
    assert "X'0000000008' THEN 'INCOMPATIBLE_SCHEMA'" in fault


ALL = (
    "b BOOLEAN, t TINYINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10, 2), s STRING, "
    "bin BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, "
    "a ARRAY<STRUCT<x: INT, y: STRUCT<z: INT>>>, m MAP<STRING, STRUCT<x: INT>>"
)


def test_columns_become_a_schema_that_is_one_and_gives_them_back() -> None:
    made = AVRO.made("shop.orders-v2", Schema.parse(ALL))
    fastavro.parse_schema(json.loads(made))
    assert json.loads(made)["name"] == "orders_v2"
    assert json.loads(made)["namespace"] == "shop"
    found, _ = AVRO.columns_of(StoredSchema("1", SchemaType.AVRO, made), WANTED)
    given = ", ".join(f"{each.name} {each.type}" for each in found.columns)
    assert given.replace("`", "") == ALL.replace("TINYINT", "INT")


def test_a_key_of_one_column_is_a_schema_of_one_value() -> None:
    assert json.loads(AVRO.made("k", Schema((Column("", "BIGINT"),)))) == "long"
    made = json.loads(AVRO.made("k", Schema((Column("", "STRUCT<id: INT>"),))))
    assert (made["type"], made["name"]) == ("record", "k")


def test_columns_without_a_place_in_avro_are_all_told() -> None:
    rows = Schema.parse("v VARIANT, `a b` INT, m MAP<INT, INT>, ok INT, s STRUCT<`x-y`: INT>")
    with pytest.raises(ValueError, match="VARIANT") as failure:
        AVRO.made("k", rows)
    assert str(failure.value).split("; ") == [
        "`v` is VARIANT, which Avro has not",
        "to_json(…) makes a text of it",
        "`a b` is no name in Avro: name it otherwise with AS",
        "`m` is MAP<INT, INT>, and keys of Avro's maps are STRING",
        "`s.x-y` is no name in Avro: name it otherwise with AS",
    ]


def test_the_newest_schema_is_kept_where_rows_fit_it_and_its_names_where_not() -> None:
    newest = stored(
        {
            **record(
                id=["null", "long"],
                color={"type": "enum", "name": "E", "symbols": ["A"]},
                place=["null", {"type": "record", "name": "geo.Place", "fields": []}],
            ),
            "namespace": "shop",
        }
    )
    fitting = Schema((Column("id", "INT"), Column("color", "STRING", nullable=False)))
    assert AVRO.made("other", fitting, newest) == newest.text
    made = json.loads(AVRO.made("other", Schema.parse("id INT, place STRUCT<x: INT>"), newest))
    assert (made["namespace"], made["name"]) == ("shop", "R")
    inner = made["fields"][1]["type"][1]
    assert (inner["namespace"], inner["name"]) == ("geo", "Place")


def test_rows_that_do_not_fit_a_schema_are_told_with_every_reason() -> None:
    schema = record(
        id="int",
        must="string",
        inner={"type": "record", "name": "I", "fields": record(x="boolean")["fields"]},
        either=["string", "long"],
        next=["null", "R"],
    )
    rows = Schema.parse("id BIGINT, inner STRUCT<x: INT, y: INT>, either BOOLEAN, extra STRING")
    with pytest.raises(ValueError, match="`id`") as failure:
        AVRO.encoding(WANTED, rows, stored(schema))
    assert str(failure.value).split("; ") == [
        "`id` is BIGINT in the rows, and INT in the schema",
        "`must` has no column, and no default in the schema",
        "`inner.x` is INT in the rows, and BOOLEAN in the schema",
        "`inner.y` is no field of the schema",
        "`either` is BOOLEAN in the rows, and STRUCT<string: STRING, long: BIGINT> in the schema",
        "`extra` is no field of the schema",
    ]


def test_what_must_have_a_value_is_told_to_the_sink() -> None:
    inner = {"type": "record", "name": "I", "fields": record(x="int", y=["null", "int"])["fields"]}
    schema = record(
        a="int",
        b=["null", "int"],
        c=inner,
        d=["null", "I"],
        e="int",
        f=["null", {"type": "array", "items": "I"}],
        g={"type": "map", "values": ["null", "long"]},
    )
    rows = Schema(
        (
            *Schema.parse("a INT, b INT, c STRUCT<x: INT, y: INT>, d STRUCT<x: INT>").columns,
            Column("e", "INT", nullable=False),
            *Schema.parse("f ARRAY<STRUCT<x: INT>>, g MAP<STRING, BIGINT>").columns,
        )
    )
    assert AVRO.encoding(WANTED, rows, stored(schema)).required == (
        ("a",),
        ("c",),
        ("c", "x"),
        ("d", "x"),
        ("f", ELEMENTS),
        ("f", ELEMENTS, "x"),
        ("g",),
    )


def test_a_plain_schema_comes_from_the_definition_or_its_file(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(record(id="long")))
    by_file = Wanted(Part.VALUE, "avro", tmp_path, schema_file="order.avsc")
    by_text = Wanted(Part.VALUE, "avro", tmp_path, avro_schema=json.dumps(record(id="long")))
    for wanted in (by_file, by_text):
        assert list(AVRO.faults(wanted)) == []
        assert AVRO.columns(wanted) == Schema((Column("id", "BIGINT"),))


def test_what_is_wrong_with_the_schema_of_a_definition_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.avsc").write_text('{"type": "recrod"}')
    missing = Wanted(Part.VALUE, "avro", tmp_path, schema_file="none.avsc")
    bad = Wanted(Part.VALUE, "avro", tmp_path, schema_file="bad.avsc")
    narrow, text = Schema.parse("id INT"), json.dumps(record(id="long"))
    unfit = Wanted(Part.VALUE, "avro", tmp_path, narrow, avro_schema=text)
    faults = [sentence for each in (missing, bad, unfit) for sentence in AVRO.faults(each)]
    assert faults == [
        "reading none.avsc: No such file or directory",
        "`bad.avsc` is no schema of Avro: it is of an unknown type `recrod`",
        "`id` is BIGINT in the messages, and INT in the columns",
    ]


def test_a_record_within_itself_is_read_as_deep_as_columns_are_declared() -> None:
    node = record(id="long", next=["null", "R"])
    columns = Schema.parse("id BIGINT, next STRUCT<id: BIGINT, next: STRUCT<id: BIGINT>>")
    assert AVRO.unreadable(stored(node), columns, WANTED) == []
