"""Points in time as users write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.admin import times
from headrace.errors import DefinitionError

NOW = 1_772_366_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T12:00:00Z", NOW),
        ("2026-03-01T13:00:00+01:00", NOW),
        ("2026-03-01T12:00:00", NOW),
        ("2026-03-01T12:00:00.250Z", NOW + 250),
        ("2026-03-01", NOW - 12 * 3_600_000),
        ("1772366400000", NOW),
        ("0", 0),
        ("now", NOW),
        ("90s", NOW - 90_000),
        ("-15m", NOW - 900_000),
        ("2h", NOW - 7_200_000),
        ("7d", NOW - 604_800_000),
    ],
)
def test_all_forms_of_a_time_are_read(text: str, expected: int) -> None:
    assert times.parse(text, NOW) == expected


@pytest.mark.parametrize("text", ["yesterday", "", "12:00", "5 minutes", "2026-13-01"])
def test_what_is_no_time_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        times.parse(text, NOW)
    assert "2026-03-01T12:00:00Z" in (raised.value.hint or "")


def test_seconds_are_not_taken_for_milliseconds() -> None:
    with pytest.raises(DefinitionError) as raised:
        times.parse("1772366400", NOW)
    assert "1772366400000" in (raised.value.hint or "")


@given(st.integers(min_value=0, max_value=4_102_444_800_000))
def test_a_time_that_is_shown_reads_back_as_the_same(time_ms: int) -> None:
    assert times.parse(times.show(time_ms), NOW) == time_ms


def test_a_time_beyond_the_calendar_is_shown_as_its_number() -> None:
    assert times.show(10**17) == str(10**17)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5), ("0.5", 0.5), ("500ms", 0.5), ("5s", 5), ("2m", 120)]
)
def test_durations_are_seconds_unless_they_have_a_unit(text: str, seconds: float) -> None:
    assert times.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["0", "", "-1", "soon", "1000", "5 s"])
def test_a_duration_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        times.parse_duration(text)
