"""Fixtures that every test may use: the shared broker, Spark, and names of one's own."""

from __future__ import annotations

import signal
from collections.abc import Callable
from uuid import uuid4

import pytest

pytest_plugins = ["headrace.testing.fixtures"]

# In the background of a shell Ctrl-C is ignored, and so by every command that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Makes names that no other test has."""
    return lambda prefix: f"{prefix}-{uuid4().hex[:8]}"
