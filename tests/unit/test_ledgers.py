"""What becomes of a ledger's entry that a run claims, by what it says and what the state knows."""

from __future__ import annotations

import pytest

from headrace.errors import (
    HeadraceError,
    LedgerInUse,
    LedgerMissing,
    StateIsOld,
    StateLost,
    TakenOver,
)
from headrace.runtime.books import Book
from headrace.runtime.ledgers import Judge, Standing
from headrace.sinks.kafka_transactions import Entry, Ledger, Work
from headrace.sinks.writer import Once

PLACE = ("orders", 0)
LEDGER = Ledger("shop", "out")
WORK = Work({}, LEDGER, 1000, "new", "00000002-me", {"orders": "id"})


def _never(_once: Once) -> Work:
    raise AssertionError


def _judge(standing: Standing, warned: list[str] | None = None) -> Judge:
    book = Book(LEDGER, "localhost:9092", PLACE, _never)
    told: list[str] = [] if warned is None else warned
    return Judge(book, WORK, standing, "state", told.append)


def _entry(offset: int, life: str = "new", owner: str = "00000001-x", topic: str = "id") -> Entry:
    return Entry(offset, life, owner, topic)


STANDS = {PLACE: 100}
CLEAN = Standing("new", "new", STANDS, planned=6, begun=True, lives=frozenset({"new"}))
CUT_OFF = Standing("new", "new", STANDS, 7, begun=True, cut_off=True, lives=frozenset({"new"}))
FIRST = Standing("new", "new")
RESET = Standing("new", "new", STANDS)
RESUMED = Standing("new", "new", STANDS, keeps=True)
NEXT_RUN = Standing("new", "g", STANDS, planned=7, lives=frozenset({"new", "run 6"}))


@pytest.mark.parametrize(
    ("standing", "found", "offset"),
    [
        (FIRST, None, 0),
        (CLEAN, None, 100),  # nothing was in doubt
        (CLEAN, _entry(100), 100),
        (CLEAN, _entry(99), 100),  # reset, or not used for a while
        (CUT_OFF, _entry(100), 100),  # the batch was not written
        (CUT_OFF, _entry(150), 150),  # it was
        (RESET, _entry(900, "old"), 100),  # the author goes back
        (RESUMED, _entry(900, "old"), 900),  # the state is gone, the ledger is not
        (RESUMED, _entry(90, "old"), 100),
        (RESUMED, _entry(900, "old", topic="gone"), 100),  # about another topic of that name
        (NEXT_RUN, _entry(100, "run 6"), 100),
        (NEXT_RUN, _entry(900, "run 6"), 100),  # the table of offsets was edited
    ],
)
def test_the_entry_of_a_partition(standing: Standing, found: Entry | None, offset: int) -> None:
    entry = _judge(standing).partition(PLACE, found)
    assert entry == Entry(offset, "new", "00000002-me", "id")


@pytest.mark.parametrize(
    ("standing", "found", "offset"),
    [
        (FIRST, None, 0),
        (CLEAN, None, 7),
        (CLEAN, _entry(7), 7),
        (CUT_OFF, _entry(7), 7),
        (CUT_OFF, _entry(8), 8),
        (RESET, _entry(50, "old"), 0),
        (NEXT_RUN, None, 0),
        (NEXT_RUN, _entry(7, "run 6"), 0),
    ],
)
def test_the_entry_of_whole_batches(standing: Standing, found: Entry | None, offset: int) -> None:
    """An entry says which batch is next; that of a run which has not begun must not be past it."""
    entry = _judge(standing).whole(PLACE, found)
    assert entry == Entry(offset, "new", "00000002-me", "id")


@pytest.mark.parametrize(
    ("standing", "found", "error"),
    [
        (CUT_OFF, None, LedgerMissing),
        (CUT_OFF, _entry(99), LedgerInUse),  # somebody has reset it
        (CLEAN, _entry(100, owner="00000003-other"), TakenOver),
        (CLEAN, _entry(900, "another"), StateLost),  # another state has gone on
        (NEXT_RUN, _entry(900, "another"), StateLost),
    ],
)
def test_an_entry_that_is_refused(
    standing: Standing, found: Entry | None, error: type[HeadraceError]
) -> None:
    with pytest.raises(error):
        _judge(standing).partition(PLACE, found)


def test_a_state_that_is_older_than_the_ledger_is_refused_by_batch() -> None:
    with pytest.raises(StateIsOld):
        _judge(CLEAN).whole(PLACE, _entry(9))


def test_what_is_healed_or_passed_over_is_told() -> None:
    warned: list[str] = []
    _judge(CLEAN, warned).partition(PLACE, None)
    _judge(RESUMED, warned).partition(PLACE, _entry(900, "old"))
    assert ["made again" in warned[0], "passed over" in warned[1]] == [True, True]
