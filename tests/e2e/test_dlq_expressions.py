"""Expressions about dead letters with Spark: what they see, what they set, and how they fail."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from headrace.admin import records, topics
from headrace.admin.letters import Letter
from headrace.admin.records import Record
from headrace.errors import DefinitionError
from headrace.runtime.letter_expressions import Expressions, Failed, parse_patches, parse_where

from .conftest import Bench


def letter(value: bytes | None, key: bytes | None = b"k", **facts: object) -> Letter:
    ours = ((f"headrace.dlq.{name}", str(fact).encode()) for name, fact in facts.items())
    return Letter.of(Record(value, key, (("trace", b"t1"), *ours), 0, 1772366400000, 5, "t.dlq"))


def chosen(spark: SparkSession, where: str, letters: Sequence[Letter]) -> list[bool | Failed]:
    return Expressions(spark, parse_where(where)).chosen(letters)


def patched(spark: SparkSession, letters: Sequence[Letter], *patches: str) -> list[object]:
    found = Expressions(spark, patches=parse_patches(patches)).patched(letters)
    return [each.reason if isinstance(each, Failed) else (each.key, each.value) for each in found]


LETTERS = [
    letter(b'{"id": 1, "amount": "12,5"}', topic="orders", partition=1, offset=7, attempts=2),
    letter(b"{broken", error="MALFORMED_RECORD", message="not JSON", pipeline="clean"),
    letter(None),
    letter(b"\xff\x00", None),
]


def test_an_expression_sees_all_that_is_known_of_a_letter(spark: SparkSession) -> None:
    for where, expected in {
        "json:id::int = 1": [True, False, False, False],
        "topic = 'orders' AND partition = 1 AND offset = 7": [True, False, False, False],
        "error = 'MALFORMED_RECORD' AND message LIKE '%JSON'": [False, True, False, False],
        "pipeline = 'clean' OR attempts >= 2": [True, True, False, False],
        "value IS NULL": [False, False, True, False],
        "key IS NULL": [False, False, False, True],
        "headers['trace'] = 't1' AND time = '2026-03-01T12:00:00Z'": [True] * 4,
    }.items():
        assert chosen(spark, where, LETTERS) == expected, where
    fails = chosen(spark, "CAST(value AS INT) > 0", [*LETTERS, letter(b"5")])
    assert [isinstance(each, Failed) for each in fails] == [True, True, False, True, False]
    assert fails[2:5:2] == [False, True]


def test_a_patch_sets_the_value_the_key_or_fields(spark: SparkSession) -> None:
    assert patched(spark, LETTERS[:2], "value = replace(value, 'broken', '\"id\":2}')") == [
        (b"k", b'{"id": 1, "amount": "12,5"}'),
        (b"k", b'{"id":2}'),
    ]
    amount = "json:amount = CAST(replace(json:amount::string, ',', '.') AS DOUBLE)"
    first, second, third, fourth = patched(
        spark, LETTERS, amount, "json:new = NULL", "key = offset"
    )
    assert isinstance(first, tuple)
    assert (first[0], json.loads(first[1])) == (b"7", {"id": 1, "amount": 12.5, "new": None})
    assert (
        second
        == third
        == fourth
        == ("its value is no JSON object that could have a field `amount`")
    )
    # Bytes that are no text come through a patch of something else as they were.
    assert patched(spark, [LETTERS[3]], "key = 'x'") == [(b"x", b"\xff\x00")]
    assert patched(spark, LETTERS[:1], "json:o = named_struct('a', array(1, 2))") == [
        (b"k", b'{"id":1,"amount":"12,5","o":{"a":[1,2]}}')
    ]
    (null,) = patched(spark, LETTERS[:1], "value = NULL")
    assert "deletes" in str(null)
    assert patched(spark, [LETTERS[2]], "key = 'x'") == [(b"x", None)]
    reasons = patched(
        spark, [letter(b"1"), letter(b"x"), letter(b"3")], "value = CAST(value AS INT)"
    )
    assert reasons[::2] == [(b"k", b"1"), (b"k", b"3")]
    assert "'x'" in str(reasons[1])


@pytest.mark.parametrize(
    ("where", "patches", "place", "reason"),
    [
        ("attempts", [], "--where:1:1", "it is LONG"),
        ("value = 'a' AND nothing(value)", [], "--where:1:17", "nothing"),
        (None, ["key = json"], "--patch:1:7", "it is VARIANT"),
        (None, ["value = substring(value)"], "--patch:1:9", "substring"),
    ],
)
def test_what_spark_refuses_is_told_with_its_place_before_anything_is_read(
    spark: SparkSession, where: str | None, patches: list[str], place: str, reason: str
) -> None:
    with pytest.raises(DefinitionError) as raised:
        Expressions(spark, (where and parse_where(where)) or None, parse_patches(patches))
    (fault,) = raised.value.diagnostics
    assert str(fault.span) == place
    assert reason in fault.message


def test_letters_are_chosen_and_patched_on_the_way(bench: Bench) -> None:
    dlq = f"{bench.topic}.dlq"
    # The letters are old: the broker would delete them at its next look.
    topics.create(bench.cluster, dlq, partitions=1, config={"retention.ms": "-1"})
    values = [b'{"id": 1, "at": "x"}', b'{"id": 2, "at": "7"}', b'{"id": 3, "at": "8"}', b"{"]
    letters = [letter(each, topic=bench.topic, partition=0).record for each in values]
    records.produce(bench.cluster, dlq, letters).raise_if_rejected()
    words = ["--where", "json:id::int <= 2", "--patch", "json:at = json:at::int", "--yes"]
    first = subprocess.run(
        [
            *(sys.executable, "-m", "headrace.cli.main", "dlq", "redrive", dlq, "-o", "json"),
            *(*words, "--bootstrap-server", bench.cluster.bootstrap),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=bench.folder,
    )
    assert first.returncode == 4, first.stderr
    assert json.loads(first.stdout) == [
        {"outcome": "moved", "letters": 1, "detail": bench.topic},
        {"outcome": "left", "letters": 1, "detail": "EXPRESSION_FAILED"},
    ]
    assert f"{dlq}[0]@0" in first.stderr
    assert bench.values(bench.topic) == [{"id": 2, "at": 7}]
