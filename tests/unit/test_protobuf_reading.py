"""Protobuf messages to columns, over Arrow batches as workers do it; held against Protobuf's own
library.
"""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from tests import protobuf_samples as samples

from headrace.formats import protobuf_schemas as schemas
from headrace.formats.protobuf_reading import Decoder, Messages, Reader, Writer, function
from headrace.formats.protobuf_types import arrow_struct, columns_of, fields_for
from headrace.formats.protobuf_writing import Encoder
from headrace.model.schema import Schema
from headrace.model.types import fields_of

HEAD = b"\0\0\0\0\7"


def message_of(text: str, name: str | None = None) -> Descriptor:
    return schemas.of_text('syntax = "proto3";' + text).message(name)


def read(descriptor: Descriptor, *messages: bytes, columns: str | None = None) -> list[Any]:
    """A row each, or the code of what is wrong with it."""
    schema = Schema.parse(columns) if columns is not None else columns_of(descriptor)
    fields, faults = fields_for(descriptor, fields_of(schema))
    assert not faults
    found, codes = Decoder(fields).decode(pa.array(messages, pa.binary()))
    rows = pa.StructArray.from_arrays(found, names=schema.names).to_pylist()
    return [code or row for code, row in zip(codes.to_pylist(), rows, strict=True)]


def only(descriptor: Descriptor, message: bytes, columns: str | None = None) -> Any:
    (row,) = read(descriptor, message, columns=columns)
    return row


def made(descriptor: Descriptor, **fields: Any) -> bytes:
    return GetMessageClass(descriptor)(**fields).SerializeToString()


@pytest.mark.parametrize("seed", range(2))
def test_random_messages_come_back_byte_for_byte(seed: int) -> None:
    """5,000 each with every type; what is read and written again is what the library wrote."""
    order = samples.order()
    schema = columns_of(order)
    schema = Schema(tuple(each for each in schema.columns if each.name != "extra"))
    messages = samples.messages(order, 5_000, seed)
    for each in messages:
        each.ClearField("extra")
    encoded = [each.SerializeToString(deterministic=True) for each in messages]
    fields, _ = fields_for(order, fields_of(schema))
    columns, codes = Decoder(fields).decode(pa.array(encoded, pa.binary()))
    assert codes.null_count == len(codes)
    rows = pa.StructArray.from_arrays(columns, fields=list(arrow_struct(fields_of(schema))))
    writing, faults = fields_for(order, fields_of(schema), writing=True)
    assert not faults
    assert Encoder(writing).encode(rows).to_pylist() == encoded
    # And of a part of an array, as a batch may be.
    assert Encoder(writing).encode(rows.slice(4_000)).to_pylist() == encoded[4_000:]


def test_what_was_not_written_is_a_zero_or_null() -> None:
    message = message_of(
        """
        message A { int32 a = 1; optional int32 b = 2; string s = 3; B m = 4; repeated int32 l = 5;
                    map<string, int32> p = 6; oneof o { int32 x = 7; string y = 8; } E e = 9; }
        message B { int32 z = 1; }
        enum E { FIRST = 0; SECOND = 1; }
        """
    )
    nothing: dict[str, Any] = {"a": 0, "b": None, "s": "", "m": None, "l": [], "p": []}
    assert only(message, b"") == {**nothing, "x": None, "y": None, "e": "FIRST"}
    assert only(message, made(message, b=0, x=0, m={})) == {
        **nothing,
        "b": 0,
        "m": {"z": 0},
        "x": 0,
        "y": None,
        "e": "FIRST",
    }


def test_defaults_and_required_fields_of_proto2() -> None:
    legacy = samples.legacy()
    row = only(legacy, made(legacy, id=1))
    assert row == {
        "id": 1,
        "name": "nobody",
        "count": 7,
        "numbers": [],
        "packed": [],
        "kind": "B",
        "large": Decimal(2**64 - 1),
        "inner": None,
        "inners": [],
    }
    whole = GetMessageClass(legacy)(id=2, inners=[{"code": "a"}, {"code": "b"}])
    without: Any = GetMessageClass(legacy)(id=3)
    without.inners.add(code="a")
    without.inners.add(rate=1.0)
    inner = GetMessageClass(legacy)(id=4, inner={"rate": 1.0})
    messages = [each.SerializePartialToString() for each in (whole, without, inner)]
    rows = read(legacy, b"", *messages, made(legacy, id=5))
    assert [row if isinstance(row, str) else row["id"] for row in rows] == [
        "MISSING_FIELD",
        2,
        "MISSING_FIELD",
        "MISSING_FIELD",
        5,
    ]


