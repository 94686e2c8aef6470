"""zlib over Arrow batches: what runs in Spark's Python workers for `formats.compression`.

Pickled by value: a worker needs no Headrace. Nothing here may use other parts of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pyarrow as pa


def unpacker(most: int) -> Callable[[pa.Array], pa.Array]:
    """BINARY to BINARY; NULL where `unpacked` has none."""

    def unpack(values: pa.Array) -> pa.Array:
        return _each(values, lambda data: unpacked(data, most))

    return unpack


def pack(values: pa.Array) -> pa.Array:
    return _each(values, zlib.compress)


def unpacked(data: bytes, most: int) -> bytes | None:
    """What was compressed; None where it is not zlib, not all of it, or more than `most` bytes."""
    reader = zlib.decompressobj()
    try:
        whole = reader.decompress(data, most)
    except zlib.error:
        return None
    return whole if reader.eof and not reader.unused_data else None


def _each(values: pa.Array, function: Callable[[bytes], bytes | None]) -> pa.Array:
    if values.null_count == len(values):
        return values
    made = (function(each) if each is not None else None for each in values.to_pylist())
    return pa.array(made, pa.binary())
