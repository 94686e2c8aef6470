"""When unread records will be deleted: the arithmetic, and how it is said."""

from __future__ import annotations

import pytest

from headrace.admin import quantities
from headrace.admin.forecast import Forecast, Loss, Retention, Unread, time_left

HOUR = 3600.0
DAY = 24 * HOUR
WEEK = Retention(seconds=7 * DAY)
GIB = 1024**3


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"retention.ms": "600000", "retention.bytes": "-1"}, Retention(600.0, None)),
        ({"retention.ms": "-1", "retention.bytes": "1000"}, Retention(None, 1000)),
        ({"retention.ms": "0", "retention.bytes": "-1"}, Retention(0.0, None)),
        ({"cleanup.policy": "delete", "retention.ms": "1000"}, Retention(1.0, None)),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1000"}, Retention(1.0, None)),
        ({"cleanup.policy": "compact", "retention.ms": "1000"}, Retention()),
        ({}, Retention()),
    ],
)
def test_what_a_topic_keeps_follows_from_its_settings(
    settings: dict[str, str | None], expected: Retention
) -> None:
    assert Retention.of(settings) == expected
    assert expected.limited == (expected != Retention())


def test_a_reader_that_stands_still_loses_its_next_record_when_that_is_too_old() -> None:
    loss = time_left(WEEK, Unread(lag=10, age=7 * DAY - 2 * HOUR - 2400))
    assert loss == Loss(2 * HOUR + 2400, "retention.ms")


def test_nothing_unread_is_nothing_to_lose() -> None:
    assert time_left(WEEK, Unread(lag=0, age=8 * DAY)) is None


def test_without_a_limit_nothing_is_lost() -> None:
    assert time_left(Retention(), Unread(lag=10, age=9 * DAY, bytes=1e12)) is None


def test_a_record_without_a_time_cannot_be_forecast_by_age() -> None:
    assert time_left(WEEK, Unread(lag=10, age=None)) is None


def test_a_record_that_is_too_old_already_may_go_at_any_moment_even_while_it_is_read() -> None:
    for read in (0.0, 1e6):
        loss = time_left(WEEK, Unread(lag=10, age=8 * DAY, read=read))
        assert loss == Loss(0.0, "retention.ms")


def test_a_reader_that_is_fast_enough_for_the_whole_backlog_loses_nothing() -> None:
    spread = [(6 * DAY, 100_000), (3 * DAY, 400_000), (0.0, 700_000)]
    unread = Unread(700_000, 6.5 * DAY, older=spread, written=1.0, read=10.0)
    assert time_left(WEEK, unread) is None


def test_a_reader_that_is_too_slow_for_old_records_loses_them_when_they_are_due() -> None:
    # A million records of one hour, two hours before they go: 10 a second come to 72,000 by then.
    burst = [(7 * DAY - 3 * HOUR, 1_000_000), (0.0, 1_000_000)]
    unread = Unread(1_000_000, 7 * DAY - 4 * HOUR, older=burst, read=10.0)
    assert time_left(WEEK, unread) == Loss(3 * HOUR, "retention.ms")


def test_a_reader_that_falls_behind_loses_something_in_the_end() -> None:
    # After t seconds it has passed 5 t of 1000 + 10 (t - keep) records that are due by then.
    unread = Unread(1000, 100.0, older=[(0.0, 1000)], written=10.0, read=5.0)
    loss = time_left(WEEK, unread)
    assert loss is not None
    assert loss.seconds == pytest.approx((10 * 7 * DAY - 1000) / 5)


def test_size_counts_what_is_written_behind_the_next_record() -> None:
    unread = Unread(lag=1000, age=None, bytes=1_000_000.0, written=10.0)
    loss = time_left(Retention(bytes=4_000_000), unread)
    assert loss == Loss(300.0, "retention.bytes")


def test_size_that_is_reached_is_lost_at_any_moment() -> None:
    unread = Unread(lag=1000, age=None, bytes=5e6)
    assert time_left(Retention(bytes=4_000_000), unread) == Loss(0.0, "retention.bytes")


@pytest.mark.parametrize("read", [10.0, 11.0])
def test_size_does_not_grow_for_a_reader_that_keeps_up(read: float) -> None:
    unread = Unread(lag=1000, age=None, bytes=1e6, written=10.0, read=read)
    assert time_left(Retention(bytes=4_000_000), unread) is None


def test_the_nearer_of_two_limits_counts() -> None:
    unread = Unread(lag=1000, age=590.0, bytes=1e6, written=10.0)
    assert time_left(Retention(600.0, 4_000_000), unread) == Loss(10.0, "retention.ms")
    assert time_left(Retention(3600.0, 4_000_000), unread) == Loss(300.0, "retention.bytes")


@pytest.mark.parametrize(
    ("lost", "seconds", "words", "soon"),
    [
        (0, 9600.0, "partition 3 of orders loses unread data in 2 h 40 m", True),
        (0, 3 * DAY, "partition 3 of orders loses unread data in 3 d", False),
        (0, 0.0, "partition 3 of orders may lose unread data at any moment", True),
        (1200, 9600.0, "partition 3 of orders has lost 1,200 unread records", True),
        (0, None, "partition 3 of orders loses nothing", False),
    ],
)
def test_a_forecast_is_a_sentence(lost: int, seconds: float | None, words: str, soon: bool) -> None:
    forecast = Forecast("orders", 3, 10, lost, seconds, "retention.ms")
    assert (str(forecast), forecast.soon) == (words, soon)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "less than a second"),
        (1, "1 s"),
        (59.9, "59 s"),
        (60, "1 m"),
        (61, "1 m 1 s"),
        (9600, "2 h 40 m"),
        (9659, "2 h 40 m"),
        (3605, "1 h"),
        (86400, "1 d"),
        (90000, "1 d 1 h"),
        (86460, "1 d"),
    ],
)
def test_a_duration_has_two_units_at_most_and_is_never_rounded_up(
    seconds: float, words: str
) -> None:
    assert quantities.duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (5000, "4.9 KiB"),
        (1048588, "1 MiB"),
        (5 * GIB, "5 GiB"),
        (3e15, "2,728.5 TiB"),
    ],
)
def test_a_size_is_said_in_the_unit_that_keeps_it_short(count: float, words: str) -> None:
    assert quantities.size(count) == words


@pytest.mark.parametrize(
    ("per_second", "words"),
    [
        (0, "0 records/s"),
        (0.02, "less than 0.1 records/s"),
        (0.26, "0.3 records/s"),
        (12.4, "12 records/s"),
        (5e4, "50,000 records/s"),
    ],
)
def test_a_rate_is_said_in_records(per_second: float, words: str) -> None:
    assert quantities.rate(per_second) == words
