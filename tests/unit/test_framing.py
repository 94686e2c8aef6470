"""Frames as SQL; `tests/spark/test_avro.py` runs it."""

from __future__ import annotations

from dataclasses import replace

from headrace.admin.stored_schemas import Framing
from headrace.formats.framing import Frame, Frames, framed, header
from headrace.formats.known import NOT_ASKED, NOT_KNOWN
from headrace.formats.options import Part

UUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"


def frames(framing: Framing = Framing.CONFLUENT, *ids: str, **refused: str) -> Frames:
    return Frames(framing, "orders", Part.VALUE, ids, {id[1:]: why for id, why in refused.items()})


def test_a_frame_of_confluent_is_a_zero_byte_and_four_of_the_id() -> None:
    assert header(Framing.CONFLUENT, "258") == b"\x00\x00\x00\x01\x02"
    assert framed(Framing.CONFLUENT, "258", "x") == "concat(X'0000000102', x)"


def test_a_frame_of_glue_has_a_byte_for_the_compression_before_its_uuid() -> None:
    assert header(Framing.GLUE, UUID).hex() == "0300" + UUID.replace("-", "")


def test_one_id_is_one_comparison_of_bytes() -> None:
    assert frames().has("value", "7") == "substr(value, 1, 5) = X'0000000007'"


def test_compressed_and_plain_messages_of_glue_have_the_same_schema() -> None:
    plain, zlib = ("0300" + UUID.replace("-", ""), "0305" + UUID.replace("-", ""))
    test = frames(Framing.GLUE).has("value", UUID)
    assert test == f"substr(value, 1, 18) IN (X'{plain.upper()}', X'{zlib.upper()}')"


def test_refused_ids_come_before_known_ones_and_the_query_ends_at_any_other() -> None:
    fault = frames(Framing.CONFLUENT, "7", "8", _9=NOT_KNOWN, _10="no").fault("value", "inner")
    refused, known = fault.index("X'0000000009'"), fault.index("THEN inner")
    assert fault.index("UNKNOWN_SCHEMA") < fault.index("INCOMPATIBLE_SCHEMA") < known
    assert refused < known < fault.index("NOT_FRAMED") < fault.index("raise_error")
    assert "IN (X'0000000007', X'0000000008')" in fault


def test_a_source_that_asks_no_more_takes_other_ids_for_bad_records() -> None:
    asked = frames(Framing.CONFLUENT, "7", _9=NOT_KNOWN)
    silent = replace(asked, asks=False)
    assert silent.fault("value", "inner").endswith("ELSE 'UNKNOWN_SCHEMA' END")
    assert NOT_ASKED in silent.sentences("value")["UNKNOWN_SCHEMA"]
    assert NOT_ASKED not in asked.sentences("value")["UNKNOWN_SCHEMA"]


def test_every_code_of_a_fault_has_a_sentence() -> None:
    for framing in Framing:
        made = frames(framing)
        codes = [each.split("'")[1] for each in made.fault("value", "NULL").split("THEN ")[1:]]
        assert {*codes} <= {*made.sentences("value")}


ID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"


def test_what_is_compressed_goes_through_a_function_and_nothing_else_does() -> None:
    ((_, payload),) = frames(Framing.GLUE, ID).steps("value", "__")
    zlib = "substr(value, 1, 2) = X'0305'"
    assert f"headrace_inflate(IF({zlib}, substr(value, 19), NULL))" in payload
    assert "__payload IS NULL, 'BAD_COMPRESSION'" in frames(Framing.GLUE, ID).fault("value", "NULL")
    key = Frames(Framing.GLUE, "orders", Part.KEY, (ID,))
    assert "__key_payload IS NULL" in key.fault("key", "NULL")

    for made in (
        frames(Framing.CONFLUENT, "7"),
        Frames(Framing.GLUE, "orders", Part.VALUE, (ID,), inflates=False),
    ):
        assert "headrace_inflate" not in str(made.steps("value", "__"))
    assert f"IF({zlib}, 'BAD_COMPRESSION'" in made.fault("value", "NULL")
    assert "`compression: none` says" in made.sentences("value")["BAD_COMPRESSION"]


def test_a_frame_says_that_a_message_is_compressed() -> None:
    plain, packed = Frame(Framing.GLUE, ID), Frame(Framing.GLUE, ID, deflates=True)
    digits = ID.replace("-", "").upper()
    assert plain.around("x") == f"concat(X'0300{digits}', x)"
    assert packed.around("x") == f"concat(X'0305{digits}', headrace_deflate(x))"
