"""Dead letters without a broker: what they say, which are meant, and which have been moved."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.admin.letters import ALL, Letter, Selection
from headrace.admin.letters_moved import SPAN, Moved
from headrace.admin.records import Record
from headrace.cli.dlq import _offsets, _place, parse_rate
from headrace.cli.letter_lines import text_of
from headrace.errors import DefinitionError
from headrace.runtime.letter_mover import Reason, Stay
from headrace.runtime.redrive import KEPT_EXAMPLES, Outcome


def letter(**facts: object) -> Letter:
    headers = tuple((f"headrace.dlq.{name}", str(fact).encode()) for name, fact in facts.items())
    return Letter.of(Record(b"v", b"k", (("own", None), *headers), 1, 5000, 7, "orders.dlq"))


def test_a_letter_is_what_its_headers_say() -> None:
    found = letter(topic="orders", partition=2, offset=9, error="X", attempts=1, timestamp=3)
    assert (found.topic, found.partition, found.offset) == ("orders", 2, 9)
    assert (found.error, found.attempts, found.timestamp) == ("X", 1, 3)
    assert (found.place, found.source_place) == ("orders.dlq[1]@7", "orders[2]@9")
    assert found.headers == (("own", None),)


def test_headers_that_make_no_sense_are_taken_for_none() -> None:
    odd = letter(topic="orders", partition="-1", offset="²", attempts="many")
    assert (odd.partition, odd.offset, odd.attempts) == (None, None, 0)
    assert letter().topic is None
    assert letter().source_place is None


@pytest.mark.parametrize(
    ("selection", "admitted"),
    [
        (ALL, True),
        (Selection(errors=frozenset({"X", "Y"})), True),
        (Selection(errors=frozenset({"Y"})), False),
        (Selection(topics=frozenset({"orders"}), partitions=frozenset({2})), True),
        (Selection(topics=frozenset({"others"})), False),
        (Selection(partitions=frozenset({1})), False),
        (Selection(offsets=(9, 9)), True),
        (Selection(offsets=(10, 20)), False),
        (Selection(since=5000, until=5001), True),
        (Selection(until=5000), False),
        (Selection(since=5001), False),
        (Selection(contains="mess"), True),
        (Selection(contains="k"), True),
        (Selection(contains="nowhere"), False),
        (Selection(places=frozenset({(1, 7)})), True),
        (Selection(places=frozenset({(7, 1)})), False),
    ],
)
def test_a_selection_admits_what_fits_all_of_it(selection: Selection, admitted: bool) -> None:
    facts = {"topic": "orders", "partition": 2, "offset": 9, "error": "X", "message": "a message"}
    assert selection.admits(letter(**facts)) == admitted


PLACES = st.sets(st.tuples(st.integers(0, 2), st.integers(0, 3 * SPAN)), min_size=1)


@given(st.lists(PLACES, min_size=1, max_size=4))
def test_notes_tell_exactly_what_was_moved(loads: list[set[tuple[int, int]]]) -> None:
    """Each load's notes replace the earlier ones with the same key, as compaction does."""
    mover, kept = Moved("id"), dict[bytes | None, Record]()
    for load in loads:
        kept |= {note.key: note for note in mover.notes(load)}
        mover.add(load)
    reader = Moved("id")
    for note in kept.values():
        reader.learn(note, dict.fromkeys(range(3), 0))
    everything = set().union(*loads)
    asked = {(partition, offset) for partition in range(3) for offset in range(3 * SPAN + 1)}
    assert {place for place in asked if place in reader} == everything
    assert reader.stale == []


def test_notes_that_were_not_committed_change_nothing() -> None:
    moved = Moved("id")
    list(moved.notes([(0, 1)]))
    assert (0, 1) not in moved


def test_notes_of_another_life_or_of_deleted_letters_are_stale() -> None:
    reader = Moved("new")
    (other,) = Moved("old").notes([(0, 1)])
    (gone,) = Moved("new").notes([(0, 1)])
    (kept,) = Moved("new").notes([(0, SPAN)])
    for note in (other, gone, kept):
        reader.learn(note, {0: SPAN})
    assert reader.stale == [other.key, gone.key]
    assert (0, SPAN) in reader
    reader.learn(Record(None, kept.key), {0: SPAN})
    assert json.loads(kept.value or b"") == {"moved": [[SPAN, SPAN]]}


def test_rates_places_and_offsets_are_read_or_refused() -> None:
    assert (parse_rate("500/s"), parse_rate("30/m"), parse_rate("2.5")) == (500, 0.5, 2.5)
    assert (_offsets("5"), _offsets("5-9"), _place("0@12")) == ((5, 5), (5, 9), (0, 12))
    for read, text in (
        (parse_rate, "0"),
        (parse_rate, "fast"),
        (_offsets, "9-5"),
        (_offsets, "x"),
        (_place, "12"),
    ):
        with pytest.raises(DefinitionError):
            read(text)


def test_bytes_are_shown_in_one_line_and_not_without_end() -> None:
    assert text_of(None) == "null"
    assert text_of(b"a\nb\xff\x1b[0m") == "a\\nb\\xff\\x1b[0m"
    assert text_of(b"x" * 5000).endswith("… (5,000 bytes; whole: -o json)")


def test_a_failure_is_told_though_rules_left_many_letters_before_it() -> None:
    outcome = Outcome()
    outcome.add([Stay(letter(), Reason.TOO_MANY_ATTEMPTS, "tired")] * 20)
    assert (outcome.failed, outcome.first_failure) == (0, None)
    outcome.add([Stay(letter(), Reason.REJECTED, "too large"), Stay(letter(), Reason.NO_TOPIC, "")])
    assert outcome.failed == 2
    assert str(outcome.first_failure) == "orders.dlq[1]@7: REJECTED: too large"
    assert len(outcome.examples) == KEPT_EXAMPLES
