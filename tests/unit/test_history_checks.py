"""The checks of `make chaos`: each finds what it is for, and nothing in a history that is right."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from chaos import checks, history, records, schedule
from chaos.checks import Truth
from chaos.history import Seen, Source
from chaos.report import Histories, judge
from chaos.schedule import KILL, Points, Trouble
from chaos.world import Expected

from headrace.model.pipeline import Mode

OUT, DEAD = "out", "dead"
TRUTH: Truth = {
    (0, 0): OUT,
    (0, 1): DEAD,
    (0, 2): OUT,
    (0, 3): None,
    (1, 0): OUT,
    (1, 1): OUT,
}


def seen(source: Source | None, topic: str = OUT, partition: int = 0, **changed: Any) -> Seen:
    """A record; its offset and digest are given by `at`, in the order of its partition."""
    return Seen(0.0, topic, partition, 0, source, hash(source) % 1000)._replace(**changed)


def at(*each: Seen) -> list[Seen]:
    """Offsets as a broker gives them, with gaps where transactions end."""
    counters: dict[tuple[str, int], Any] = {}
    found = []
    for one in each:
        counter = counters.setdefault((one.topic, one.partition), itertools.count(0, 2))
        found.append(one._replace(offset=next(counter)))
    return found


RIGHT = at(seen((0, 0)), seen((1, 0)), seen((0, 1), DEAD), seen((1, 1), partition=1), seen((0, 2)))


def verdict(live: Sequence[Seen], final: Sequence[Seen], truth: Truth = TRUTH) -> set[str]:
    rows = {source: "table" if topic == OUT else None for source, topic in truth.items()}
    table = [source for source, topic in rows.items() if topic]
    found = judge(Expected(truth, rows, {}), Histories(live, final, table, aborted=0))
    return {f"{check.name} {check.reader}" for check in found if check.found}


def test_a_history_that_is_right_passes_every_check() -> None:
    assert verdict(RIGHT, RIGHT) == set()


def test_partitions_may_come_to_a_reader_in_any_order() -> None:
    other = sorted(RIGHT, key=lambda each: (-each.partition, each.topic, each.offset))
    assert verdict(other, RIGHT) == set()


def test_a_record_that_nobody_saw_is_lost() -> None:
    without = [each for each in RIGHT if each.source != (0, 2)]
    assert checks.lost(TRUTH, without) == [(0, 2)]
    assert verdict(without, without) == {"lost live", "lost final"}


def test_a_dead_letter_among_the_good_ones_is_lost_and_unexpected() -> None:
    wrong = at(*(each._replace(topic=OUT) for each in RIGHT))
    assert checks.lost(TRUTH, wrong) == [(0, 1)]
    assert [each.source for each in checks.unexpected(TRUTH, wrong)] == [(0, 1)]


@pytest.mark.parametrize("source", [(0, 3), (7, 0), None])
def test_a_record_made_of_a_filtered_one_or_of_nothing_is_unexpected(source: Source | None) -> None:
    phantom = seen(source, offset=100)
    assert checks.unexpected(TRUTH, [*RIGHT, phantom]) == [phantom]
    assert verdict([*RIGHT, phantom], [*RIGHT, phantom]) == {"unexpected live", "unexpected final"}


@pytest.mark.parametrize("partition", [0, 1])
def test_a_record_at_two_places_is_doubled_and_not_reordered(partition: int) -> None:
    again = seen((0, 0), partition=partition, offset=100)
    assert checks.doubled([*RIGHT, again]) == [again]
    assert verdict([*RIGHT, again], [*RIGHT, again]) == {"doubled live", "doubled final"}


def test_a_record_that_one_reader_gets_twice_is_nonmonotonic_and_not_doubled() -> None:
    assert checks.doubled([*RIGHT, RIGHT[0]]) == []
    assert checks.nonmonotonic([*RIGHT, RIGHT[0]]) == [RIGHT[0]]
    assert verdict([*RIGHT, RIGHT[0]], RIGHT) == {"nonmonotonic live"}


def test_a_reader_that_goes_back_is_nonmonotonic() -> None:
    back = [RIGHT[1], RIGHT[0], *RIGHT[2:]]
    assert checks.nonmonotonic(back) == [RIGHT[0]]


def test_records_of_one_source_partition_in_the_wrong_order_are_reordered() -> None:
    wrong = at(seen((0, 2)), seen((1, 0)), seen((0, 0)))
    assert [each.source for each in checks.reordered(wrong)] == [(0, 0)]
    assert checks.reordered(at(seen((0, 2)), seen((1, 0)))) == []
    assert checks.reordered(at(seen((0, 2)), seen((0, 0), partition=1))) == []


def test_order_is_that_of_the_topic_and_not_of_the_reader() -> None:
    assert checks.reordered(RIGHT[::-1]) == []


def test_a_record_behind_a_doubled_one_is_not_reordered() -> None:
    replay = at(seen((0, 0)), seen((0, 2)), seen((0, 0)), seen((0, 2)), seen((0, 4)))
    assert checks.reordered(replay) == []
    assert [each.source for each in checks.doubled(replay)] == [(0, 0), (0, 2)]


@pytest.mark.parametrize("changed", [{"digest": -1}, {"source": (1, 1)}])
def test_two_readers_that_see_different_records_at_one_place_are_inconsistent(
    changed: dict[str, Any],
) -> None:
    other = [RIGHT[0]._replace(**changed), *RIGHT[1:]]
    assert checks.inconsistent(RIGHT, other) == [(RIGHT[0], other[0])]
    assert "inconsistent both" in verdict(RIGHT, other)


def test_a_record_that_was_seen_and_is_not_there_in_the_end_has_vanished() -> None:
    aborted = seen((0, 2), offset=3)
    live = [*RIGHT[:2], aborted, *RIGHT[2:]]
    assert checks.vanished(live, RIGHT) == [aborted]
    assert "vanished both" in verdict(live, RIGHT)


def test_a_record_that_the_live_reader_passed_over_is_skipped() -> None:
    live = [each for each in RIGHT if each is not RIGHT[1]]
    assert checks.skipped(live, RIGHT) == [RIGHT[1]]
    assert "skipped both" in verdict(live, RIGHT)


def test_what_the_live_reader_has_not_come_to_is_not_skipped() -> None:
    assert checks.skipped(RIGHT[:1], RIGHT) == []


def test_rows_of_the_table_are_held_against_the_source() -> None:
    rows = {source: "table" if topic == OUT else None for source, topic in TRUTH.items()}

    def judged(*table: Source) -> set[str]:
        found = judge(Expected(TRUTH, rows, {}), Histories(RIGHT, RIGHT, table, 0))
        return {f"{check.name} {check.reader}" for check in found if check.found}

    right = ((0, 0), (0, 2), (1, 0), (1, 1))
    assert judged(*right) == set()
    assert judged(*right[1:]) == {"lost table"}
    assert judged(*right, (0, 0)) == {"doubled table"}
    assert judged(*right, (0, 1)) == {"unexpected table"}


# Histories


def _row(source: Source) -> bytes:
    return json.dumps({history.PARTITION: source[0], history.OFFSET: source[1]}).encode()


LETTER = [("headrace.dlq.partition", b"3"), ("headrace.dlq.offset", b"44"), ("other", None)]


@pytest.mark.parametrize(
    ("key", "value", "headers", "source"),
    [
        (b"k", _row((1, 2)), None, (1, 2)),
        (None, _row((1, 2)), [], (1, 2)),
        (b"k", b"\xff", LETTER, (3, 44)),
        (None, None, LETTER, (3, 44)),
        (b"gone\t", None, None, (5, 6)),
        (b"stranger", None, None, None),
        (None, None, None, None),
        (b"k", b"not json", None, None),
        (b"k", b'{"source_partition": 1}', None, None),
        (b"k", b"[1]", None, None),
    ],
)
def test_a_record_is_known_by_the_source_that_it_carries(
    key: bytes | None, value: bytes | None, headers: Any, source: Source | None
) -> None:
    text = history.line(1.5, ("out", 2, 7), key, value, headers)
    (found,) = history.parse([text], {b"gone\t": (5, 6)})
    assert found[:5] == (1.5, "out", 2, 7, source)


def test_records_that_differ_have_different_digests() -> None:
    parts: list[tuple[bytes | None, bytes | None, Any]] = [
        (None, None, None),
        (None, b"", None),
        (b"", None, None),
        (b"a", b"b", None),
        (b"ab", b"", None),
        (b"a", b"b", [("h", b"1")]),
        (b"a", b"b", [("h", b"2")]),
    ]
    assert len({history.digest(*each) for each in parts}) == len(parts)


def test_a_line_that_was_cut_off_is_left_out() -> None:
    text = history.line(1.5, ("out", 2, 7), b"k", _row((1, 2)), None)
    assert len(list(history.parse([text, text[:-3]], {}))) == 1


def test_the_longest_stall_is_the_longest_time_without_a_record() -> None:
    times = [10.0, 10.5, 14.0, 14.1]
    assert history.longest_stall([seen((0, 0), at=time) for time in times]) == 3.5
    assert history.longest_stall([]) == 0


# What is planned

POINTS = Points(("write.done", "eos.begin", "eos.produced"), ("eos.begin", "eos.produced"))


def test_a_schedule_has_all_kills_failpoints_and_troubles() -> None:
    lives = schedule.plan(1, kills=20, each=5, points=POINTS)
    pains = [pain for life in lives for pain in life.pains]
    assert pains.count(KILL) >= 20
    for point in (*POINTS.drivers, *(f"{each}@worker" for each in POINTS.workers)):
        assert pains.count(point) == 5, point
    assert {str(trouble) for trouble in Trouble} <= set(pains)
    assert {life.tasks for life in lives} == {1, 2, 3, 4}


def test_a_batch_run_has_one_pain_and_that_in_its_only_batch() -> None:
    lives = schedule.plan(1, kills=20, each=2, points=POINTS, mode=Mode.BATCH)
    assert {len(life.pains) for life in lives} == {1}
    assert {schedule.times(life.failpoint) for life in lives if life.failpoint} == {1}
    pains = [pain for life in lives for pain in life.pains]
    assert pains.count("eos.begin") == pains.count("eos.begin@worker") == 2
    assert pains.count(KILL) == 20


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [
        ("write.done", "write.done", 1),
        ("write.done:3", "write.done", 3),
        ("eos.begin@worker", "eos.begin@worker", 1),
        ("eos.begin:2@worker", "eos.begin@worker", 2),
    ],
)
def test_a_failpoint_has_a_name_and_a_count(text: str, name: str, count: int) -> None:
    assert (schedule.named(text), schedule.times(text)) == (name, count)


def test_one_seed_is_one_schedule() -> None:
    make: Callable[[int], object] = lambda seed: schedule.plan(seed, 20, 2, POINTS)  # noqa: E731
    assert make(1) == make(1)
    assert make(1) != make(2)


def test_what_was_planned_and_not_done_is_named() -> None:
    lives = schedule.plan(1, kills=4, each=1, points=POINTS)
    done = dict.fromkeys((pain for life in lives for pain in life.pains), 100)
    assert schedule.shortfalls(lives, done) == ()
    done["write.done"] = 0
    assert schedule.shortfalls(lives, done) == ("write.done: 0 of 1",)


def test_failpoints_are_those_that_a_run_can_come_by() -> None:
    known = ("write.aside", "write.done", "batch.noted", "reset.noted", "eos.begin", "eos.claimed")

    def points(mode: Mode, transactions: bool) -> Points:
        return schedule.points_of(known, ("eos.begin",), mode, transactions)

    stream = points(Mode.STREAM, True)
    assert stream == Points(("write.done", "eos.begin", "eos.claimed"), ("eos.begin",))
    assert points(Mode.STREAM, False).drivers == ("write.done",)
    assert "batch.noted" in points(Mode.BATCH, True).drivers


def test_records_come_in_all_kinds_and_in_the_same_order_for_one_seed() -> None:
    first = list(itertools.islice(records.generate(3, 4), 20_000))
    assert first == list(itertools.islice(records.generate(3, 4), 20_000))
    assert first != list(itertools.islice(records.generate(4, 4), 20_000))
    assert {each.partition for each in first} == {0, 1, 2, 3}
    dead = [each.value for each in first if each.fate == records.DEAD]
    assert 0.015 < len(dead) / len(first) < 0.035
    assert {None, b""} < set(dead)
    assert any(value and len(value) > records.LARGEST for value in dead)
    tombstones = [each.key for each in first if each.value is None and each.key]
    assert len(tombstones) == len(set(tombstones)) > 0
