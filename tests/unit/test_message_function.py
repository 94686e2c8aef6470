"""What a worker does for a `python_rows` step, without Spark: Arrow batches in and out."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.formats.carried import COLUMN
from headrace.runtime import message_function, modules
from headrace.runtime.failures import STEP_FAILED
from headrace.runtime.message_function import (
    MessageFunction,
    Misfit,
    StepStopped,
    Target,
    fitted,
    lists,
    messages,
)
from headrace.runtime.modules import Modules, Text

HIDDEN = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("error", pa.string()),
        ("message", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
ROW = pa.struct([("id", pa.int64()), ("name", pa.string())])
TARGET = Target(ROW, {"id": "bigint", "name": "string"})


def row(id: int | None, partition: int = 0, error: str | None = None) -> dict[str, Any]:
    """A row with the hidden column; its offset is its id."""
    place = {"topic": "t", "partition": partition, "offset": id, "error": error}
    return {"data": None if error else {"id": id, "name": f"n{id}"}, COLUMN: place}


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), pa.schema([("data", ROW), (COLUMN, HIDDEN)]))


def step(code: str, size: int = 100, target: Target = TARGET) -> MessageFunction:
    return MessageFunction(
        "scored", "hr_m.f", Modules({"hr_m": Text("hr_m.py", code.encode())}), size, target
    )


def run(code: str, *batches: pa.RecordBatch, size: int = 100) -> list[dict[str, Any]]:
    found = step(code, size).task()(iter(batches))
    return [each for one in found for each in one.to_pylist()]


def shape(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Of each row: its id, its offset and its error."""
    return [
        (each["data"] and each["data"]["id"], each[COLUMN]["offset"], each[COLUMN]["error"])
        for each in rows
    ]


# Lists


def sizes(size: int, *batches: pa.RecordBatch) -> list[int | str]:
    """How long the lists are; what passes by is its error."""
    return [
        rows.num_rows if place else rows.column(COLUMN)[0]["error"].as_py()
        for place, rows in lists(iter(batches), size)
    ]


def test_a_list_has_at_most_so_many_messages_whatever_the_batches_are() -> None:
    ten = [row(number) for number in range(10)]
    assert sizes(4, batch(*ten)) == [4, 4, 2]
    assert sizes(4, batch(*ten[:3]), batch(*ten[3:6]), batch(*ten[6:])) == [4, 4, 2]
    assert sizes(100, batch(*ten[:5]), batch(), batch(*ten[5:])) == [10]
    assert sizes(5, batch(*ten)) == [5, 5]
    assert sizes(5) == []


def test_a_list_is_of_one_partition() -> None:
    rows = [row(1, 0), row(2, 0), row(1, 1), row(3, 0)]
    assert sizes(10, batch(*rows)) == [2, 1, 1]


def test_bad_rows_pass_by_and_tombstones_keep_their_place() -> None:
    rows = [row(1), row(2, error="NOT_JSON"), row(3), row(4, error="TOMBSTONE"), row(5)]
    assert sizes(10, batch(*rows)) == ["NOT_JSON", 2, "TOMBSTONE", 1]
    code = "def f(messages): return messages"
    assert shape(run(code, batch(*rows))) == [
        (None, 2, "NOT_JSON"),
        (1, 1, None),
        (3, 3, None),
        (None, 4, "TOMBSTONE"),
        (5, 5, None),
    ]


# Messages


def test_messages_are_plain_values() -> None:
    kind = pa.struct(
        [
            ("at", pa.timestamp("us", tz="UTC")),
            ("day", pa.date32()),
            ("price", pa.decimal128(10, 2)),
            ("bytes", pa.binary()),
            ("tags", pa.map_(pa.string(), pa.int32())),
            ("parts", pa.list_(pa.struct([("n", pa.int8())]))),
        ]
    )
    value = {
        "at": datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC),
        "day": datetime.date(2026, 3, 1),
        "price": Decimal("1.20"),
        "bytes": b"\xff",
        "tags": {"a": 1},
        "parts": [{"n": 1}, {"n": None}],
    }
    rows = pa.RecordBatch.from_pylist([{"data": value}], pa.schema([("data", kind)]))
    assert messages(rows) == [value]
    target = Target(kind, {field.name: str(field.type) for field in kind})
    assert fitted(messages(rows), target).equals(rows.column("data"))


def test_messages_with_metadata_have_both_and_may_come_back_so() -> None:
    facts = {"key": "bees", "partition": 0, "offset": 6, "time": 1693396630163, "topic": "census"}
    schema = pa.schema([("data", ROW), ("metadata", pa.array([facts]).type)])
    given = [{"data": {"id": 1, "name": "x"}, "metadata": facts}]
    rows = pa.RecordBatch.from_pylist(given, schema)
    assert messages(rows) == given
    assert fitted(given, TARGET).to_pylist() == [{"id": 1, "name": "x"}]