def test_numbers_of_enums_without_a_name_are_kept() -> None:
    text = (
        "message A { E e = 1; repeated E l = 2; optional E o = 3; } enum E { ZERO = 0; ONE = 1; }"
    )
    message = message_of(text)
    encoded = b"\x08\x05\x12\x03\x01\x09\x00"
    assert only(message, encoded) == {"e": "5", "l": ["ONE", "9", "ZERO"], "o": None}
    assert only(message, encoded, columns="e INT, l ARRAY<INT>") == {"e": 5, "l": [1, 9, 0]}
    again = 'syntax = "proto2"; message A { optional E e = 1; } enum E { A1 = 1; }'
    assert only(schemas.of_text(again).message(), b"\x08\x05") == {"e": "5"}


def test_times_dates_and_stretches_of_time() -> None:
    message = message_of(
        """
        import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
        import "google/type/date.proto";
        message A { google.protobuf.Timestamp t = 1; google.protobuf.Duration d = 2;
                    google.type.Date y = 3; repeated google.protobuf.Timestamp l = 4; }
        """
    )
    at = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC)
    row = only(
        message,
        made(
            message,
            t={"seconds": -1, "nanos": 999_999_999},
            d={"seconds": -5, "nanos": -500_000_000},
            y={"year": 2024, "month": 2, "day": 29},
        ),
    )
    assert row == {"t": at, "d": Decimal("-5.5"), "y": datetime.date(2024, 2, 29), "l": []}
    nanos = "t STRUCT<seconds: BIGINT, nanos: INT>"
    whole = made(message, t={"seconds": 1, "nanos": 123_456_789})
    assert only(message, whole, columns=nanos) == {"t": {"seconds": 1, "nanos": 123_456_789}}
    wrong = [
        made(message, t={"seconds": 10**12}),
        made(message, t={"nanos": -1}),
        made(message, d={"seconds": 1, "nanos": -1}),
        made(message, d={"seconds": 10**12}),
        made(message, y={"year": 2023, "month": 2, "day": 29}),
        made(message, y={"year": 2023, "month": 2}),
        made(message, y={}),
        made(message, l=[{}, {"seconds": 10**12}]),
        whole,
    ]
    rows = read(message, *wrong)
    assert rows[:-1] == ["OUT_OF_RANGE"] * 8
    assert rows[-1]["t"].microsecond == 123_456


def test_wrappers_json_and_messages_without_fields() -> None:
    message = message_of(
        """
        import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto";
        import "google/protobuf/empty.proto";
        message A { google.protobuf.DoubleValue d = 1; google.protobuf.StringValue s = 2;
                    google.protobuf.Value v = 3; google.protobuf.ListValue l = 4;
                    google.protobuf.Empty e = 5; google.protobuf.Struct t = 6; }
        """
    )
    nothing: dict[str, Any] = dict.fromkeys(("d", "s", "v", "l", "e", "t"))
    assert only(message, b"") == nothing
    assert only(message, made(message, d={}, s={}, v={}, e={})) == {
        **nothing,
        "d": 0.0,
        "s": "",
        "v": "null",
        "e": True,
    }
    whole = GetMessageClass(message)()
    whole.v.string_value = "ä"  # type: ignore[attr-defined]
    whole.l.extend([1, 2.5, None, True])  # type: ignore[attr-defined]
    whole.t.update({"a": {"b": []}})  # type: ignore[attr-defined]
    row = only(message, whole.SerializeToString())
    assert (row["v"], row["l"], row["t"]) == ('"ä"', "[1, 2.5, null, true]", '{"a": {"b": []}}')
    assert only(message, b"\x1a\x01\xff") == "NOT_PROTOBUF"


