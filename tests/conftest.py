"""Fixtures that every test may use: the shared broker, Spark, and names of one's own."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

pytest_plugins = ["headrace.testing.fixtures"]


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Makes names that no other test has."""
    return lambda prefix: f"{prefix}-{uuid4().hex[:8]}"
