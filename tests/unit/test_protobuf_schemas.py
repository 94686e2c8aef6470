"""Schemas of Protobuf: compiled from text, files, classes and descriptors."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from tests import protobuf_samples as samples

from headrace.formats import protobuf_schemas as schemas

TREE = """
syntax = "proto3";
package a;
message B { message C {} message A { message D {} } }
message E { map<string, B> m = 1; message F {} }
"""


def descriptors(messages: schemas.Messages) -> dict[str, str]:
    files = FileDescriptorSet.FromString(messages.files).file
    return {each.name: base64.b64encode(each.SerializeToString()).decode() for each in files}


def test_texts_and_descriptors_may_refer_to_each_other() -> None:
    by_text = schemas.of_text(samples.ORDER, samples.REFERENCES)
    coded = descriptors(by_text)
    names = [each.name for each in by_text.message("shop.Order").fields]
    for main in (samples.ORDER, coded[schemas.MAIN]):
        for reference in (samples.COMMON, coded["common.proto"]):
            found = schemas.of_text(main, (("common.proto", reference),))
            assert [each.name for each in found.message().fields] == names


def test_what_does_not_compile_says_where() -> None:
    with pytest.raises(ValueError, match=r'^schema.proto:1:30: "Foo" is not defined\.$'):
        schemas.of_text('syntax = "proto3"; message A{Foo x = 1;}')
    with pytest.raises(ValueError, match=r"^schema.proto:1:1: Expected top-level statement"):
        schemas.of_text("hello")
    with pytest.raises(ValueError, match=r"^common.proto: File not found.; schema.proto:4"):
        schemas.of_text(samples.ORDER)
    coded = descriptors(schemas.of_text(samples.ORDER, samples.REFERENCES))
    with pytest.raises(ValueError, match=r"it imports common\.proto, which is not among its ref"):
        schemas.of_text(coded[schemas.MAIN])
    with pytest.raises(ValueError, match="refers to a file with the name"):
        schemas.of_text('syntax = "proto3";', (("../x.proto", "message A {}"),))


def test_messages_are_chosen_by_name_and_else_the_first() -> None:
    messages = schemas.of_text(TREE)
    assert messages.message().full_name == "a.B"
    assert messages.message("a.B.A.D").full_name == "a.B.A.D"
    assert messages.message("D").full_name == "a.B.A.D"
    assert [each.name for each in messages.all()] == ["B", "C", "A", "D", "E", "F"]
    with pytest.raises(ValueError, match="it has no message `X`; there is a"):
        messages.message("X")
    with pytest.raises(ValueError, match=r"it has no message$"):
        schemas.of_text('syntax = "proto3";').message()
    two = 'syntax = "proto3"; message A { message X {} } message B { message X {} }'
    with pytest.raises(ValueError, match="several messages `X`"):
        schemas.of_text(two).message("X")


@pytest.mark.parametrize(
    ("name", "index", "glue"),
    [
        ("B", (0,), 0),
        ("B.A", (0, 1), 1),
        ("B.A.D", (0, 1, 0), 2),
        ("B.C", (0, 0), 3),
        ("E", (1,), 4),
    ],
)
def test_places_of_messages(name: str, index: tuple[int, ...], glue: int) -> None:
    """Confluent counts as the file does; Glue by all names in their order."""
    message = schemas.of_text(TREE).message(f"a.{name}")
    assert schemas.index_of(message) == index
    assert schemas.glue_index_of(message) == (glue,)


def test_imports_of_a_file_are_beside_it_or_named_from_above(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "common.proto").write_text(samples.COMMON)
    (tmp_path / "base.proto").write_text('syntax = "proto3"; import "shop/deep.proto";')
    (folder / "deep.proto").write_text('syntax = "proto3"; message Deep { int32 x = 1; }')
    order = samples.ORDER.replace('"common.proto";', '"common.proto"; import "base.proto";')
    file = folder / "order.proto"
    file.write_text(order)
    assert schemas.of_file(file).message().full_name == "shop.Order"
    text, references = schemas.text_of_file(file)
    assert text == order
    assert [name for name, _ in references] == ["common.proto", "shop/deep.proto", "base.proto"]
    assert schemas.of_text(text, references).message().full_name == "shop.Order"


def test_a_file_that_was_edited_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.proto"
    file.write_text('syntax = "proto3"; message A { int32 x = 1; }')
    assert [each.name for each in schemas.of_file(file).message().fields] == ["x"]
    file.write_text('syntax = "proto3"; message A { int32 other = 1; }')
    assert [each.name for each in schemas.of_file(file).message().fields] == ["other"]
    with pytest.raises(ValueError, match="there is no such file"):
        schemas.of_file(tmp_path / "b.proto")


def test_a_class_is_found_beside_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / "common.proto").write_text(samples.COMMON)
    (tmp_path / "order.proto").write_text(samples.ORDER)
    roots = [f"-I{tmp_path}", *(f"-I{each}" for each in schemas._include_roots())]
    made = [f"--python_out={tmp_path}", "order.proto", "common.proto"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *roots, *made], check=True)
    found = schemas.of_class("order_pb2.Order", tmp_path)
    assert found.message().full_name == "shop.Order"
    assert found.message("Refund").full_name == "shop.Refund"
    # Asked in a process of its own: nothing of it is in this one.
    assert "order_pb2" not in sys.modules
    text, references = schemas.texts_of(found)
    assert [name for name, _ in references] == ["common.proto"]
    assert schemas.of_text(text, references).message().full_name == "shop.Order"


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("Order", "it is no `module.Class`"),
        ("nowhere.Order", "No module named 'nowhere'"),
        ("json.JSONDecoder", "has no attribute 'DESCRIPTOR'"),
    ],
)
def test_what_is_no_class_of_a_message_says_why(path: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=fault):
        schemas.of_class(path, tmp_path)