def test_of_what_was_written_twice_the_last_counts() -> None:
    """ptars would give both of a oneof, and both entries of a map."""
    message = message_of(
        """
        message A { oneof o { int32 x = 1; string y = 2; B m = 3; } map<string, int32> p = 4;
                    repeated A.B l = 5;
                    message B { oneof i { int32 u = 1; int32 v = 2; } map<int32, B> q = 3; } }
        """
    )
    (first, second, third, fourth, fifth, broken, good) = read(
        message,
        b"\x12\x01s\x08\x01",
        b"\x22\x05\x0a\x01a\x10\x01\x22\x05\x0a\x01b\x10\x07\x22\x05\x0a\x01a\x10\x02",
        b"\x2a\x00\x2a\x04\x08\x01\x10\x02",
        # An entry without its message, which ptars panics for.
        b"\x2a\x04\x1a\x02\x08\x09",
        b"\x1a\x02\x08\x01\x08\x02\x1a\x02\x10\x03",
        # A number of a field that is too large besides, which only the library calls broken.
        b"\x12\x01s\x08\x01\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01\x00",
        b"\x08\x05",
        columns="x INT, y STRING, m STRUCT<u: INT, v: INT>, p MAP<STRING, INT>, "
        "l ARRAY<STRUCT<u: INT, v: INT, q: MAP<INT, STRUCT<u: INT>>>>",
    )
    assert (first["x"], first["y"]) == (1, None)
    assert dict(second["p"]) == {"a": 2, "b": 7}
    assert [each["v"] for each in third["l"]] == [None, 2]
    assert [each["u"] for each in third["l"]] == [None, None]
    assert fourth["l"][0]["q"] == [(9, {"u": None})]
    assert (fifth["x"], fifth["m"]) == (None, {"u": None, "v": 3})
    assert broken == "NOT_PROTOBUF"
    assert good["x"] == 5


def test_only_broken_messages_are_bad() -> None:
    message = message_of("message A { int64 id = 1; string s = 2; }")
    broken = [b"\x08", b"\x12\x05ab", b"\x12\x01\xff", b"\x0f", b"\x12" + b"\xff" * 9 + b"\x01"]
    messages: list[bytes] = []
    expected: list[Any] = []
    for number in range(1000):
        bad = number % 97 == 5
        messages.append(broken[number % len(broken)] if bad else made(message, id=number))
        expected.append("NOT_PROTOBUF" if bad else {"id": number, "s": ""})
    assert read(message, *messages) == expected
    assert read(message, *broken) == ["NOT_PROTOBUF"] * len(broken)
    assert read(message) == []


def test_what_is_taken_for_a_message_is_what_the_library_takes_for_one() -> None:
    """Messages with bytes changed, lost and added; the values are the same, too.

    But for one thing: the number of a field that is larger than any may be. What has one is broken,
    and ptars passes over it as over a field that it does not know.
    """
    chance, passed_over = random.Random(1), 0
    message = message_of(
        """
        message A { int32 i = 1; string s = 2; B m = 3; repeated B l = 4; repeated int32 p = 5;
                    oneof o { int64 x = 6; B y = 7; } map<string, int32> k = 8; sint64 z = 9; }
        message B { bool f = 1; bytes b = 2; fixed32 g = 3; }
        """
    )
    found = [
        _changed(chance, each.SerializeToString())
        for each in samples.messages(message, 4_000, seed=3)
    ]
    for encoded, row in zip(found, read(message, *found), strict=True):
        try:
            whole: Any = GetMessageClass(message).FromString(encoded)
        except DecodeError:
            passed_over += row != "NOT_PROTOBUF"
            continue
        assert row != "NOT_PROTOBUF", encoded
        assert (row["i"], row["s"], row["z"], row["p"]) == (whole.i, whole.s, whole.z, whole.p)
        # The library leaves out an entry that has a further field.
        assert dict(row["k"]).items() >= dict(whole.k).items()
        assert [each["b"] for each in row["l"]] == [each.b for each in whole.l]
        assert row["x"] == (whole.x if whole.HasField("x") else None)
        assert (row["y"] is not None) == whole.HasField("y")
    assert passed_over < 20  # of more than 2,000


