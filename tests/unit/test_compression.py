"""zlib inside of messages: what is unpacked, and what is not."""

from __future__ import annotations

import zlib

import pytest

from headrace.formats import compression


def test_what_is_whole_is_unpacked() -> None:
    for data in (b"", b"order", b"x" * 100_000):
        assert compression.inflated(zlib.compress(data)) == data


def test_what_is_broken_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = zlib.compress(b"order")
    for broken in (b"", b"order", packed[:-1], packed + b"x", packed[:-1] + b"x"):
        assert compression.inflated(broken) is None
    monkeypatch.setattr(compression, "MOST_BYTES", 5)
    assert compression.inflated(packed) == b"order"
    assert compression.inflated(zlib.compress(b"orders")) is None
