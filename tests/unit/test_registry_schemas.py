"""Schemas from files: their type by suffix and content, and what they refer to."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.admin.registry_schemas import Reference, SchemaType, parse, read, reference
from headrace.errors import DefinitionError

AVRO, JSON, PROTOBUF = SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF
RECORD = '{"type": "record", "name": "A", "fields": []}'


@pytest.mark.parametrize(
    ("text", "type"),
    [
        (RECORD, AVRO),
        ('{"type": "enum", "name": "E", "symbols": ["A"]}', AVRO),
        ('{"type": "map", "values": "long"}', AVRO),
        ('{"type": "long", "logicalType": "timestamp-millis"}', AVRO),
        ('"string"', AVRO),
        ('["null", "string"]', AVRO),
        ('{"type": "object", "properties": {}}', JSON),
        ('{"$schema": "x", "type": "string"}', JSON),
        ('{"oneOf": [{"type": "string"}]}', JSON),
        ('{"type": ["string", "null"]}', JSON),
        ("true", JSON),
        ('syntax = "proto3";\nmessage A {}', PROTOBUF),
        ('// an order\nedition = "2023";\nmessage A {}', PROTOBUF),
        ("message A { optional int32 id = 1; }", PROTOBUF),
    ],
)
def test_the_type_is_told_by_the_content(text: str, type: SchemaType) -> None:
    assert parse(text, "schema.json").type is type


@pytest.mark.parametrize("text", ['{"type": "string"}', '{"type": "array"}', "{}", "3", "hello"])
def test_what_could_be_both_or_is_neither_must_be_named(text: str) -> None:
    with pytest.raises(DefinitionError, match="cannot be told") as refused:
        parse(text, "schema.json")

    assert "--type" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("name", "type"),
    [("a.avsc", AVRO), ("a.schema.json", JSON), ("a.jsonschema", JSON), ("A.AVSC", AVRO)],
)
def test_a_suffix_says_more_than_the_content(name: str, type: SchemaType) -> None:
    assert parse('{"type": "string"}', name).type is type


def test_a_named_type_says_more_than_the_suffix(tmp_path: Path) -> None:
    file = tmp_path / "a.avsc"
    file.write_text('{"type": "string"}')

    assert read(file, JSON).type is JSON
    assert read(file).type is AVRO


def test_text_that_is_not_json_is_refused_with_its_place() -> None:
    with pytest.raises(DefinitionError, match=r"a\.avsc:2:10: not JSON, as a schema of type AVRO"):
        parse('{"type": "record",\n "name": }', "a.avsc")


def test_avro_idl_is_refused_with_the_way_out() -> None:
    with pytest.raises(DefinitionError) as refused:
        parse("protocol A {}", "a.avdl")

    assert "idl2schemata" in str(refused.value.hint)


def test_a_file_that_is_missing_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"nowhere\.avsc"):
        read(tmp_path / "nowhere.avsc")
    with pytest.raises(DefinitionError, match="is empty"):
        parse(" \n", "a.avsc")


def test_a_reference_names_a_version_of_a_subject() -> None:
    assert reference("money.proto=money:1") == Reference("money.proto", "money", 1)
    assert reference("a=:.team:orders:12") == Reference("a", ":.team:orders", 12)


@pytest.mark.parametrize("text", ["money", "=money:1", "a=money", "a=money:x", "a=:1"])
def test_a_reference_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError, match="NAME=SUBJECT:VERSION"):
        reference(text)