def test_a_variant_is_what_its_json_says_both_ways() -> None:
    target = Target(ROW, {"id": "bigint", "name": "variant"})
    texts = ['{"a": [1, null]}', "null", None, '"1"']
    given = [{"data": {"id": 1, "name": text}} for text in texts]
    rows = pa.RecordBatch.from_pylist(given, pa.schema([("data", ROW)]))
    values = [message["name"] for message in messages(rows, frozenset({"name"}))]
    assert values == [{"a": [1, None]}, None, None, "1"]
    back = fitted([{"name": value} for value in values], target).to_pylist()
    assert [row["name"] for row in back] == ['{"a": [1, null]}', None, None, '"1"']
    for wrong in (float("inf"), datetime.date(2026, 3, 1), {1j: 2}):
        with pytest.raises(Misfit, match="which is no variant"):
            fitted([{"name": wrong}], target)


def test_raw_messages_are_bytes_and_may_come_back_so() -> None:
    rows = pa.RecordBatch.from_pylist([{"data": b"\x00"}], pa.schema([("data", pa.binary())]))
    assert messages(rows) == [b"\x00"]
    target = Target(pa.struct([("value", pa.binary())]), {"value": "binary"})
    assert fitted([b"\x00", {"value": None}], target).to_pylist() == [
        {"value": b"\x00"},
        {"value": None},
    ]


DEEP = pa.struct(
    [
        ("n", pa.int32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("deep", pa.list_(pa.struct([("a", pa.int64())]))),
        ("tags", pa.map_(pa.string(), pa.int64())),
    ]
)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"n": "x"}, "returned `n` = 'x', which is no int"),
        ({"n": 1.5}, "returned `n` = 1.5, which is no int"),
        ({"n": 2**40}, "returned `n` = 1099511627776, which is no int"),
        ({"n": True}, "returned `n` = True, which is no int"),
        ({"at": 1693396630163}, "returned `at` = 1693396630163, which is no timestamp"),
        ({"at": "2026-03-01"}, "returned `at` = '2026-03-01', which is no timestamp"),
        ({"deep": [{"b": 1}]}, "returned `deep` = [{'b': 1}], which is no array"),
        ({"deep": [{"a": 0.5}]}, "returned `deep` = [{'a': 0.5}], which is no array"),
        ({"deep": 1}, "returned `deep` = 1, which is no array"),
        ({"tags": {"a": 0.5}}, "returned `tags` = {'a': 0.5}, which is no map"),
        ({"m": 1}, "returned the field `m`, which is not one of the columns n, at, deep, tags"),
        ({"at": None}, "returned a message without a value for `n`"),
        (1, "returned a message that is int, and must be a dict"),
        (None, "returned a message that is NoneType, and must be a dict"),
    ],
)
def test_what_does_not_fit_is_named(message: Any, told: str) -> None:
    columns = {"n": "int", "at": "timestamp", "deep": "array", "tags": "map"}
    needed = ("n",) if message == {"at": None} else ()
    with pytest.raises(Misfit) as caught:
        fitted([{"n": 1}, message], Target(DEEP, columns, needed))
    assert str(caught.value) == told


def test_fields_that_are_missing_are_null_and_whole_floats_are_whole_numbers() -> None:
    target = Target(DEEP, dict.fromkeys(("n", "at", "deep", "tags"), ""))
    nothing = dict.fromkeys(("at", "deep", "tags"))
    assert fitted([{}, {"n": 2.0}], target).to_pylist() == [
        {"n": None, **nothing},
        {"n": 2, **nothing},
    ]
    assert fitted([], target).to_pylist() == []


# Calls


@pytest.mark.parametrize(
    "code",
    [
        "def f(messages): return messages",
        "def f(messages, *args, **kwargs): return [dict(m) for m in messages]",
        "def f(messages): yield from messages",
        "f = lambda messages: tuple(messages)",
        "class f:\n  def __call__(self, messages): return messages",
        "class F:\n  def __call__(self, messages): return messages\nf = F()",
        "import functools\n"
        "def same(g): return functools.wraps(g)(lambda *a, **k: g(*a, **k))\n"
        "@same\ndef f(messages): return messages",
    ],
)
def test_any_callable_will_do(code: str) -> None:
    assert shape(run(code, batch(row(1), row(2)))) == [(1, 1, None), (2, 2, None)]


