"""Versions of Kafka, compared."""

from __future__ import annotations

import pytest

from headrace.admin.versions import same


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("4.3", "4.3", True),
        ("4.3.1", "4.3", True),
        ("4.3", "4.3.0", True),
        ("0.10.2", "0.10", True),
        ("4.10", "4.1", False),
        ("0.10.2", "4.3", False),
    ],
)
def test_versions_are_the_same_as_far_as_both_go(one: str, other: str, expected: bool) -> None:
    assert same(one, other) is expected
