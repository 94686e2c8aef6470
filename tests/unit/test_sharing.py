"""What can be shared, where a run stands in what it shares, and how much it reads at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.definitions import CONSOLE, SINK, SOURCE, below, faults, kafka, planned, steps

from headrace.admin.membership import Committed, Held
from headrace.api import load
from headrace.codeview.view import script
from headrace.errors import BrokerTimeout, DefinitionError, NoOffsetForPartition
from headrace.model.offsets import Offsets, Range, at_most
from headrace.model.pipeline import Mode
from headrace.plan.promises import AT_LEAST_ONCE
from headrace.runtime.sharing_positions import Key, SharedPositions
from headrace.sources.kafka_offsets import Extent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEAM = {"consumer_group": "team", "share_partitions": "true"}
SHARED = below("source", kafka(**TEAM))
DELTA = "sink:\n  connector_type: delta\n  path: out\n"


# The definition


def test_a_plain_stream_can_share_and_says_what_that_means(tmp_path: Path) -> None:
    text = steps("SELECT id, explode(split(name, ' ')) AS word FROM source WHERE amount > 0")
    assert faults(tmp_path, SHARED, text, DELTA) == []
    plan = planned(tmp_path, SHARED, text, DELTA)
    assert plan.shared is not None
    assert (plan.in_batches, plan.polled, plan.reads_as) == (True, False, Mode.BATCH)
    # A table that knows its own batches does not know those of others.
    assert {promise.kept for promise in plan.promises} == {AT_LEAST_ONCE}
    assert all("takes over a partition" in promise.because for promise in plan.promises)
    position = load(tmp_path / "p.yaml").explain()["position"]
    assert "kept in group team" in position[0]
    assert "45000 ms (session_timeout_ms (default))" in position[2]
    assert "begins at latest" in position[3]


def test_without_the_option_a_group_is_not_shared(tmp_path: Path) -> None:
    alone = below("source", kafka(consumer_group="team"))
    plan = planned(tmp_path, alone, SINK)
    assert plan.shared is None
    assert not plan.in_batches
    assert faults(tmp_path, SOURCE, SINK) == []


@pytest.mark.parametrize(
    ("above", "text"),
    [
        ("mode: batch\n", ""),
        ("guarantee: exactly_once\n", ""),
        ("", steps("SELECT count(*) AS n FROM source")),
        ("", steps("SELECT DISTINCT id FROM source")),
        ("", "transform:\n  - deduplicate: {by: [id]}\n"),
    ],
)
def test_what_would_not_move_with_a_partition_is_refused(
    tmp_path: Path, above: str, text: str
) -> None:
    found = faults(tmp_path, above, SHARED, text, SINK)
    assert "CANNOT_SHARE" in [fault.code for fault in found]
    assert all(fault.hint for fault in found)


def test_session_timeouts_have_an_effect_where_partitions_are_shared(tmp_path: Path) -> None:
    timed = {"session_timeout_ms": "9000", "properties": "{max.poll.interval.ms: 60000}"}
    alone, shared = (below("source", kafka(**timed, **more)) for more in ({}, TEAM))
    assert [fault.code for fault in faults(tmp_path, alone, CONSOLE)] == ["NO_EFFECT"]
    assert faults(tmp_path, shared, CONSOLE) == []
    source = planned(tmp_path, shared, CONSOLE).shared
    assert source is not None
    settings = {setting.name: setting.value for setting in source.membership}
    assert settings["session.timeout.ms"] == "9000"
    assert settings["max.poll.interval.ms"] == "60000"


# How much is read at once


@given(
    waiting=st.dictionaries(st.integers(0, 9), st.integers(0, 10_000), min_size=1),
    most=st.integers(1, 5_000),
)
def test_a_batch_has_as_many_records_as_it_may_and_no_more(
    waiting: dict[int, int], most: int
) -> None:
    start = {("orders", number): 7 for number in waiting}
    end = {("orders", number): 7 + count for number, count in waiting.items()}
    part = at_most(Range(start, end), most)
    assert part.records == min(most, sum(waiting.values()))
    assert all(start[key] <= at <= end[key] for key, at in part.end.items())


# Where it stands


@dataclass
class Group:
    """A group and its one member, as far as positions go."""

    stored: dict[Key, Committed] = field(default_factory=dict)
    lost: set[Key] = field(default_factory=set)
    shut_out: bool = False

    def still(self, held: Held) -> set[Key]:
        return set(held) - self.lost

    def committed(self, partitions: Iterable[Key]) -> Mapping[Key, Committed]:
        return {key: self.stored[key] for key in partitions if key in self.stored}

    def commit(self, offsets: Offsets) -> bool:
        if not self.shut_out:
            for key, at in offsets.items():
                self.stored[key] = Committed(at, "headrace shares: me")
        return not self.shut_out

    @property
    def offsets(self) -> dict[int, int]:
        return {number: each.offset for (_, number), each in self.stored.items()}


A, B, C = (("orders", number) for number in range(3))


def _look(keys: Iterable[Key]) -> Extent:
    wanted = list(keys)
    return Extent(*(dict.fromkeys(wanted, at) for at in (5, 90, 90)))


def _positions(folder: Path, first: str, told: list[str] | None = None) -> SharedPositions:
    options = kafka(**TEAM, auto_offset_reset=first)
    source = planned(folder, below("source", options), CONSOLE).shared
    assert source is not None
    return SharedPositions(source, _look, (told if told is not None else []).append)


@pytest.mark.parametrize(("first", "begins"), [("earliest", 5), ("latest", 90)])
def test_a_first_start_is_noted_in_the_group_before_anything_is_read(
    tmp_path: Path, first: str, begins: int
) -> None:
    group, positions = Group(), _positions(tmp_path, first)
    positions.begin(group, [A, B])
    positions.follow(group, {A: 1})
    assert group.offsets == {0: begins}
    # Another of the same start had nothing to see either, and does not take the first for earlier.
    positions.follow(group, {A: 1, B: 2})
    assert group.offsets == {0: begins, 1: begins}
    # A partition that is added later has been missed by nobody.
    positions.follow(group, {A: 1, B: 2, C: 3})
    assert group.offsets[2] == 5


def test_in_a_group_that_stands_somewhere_the_rest_is_read_from_the_beginning(
    tmp_path: Path,
) -> None:
    group = Group({A: Committed(40, "headrace shares: other")})
    positions = _positions(tmp_path, "latest")
    positions.begin(group, [A, B])
    positions.follow(group, {A: 1, B: 1})
    assert positions.stands == {A: 40, B: 5}


def test_with_none_a_partition_without_a_position_is_an_error(tmp_path: Path) -> None:
    group = Group({A: Committed(40, "headrace shares: other")})
    positions = _positions(tmp_path, "none")
    positions.begin(group, [A, B])
    positions.follow(group, {A: 1})
    with pytest.raises(NoOffsetForPartition, match="orders"):
        positions.follow(group, {A: 1, B: 1})


def test_what_is_written_is_stored_unless_the_partition_was_lost(tmp_path: Path) -> None:
    group, positions = Group(), _positions(tmp_path, "earliest")
    held = {A: 1, B: 1}
    positions.begin(group, held)
    positions.follow(group, held)
    positions.move({A: 10, B: 20})
    group.lost = {B}
    assert positions.store(group, held) == [B]
    assert group.offsets == {0: 10, 1: 5}
    # It comes again, from another who has come further: the group counts, not what was known here.
    group.stored[B] = Committed(30, "headrace shares: other")
    group.lost = set()
    positions.follow(group, {A: 1, B: 2})
    assert positions.stands == {A: 10, B: 30}
    positions.move({A: 12})
    group.shut_out = True
    assert positions.store(group, {A: 1, B: 2}) == [A]
    assert group.offsets == {0: 10, 1: 30}


def test_a_commit_that_failed_is_made_up_for(tmp_path: Path) -> None:
    class Away(Group):
        def commit(self, offsets: Offsets) -> bool:
            raise BrokerTimeout("committing", f"{len(offsets)} offsets")

    group, positions = Group(), _positions(tmp_path, "earliest")
    positions.begin(group, [A])
    positions.follow(group, {A: 1})
    positions.move({A: 10})
    with pytest.raises(BrokerTimeout):
        positions.store(Away(), {A: 1})
    positions.follow(group, {A: 1})
    assert positions.store(group, {A: 1}) == []
    assert group.offsets == {0: 10}


def test_a_position_that_nobody_who_shares_has_written_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    group = Group({A: Committed(3, ""), B: Committed(4, "headrace shares: other")})
    positions = _positions(tmp_path, "earliest", told)
    positions.begin(group, [A, B])
    positions.follow(group, {A: 1, B: 1})
    assert len(told) == 1
    assert "orders[0]@3;" in told[0]


def test_a_shared_pipeline_has_no_script(tmp_path: Path) -> None:
    plan = planned(tmp_path, SHARED, CONSOLE)
    with pytest.raises(DefinitionError, match="shares its partitions"):
        script(plan, cast("SparkSession", None), (), ())