def _changed(chance: random.Random, encoded: bytes) -> bytes:
    some = bytearray(encoded)
    for _ in range(chance.randrange(3)):
        at = chance.randrange(len(some) + 1)
        match chance.randrange(3):
            case 0:
                some[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del some[at : at + chance.randrange(1, 4)]
            case _:
                some[at:at] = chance.randbytes(chance.randrange(1, 3))
    return bytes(some)


def test_declared_columns_may_be_fewer_others_and_wider() -> None:
    message = message_of(
        "message A { int32 a = 1; uint64 b = 2; float c = 3; bytes d = 4; string e = 5; B f = 6; }"
        "message B { int32 g = 1; int32 h = 2; }"
    )
    whole = made(message, a=1, b=2, c=0.5, d=b"x", e="1.50", f={"g": 3, "h": 4})
    row = only(
        message,
        whole,
        columns="new STRING, f STRUCT<h: BIGINT, k: ARRAY<INT>>, e DECIMAL(5, 2), d STRING, "
        "c DOUBLE, b BIGINT, A DOUBLE",
    )
    assert row == {
        "new": None,
        "f": {"h": 4, "k": None},
        "e": Decimal("1.50"),
        "d": "x",
        "c": 0.5,
        "b": 2,
        "A": 1.0,
    }
    columns = "b BIGINT, e DECIMAL(5, 2), d STRING"
    good = made(message, e="1")
    rows = read(
        message,
        made(message, b=2**63, e="1"),
        good,
        made(message, e="one"),
        made(message, e="1", d=b"\xff"),
        columns=columns,
    )
    assert rows == ["OUT_OF_RANGE", {"b": 0, "e": Decimal("1.00"), "d": ""}, *["OUT_OF_RANGE"] * 2]
    assert read(message, b"", columns="x INT NOT NULL") == ["MISSING_FIELD"]
    with_b = made(message, f={})
    assert read(message, b"", with_b, columns="f STRUCT<g: INT> NOT NULL") == [
        "MISSING_FIELD",
        {"f": {"g": 0}},
    ]


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ("a STRING, p INT", "`p` is INT, and in its message a map"),
        ("l STRING", "`l` is STRING, and in its message repeated string"),
        ("a TIMESTAMP", "`a` is TIMESTAMP, and in its message int32"),
        ("m STRUCT<a: INT, n: STRUCT<l: INT>>", "`m.n.l` is INT, and in its message repeated str"),
        ("t STRING", "`t` is STRING, and in its message google.protobuf.Timestamp"),
        ("p MAP<STRING, BOOLEAN>", "`p.value` is BOOLEAN, and in its message int32"),
        ("e DOUBLE", "`e` is DOUBLE, and in its message E"),
    ],
)
def test_columns_that_do_not_fit_are_named(columns: str, fault: str) -> None:
    message = message_of(
        """
        import "google/protobuf/timestamp.proto";
        message A { int32 a = 1; map<string, int32> p = 2; repeated string l = 3; A m = 4; A n = 5;
                    google.protobuf.Timestamp t = 6; E e = 7; }
        enum E { ZERO = 0; }
        """
    )
    _, faults = fields_for(message, fields_of(Schema.parse(columns)))
    assert len(faults) == 1
    assert fault in faults[0]


def test_messages_within_themselves_and_groups_need_declared_columns() -> None:
    tree = message_of("message A { int32 id = 1; B b = 2; } message B { repeated A a = 1; }")
    with pytest.raises(ValueError, match=r"`B\.a` is inside of what it is itself, A; declare"):
        columns_of(tree)
    deep = made(tree, id=1, b={"a": [{"id": 2, "b": {"a": [{"id": 3}]}}]})
    columns = "id INT, b STRUCT<a: ARRAY<STRUCT<id: INT>>>"
    assert only(tree, deep, columns=columns) == {"id": 1, "b": {"a": [{"id": 2}]}}
    group = schemas.of_text(
        'syntax = "proto2"; message A { optional int32 id = 1; optional group G = 2 {} }'
    ).message()
    with pytest.raises(ValueError, match=r"`A\.g` is a group; declare"):
        columns_of(group)
    assert only(group, b"\x08\x01\x13\x14", columns="id INT") == {"id": 1}
    with pytest.raises(ValueError, match="`Id` is there twice"):
        columns_of(message_of("message A { int32 id = 1; int32 Id = 2; }"))
    with pytest.raises(ValueError, match="A has no fields"):
        columns_of(message_of("message A {}"))


