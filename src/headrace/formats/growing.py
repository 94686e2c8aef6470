"""Lines of files that grow: which file it is, where its last complete line ends, and its lines.

A file is known by its identity, a number made of its inode and its first line. It stays the same
while the file grows and when it is renamed, and is another when a new file takes the name or when
the old one is emptied and filled again. A file without one complete line has none yet.

Runs on the driver and in Spark's Python workers, so it needs nothing but pyarrow and numpy. Lines
are split by the block, never one by one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import pyarrow as pa

# What a task reads, and what it holds in memory.
TASK_BYTES = 64 << 20
BLOCK_BYTES = 4 << 20
_HEAD_BYTES = 256
_NEWLINE, _RETURN = ord("\n"), ord("\r")

ROW = "value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"


@dataclass(frozen=True)
class Piece:
    """The lines of one file that begin from `start` up to, and not with, `end`.

    `aligned`: a line begins at `start`; otherwise the first one begins somewhere after it.
    """

    path: str
    identity: int
    start: int
    end: int
    aligned: bool = True


def identity(path: str) -> int | None:
    """Which file is behind a name, or None while it has no complete line or is not there."""
    try:
        with Path(path).open("rb") as file:
            return _identity(file)
    except (FileNotFoundError, IsADirectoryError):
        return None


def _identity(file: BinaryIO) -> int | None:
    head = os.pread(file.fileno(), _HEAD_BYTES, 0)
    line, newline, _ = head.partition(b"\n")
    if not newline and len(head) < _HEAD_BYTES:
        return None
    # Not a checksum: of inodes in a row and first lines that count up, many would have the same.
    facts = os.fstat(file.fileno()).st_ino.to_bytes(8, "big") + line
    return int.from_bytes(hashlib.blake2b(facts, digest_size=4).digest(), "big") & 0x7FFFFFFF


def locate(path: str, wanted: int) -> str | None:
    """Where the file is that had this name: still there, or renamed in its folder."""
    own = Path(path)
    stem = own.name.partition(".")[0]
    try:
        beside = sorted(other for other in own.parent.iterdir() if other.name.startswith(stem))
    except FileNotFoundError:
        return None
    for candidate in (own, *beside):
        if identity(str(candidate)) == wanted:
            return str(candidate)
    return None


def complete(path: str, start: int = 0) -> int:
    """Where the last complete line ends, or `start` when there is none after it."""
    with Path(path).open("rb") as file:
        position = os.fstat(file.fileno()).st_size
        while position > start:
            before = max(start, position - BLOCK_BYTES)
            found = os.pread(file.fileno(), position - before, before).rfind(b"\n")
            if found >= 0:
                return before + found + 1
            position = before
    return start


def line_after(path: str, position: int) -> int:
    """Where the first line begins that begins at `position` or after it."""
    with Path(path).open("rb") as file:
        return _line_after(file, position)


def pieces(path: str, wanted: int, start: int, end: int) -> Iterator[Piece]:
    """A range of a file as work for tasks."""
    for begin in range(start, end, TASK_BYTES):
        until = min(begin + TASK_BYTES, end)
        yield Piece(path, wanted, begin, until, aligned=begin == start)


def read(piece: Piece) -> Iterator[pa.RecordBatch]:
    """The lines of a piece as Arrow batches of `ROW`."""
    location = locate(piece.path, piece.identity)
    if location is None:
        raise FileNotFoundError(f"{piece.path} was replaced before it was read")
    with Path(location).open("rb") as file:
        modified = os.fstat(file.fileno()).st_mtime_ns // 1000
        position = piece.start if piece.aligned else _line_after(file, piece.start)
        while position < piece.end:
            file.seek(position)
            block = file.read(min(BLOCK_BYTES, piece.end - position))
            if not block.endswith(b"\n"):
                block += file.readline()
            yield _batch(piece, block, position, modified)
            position += len(block)


def _line_after(file: BinaryIO, position: int) -> int:
    if position <= 0:
        return 0
    file.seek(position - 1)
    return position - 1 + len(file.readline())


def _batch(piece: Piece, block: bytes, position: int, modified: int) -> pa.RecordBatch:
    import pyarrow as pa

    values, starts = split(block)
    count = len(values)
    columns = {
        "value": values,
        "topic": pa.repeat(piece.path, count),
        "partition": pa.repeat(pa.scalar(piece.identity, pa.int32()), count),
        "offset": pa.array(starts + position),
        "timestamp": pa.repeat(pa.scalar(modified, pa.timestamp("us", "UTC")), count),
    }
    return pa.RecordBatch.from_pydict(columns)


def split(block: bytes) -> tuple[pa.Array, pa.Array]:
    """The complete lines of a block without their ends, and where each begins in it."""
    import numpy as np
    import pyarrow as pa

    data = np.frombuffer(block, np.uint8)
    newlines = np.flatnonzero(data == _NEWLINE)
    starts = np.concatenate((np.zeros(1, np.int64), newlines[:-1] + 1))[: len(newlines)]
    kept = data != _NEWLINE
    # A return before the line's end belongs to it; the byte before the block is never looked at.
    returns = newlines[(newlines > starts) & (data[newlines - 1] == _RETURN)] - 1
    kept[returns] = False
    kept[newlines[-1] + 1 if len(newlines) else 0 :] = False
    ends = np.cumsum(kept)[newlines]
    offsets = np.concatenate((np.zeros(1, np.int64), ends)).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data[kept].tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(newlines), buffers), starts
