"""What becomes of a batch run that was cut off: its note, its journal, and what is decided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.definitions import SOURCE, planned

from headrace.errors import OutsideError
from headrace.plan.stages import Plan
from headrace.runtime.journal import Entry, Journal
from headrace.runtime.notes import Found, Note, on_path
from headrace.runtime.recovery import Drop, Finish, Redo, behind, covered, decide, doubtful

BEFORE = {"source": {("orders", 0): 3, ("orders", 1): 0}}
AFTER = {"source": {("orders", 0): 10, ("orders", 1): 3_000_000_000, ("gone", 0): 5}}
NOTE = Note("shop", "g1", 7, BEFORE, AFTER)
SINKS = (
    "sinks:\n"
    "  out: {connector_type: kafka, topic: out}\n"
    "  lake: {connector_type: delta, path: lake}\n"
    "  screen: {connector_type: console, from: source}\n"
)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two queries: `main` writes `out` and then `lake`, `source` writes `screen`."""
    step = "transform:\n  - sql: SELECT id FROM source\n"
    return planned(tmp_path, "pipeline: shop\nmode: batch\n", SOURCE, step, SINKS)


def kinds(step: Finish | Redo | Drop) -> tuple[str, list[str]]:
    queries = () if isinstance(step, Finish) else step.queries
    return type(step).__name__, [query.name for query in queries]


def test_a_note_comes_back_as_it_was() -> None:
    assert Note.parse(NOTE.text()) == NOTE
    assert NOTE.range("source").start == BEFORE["source"]
    assert ("gone", 0) not in NOTE.range("source").end
    assert NOTE.records == 7 + 3_000_000_000


@pytest.mark.parametrize("text", [None, "", "{}", "[1]", "deployed by jane", '{"headrace": 99}'])
def test_what_others_keep_with_a_commit_is_no_note(text: str | None) -> None:
    assert Note.parse(text) is None


def test_the_journal_holds_the_latest_entry(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.read() is None
    entry = Entry(NOTE, BEFORE, "g2")
    journal.write(entry)
    assert journal.read() == entry
    journal.write(entry.wrote("main").close())
    assert journal.read() == replace(entry, written=("main",), closed=True)


@pytest.mark.parametrize("text", ["", "{", "{}", '{"note": "x", "basis": {}, "written": []}'])
def test_a_damaged_journal_is_not_taken_for_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "journal.json").write_text(text)
    with pytest.raises(OutsideError, match=r"journal\.json cannot be read"):
        Journal(tmp_path).read()


@pytest.mark.parametrize(
    ("written", "seen", "expected"),
    [
        ((), (), ("Redo", ["main", "source"])),
        (("main",), (), ("Redo", ["source"])),
        (("main", "source"), (), ("Finish", [])),
        # The last sink of the first query has it, so that query is done; the other is not known.
        ((), ("lake",), ("Redo", ["source"])),
        # The Kafka sink comes before, and cannot tell.
        (("source",), ("lake",), ("Finish", [])),
    ],
)
def test_only_queries_that_are_not_known_to_be_written_are_done_again(
    plan: Plan, written: tuple[str, ...], seen: tuple[str, ...], expected: tuple[str, list[str]]
) -> None:
    entry = Entry(NOTE, BEFORE, "g2", written)
    assert kinds(decide(entry, BEFORE, plan.queries, seen)) == expected


def test_a_delta_sink_that_is_not_the_last_of_its_query_does_not_speak_for_it(
    tmp_path: Path,
) -> None:
    sinks = (
        "sinks:\n"
        "  lake: {connector_type: delta, path: lake}\n"
        "  out: {connector_type: kafka, topic: out}\n"
    )
    plan = planned(tmp_path, "pipeline: shop\nmode: batch\n", SOURCE, sinks)
    step = decide(Entry(NOTE, BEFORE, "g2"), BEFORE, plan.queries, ["lake"])
    assert kinds(step) == ("Redo", ["main"])


def test_a_table_that_was_changed_counts_more_than_a_run_that_was_cut_off(plan: Plan) -> None:
    edited = {"source": {("orders", 0): 0}}
    step = decide(Entry(NOTE, BEFORE, "g2", ("main",)), edited, plan.queries, ())
    assert kinds(step) == ("Drop", ["source"])
    everything = Entry(NOTE, BEFORE, "g2", ("main", "source"))
    assert decide(everything, edited, plan.queries, ()) == Finish(edited, ("source",))
    assert decide(everything, AFTER, plan.queries, ()) == Finish(AFTER, ())
    assert decide(everything, BEFORE, plan.queries, ()) == Finish(AFTER, ())


def test_a_run_of_other_sources_is_dropped(plan: Plan) -> None:
    other = Note("shop", "g1", 7, {"web": {("orders", 0): 1}}, {"web": {("orders", 0): 2}})
    assert isinstance(decide(Entry(other, {}, "g2"), {}, plan.queries, ()), Drop)


@pytest.mark.parametrize(
    ("stored", "table_run", "sink_run", "found"),
    [
        ({}, None, None, None),  # a first run
        ({}, None, 7, 7),  # state and table are lost
        (AFTER, 7, 7, None),  # all is well
        (BEFORE, 6, 7, 7),  # a crash between the sink and the table
        (AFTER, 8, 7, None),  # the last run wrote nothing to this sink
        ({"source": {("orders", 0): 0}}, 6, 7, None),  # edited since: a replay is wanted
        (BEFORE, None, 7, None),  # a table made by hand
    ],
)
def test_a_new_state_folder_learns_from_the_sinks_what_the_table_lacks(
    stored: dict[str, dict[tuple[str, int], int]],
    table_run: int | None,
    sink_run: int | None,
    found: int | None,
) -> None:
    sinks = {"lake": Found(replace(NOTE, run=sink_run), 12)} if sink_run else {}
    held = BEFORE if table_run == 6 else AFTER
    table = Found(replace(NOTE, run=table_run, positions=held), 3) if table_run else None
    note = behind(stored, table, sinks, {"source"})
    assert (note and note.run) == found


def test_notes_of_other_sources_heal_nothing() -> None:
    assert behind({}, None, {"lake": Found(NOTE, 1)}, {"web", "shops"}) is None


def test_it_is_said_what_was_covered_and_what_may_be_twice(plan: Plan) -> None:
    note = Note("shop", "g", 1, BEFORE, {"source": {("orders", 0): 10, ("orders", 1): 0}})
    assert covered(note) == "orders[0] 3 to 9 (7 records)"
    nothing = replace(note, positions=BEFORE)
    assert covered(nothing) == "nothing (0 records)"
    again = doubtful(plan.queries, again=True)
    assert [text.split(" (")[0] for text in again] == [
        "dead letters in orders.dlq",
        "`out`",
        "`screen`",
    ]
    assert any("`lake`" in text for text in doubtful(plan.queries, again=False))


def test_a_path_is_quoted_for_sql() -> None:
    assert on_path("/a`b") == "delta.`/a``b`"
