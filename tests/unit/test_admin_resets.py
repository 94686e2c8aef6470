"""Where a group is moved to: scopes, kept plans and the range of a partition."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.admin import places, resets
from headrace.admin.resets import Move, Scope
from headrace.errors import DefinitionError


def test_a_scope_is_a_topic_or_some_of_its_partitions() -> None:
    assert resets.parse_scope("orders") == Scope("orders")
    assert resets.parse_scope("orders:0,2") == Scope("orders", (0, 2))


@pytest.mark.parametrize("text", ["", ":1", "orders:", "orders:x", "orders:-1", "orders:1,"])
def test_a_bad_scope_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        resets.parse_scope(text)


def test_a_kept_plan_is_read_from_json_or_lines() -> None:
    rows = [{"topic": "t", "partition": 1, "old": 9, "new": 4, "by": -5}]
    assert resets.parse_plan(json.dumps(rows), "plan.json") == {("t", 1): 4}
    assert resets.parse_plan('"t",1,4\n\nu,0,7\n', "plan.csv") == {("t", 1): 4, ("u", 0): 7}


@pytest.mark.parametrize("text", ["[{}]", "t,1", "t,x,1", "[1]", "[", "{}"])
def test_what_is_no_plan_is_refused_with_the_file_name(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"kept\.txt"):
        resets.parse_plan(text, "kept.txt")


def test_a_move_knows_how_far_it_goes() -> None:
    assert Move("t", 0, 10, 4).by == -6
    assert Move("t", 0, None, 4).by is None


@given(st.integers(-100, 100), st.integers(0, 50), st.integers(0, 50))
def test_offsets_are_moved_into_what_a_partition_holds(wanted: int, low: int, size: int) -> None:
    key = ("t", 0)
    new = places.clamp({key: wanted}, {key: low}, {key: low + size})[key]
    assert low <= new <= low + size
    assert new == wanted or new in (low, low + size)


def test_partitions_that_are_gone_are_left_out() -> None:
    assert places.clamp({("t", 0): 1, ("gone", 0): 1}, {("t", 0): 0}, {("t", 0): 5}) == {
        ("t", 0): 1
    }
