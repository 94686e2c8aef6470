"""Records as lines, the youngest of several partitions, positions and lag, deliveries."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.admin.groups import Position
from headrace.admin.reading import youngest
from headrace.admin.records import Delivery, Record, Rejection
from headrace.cli import record_lines
from headrace.cli.record_lines import UnreadableLine
from headrace.errors import RecordRejected

some_bytes = st.none() | st.binary() | st.text().map(str.encode)


@given(
    some_bytes,
    some_bytes,
    st.lists(st.tuples(st.text(), some_bytes)),
    st.integers(0, 99),
    st.integers(1, 2**45),
)
def test_a_record_printed_as_json_reads_back_as_the_same(
    value: bytes | None,
    key: bytes | None,
    headers: list[tuple[str, bytes | None]],
    partition: int,
    timestamp: int,
) -> None:
    record = Record(value, key, tuple(headers), partition, timestamp)
    line = record_lines.to_json(record)
    assert "\n" not in line
    assert record_lines.from_json(line.encode()) == record


def test_a_value_that_is_no_string_is_sent_as_the_json_that_it_is() -> None:
    assert (
        record_lines.from_json(b'{"value": {"a": [1, "\xc3\xa9"]}}').value
        == '{"a":[1,"é"]}'.encode()
    )
    assert record_lines.from_json(b'{"value": 5}').value == b"5"
    assert record_lines.from_json(b'{"value": "5"}').value == b"5"


def test_a_value_of_null_is_a_tombstone() -> None:
    assert record_lines.from_json(b'{"key": "k", "value": null}') == Record(None, b"k")


def test_headers_may_be_one_object_and_times_iso() -> None:
    line = b'{"value": "v", "headers": {"a": "1"}, "timestamp": "2026-03-01T12:00:00Z"}'
    assert record_lines.from_json(line) == Record(
        b"v", headers=(("a", b"1"),), timestamp=1_772_366_400_000
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"{}", "no `value`"),
        (b'{"value": "x", "vlaue": 1}', "vlaue"),
        (b'{"value": "x", "partition": -1}', "partition"),
        (b'{"value": "x", "partition": true}', "partition"),
        (b'{"value": "x", "timestamp": "soon"}', "soon"),
        (b'{"value": "x", "headers": 5}', "headers"),
        (b'{"value": "x", "headers": [5]}', "header"),
        (b'{"value": "*", "encoding": {"value": "base64"}}', "base64"),
        (b'{"value": "x", "encoding": {"value": "hex"}}', "hex"),
        (b'{"value": "x", "encoding": "base64"}', "encoding"),
        (b'{"value": "\\ud800"}', "Unicode"),
    ],
)
def test_a_line_that_is_no_record_is_told_why(line: bytes, said: str) -> None:
    with pytest.raises(UnreadableLine) as raised:
        record_lines.from_json(line)
    assert said in str(raised.value)


def test_a_line_of_text_is_split_at_the_first_separator() -> None:
    assert record_lines.from_text(b"k:v:w", None, b":") == Record(b"v:w", b"k")
    assert record_lines.from_text(b"k:v", b"fixed", None) == Record(b"k:v", b"fixed")
    with pytest.raises(UnreadableLine):
        record_lines.from_text(b"kv", None, b":")


def test_text_shows_what_was_asked_for_before_the_value() -> None:
    record = Record(None, b"k", (("h", b"1"), ("i", None)), 2, 1_772_366_400_000, 7, "t")
    assert record_lines.to_text(record, keys=False, headers=False, metadata=False) == b"null"
    assert record_lines.to_text(record, keys=True, headers=True, metadata=True) == (
        b"t[2]@7\t2026-03-01T12:00:00.000Z\th=1,i=null\tk\tnull"
    )


def test_bytes_that_are_no_text_are_marked_as_base64() -> None:
    line = json.loads(record_lines.to_json(Record(b"\x80", b"k", (("h", b"\x81"),))))
    assert (line["value"], line["encoding"]) == ("gA==", {"value": "base64"})
    assert line["headers"] == [{"key": "h", "value": "gQ==", "encoding": "base64"}]


def _record(partition: int, offset: int, timestamp: int) -> Record:
    return Record(b"", partition=partition, timestamp=timestamp, offset=offset)


def test_the_youngest_records_come_from_all_partitions_oldest_first() -> None:
    old, middle, new = _record(0, 0, 10), _record(1, 0, 20), _record(0, 1, 30)
    assert youngest([old, new, middle], 2) == [middle, new]
    assert youngest([old, new, middle], 9) == [old, middle, new]


def test_each_partition_keeps_its_order_when_its_times_run_backwards() -> None:
    first, second = _record(0, 0, 99), _record(0, 1, 5)
    other = _record(1, 0, 50)
    taken = youngest([first, second, other], 3)
    assert taken.index(first) < taken.index(second)
    assert youngest([first, second], 1) == [second]


def test_lag_is_unknown_where_position_or_end_is() -> None:
    assert Position("t", 0, 3, 10).lag == 7
    assert Position("t", 0, None, 10).lag is None
    assert Position("t", 0, 3, None).lag is None
    assert Position("t", 0, 12, 10).lag == 0


def test_a_delivery_with_rejections_raises_with_their_count() -> None:
    Delivery(3, 0, ()).raise_if_rejected()
    with pytest.raises(RecordRejected) as raised:
        Delivery(3, 2, (Rejection(2, "too large"),)).raise_if_rejected()
    assert (raised.value.rejected, raised.value.sent) == (2, 5)
    assert "#2: too large" in str(raised.value)
