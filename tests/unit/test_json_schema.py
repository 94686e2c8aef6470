"""JSON Schema as columns, and columns as JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import StoredSchema
from headrace.admin.stores import RegistryAddress
from headrace.formats.json_schema import JsonSchemaFormat
from headrace.formats.options import Part, Wanted
from headrace.model.schema import Column, Schema

FORMAT = JsonSchemaFormat()
REGISTRY = RegistryAddress("confluent", "http://unused:8081", None, None)
WANTED = Wanted(Part.VALUE, "json_schema", Path(), registry=REGISTRY)


def stored(schema: Any, *references: tuple[str, Any]) -> StoredSchema:
    texts = tuple((name, json.dumps(each)) for name, each in references)
    return StoredSchema("7", SchemaType.JSON, json.dumps(schema), texts)


def columns(properties: dict[str, Any], *references: tuple[str, Any], **rest: Any) -> list[str]:
    schema = stored({"type": "object", "properties": properties, **rest}, *references)
    found, scalar = FORMAT.columns_of(schema, WANTED)
    assert not scalar
    return [f"{each.name} {each.type.replace('`', '')}" for each in found.columns]


def test_types_become_columns() -> None:
    assert columns(
        {
            "id": {"type": "integer"},
            "small": {"type": "integer", "connect.type": "int16"},
            "price": {"type": ["number", "null"]},
            "paid": {"type": "boolean"},
            "name": {"type": "string", "format": "email"},
            "day": {"type": "string", "format": "date"},
            "at": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
            "photo": {"type": "string", "contentEncoding": "base64"},
            "state": {"enum": ["new", "paid"]},
            "lines": {"type": "array", "items": {"properties": {"sku": {"type": "string"}}}},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "both": {"type": ["integer", "string"]},
            "any": {},
            "open": {"type": "object"},
            "pairs": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
            "nothing": {"type": "null"},
            "total": {"type": ["integer", "number"]},
        }
    ) == [
        "id BIGINT",
        "small SMALLINT",
        "price DOUBLE",
        "paid BOOLEAN",
        "name STRING",
        "day DATE",
        "at TIMESTAMP",
        "photo BINARY",
        "state STRING",
        "lines ARRAY<STRUCT<sku: STRING>>",
        "counts MAP<STRING, BIGINT>",
        "both VARIANT",
        "any VARIANT",
        "open VARIANT",
        "pairs ARRAY<VARIANT>",
        "nothing STRING",
        "total DOUBLE",
    ]


def test_references_within_a_schema_and_to_others_are_followed() -> None:
    money = {"$id": "urn:money", "$defs": {"amount": {"type": "number"}}}
    found = columns(
        {
            "a": {"$ref": "#/definitions/address"},
            "total": {"$ref": "money.json#/$defs/amount"},
            "tax": {"$ref": "urn:money#/$defs/amount"},
            "odd": {"$ref": "#/definitions/a~1b%20c"},
        },
        ("money.json", money),
        definitions={
            "address": {"type": "object", "properties": {"zip": {"type": "string"}}},
            "a/b c": {"type": "boolean"},
        },
    )
    assert found == ["a STRUCT<zip: STRING>", "total DOUBLE", "tax DOUBLE", "odd BOOLEAN"]


def test_what_an_object_is_besides_adds_its_fields() -> None:
    base = {"properties": {"id": {"type": "integer"}}}
    schema = stored({"allOf": [base, {"properties": {"name": {"type": "string"}}}]})
    assert FORMAT.columns_of(schema, WANTED)[0].names == ("id", "name")


def test_a_schema_of_one_value_is_one_column() -> None:
    found, scalar = FORMAT.columns_of(stored({"type": "integer"}), WANTED)
    assert (found, scalar) == (Schema((Column("value", "BIGINT"),)), True)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"next": {"$ref": "#"}}, "`next` is within itself"),
        ({"a": {"$ref": "#/definitions/none"}}, "`#/definitions/none` refers to nothing"),
        ({"a": {"$ref": "other.json"}}, "`other.json` is referred to, and not there"),
        ({"id": {}, "ID": {}}, "`id` and `ID`, which are the same name in SQL"),
    ],
)
def test_what_columns_cannot_be_is_told(properties: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("$", r"\$")):
        columns(properties)


ALL = Schema.parse(
    "b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10, 2), s STRING, bin BINARY, "
    "day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, a ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>, "
    "v VARIANT"
)


def test_columns_become_a_schema_that_is_one_and_gives_them_back() -> None:
    made = json.loads(FORMAT.made("Order", ALL))
    jsonschema.Draft7Validator.check_schema(made)
    jsonschema.validate({"i": 1, "a": [{"x": None}], "at": None}, made)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"i": "1"}, made)
    given, _ = FORMAT.columns_of(stored(made), WANTED)
    kept = {each.name: each.type.replace("`", "") for each in given.columns}
    lost = {"n": "DOUBLE", "local": "STRING"}
    assert kept == {each.name: each.type for each in ALL.columns} | lost


def test_a_key_of_one_column_is_a_schema_of_one_value() -> None:
    made = json.loads(FORMAT.made("key", Schema((Column("", "BIGINT"),))))
    assert made["type"] == "integer"


@pytest.mark.parametrize(
    ("own", "target", "fits"),
    [
        ({"type": "integer"}, "DOUBLE", True),
        ({"type": "integer"}, "DECIMAL(10, 2)", True),
        ({"type": "object"}, "STRING", True),
        ({"type": "integer"}, "VARIANT", True),
        ({"type": "string"}, "TIMESTAMP", True),
        ({"type": "string"}, "BIGINT", False),
        ({"type": "array", "items": {"type": "string"}}, "ARRAY<BOOLEAN>", False),
        ({"properties": {"x": {"type": "boolean"}}}, "STRUCT<x: INT>", False),
    ],
)
def test_a_schema_fits_columns_or_not(own: Any, target: str, fits: bool) -> None:
    writer = stored({"type": "object", "properties": {"c": own, "more": {}}})
    found = FORMAT.unreadable(writer, Schema.parse(f"c {target}, new STRING"), WANTED)
    assert (not found) == fits, found


def test_rows_that_do_not_fit_a_schema_are_told_with_every_reason() -> None:
    schema = stored(
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["id", "missing"],
            "properties": {
                "id": {"type": "integer"},
                "missing": {"type": "string"},
                "lines": {"type": "array", "items": {"type": "integer"}},
            },
        }
    )
    rows = Schema.parse("id DOUBLE, extra STRING, lines ARRAY<STRING>")
    with pytest.raises(ValueError, match="`id` is DOUBLE in the rows") as failure:
        FORMAT.encoding(WANTED, rows, schema)
    assert str(failure.value).split("; ") == [
        "`id` is DOUBLE in the rows, and BIGINT in the schema",
        "`extra` is no field of the schema",
        "`lines.element` is STRING in the rows, and BIGINT in the schema",
        "`missing` has no column, and must be there by the schema",
    ]


def test_nulls_are_left_out_where_a_schema_wants_it() -> None:
    text, either = {"type": "string"}, {"type": ["string", "null"]}
    rows = Schema.parse("a STRING, b STRING")
    must = FORMAT.encoding(
        WANTED, rows, stored({"properties": {"a": text, "b": text}, "required": ["a"]})
    )
    assert must.required == (("a",),)
    assert "'ignoreNullFields', 'true'" in must.of_fields([("a", "a"), ("b", "b")])
    kept = FORMAT.encoding(
        WANTED, rows, stored({"properties": {"a": either, "b": text}, "required": ["a"]})
    )
    assert kept.required == (("b",),)
    assert "'ignoreNullFields', 'false'" in kept.of_fields([("a", "a"), ("b", "b")])