def test_of_fewer_or_more_messages_only_topic_and_partition_are_known() -> None:
    code = "def f(messages): return messages * 2"
    found = run(code, batch(row(1, 7), row(2, 7)))
    assert shape(found) == [(1, None, None), (2, None, None)] * 2
    assert {(each[COLUMN]["topic"], each[COLUMN]["partition"]) for each in found} == {("t", 7)}
    assert run("def f(messages): return []", batch(row(1))) == []


FAILING = """
def f(messages):
    for message in messages:
        message["name"] = message["name"] + "!"
        if message["id"] in (2, 4):
            raise ValueError(f"no {message['id']}\\nand more")
    return messages
"""


def test_an_exception_makes_bad_records_of_those_that_it_is_raised_for() -> None:
    found = run(FAILING, batch(*(row(number) for number in range(1, 6))))
    assert shape(found) == [
        (1, 1, None),
        (None, 2, "PYTHON_ERROR"),
        (3, 3, None),
        (None, 4, "PYTHON_ERROR"),
        (5, 5, None),
    ]
    assert found[1][COLUMN]["message"] == "hr_m.f raised ValueError: no 2"
    # Each is tried with a message as it was, whatever the first try has made of it.
    assert found[2]["data"]["name"] == "n3!"


def test_a_message_that_comes_back_wrong_is_a_bad_record() -> None:
    code = "def f(ms): return [{'id': 'x'} if m['id'] == 2 else m for m in ms]"
    found = run(code, batch(row(1), row(2)))
    assert shape(found) == [(1, 1, None), (None, 2, "PYTHON_ERROR")]
    assert found[1][COLUMN]["message"] == "hr_m.f returned `id` = 'x', which is no bigint"


def test_a_list_of_one_is_tried_once() -> None:
    code = "calls = []\ndef f(ms):\n  calls.append(1)\n  raise ValueError(len(calls))"
    assert run(code, batch(row(1)))[0][COLUMN]["message"] == "hr_m.f raised ValueError: 1"


def test_one_message_that_becomes_many_keeps_its_origin_when_it_was_tried_alone() -> None:
    code = "def f(ms):\n  assert all(m['id'] != 2 for m in ms)\n  return ms * 2"
    assert shape(run(code, batch(row(1), row(2)))) == [
        (1, 1, None),
        (1, 1, None),
        (None, 2, "PYTHON_ERROR"),
    ]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "def f(ms):\n  if len(ms) > 1: raise KeyError('x')\n  return ms",
            "hr_m.f raised KeyError: 'x', with a list of 2 messages (t[0]@1 to 2), "
            "and not with any of them alone",
        ),
        ("def f(ms): pass", "hr_m.f returned NoneType, and must return a list of messages"),
        ("def f(ms): return ms[0]", "hr_m.f returned dict, and must return a list of messages"),
    ],
)
def test_a_function_that_fails_for_no_record_stops_the_pipeline(code: str, told: str) -> None:
    with pytest.raises(StepStopped) as caught:
        run(code, batch(row(1), row(2)))
    assert str(caught.value).startswith(STEP_FAILED)
    assert told in str(caught.value)


def test_without_a_record_to_blame_the_message_is_told() -> None:
    alone = batch(row(1), row(2)).select(["data"])
    code = "def f(ms): return [{'id': 3 // (m['id'] - 2)} for m in ms]"
    with pytest.raises(StepStopped, match=r"ZeroDivisionError.*n2"):
        run(code, alone)
    assert run("def f(ms): return ms[1:]", alone) == [{"data": {"id": 2, "name": "n2"}}]


def test_where_the_record_is_not_known_its_message_is_kept() -> None:
    unknown = row(None)
    unknown["data"]["id"] = 5
    found = run("def f(ms): raise ValueError", batch(unknown))
    assert found[0][COLUMN]["value"] == b'{"id": 5, "name": "nNone"}'
    assert found[0][COLUMN]["message"] == "hr_m.f raised ValueError"


def test_a_worker_needs_no_headrace(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    register: Callable[[Any], None] = cloudpickle.register_pickle_by_value
    for module in (message_function, modules):
        register(module)
    shipped = tmp_path / "task"
    rows = batch(*(row(number) for number in range(1, 4)))
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    shipped.write_bytes(dumps((step(FAILING).task(), rows)))
    script = (
        "import sys, pickle; sys.modules['headrace'] = None\n"
        "import pyspark.cloudpickle\n"
        "task, rows = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print([each['data'] for one in task(iter([rows])) for each in one.to_pylist()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(shipped)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    expected = [{"id": 1, "name": "n1!"}, None, {"id": 3, "name": "n3!"}]
    assert (done.stdout.strip(), done.stderr) == (str(expected), "")