OLD = "message Other { int32 x = 1; } message A { int32 id = 1; } "
NEW = "message A { int64 id = 1; B b = 2; message B { string s = 1; } }"


def reader(glue: bool = False) -> Reader:
    """Messages of two schemas, one of them with its message in another place."""
    columns = columns_of(message_of(NEW))
    writers = []
    for id, text in ((7, OLD), (8, NEW)):
        message = message_of(text, "A")
        head = b"\3\0" + bytes([id]) * 16 if glue else b"\0\0\0\0" + bytes([id])
        where = schemas.glue_index_of(message) if glue else schemas.index_of(message)
        fields, _ = fields_for(message, fields_of(columns))
        writers.append(Writer(head, where, fields))
    return Reader(Messages(arrow_struct(fields_of(columns)), tuple(writers), True, glue))


def heads(*ids: int) -> list[bytes]:
    return [b"\0\0\0\0" + bytes([id]) for id in ids]


def test_a_batch_of_several_schemas_keeps_its_order() -> None:
    old, new, unknown = heads(7, 8, 9)
    five, whole = b"\x08\x05", b"\x08\x06\x12\x03\x0a\x01s"
    messages = [
        old + b"\2\2" + five,  # the second message
        None,
        new + b"\0" + whole,
        unknown + b"\0" + five,
        new + b"\2\0" + whole,  # the first one, written as a list
        old + b"\0" + five,  # another message
        new + b"\4\0\0" + five,  # the one inside
        new,
        new + b"\x80\x80\x80\x80\x80\x80",
        new + b"\xff\xff\x03",
        b"\0\0",
        b"",
        new + b"\0\x08",
        old + b"\2\2",
    ]
    rows = reader().read(pa.array(messages, pa.binary())).to_pylist()
    told = [row and (row["__fault"], row["id"], row["b"]) for row in rows]
    bad = ("BAD_MESSAGE_INDEX", None, None)
    assert told == [
        (None, 5, None),
        None,
        (None, 6, {"s": "s"}),
        None,
        (None, 6, {"s": "s"}),
        bad,
        bad,
        bad,
        bad,
        bad,
        None,
        None,
        ("NOT_PROTOBUF", 0, None),
        (None, 0, None),
    ]
    # As part of an array, and in a type for more bytes.
    part = pa.array(messages, pa.large_binary()).slice(2)
    assert reader().read(part).to_pylist() == rows[2:]


def test_a_batch_of_one_schema_and_one_of_none() -> None:
    (new,) = heads(8)
    messages = pa.array([new + b"\0\x08" + bytes([each]) for each in range(9)], pa.binary())
    assert [row["id"] for row in reader().read(messages).to_pylist()] == list(range(9))
    assert reader().read(messages.slice(3, 2)).field("id").to_pylist() == [3, 4]
    nothing = pa.array([None, b"\0"], pa.binary())
    assert reader().read(nothing).to_pylist() == [None, None]
    assert reader().read(pa.array([], pa.binary())).to_pylist() == []
    read = function(Messages(pa.struct([("id", pa.int64())]), (), True))
    assert read(messages).to_pylist() == [None] * 9


def test_frames_of_glue() -> None:
    old, new = (b"\3\0" + bytes([id]) * 16 for id in (7, 8))
    zipped = b"\3\5" + bytes([8]) * 16
    messages = [old + b"\0\x08\1", new + b"\0\x08\2", zipped + b"\0\x08\3", new + b"\1\x08\4"]
    rows = reader(glue=True).read(pa.array(messages, pa.binary())).to_pylist()
    assert [(row["__fault"], row["id"]) for row in rows] == [
        (None, 1),
        (None, 2),
        (None, 3),
        ("BAD_MESSAGE_INDEX", None),
    ]


def test_plain_messages_among_nulls() -> None:
    message = message_of(NEW)
    columns = columns_of(message)
    fields, _ = fields_for(message, fields_of(columns))
    plain = Reader(Messages(arrow_struct(fields_of(columns)), (Writer(b"", (), fields),)))
    rows = plain.read(pa.array([None, b"\x08\1", b"\x08", None], pa.binary())).to_pylist()
    assert [row and (row["__fault"], row["id"]) for row in rows] == [
        None,
        (None, 1),
        ("NOT_PROTOBUF", 0),
        None,
    ]
