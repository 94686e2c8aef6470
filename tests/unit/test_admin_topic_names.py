"""Topic names: what Kafka takes and which names clash."""

from __future__ import annotations

import pytest

from headrace.admin import topic_names
from headrace.model import names


@pytest.mark.parametrize("name", ["orders", "a.b-c_D9", "x" * 249])
def test_names_that_kafka_takes_have_no_fault(name: str) -> None:
    assert topic_names.fault(name) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [("", "empty"), ("..", "`..`"), ("x" * 250, "250"), ("a b", "' '"), ("ä/b", "/ ä")],
)
def test_a_faulty_name_is_told_what_is_wrong_with_it(name: str, said: str) -> None:
    fault = topic_names.fault(name)
    assert fault is not None
    assert said in fault


def test_a_pipeline_may_name_the_topics_that_a_command_may_make() -> None:
    assert names.topic_fault("a.b-c_D9") is None
    assert names.topics_fault(("orders", "a b")) == (
        f"`a b` cannot be the name of a Kafka topic: {topic_names.fault('a b')}"
    )


def test_names_that_differ_only_in_dot_and_underscore_clash() -> None:
    assert topic_names.clash("a_b.c", ["x", "a.b_c"]) == "a.b_c"


def test_a_name_does_not_clash_with_itself_or_with_others() -> None:
    assert topic_names.clash("a.b", ["a.b", "a-b", "ab"]) is None


def test_mixing_dots_and_underscores_is_a_risk() -> None:
    assert topic_names.risk("a.b_c", []) is not None
    assert "a_b" in (topic_names.risk("c.d", ["a_b"]) or "")


def test_keeping_to_one_of_them_is_no_risk() -> None:
    assert topic_names.risk("a.b", ["c.d", "__consumer_offsets"]) is None
    assert topic_names.risk("ab", ["c_d", "e.f"]) is None
